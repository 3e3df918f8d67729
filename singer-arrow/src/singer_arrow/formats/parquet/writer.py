"""Writing of Parquet files: row groups of up to 64 MiB in memory, dictionaries only where they save space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.formats.parquet.encoding import ColumnEncoding, choose_encoding

ROW_GROUP_ROWS = 1 << 20
_LEVELS = {"zstd": 1, "snappy": None, "none": None, "gzip": 6}


class ParquetWriting:
    """Writes the format Parquet."""

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        path: Path,
        *,
        compression: str | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> int:
        """Write a file; `compression` is zstd (default, level 1), snappy, gzip or none."""
        codec = (compression or "zstd").lower()
        if codec not in _LEVELS:
            msg = f"compression {compression!r} is not supported for Parquet batch files; use {', '.join(_LEVELS)}"
            raise ConfigError(msg)
        rows, writer = 0, None
        try:
            for group in _row_groups(batches, schema, held_bytes):
                if writer is None:
                    writer = _open(path, schema, codec, choose_encoding(group))
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                rows += group.num_rows
                del group  # free it before the next one is collected
            if writer is None:
                writer = _open(path, schema, codec, choose_encoding(schema.empty_table()))
        finally:
            if writer is not None:
                writer.close()
        return rows


def _open(path: Path, schema: pa.Schema, codec: str, columns: ColumnEncoding) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        schema,
        compression=codec,
        compression_level=_LEVELS[codec],
        use_dictionary=columns.dictionaries or False,
        write_statistics=columns.statistics or False,
        write_batch_size=columns.page_values,
        version="2.6",
    )


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, size: int) -> Iterator[pa.Table]:
    """Yield tables of about `size` bytes, or of `ROW_GROUP_ROWS` rows."""
    held, rows, held_size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        for part in _parts(batch, size):
            held.append(part)
            rows += part.num_rows
            held_size += part.nbytes
            if rows >= ROW_GROUP_ROWS or held_size >= size:
                group = [pa.Table.from_batches(held, schema)]
                held, rows, held_size = [], 0, 0
                yield group.pop()
        del batch
    if rows:
        yield pa.Table.from_batches(held, schema)


def _parts(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Split a batch that is far larger than a row group."""
    if batch.nbytes <= 2 * size:
        yield batch
        return
    rows = max(1, batch.num_rows * size // batch.nbytes)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
