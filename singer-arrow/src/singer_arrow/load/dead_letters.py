"""Collect the rows that are not loaded, and map each to its position in its file or in the input.

There is one `Rejects` for each item. Reading and conversion report to it the rows that they leave out; from these it
computes the position of each remaining row: the line or row of a file, or for records the line of the input.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from singer_arrow.errors import DataError, one_line
from singer_arrow.formats import detect_format
from singer_arrow.read_options import Skipped

_OF_LINES = ("csv", "jsonl", "json", "fixed_width", "lines")
"""Formats in which the position of a row is the number of its line."""
MOST_REASON = 2_000
"""Characters of a reason."""


class TooManyRejectedError(DataError):
    """More rows are bad than `max_bad_rows` allows."""

    code = "too-many-rejected"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is not loaded."""

    file: str | None  # None: a RECORD message
    position: int  # from 1: the line of JSON Lines or of the input, the row of other files
    column: str | None  # the property, if a single one is bad
    reason: str
    record: str  # as JSON text
    is_of_tap: bool = field(default=False, compare=False)  # which has logged it

    @classmethod
    def of_tap(cls, row: Skipped) -> Rejected:
        return cls(row.file, row.position, row.column, one_line(row.reason)[:MOST_REASON], row.record, is_of_tap=True)

    def __str__(self) -> str:
        word = "line" if detect_format(self.file or "") in _OF_LINES else "row"
        place = f"{word} {self.position} of {self.file}" if self.file else f"line {self.position} of the input"
        return f"{place}{f', column {self.column!r}' if self.column else ''}: {self.reason}"


@dataclass(frozen=True, slots=True)
class BatchRejects:
    """Rows of one batch that are not loaded; `batch_id` is None if the batch has no id."""

    batch_id: str | None
    rows: Sequence[Rejected]


