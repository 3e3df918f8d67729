"""Batches as they are read -> batches as they are uploaded: names, microseconds, added columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.errors import DataError
from singer_arrow.formats.cast import fit
from target_bigquery.sql import ORDER
from target_bigquery.types import Column, decimal_kind, read_schema, upload_schema

ORDER_BITS = 36
"""A row's place: the place of its item among those of the stream, then this many bits for its place in the item."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How the batches of one item are made ready.

    Args:
        columns: All columns of the upload.
        given: The schema that SCHEMA means.
        constants: Values of the columns that the files do not hold, by property.
        keys: Properties that must not be null.
        place: The item's place among those of its stream, if its rows need theirs.
    """

    columns: tuple[Column, ...]
    given: pa.Schema
    constants: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    place: int | None = None

    @property
    def read_schema(self) -> pa.Schema:
        """What files are read with."""
        return read_schema([c for c in self.columns if c.source not in self.constants], self.given)

    @property
    def upload_schema(self) -> pa.Schema:
        """What uploads have."""
        schema = upload_schema(self.columns)
        return schema if self.place is None else schema.append(pa.field(ORDER, pa.int64()))

    def batches(self, source: Iterable[pa.RecordBatch], url: str) -> Iterator[pa.RecordBatch]:
        """Convert the batches of one file.

        Raises:
            DataError: A key is null, or a list holds a null.
        """
        return self.all_batches([(url, source)])

    def all_batches(self, sources: Iterable[tuple[str, Iterable[pa.RecordBatch]]]) -> Iterator[pa.RecordBatch]:
        """Convert the batches of all files of the item, in order.

        Raises:
            DataError: A key is null, or a list holds a null.
        """
        schema, rows = self.upload_schema, 0
        for url, batches in sources:
            for batch in batches:
                yield pa.RecordBatch.from_arrays(list(self._arrays(batch, url, rows)), schema=schema)
                rows += batch.num_rows

    def _arrays(self, batch: pa.RecordBatch, url: str, row: int) -> Iterator[pa.Array]:
        for column in self.columns:
            if column.source in self.constants:
                value = pa.scalar(self.constants[column.source], column.arrow)
                yield pa.repeat(value, batch.num_rows)
                continue
            array = batch.column(batch.schema.get_field_index(column.source))
            if column.source in self.keys and array.null_count:
                raise _null_key(column, url)
            yield self._array(array, column, url)
        if self.place is not None:
            before = (self.place << ORDER_BITS) + row - 1
            yield pc.add(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)), before)

    def _array(self, array: pa.Array, column: Column, url: str) -> pa.Array:
        check_lists(array, column, url)
        if array.type == column.arrow:
            return array
        if has_finer(array.type):
            array = array.cast(_coarse(array.type), safe=False)
        return array if array.type == column.arrow else array.view(column.arrow)


def check_lists(array: pa.Array, column: Column, url: str) -> None:
    """Refuse nulls in lists, at any depth: BigQuery's arrays have none, and leaving them out would lose them.

    Raises:
        DataError: There is one.
    """
    if column.repeated:
        array = array.flatten()
        if array.null_count:
            raise DataError(
                "a list holds a null, which BigQuery has no place for in arrays",
                url=url,
                column=column.source,
                hint="Set nested: json for the target, or remove the nulls in the tap",
            )
    for inner in column.fields:
        if inner.repeated or inner.fields:
            check_lists(array.flatten()[array.type.get_field_index(inner.source)], inner, url)


def needs_list_check(columns: Sequence[Column]) -> bool:
    """Whether there are lists, at any depth."""
    return any(c.repeated or needs_list_check(c.fields) for c in columns)


def loads_as_it_is(file: pa.Schema, columns: Sequence[Column]) -> bool:
    """Whether BigQuery loads a Parquet file of that schema into the columns without any change."""
    fields = {f.name: f for f in file}
    if len(fields) != len(file) or set(fields) != {c.name for c in columns}:
        return False
    return all(c.source == c.name and _is_loadable(fields[c.name].type, c) for c in columns)


def _is_loadable(t: pa.DataType, column: Column) -> bool:
    if column.repeated:
        if not pt.is_list(t):
            return False
        t = t.value_type
    match column.kind:
        case "INTEGER":
            return bool(pt.is_integer(t) and not pt.is_uint64(t))
        case "FLOAT":
            return bool(pt.is_float32(t) or pt.is_float64(t))
        case "NUMERIC" | "BIGNUMERIC":  # a load job chooses by the digits of the file's type
            return bool(pt.is_decimal(t)) and decimal_kind(t) == column.kind
        case "TIMESTAMP":
            return bool(pt.is_timestamp(t) and t.tz is not None and t.unit in ("ms", "us"))
        case "TIME":
            return bool(pt.is_time(t) and t.unit in ("ms", "us"))
        case "STRING":
            return bool(pt.is_string(t) or pt.is_large_string(t))
        case "BYTES":
            return bool(pt.is_binary(t) or pt.is_large_binary(t))
        case "RECORD":
            return bool(pt.is_struct(t)) and loads_as_it_is(pa.schema(list(t)), column.fields)
    return bool(t == column.arrow)


def has_finer(t: pa.DataType) -> bool:
    """Whether there are nanoseconds in the type."""
    if pt.is_struct(t):
        return any(has_finer(f.type) for f in t)
    if pt.is_list(t):
        return has_finer(t.value_type)
    return getattr(t, "unit", None) == "ns"


def _coarse(t: pa.DataType) -> pa.DataType:
    if pt.is_struct(t):
        return pa.struct([f.with_type(_coarse(f.type)) for f in t])
    if pt.is_list(t):
        return pa.list_(t.value_field.with_type(_coarse(t.value_type)))
    if pt.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    return pa.time64("us") if pt.is_time(t) else t


def quoted_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with text for numbers that JSON's readers may bend: BigQuery asks for integers beyond 2^53 as text."""
    return pa.schema([f.with_type(_quoted(f.type)) for f in schema])


def quote_numbers(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of `schema` as batches of its `quoted_schema`."""
    quoted = quoted_schema(schema)
    for batch in batches:
        arrays = [fit(array, f) for array, f in zip(batch.columns, quoted, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=quoted)


def _quoted(t: pa.DataType) -> pa.DataType:
    if pt.is_struct(t):
        return pa.struct([f.with_type(_quoted(f.type)) for f in t])
    if pt.is_list(t):
        return pa.list_(t.value_field.with_type(_quoted(t.value_type)))
    return pa.string() if pt.is_int64(t) or pt.is_decimal(t) else t


def _null_key(column: Column, url: str) -> DataError:
    return DataError(
        "a key property is null",
        url=url,
        column=column.source,
        hint="Set other key_properties, or load_method: append-only",
    )
