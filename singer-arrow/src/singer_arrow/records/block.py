"""A block of RECORD lines of one stream, with the number of each line in the input."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Block:
    """Whole lines of one stream in the order of the input, with line breaks.

    Attributes:
        parts: The lines.
        runs: Number of the first line in the input, from 1, and number of lines, of each run of consecutive lines.
        size: Bytes of all lines.
        count: Number of lines.
    """

    parts: list[bytes] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    count: int = 0

    def add(self, lines: bytes, first: int, count: int) -> None:
        """Add lines.

        Args:
            lines: Consecutive lines of the input, each with its line break.
            first: Number of the first one in the input, from 1.
            count: Number of lines.
        """
        self.parts.append(lines)
        if self.runs and sum(self.runs[-1]) == first:
            self.runs[-1] = (self.runs[-1][0], self.runs[-1][1] + count)
        else:
            self.runs.append((first, count))
        self.size += len(lines)
        self.count += count

    @property
    def data(self) -> bytes:
        """Return all lines."""
        return b"".join(self.parts)

    def number(self, index: int) -> int:
        """Return the number in the input of a line, given its index in the block."""
        for first, count in self.runs:
            if index < count:
                return first + index
            index -= count
        raise IndexError(index)

    def before(self, number: int) -> int:
        """Return how many lines of the block are before a line of the input, given its number."""
        return sum(max(0, min(count, number - first)) for first, count in self.runs)

    def runs_of(self, lines: int, without: Collection[int] = ()) -> Iterator[tuple[int, int]]:
        """Yield the runs, as in `runs`, of the first lines of the block.

        Args:
            lines: How many of the first lines.
            without: Indexes of lines in the block that are left out, in order.
        """
        skipped, before = iter([*without, lines]), 0
        out = next(skipped)
        for first, count in self.runs:
            start, end = before, before + count
            while out < end:
                if out > start:
                    yield first + start - before, out - start
                if out >= lines:
                    return
                start, out = out + 1, next(skipped)
            if end > start:
                yield first + start - before, end - start
            before = end

    def numbers(self) -> Iterator[int]:
        """Return the number of each line in the input."""
        return (number for first, count in self.runs for number in range(first, first + count))
