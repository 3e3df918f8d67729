"""The buffer of a stream's records: a local file, of JSON Lines or of Arrow rows, and the records that are refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from singer_arrow.batch import spool
from singer_arrow.load.dead_letters import MessageLines, RecordOrigins, Rejected
from singer_arrow.records.message import record_text, shown_record
from singer_arrow.records.parser import BadLine

if TYPE_CHECKING:
    import pyarrow as pa

_encode = msgspec.json.Encoder(decimal_format="number").encode


class LinesFile:
    """JSON Lines, of records that are Python objects; `size` is in bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._file = path.open("wb")

    def write(self, record: dict[str, Any]) -> None:
        """Add a record; UnicodeEncodeError if it holds text that is no Unicode."""
        line = _encode(record) + b"\n"
        self._file.write(line)
        self.size += len(line)

    def close(self) -> None:
        """End the file."""
        self._file.close()


class ArrowFile:
    """A spool of rows; `size` is about that in memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.size = 0
        self._file = spool.write(path, schema)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows of the schema."""
        self._file.write_batch(rows)
        self.size += rows.nbytes

    def close(self) -> None:
        """End the file."""
        self._file.close()


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
        self._file: ArrowFile | LinesFile | None = None
        self.refused = RefusedRecords()
        self.token = 0
        """Token of the records at the checkpoints."""
        self.since = 0.0
        """Time of the first record that waits, or of those that were taken last; by time.monotonic."""

    def __bool__(self) -> bool:
        return self._file is not None or bool(self.refused)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return (self._file.size if self._file else 0) + self.refused.size

    @property
    def holds_rows(self) -> bool:
        """Whether rows of Arrow wait, to which no single records can be added."""
        return isinstance(self._file, ArrowFile)

    @property
    def holds_records(self) -> bool:
        """Whether single records wait, to which no rows of Arrow can be added."""
        return isinstance(self._file, LinesFile)

    def begin(self, token: int) -> None:
        """Note the token of the records to come."""
        self.token, self.since = token, time.monotonic()

    def is_old(self, seconds: float) -> bool:
        """Return whether records have waited for longer than that."""
        return bool(self) and time.monotonic() - self.since >= seconds

    def add_record(self, record: dict[str, Any]) -> None:
        """Write a single record; UnicodeEncodeError if it holds text that is no Unicode."""
        if self._file is None:
            self._file = LinesFile(self._temporary(".jsonl"))
        assert isinstance(self._file, LinesFile)
        self._file.write(record)

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Write rows."""
        if self._file is None:
            self._file = ArrowFile(self._temporary(spool.SUFFIX), rows.schema)
        assert isinstance(self._file, ArrowFile)
        self._file.write(rows)

    def take(self) -> tuple[Path | None, RefusedRecords, int]:
        """Close the file and return its path, the refused records and their token; the buffer is empty afterwards."""
        file, self._file, token, self.token = self._file, None, self.token, 0
        if file is not None:
            file.close()  # where this fails, the token stays open for good, and no STATE passes these records
        refused, self.refused = self.refused, RefusedRecords()
        return file.path if file else None, refused, token
