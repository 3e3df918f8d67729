"""Spool files: Arrow IPC files of rows that wait on local disk to be loaded.

Their rows were checked when written, and are memory-mapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

FORMAT = "spool"
"""Format name of spool files."""
SUFFIX = ".spool"
_SLICE_BYTES = 16 << 20


def write(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
    """Return a writer of batches; the caller closes it."""
    return pa.ipc.new_file(str(path), schema)


def read(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of about 16 MiB."""
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        held, size = list[pa.RecordBatch](), 0
        for number in range(reader.num_record_batches):
            held.append(reader.get_batch(number))
            size += held[-1].nbytes
            if size >= _SLICE_BYTES:
                yield pa.concat_batches(held) if len(held) > 1 else held[0]
                held, size = [], 0
        if held:
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
