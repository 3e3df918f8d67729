"""Writing of Parquet files: row groups encoded in parallel, dictionaries only where they save space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from singer_arrow.errors import ConfigError
from singer_arrow.formats.base import PLAIN, WriteOptions
from singer_arrow.formats.parquet_concat import join_encoded
from singer_arrow.reading.parallel import drain, map_ordered

_SAMPLE = 1 << 14  # number of rows
_FEW = 1 << 10  # rows of the sample that are counted first
_UNIQUE = 0.98  # minimum ratio of distinct values among those few for a column without repeated values
_WORTH = 0.5  # maximum ratio of distinct values for a dictionary
_PAGE_BYTES = 1 << 20  # approximate size of a data page or dictionary
_LONG = 1 << 10  # average bytes from which texts are long
_PAGE_VALUES = 1 << 10  # values between two checks of the page size


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """Encoding of the leaf columns: paths of those with a dictionary, and of those with minimum and maximum.

    Long texts have no minimum and maximum: the copies take memory and are useless for pruning.
    """

    dictionaries: list[str]
    statistics: list[str]
    page_values: int  # between two checks of the page size; few if values are long


def choose_encoding(group: pa.Table) -> ColumnEncoding:
    """Return the encoding for a file that starts with these rows."""
    some = group.slice(0, _SAMPLE)
    rows = Random(0).sample(range(some.num_rows), min(_FEW, some.num_rows))  # noqa: S311 - nothing secret
    few = pa.array(sorted(rows), pa.int64())
    dictionaries, statistics, longest = list[str](), list[str](), 0.0
    for field, column in zip(some.schema, some.columns, strict=True):
        mean = _mean_bytes(column)
        longest = max(longest, mean)
        if pt.is_nested(field.type):  # examining leaves is too costly, so all get a dictionary
            paths = [f"{field.name}.{rest}" for rest in _leaves(field.type)]
            dictionaries += paths if mean < _PAGE_BYTES else []
            statistics += paths if mean < _PAGE_BYTES else []
            continue
        if mean < _LONG:
            statistics.append(field.name)
        if mean < _PAGE_BYTES // 8 and _is_worth(field.type, column, few):
            dictionaries.append(field.name)
    values = max(1, min(_PAGE_VALUES, int(_PAGE_BYTES / max(1.0, longest))))
    return ColumnEncoding(dictionaries, statistics, values)


def _is_worth(t: pa.DataType, column: pa.ChunkedArray, few: pa.Array) -> bool:
    """Return whether a column is worth a dictionary; if its values in the rows `few` are distinct, it is not."""
    if pt.is_boolean(t) or pt.is_null(t):
        return False
    if pt.is_dictionary(t):
        return True
    first = column.take(few)
    if len(first) - first.null_count >= _FEW // 2 and _distinct(first) > _UNIQUE:
        return False
    return _distinct(column) <= _WORTH


def _distinct(column: pa.ChunkedArray) -> float:
    """Return the ratio of distinct values among those that are not null; 0 if all are null."""
    present = len(column) - column.null_count
    return float(pc.count_distinct(column, mode="only_valid").as_py() / max(1, present))


def _mean_bytes(column: pa.ChunkedArray) -> float:
    """Return the average bytes of a value that is not null."""
    t = column.type
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_binary(t) or pt.is_large_binary(t):
        return float(pc.mean(pc.binary_length(column)).as_py() or 0.0)
    return float(column.nbytes / max(1, len(column) - column.null_count))


def _leaves(t: pa.DataType) -> list[str]:
    """Return the paths of the leaves of a nested type."""
    if pt.is_struct(t):
        return [path for f in t for path in _below(f.name, f.type)]
    if pt.is_map(t):
        return [*_below("key_value.key", t.key_type), *_below("key_value.value", t.item_type)]
    return _below("list.element", t.value_type)


def _below(name: str, t: pa.DataType) -> list[str]:
    return [f"{name}.{rest}" for rest in _leaves(t)] if pt.is_nested(t) else [name]


ROW_GROUP_ROWS = 1 << 20
_LEVELS = {"zstd": 1, "snappy": None, "none": None, "gzip": 6}


class ParquetWriting:
    """Writes the format Parquet."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, options: WriteOptions = PLAIN
    ) -> int:
        """Write a file; `compression` is zstd (default, level 1), snappy, gzip or none."""
        codec = (options.compression or "zstd").lower()
        if codec not in _LEVELS:
            msg = f"compression {codec!r} is not supported for Parquet batch files; use {', '.join(_LEVELS)}"
            raise ConfigError(msg)
        groups = _row_groups(batches, schema, options.held_bytes)
        first = list(islice(groups, 1)) or [schema.empty_table()]
        encoding = choose_encoding(first[0])

        def encode(group: pa.Table) -> IO[bytes]:
            file = NamedTemporaryFile(dir=path.parent)  # noqa: SIM115 - `join_encoded` closes it
            with pq.ParquetWriter(
                file.name,  # and not the file: Arrow writes without Python's lock
                schema,
                compression=codec,
                compression_level=_LEVELS[codec],
                use_dictionary=encoding.dictionaries or False,
                write_statistics=encoding.statistics or False,
                write_batch_size=encoding.page_values,
                version="2.6",
            ) as writer:
                writer.write_table(group, row_group_size=max(1, group.num_rows))
            return file

        every = chain(drain(first), groups)
        if options.parallel is None:
            return join_encoded(map(encode, every), path)
        most = options.parallel.limit

        def cost(group: pa.Table) -> int:
            """Return the bytes of a group; of large values, whose encoding takes copies, so many that it is alone."""
            return int(group.nbytes if group.nbytes <= options.held_bytes else max(group.nbytes, most + 1))

        return join_encoded(map_ordered(every, encode, options.parallel, cost=cost), path)


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, size: int) -> Iterator[pa.Table]:
    """Yield tables of up to `size` bytes and `ROW_GROUP_ROWS` rows, if batches are not larger."""
    held, rows, held_size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        for part in _parts(batch, size):
            if held and (rows + part.num_rows > ROW_GROUP_ROWS or held_size + part.nbytes > size):
                yield _taken(held, schema)
                rows = held_size = 0
            held.append(part)
            rows += part.num_rows
            held_size += part.nbytes
            del part
            if held_size >= size:
                yield _taken(held, schema)
                rows = held_size = 0
        del batch
    if held:
        yield _taken(held, schema)


def _taken(held: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the batches as a table, and empty the list."""
    table = pa.Table.from_batches(held, schema)
    held.clear()
    return table


def _parts(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Split a batch that is far larger than a row group."""
    if batch.nbytes <= 2 * size:
        yield batch
        return
    rows = max(1, batch.num_rows * size // batch.nbytes)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
