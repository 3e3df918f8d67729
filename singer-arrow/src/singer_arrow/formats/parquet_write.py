"""Parquet files, written in row groups of about 64 MiB in memory, with dictionaries only where they pay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from singer_arrow.errors import ConfigError

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 64 << 20
_LEVELS = {"zstd": 1, "snappy": None, "none": None, "gzip": 6}
_SAMPLE = 1 << 14
_WORTH = 0.5  # distinct values per value, up to which a dictionary pays


class ParquetWriting:
    """The writing half of the format."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, *, compression: str | None = None
    ) -> int:
        """See `WritableFormat.write`; zstd at level 1 by default, or snappy, gzip, none."""
        codec = (compression or "zstd").lower()
        if codec not in _LEVELS:
            msg = f"compression {compression!r} is none that Parquet batch files can have; use {', '.join(_LEVELS)}"
            raise ConfigError(msg)
        rows, writer = 0, None
        try:
            for group in _row_groups(batches, schema):
                if writer is None:
                    writer = _open(path, schema, codec, _dictionaries(group))
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                rows += group.num_rows
            if writer is None:
                writer = _open(path, schema, codec, [])
        finally:
            if writer is not None:
                writer.close()
        return rows


def _open(path: Path, schema: pa.Schema, codec: str, dictionaries: list[str]) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        schema,
        compression=codec,
        compression_level=_LEVELS[codec],
        use_dictionary=dictionaries or False,
        version="2.6",
    )


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held, schema)


def _dictionaries(group: pa.Table) -> list[str]:
    """Paths of the leaf columns that are worth a dictionary, told from the first rows."""
    some = group.slice(0, _SAMPLE)
    return [path for field, column in zip(some.schema, some.columns, strict=True) for path in _paths(field, column)]


def _paths(field: pa.Field, column: pa.ChunkedArray) -> list[str]:
    if pt.is_nested(field.type):
        return [f"{field.name}.{rest}" for rest in _leaves(field.type)]
    if pt.is_boolean(field.type) or pt.is_null(field.type):
        return []
    if pt.is_dictionary(field.type):
        return [field.name]
    present = len(column) - column.null_count
    return [field.name] if pc.count_distinct(column, mode="only_valid").as_py() <= _WORTH * present else []


def _leaves(t: pa.DataType) -> list[str]:
    """Paths of the leaves below a nested type; they are too costly to look at, so all get a dictionary."""
    if pt.is_struct(t):
        return [path for f in t for path in _below(f.name, f.type)]
    if pt.is_map(t):
        return [*_below("key_value.key", t.key_type), *_below("key_value.value", t.item_type)]
    return _below("list.element", t.value_type)


def _below(name: str, t: pa.DataType) -> list[str]:
    return [f"{name}.{rest}" for rest in _leaves(t)] if pt.is_nested(t) else [name]
