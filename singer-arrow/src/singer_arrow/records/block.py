"""Blocks of RECORD lines of one stream, and the place of each line in the input."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Block:
    """Whole lines of one stream in the order of the input, with their ends; other lines may be between runs of them."""

    parts: list[bytes] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    count: int = 0

    def add(self, lines: bytes, first: int, count: int) -> None:
        """Add lines.

        Args:
            lines: They, each with its end.
            first: The number of the first in the input, from 1.
            count: How many there are.
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
        """All lines."""
        return b"".join(self.parts)

    def number(self, index: int) -> int:
        """The place in the input of a line, given its index in the block."""
        for first, count in self.runs:
            if index < count:
                return first + index
            index -= count
        raise IndexError(index)

    def before(self, number: int) -> int:
        """Return the number of lines before a position in the input."""
        return sum(max(0, min(count, number - first)) for first, count in self.runs)

    def runs_of(self, lines: int, without: Collection[int] = ()) -> Iterator[tuple[int, int]]:
        """Where in the input the first so many lines stand, but for some (their indexes in the block, in order): the
        place of the first of each run, and how many it has.
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
        """The place of each line."""
        return (number for first, count in self.runs for number in range(first, first + count))
