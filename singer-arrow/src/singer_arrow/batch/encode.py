"""Arrow batches -> batch files, cut to size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from singer_arrow.formats import WRITABLE
from singer_arrow.formats.protocol import HELD_BYTES
from singer_arrow.storage import Storage
from singer_arrow.temporary import temporary_folder
from singer_arrow.urls import Url

SUFFIXES = {"parquet": ".parquet", "jsonl": ".jsonl.gz"}
ARROW_BYTES_PER_FILE_BYTE = 4
"""How much smaller a file is than its rows in memory, about; fixed, so that the same rows are always cut alike."""


@dataclass(frozen=True, slots=True)
class Part:
    """A batch file that is durable: its rows are `first_row` to `first_row + rows` of what was written, from 0.

    `is_last` says that all batches are written, `mark` is what `write_parts` was told after the file's last batch.
    """

    url: Url
    first_row: int
    rows: int
    bytes: int
    is_last: bool = True
    mark: Any = None


def write_parts(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    storage: Storage,
    url_of: Callable[[int, int], Url],
    format: str,  # noqa: A002 - the word of the BATCH message
    compression: str | None = None,
    target_bytes: int = 128 << 20,
    first_row: int = 0,
    mark: Callable[[], Any] = lambda: None,
    held_bytes: int = HELD_BYTES,
) -> Iterator[Part]:
    """Write batch files of about `target_bytes` each, and yield each one once it is durable.

    Where a file ends is decided by the sizes of the batches alone, so the same batches are cut alike on every run.
    Files are encoded on local disk, a row group in memory at a time, and appear at their URL whole or not at all.
    No batch at all makes no file. Where taking a batch fails, the files before it are given first.

    Args:
        batches: Batches of exactly `schema`.
        url_of: The URL of a file, from its first row and its number of rows.
        format: `parquet` or `jsonl`.
        compression: The codec within the format; None for the format's default.
        target_bytes: Wanted size of a file.
        first_row: The number of the first row.
        mark: Asked after each batch is taken.
        held_bytes: Bytes of rows that are gathered in memory before they are encoded.
    """
    source = _Counted(batches, target_bytes * ARROW_BYTES_PER_FILE_BYTE, first_row, mark)
    with temporary_folder("batch-files-") as folder:
        more, problem = source.more(), None
        while more:
            path = folder / f"part{SUFFIXES[format]}"
            first = source.rows
            rows = WRITABLE[format].write(source.part(), schema, path, compression=compression, held_bytes=held_bytes)
            url, mark_of_part = url_of(first, rows), source.mark
            size = storage.put_file(url, path)
            try:
                more = source.more()
            except Exception as error:  # noqa: BLE001 - raised below, after the file before it
                problem = error
            yield Part(url, first, rows, size, not more and problem is None, mark_of_part)
            if problem is not None:
                raise problem


class _Counted:
    """An iterator of batches that can be taken part by part; it holds none that was taken."""

    def __init__(self, batches: Iterable[pa.RecordBatch], limit: int, first_row: int, mark: Callable[[], Any]) -> None:
        self.rows, self.mark = first_row, None
        self._batches: Iterator[tuple[pa.RecordBatch, Any]] = ((b, mark()) for b in batches if b.num_rows)
        self._next: tuple[pa.RecordBatch, Any] | None = None
        self._limit = limit

    def more(self) -> bool:
        self._next = next(self._batches, None)
        return self._next is not None

    def part(self) -> Iterator[pa.RecordBatch]:
        size = 0
        while size < self._limit and (self._next is not None or self.more()):
            assert self._next is not None
            batch, self.mark = self._next
            self._next = None
            self.rows += batch.num_rows
            size += batch.nbytes
            yield batch
            del batch
