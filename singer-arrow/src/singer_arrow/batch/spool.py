"""Rows that wait on local disk to be loaded: Arrow's own file format, as they are in memory.

They were checked when they were written, and are read in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

FORMAT = "spool"
"""What such a file is called where the formats of batch files are named."""
SUFFIX = ".spool"
_SLICE_BYTES = 16 << 20


def write(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
    """A writer of batches of a schema; whoever gets it closes it."""
    return pa.ipc.new_file(str(path), schema)


def read(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows, in batches of some megabytes."""
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
