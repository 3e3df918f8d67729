"""Batches as they are read -> batches that BigQuery takes, and which files it takes as they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.spelling import beyond_years
from singer_arrow.errors import DataError
from singer_arrow.load import convert
from target_bigquery.types import Column, decimal_kind, read_field, upload_field

_DATES = ("DATE", "TIMESTAMP")


class Conversion(convert.Conversion[Column]):
    """Conversion of batches for BigQuery, whose arrays hold no nulls."""

    __slots__ = ()

    def read_field(self, column: Column) -> pa.Field:
        return read_field(column, self.given.field(column.source))

    def upload_field(self, column: Column) -> pa.Field:
        return upload_field(column)

    def check(self, array: pa.Array, column: Column, url: str) -> None:
        check_values(array, column, url)


def check_values(array: pa.Array, column: Column, url: str) -> None:
    """Refuse values that BigQuery refuses or changes: nulls in lists and dates outside its years, at any depth.

    Some load jobs accept timestamps of other years, and queries that read them fail later.
    """
    _check_lists(array, column, url)
    if _has_dates([column]) and beyond_years(array):
        raise DataError(
            "a date lies outside the years 1 to 9999, which BigQuery has no place for",
            url=url,
            column=column.source,
            hint="Correct it at the source, or read the column as text: set its type to string in the tap",
        )


def _check_lists(array: pa.Array, column: Column, url: str) -> None:
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
            _check_lists(array.flatten()[array.type.get_field_index(inner.source)], inner, url)


def needs_list_check(columns: Sequence[Column]) -> bool:
    """Return whether there are lists, at any depth."""
    return any(c.repeated or needs_list_check(c.fields) for c in columns)


def needs_check(columns: Sequence[Column]) -> bool:
    """Return whether `check_values` applies: lists or dates, at any depth."""
    return needs_list_check(columns) or _has_dates(columns)


def _has_dates(columns: Sequence[Column]) -> bool:
    return any(c.kind in _DATES or _has_dates(c.fields) for c in columns)


def loads_as_it_is(file: pa.Schema, columns: Sequence[Column]) -> bool:
    """Return whether BigQuery loads a Parquet file of that schema into the columns without any change.

    Columns that the file REQUIREs are changed: loads into NULLABLE ones have been refused for them.
    """
    fields = {f.name: f for f in file}
    if len(fields) != len(file) or set(fields) != {c.name for c in columns}:
        return False
    return all(c.source == c.name and fields[c.name].nullable and _is_loadable(fields[c.name].type, c) for c in columns)


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


def quoted_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with text for numbers that JSON readers may change, such as integers beyond 2^53."""
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
