"""The files that the records of a stream wait in until they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from singer_arrow.batch import spool

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
        """Add a record.

        Raises:
            UnicodeEncodeError: It holds text that is no Unicode.
        """
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
