"""Arrow batches -> batch files, cut to size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from singer_arrow.formats import WRITABLE
from singer_arrow.storage import Storage
from singer_arrow.temporary import temporary_folder
from singer_arrow.urls import Url

SUFFIXES = {"parquet": ".parquet", "jsonl": ".jsonl.gz"}
ARROW_BYTES_PER_FILE_BYTE = 4
"""How much smaller a file is than its rows in memory, about; fixed, so that the same rows are always cut alike."""


@dataclass(frozen=True, slots=True)
class Part:
    """A batch file that is durable: its rows are `first_row` to `first_row + rows` of what was written, from 0."""

    url: Url
    first_row: int
    rows: int
    bytes: int


def write_parts(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    storage: Storage,
    url_of: Callable[[int, int], Url],
    format: str,  # noqa: A002 - the word of the BATCH message
    compression: str | None = None,
    target_bytes: int = 128 << 20,
) -> Iterator[Part]:
    """Write batch files of about `target_bytes` each, and yield each one once it is durable.

    Where a file ends is decided by the sizes of the batches alone, so the same batches are cut alike on every run.
    Files are encoded on local disk, a row group in memory at a time, and appear at their URL whole or not at all.
    No batch at all makes no file.

    Args:
        batches: Batches of exactly `schema`.
        url_of: The URL of a file, from its first row and its number of rows.
        format: `parquet` or `jsonl`.
        compression: The codec within the format; None for the format's default.
        target_bytes: Wanted size of a file.
    """
    source = _Counted(batches, target_bytes * ARROW_BYTES_PER_FILE_BYTE)
    with temporary_folder("batch-files-") as folder:
        while source.more():
            path = folder / f"part{SUFFIXES[format]}"
            first_row = source.rows
            rows = WRITABLE[format].write(source.part(), schema, path, compression=compression)
            url = url_of(first_row, rows)
            yield Part(url, first_row, rows, storage.put_file(url, path))


class _Counted:
    """An iterator of batches that can be taken part by part."""

    def __init__(self, batches: Iterable[pa.RecordBatch], limit: int) -> None:
        self.rows = 0
        self._batches: Iterator[pa.RecordBatch] = (b for b in batches if b.num_rows)
        self._limit = limit

    def more(self) -> bool:
        first = next(self._batches, None)
        if first is None:
            return False
        self._batches = itertools.chain([first], self._batches)
        return True

    def part(self) -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in self._batches:
            self.rows += batch.num_rows
            size += batch.nbytes
            yield batch
            if size >= self._limit:
                return
