"""The records of a stream that are refused before they are in a file, and where the others came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from singer_arrow.load.dead_letters import MessageLines, RecordOrigins, Rejected
from singer_arrow.records.message import record_text, shown_record
from singer_arrow.records.parser import BadLine


class RefusedRecords:
    """Origins of the records of one file; `size` is the bytes of the refused ones."""

    def __init__(self) -> None:
        self._refused: list[Rejected] = []
        self._lines = MessageLines()
        self.size = 0

    def __len__(self) -> int:
        return len(self._refused)

    def came(self, runs: Iterable[tuple[int, int]]) -> None:
        """Records that are in the file came at these lines of the input: the first of each run, and how many."""
        for first, count in runs:
            self._lines.add(first, count)

    def refuse_line(self, line: int, fault: BadLine) -> None:
        """The record of a RECORD line is refused."""
        assert fault.line is not None
        self.add(Rejected(None, line, fault.column, fault.reason, record_text(fault.line)))

    def refuse(self, line: int, record: Mapping[str, Any], reason: str, column: str | None) -> None:
        """A record is refused."""
        self.add(Rejected(None, line, column, reason, shown_record(record)))

    def origins(self) -> RecordOrigins:
        """Return all origins that were added."""
        return RecordOrigins(tuple(self._refused), self._lines)

    def add(self, rejected: Rejected) -> None:
        """A row is refused."""
        self._refused.append(rejected)
        self.size += len(rejected.record)


def first_runs(runs: Iterable[tuple[int, int]], start: int, count: int) -> Iterator[tuple[int, int]]:
    """Those of `count` lines after the first `start` of some runs."""
    for first, length in runs:
        low, high = max(0, start), min(length, start + count)
        if low < high:
            yield first + low, high - low
        start -= length
