"""Arrow batches -> batch files of a given size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from singer_arrow.batch.row_size import row_bytes
from singer_arrow.formats import WRITABLE
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.reading.memory_budget import Allowance
from singer_arrow.runtime.temporary import temporary_folder
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url

SUFFIXES = {"parquet": ".parquet", "jsonl": ".jsonl.gz", "arrow": ".arrow"}
ARROW_BYTES_PER_FILE_BYTE = 4
"""Assumed ratio of rows in memory to bytes of a file; fixed, so that the same rows are always split alike."""


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A durable batch file with the rows from `first_row` (from 0) to `first_row + rows`.

    Attributes:
        url: URL of the file.
        first_row: Number of its first row.
        rows: Number of rows.
        bytes: Size of the file.
        is_last: Whether it is the last file.
        mark: Result of `mark` after the last batch of the file.
    """

    url: Url
    first_row: int
    rows: int
    bytes: int
    is_last: bool = True
    mark: Any = None


def write_batch_files(
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
    can_end: Callable[[Any], bool] = lambda _: True,
    held_bytes: int = HELD_BYTES,
    parallel: Allowance | None = None,
) -> Iterator[BatchFile]:
    """Write batch files of about `target_bytes` each, and yield each one once it is durable.

    File boundaries depend on the rows of the batches alone, so every run splits the same batches alike. Files are
    encoded on local disk, a row group in memory at a time, and appear at their URL atomically. One file is uploaded
    while the next one is encoded, so at most two are on local disk. Without batches there is no file. If `batches`
    raises, the files before are yielded first.

    Args:
        batches: Batches of exactly `schema`.
        url_of: Returns the URL of a file from its first row and its number of rows.
        format: `parquet`, `jsonl` or `arrow`.
        compression: The codec within the format; None for the format's default.
        target_bytes: Approximate size of a file.
        first_row: Number of the first row.
        mark: Called after each batch is taken.
        can_end: Whether a file may end at a mark.
        held_bytes: Bytes of rows to hold in memory before encoding them.
        parallel: Limits the bytes of rows that are encoded in parallel, see `WritableFormat.write`.
    """
    waiting = ((batch, mark()) for batch in batches if batch.num_rows)
    upcoming: tuple[pa.RecordBatch, Any] | None = None
    rows, last_mark = first_row, None

    def has_more() -> bool:
        nonlocal upcoming
        upcoming = next(waiting, None)
        return upcoming is not None

    def batches_of_a_file() -> Iterator[pa.RecordBatch]:
        """Yield the batches of the next file, and hold no reference to one that was yielded."""
        nonlocal upcoming, rows, last_mark
        size = 0
        while (size < target_bytes * ARROW_BYTES_PER_FILE_BYTE or not can_end(last_mark)) and (upcoming or has_more()):
            assert upcoming is not None
            (batch, last_mark), upcoming = upcoming, None
            rows += batch.num_rows
            size += row_bytes(batch)
            yield batch
            del batch

    with temporary_folder("batch-files-") as folder, ThreadPool(1, "upload") as uploads:
        is_more, number = has_more(), 0
        before: tuple[BatchFile, Future[int]] | None = None  # the file before, whose upload returns its bytes
        while is_more:
            path, first, problem = folder / f"part-{number}{SUFFIXES[format]}", rows, None
            number += 1
            try:
                count = WRITABLE[format].write(
                    batches_of_a_file(),
                    schema,
                    path,
                    compression=compression,
                    held_bytes=held_bytes,
                    parallel=parallel,
                )
            except Exception as error:  # noqa: BLE001 - raised below, after the file before it
                problem = error
            if before is not None:
                yield replace(before[0], bytes=before[1].result(), is_last=False)
            if problem is not None:
                raise problem
            url = url_of(first, count)
            upload = uploads.submit(storage.put_file, url, path)
            before = BatchFile(url, first, count, bytes=0, mark=last_mark), upload
            try:
                is_more = has_more()
            except Exception as error:  # noqa: BLE001 - raised below, after the file before it
                problem = error
            if problem is not None or not is_more or upload.done():
                yield replace(before[0], bytes=upload.result(), is_last=not is_more and problem is None)
                before = None
            if problem is not None:
                raise problem
