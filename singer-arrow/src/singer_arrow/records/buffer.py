"""The buffer of a stream's records: a local file, of JSON Lines or of Arrow rows, and the records that are refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from singer_arrow.batch import spool
from singer_arrow.load.dead_letters import MessageLines, RecordOrigins, Rejected
from singer_arrow.records.message import record_text, shown_record
from singer_arrow.records.parser import BadLine

if TYPE_CHECKING:
    import pyarrow as pa

_encode = msgspec.json.Encoder(decimal_format="number").encode


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


class RecordBuffer:
    """The records of a stream that wait for their file to be full, and those that were refused meanwhile.

    `temporary` returns a name for a new temporary file, by its suffix.
    """

    def __init__(self, temporary: Callable[[str], Path]) -> None:
        self._temporary = temporary
        self._path: Path | None = None
        self._lines: BinaryIO | None = None  # JSON Lines, of records that are Python objects
        self._rows: pa.RecordBatchFileWriter | None = None  # a spool
        self._size = 0
        self.refused = RefusedRecords()
        self.token = 0
        """Token of the records at the checkpoints."""
        self.since = 0.0
        """Time of the first record that waits, or of those that were taken last; by time.monotonic."""

    def __bool__(self) -> bool:
        return self._path is not None or bool(self.refused)

    @property
    def size(self) -> int:
        """Size in bytes; of rows about that in memory."""
        return self._size + self.refused.size

    @property
    def holds_rows(self) -> bool:
        """Whether rows of Arrow wait, to which no single records can be added."""
        return self._rows is not None

    @property
    def holds_records(self) -> bool:
        """Whether single records wait, to which no rows of Arrow can be added."""
        return self._lines is not None

    def begin(self, token: int) -> None:
        """Note the token of the records to come."""
        self.token, self.since = token, time.monotonic()

    def is_old(self, seconds: float) -> bool:
        """Return whether records have waited for longer than that."""
        return bool(self) and time.monotonic() - self.since >= seconds

    def add_record(self, record: dict[str, Any]) -> None:
        """Write a single record; UnicodeEncodeError if it holds text that is no Unicode."""
        assert self._rows is None
        if self._lines is None:
            self._path = self._temporary(".jsonl")
            self._lines = self._path.open("wb")
        line = _encode(record) + b"\n"
        self._lines.write(line)
        self._size += len(line)

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Write rows."""
        assert self._lines is None
        if self._rows is None:
            self._path = self._temporary(spool.SUFFIX)
            self._rows = spool.write(self._path, rows.schema)
        self._rows.write_batch(rows)
        self._size += rows.nbytes

    def take(self) -> tuple[Path | None, RefusedRecords, int]:
        """Close the file and return its path, the refused records and their token; the buffer is empty afterwards."""
        path, file, token, refused = self._path, self._lines or self._rows, self.token, self.refused
        self._path = self._lines = self._rows = None
        self._size = self.token = 0
        if file is not None:
            file.close()  # where this fails, the token stays open for good, and no STATE passes these records
        self.refused = RefusedRecords()
        return path, refused, token
