"""Collect refused records of a stream, and the lines of the input of the records that are written to a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from singer_arrow.load.dead_letters import MessageLines, RecordOrigins, Rejected
from singer_arrow.records.message import record_text, shown_record
from singer_arrow.records.parser import BadLine


class RefusedRecords:
    """Origins of the records of one file; `size` is the number of bytes of the refused records."""

    def __init__(self) -> None:
        self._refused: list[Rejected] = []
        self._lines = MessageLines()
        self.size = 0

    def __len__(self) -> int:
        return len(self._refused)

    def came(self, runs: Iterable[tuple[int, int]]) -> None:
        """Note the lines of records in the file: the first line of each run, and the number of its lines."""
        for first, count in runs:
            self._lines.add(first, count)

    def refuse_line(self, line: int, bad_line: BadLine) -> None:
        """Add the record of a bad RECORD line."""
        assert bad_line.line is not None
        self.add(Rejected(None, line, bad_line.column, bad_line.reason, record_text(bad_line.line)))

    def refuse(self, line: int, record: Mapping[str, Any], reason: str, column: str | None) -> None:
        """Add a refused record."""
        self.add(Rejected(None, line, column, reason, shown_record(record)))

    def origins(self) -> RecordOrigins:
        """Return all origins that were added."""
        return RecordOrigins(tuple(self._refused), self._lines)

    def add(self, rejected: Rejected) -> None:
        """Add a refused row."""
        self._refused.append(rejected)
        self.size += len(rejected.record)


def first_runs(runs: Iterable[tuple[int, int]], start: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of `count` lines after the first `start` lines of some runs."""
    for first, length in runs:
        low, high = max(0, start), min(length, start + count)
        if low < high:
            yield first + low, high - low
        start -= length
