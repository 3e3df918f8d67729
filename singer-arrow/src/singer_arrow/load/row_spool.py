"""Converted rows on local disk, from which any range can be read: Arrow's own file format, compressed by LZ4.

Rows wait here until their group is complete and it is known into how many files they go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

_BATCH_BYTES = 16 << 20
"""Approximate size of a batch in a file; a reader holds one batch of a file at a time."""


@dataclass(frozen=True, slots=True)
class Spool:
    """A file of rows: the rows of each batch in it, their size in memory and that of the file."""

    path: Path
    schema: pa.Schema
    counts: tuple[int, ...]
    memory_bytes: int
    bytes: int

    @property
    def rows(self) -> int:
        return sum(self.counts)


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> Spool:
    """Write batches of exactly `schema`, one in memory at a time."""
    counts, size = [], 0
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            step = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes))
            size += batch.nbytes
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                writer.write_batch(part)
                counts.append(part.num_rows)
    return Spool(path, schema, tuple(counts), size, path.stat().st_size)


def read(spools: Sequence[Spool], start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `start` to `end` (exclusive) of the files, as if they were one."""
    first = 0
    for spool in spools:
        if first < end and start < first + spool.rows:
            with pa.memory_map(str(spool.path)) as source:
                reader, before = pa.ipc.open_file(source), first
                for number, count in enumerate(spool.counts):
                    low, high = max(start - before, 0), min(end - before, count)
                    if low < high:
                        yield reader.get_batch(number).slice(low, high - low)
                    before += count
        first += spool.rows
