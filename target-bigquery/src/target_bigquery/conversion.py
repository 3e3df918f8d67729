"""Batches as they are read -> batches that BigQuery takes, and which files it takes as they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.spelling import beyond_years
from singer_arrow.errors import DataError
from singer_arrow.load import convert
from singer_arrow.schema.arrow_schema import json_field
from target_bigquery.types import Column, decimal_kind

_DATES = ("DATE", "TIMESTAMP")


def read_field(column: Column, given: pa.Field) -> pa.Field:
    """Return the field with which a column is read from batch files: the property's name, and a lossless type.

    Columns of JSON are read as JSON text; times are read in the unit of SCHEMA (`given`), before they become
    microseconds.
    """
    if column.kind == "JSON":
        return json_field(column.source)
    if column.is_empty:
        return pa.field(column.source, column.arrow)
    item = given.type.value_type if column.repeated else given.type
    if column.fields:
        fields = [read_field(f, item.field(f.source)) for f in column.fields]
        item = pa.struct(fields)
    elif not (
        (pt.is_timestamp(item) or pt.is_time(item))
        or (pt.is_date(item) and column.kind == "TIMESTAMP")
        or (pt.is_integer(item) and column.kind == "FLOAT")  # which may not hold it
    ):  # else it is converted after reading
        item = column.arrow.value_type if column.repeated else column.arrow
    return pa.field(column.source, pa.list_(item) if column.repeated else item)


class Conversion(convert.Conversion[Column]):
    """Conversion of batches for BigQuery, whose arrays hold no nulls."""

    __slots__ = ()

    def read_field(self, column: Column) -> pa.Field:
        return read_field(column, self.given.field(column.source))

    def check(self, array: pa.Array, column: Column, url: str) -> None:
        check_values(array, column, url)


def check_values(array: pa.Array, column: Column, url: str) -> None:
    """Refuse values that BigQuery refuses or changes: nulls in lists and dates outside its years, at any depth.

    Some load jobs accept timestamps of other years, and queries that read them fail later.
    """
    _check_lists(array, column, url)
    if has_dates([column]) and beyond_years(array):
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


def has_dates(columns: Sequence[Column]) -> bool:
    """Return whether there are dates, at any depth."""
    return any(c.kind in _DATES or has_dates(c.fields) for c in columns)


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


def with_quoted_numbers(t: pa.DataType) -> pa.DataType:
    """Return the type with text for numbers that JSON readers may change, such as integers beyond 2^53."""
    if pt.is_struct(t):
        return pa.struct([f.with_type(with_quoted_numbers(f.type)) for f in t])
    if pt.is_list(t):
        return pa.list_(t.value_field.with_type(with_quoted_numbers(t.value_type)))
    return pa.string() if pt.is_int64(t) or pt.is_decimal(t) else t


# The dates of a Parquet file by the statistics in its footer.


def columns_to_check(footer: Any, columns: Sequence[Column]) -> list[Column]:
    """Return the columns but those of dates that are, by the statistics of the footer, all of the years 1 to 9999.

    The file has the columns under the names of their properties.
    """
    if not footer.num_rows:
        return []
    has_bad = dict(_dates(footer))
    return [c for c in columns if has_bad.get(c.source) is not False]


def has_bad_dates(footer: Any) -> bool:
    """Return whether there is a column of dates one of which is, by its statistics, of another year."""
    return bool(footer.num_rows) and any(bad for _, bad in _dates(footer))


def _dates(footer: Any) -> Iterator[tuple[str, bool | None]]:
    """Yield the columns of dates, and whether a date is outside the years 1 to 9999; None: unknown."""
    schema = footer.schema.to_arrow_schema()
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    leaves = {groups[0].column(n).path_in_schema: n for n in range(groups[0].num_columns)}
    for field in schema:
        if pt.is_timestamp(field.type) or pt.is_date(field.type):
            found = [_is_bad(group.column(leaves[field.name]), field.type) for group in groups]
            yield field.name, True if True in found else None if None in found else False


def _is_bad(chunk: Any, t: pa.DataType) -> bool | None:
    statistics = chunk.statistics
    if statistics is None:
        return None
    if statistics.has_null_count and statistics.null_count == chunk.num_values:
        return False
    if not statistics.has_min_max or not isinstance(statistics.min_raw, int):
        return None
    width = pa.int32() if pt.is_date32(t) else pa.int64()
    return beyond_years(pa.array([statistics.min_raw, statistics.max_raw], width).view(t))
