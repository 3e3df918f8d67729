"""Writing of Arrow IPC files: record batches of up to 64 Ki rows or 16 MiB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.reading.memory_budget import Allowance

BATCH_ROWS = 64 << 10
BATCH_BYTES = 16 << 20
_CODECS = {"none": None, "lz4": "lz4", "zstd": "zstd"}


class ArrowWriting:
    """Writes the format Arrow IPC."""

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        path: Path,
        *,
        compression: str | None = None,
        held_bytes: int = HELD_BYTES,
        parallel: Allowance | None = None,  # noqa: ARG002
    ) -> int:
        """Write a file; `compression` of its buffers is none (default), lz4 or zstd."""
        codec = (compression or "none").lower()
        if codec not in _CODECS:
            msg = f"compression {compression!r} is not supported for Arrow batch files; use {', '.join(_CODECS)}"
            raise ConfigError(msg)
        rows, options = 0, pa.ipc.IpcWriteOptions(compression=_CODECS[codec], use_threads=False)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
            for batch in _record_batches(batches, min(BATCH_BYTES, held_bytes)):
                writer.write_batch(batch)
                rows += batch.num_rows
        return rows


def _record_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of up to `BATCH_ROWS` rows and about `size` bytes; small ones are joined, large ones cut."""
    held, rows, held_bytes = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        most = max(1, min(BATCH_ROWS, batch.num_rows * size // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, most):
            part = batch.slice(start, most)
            if held and (rows + part.num_rows > BATCH_ROWS or held_bytes + part.nbytes > size):
                yield _joined(held)
                held, rows, held_bytes = [], 0, 0
            held.append(part)
            rows += part.num_rows
            held_bytes += part.nbytes
    if held:
        yield _joined(held)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(held) if len(held) > 1 else held[0]