class HeldRejects:
    """Rejected rows, held until the other rows are loaded; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: list[BatchRejects] = []

    def add(self, batches: Sequence[BatchRejects], most: int | None) -> None:
        """Add rows; TooManyRejectedError if there are more than `most`."""
        with self._lock:
            self._batches += batches
            rows = [row for batch in self._batches for row in batch.rows]
            if most is not None and len(rows) > most:
                raise too_many(most, rows[0])

    def take(self) -> list[BatchRejects]:
        with self._lock:
            batches, self._batches = self._batches, []
            return batches


class RecordOrigins:
    """Where the records of a file came from: the lines of the input, in order, and the records refused before."""

    def __init__(self) -> None:
        self.refused: list[Rejected] = []
        self.refused_bytes = 0
        self._first, self._before, self._count = array("q"), array("q"), 0  # runs of consecutive lines

    def refuse(self, rejected: Rejected) -> None:
        self.refused.append(rejected)
        self.refused_bytes += len(rejected.record)

    def add(self, first: int, count: int) -> None:
        """Add records of `count` consecutive lines."""
        if not self._first or self._first[-1] + self._count - self._before[-1] != first:
            self._first.append(first)
            self._before.append(self._count)
        self._count += count

    def line(self, record: int) -> int:
        """Return the line of a record, given the number of records before it."""
        run = bisect_right(self._before, record) - 1
        return self._first[run] + record - self._before[run]


class Rejects:
    """The rows of one item that are not loaded: those that the tap could not read, and those that are found here.

    Its length counts the latter. More of them than `most` raise TooManyRejectedError; None: the first one ends the run.
    `origins` are those of the item's records, if it has records.
    """

    def __init__(self, most: int | None, origins: RecordOrigins | None = None, of_tap: Sequence[Rejected] = ()) -> None:
        self.most, self._origins, self._of_tap = most, origins, of_tap
        self._written = set[Rejected]()
        self.rows: list[Rejected] = []
        self.reset()

    def __len__(self) -> int:
        return len(self.rows) - len(self._of_tap)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def reset(self) -> None:
        """Start again, because the item is read from its start; rows marked as written stay marked."""
        self.rows = [*self._of_tap]
        self._skipped = dict[str, list[int]]()
        self._left_out = dict[str, list[int]]()
        self._kept = list[tuple[str, int]]()
        for rejected in self._origins.refused if self._origins else ():
            self._add(rejected)

    def skip_callback(self, url: str) -> Callable[[Skipped], None] | None:
        """Return a callback for rows that are skipped while a file is read; None if such a row is an error."""
        if self.most is None:
            return None
        positions = self._skipped[url] = []

        def on_skip(skipped: Skipped) -> None:
            positions.append(skipped.position)
            self._add(self._located(url, skipped.position, skipped.column, skipped.reason, skipped.record))

        return on_skip

    def skipped(self, url: str) -> Sequence[int]:
        """Return the positions of the rows of a file that were skipped so far, in order."""
        return self._skipped.get(url, ())

    def leave_out(self, url: str, row: int, error: DataError, record: str) -> None:
        """Reject a row that was read; `row` is the number of rows read from its file before it."""
        position = _position(self._skipped.get(url, ()), row)
        self._left_out.setdefault(url, []).append(position)
        self._add(self._located(url, position, error.column, error.reason, record))

    def count_kept(self, url: str, rows: int) -> None:
        self._kept.append((url, rows))

    def refuse(self, rows: Iterable[tuple[int, str | None, str, str]]) -> None:
        """Reject some of the rows that were kept; later calls count the item's rows without them.

        Each row is given by the number of kept rows of the item before it, column, reason, and the row as JSON text.
        """
        kept = self._kept
        ends, out = list(accumulate(count for _, count in kept)), dict[str, list[int]]()
        for row, column, reason, record in rows:
            file = bisect_right(ends, row)
            url, count = kept[file]
            gone = sorted({*self._skipped.get(url, ()), *self._left_out.get(url, ())})
            position = _position(gone, row - ends[file] + count)
            out.setdefault(url, []).append(position)
            self._add(self._located(url, position, column, reason, record))
        for url, positions in out.items():  # later calls count without them
            self._left_out.setdefault(url, []).extend(positions)
        self._kept = [(url, count - len(out.get(url, ()))) for url, count in kept]

    def pending(self) -> list[Rejected]:
        """Return the rows that are not marked as written."""
        return [row for row in self.rows if row not in self._written]

    def mark_written(self, rows: Iterable[Rejected]) -> None:
        self._written.update(rows)

    def _located(self, url: str, position: int, column: str | None, reason: str, record: str) -> Rejected:
        reason = one_line(reason.encode(errors="backslashreplace").decode())[:MOST_REASON]
        if self._origins is None:
            return Rejected(url, position, column, reason, record)
        return Rejected(None, self._origins.line(position - 1), column, reason, record)

    def _add(self, rejected: Rejected) -> None:
        self.rows.append(rejected)
        if self.most is not None and len(self) > self.most:
            raise too_many(self.most, self.rows[len(self._of_tap)])


def too_many(most: int, first: Rejected) -> TooManyRejectedError:
    reason = f"more rows are rejected than max_bad_rows allows ({most:,}); the first is {first}"
    return TooManyRejectedError(
        reason, hint="Probably the SCHEMA is wrong: correct it in the tap, or raise max_bad_rows"
    )


def table_rows(stream: str, batches: Iterable[BatchRejects], most: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `_sdc_rejected`; `most` are bytes: a longer record takes several rows, other texts are cut."""
    for batch in batches:
        for rejected in batch.rows:
            for number, part in enumerate(parts_of(rejected, most["record"]), 1):
                row: dict[str, Any] = {
                    "stream": stream,
                    "batch_id": batch.batch_id,
                    "file": part.file,
                    "position": part.position,
                    "column_name": part.column,
                    "reason": part.reason,
                    "record": part.record,
                    "part": number,
                }
                yield row | {name: cut(row[name], size) for name, size in most.items()}


def parts_of(rejected: Rejected, most_bytes: int) -> Iterator[Rejected]:
    """Yield the row, or several with a part of its JSON text each, of at most `most_bytes` of UTF-8."""
    data = rejected.record.encode(errors="backslashreplace")
    if len(data) <= most_bytes:
        yield rejected if data.isascii() else replace(rejected, record=data.decode())
        return
    start = 0
    while start < len(data):
        end = min(len(data), start + most_bytes)
        while end < len(data) and data[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        yield replace(rejected, record=data[start:end].decode())
        start = end


def cut(text: str | None, most_bytes: int) -> str | None:
    """Return the text, cut to at most `most_bytes` of UTF-8."""
    if text is None:
        return None
    return text.encode(errors="backslashreplace")[:most_bytes].decode(errors="ignore")


def _position(skipped: Sequence[int], row: int) -> int:
    """Return the position of a row, given the number of rows before it and the sorted positions that do not count."""
    return row + 1 + bisect_right(range(len(skipped)), row + 1, key=lambda index: skipped[index] - index)
