"""Arrow types -> BigQuery column types; names of columns and tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import SchemaError
from singer_arrow.load.convert import UploadColumn
from singer_arrow.naming import NamingRules, digest
from singer_arrow.schema.arrow_schema import is_json, is_open
from singer_arrow.warehouse.settings import ExistingColumn, type_conflict
from singer_arrow.warehouse.table import PropertyPath, columns_named

# Rules of BigQuery and Avro for names.

RULES = NamingRules(
    table_length=900,  # BigQuery takes 1,024 bytes; staging tables add to it
    column_length=300,
    reserved_columns=re.compile(
        r"(_TABLE_|_FILE_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER|_CHANGE_SEQUENCE_NUMBER|_CHANGE_TYPE"
        r"|_CHANGE_TIMESTAMP|_sdc_order(?:_|$))",  # the last one is of staging tables
        re.IGNORECASE,
    ),
)


def job_prefix(table: str) -> str:
    """Return the beginning of the ids of load jobs into a table."""
    return f"target_bigquery_{digest(table, 16)}_"


# Arrow types -> BigQuery column types, and which Arrow type a column is uploaded as. Pure.
#
# | Arrow | BigQuery |
# |---|---|
# | int8 to int64, uint8 to uint32 | INTEGER |
# | uint64 | NUMERIC |
# | float16, float32, float64 | FLOAT |
# | decimal | NUMERIC up to 29 digits before and 9 after the point, BIGNUMERIC up to 38 and 38, else STRING |
# | bool, string, binary, date32 | BOOLEAN, STRING, BYTES, DATE |
# | time64 | TIME (microseconds) |
# | timestamp | TIMESTAMP (microseconds) |
# | struct | RECORD, or JSON with `nested: json`; JSON if SCHEMA allows further members and no RECORD is there |
# | list | REPEATED, or JSON with `nested: json`; lists of lists and of maps are JSON |
# | map, JSON text | JSON |
# | null | STRING |

TIMESTAMP = pa.timestamp("us", "UTC")
TIME = pa.time64("us")
MAX_DEPTH = 15
"""Levels of RECORD that BigQuery takes; what is deeper is JSON."""
MAX_COLUMNS = 10_000
"""Columns of a table that BigQuery takes, each field of a RECORD counted."""
_ALIASES = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD", "BIGDECIMAL": "BIGNUMERIC"}
_SCALARS = {
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIME: "TIME",
    pa.float64(): "FLOAT",
    pa.int64(): "INTEGER",
}
_WIDER: dict[str, tuple[str, ...]] = {
    "INTEGER": ("NUMERIC", "BIGNUMERIC", "FLOAT"),
    "NUMERIC": ("BIGNUMERIC",),
    "JSON": ("STRING",),
    "DATE": ("TIMESTAMP",),
}
"""Columns of other types that hold every value of a type (FLOAT takes integers up to 2^53; beyond is an error)."""
_AS_UPLOADED = {
    "NUMERIC": pa.decimal128(38, 9),
    "BIGNUMERIC": pa.decimal256(76, 38),
    "FLOAT": pa.float64(),
    "STRING": pa.string(),
    "TIMESTAMP": TIMESTAMP,
}
_EMPTY = {kind: arrow for arrow, kind in _SCALARS.items()} | _AS_UPLOADED | {"JSON": pa.string()}
"""What columns of nulls are uploaded as."""


@dataclass(frozen=True, slots=True)
class Column(UploadColumn):
    """A column of a table, or a field of a RECORD."""

    json_kind = "JSON"
    repeated: bool = False  # then `arrow` is a list
    fields: tuple[Column, ...] = ()
    is_empty: bool = False  # its values are all null, or lists of nulls

    def __str__(self) -> str:
        return f"ARRAY<{self.kind}>" if self.repeated else self.kind


@dataclass(frozen=True, slots=True)
class TableColumn(ExistingColumn):
    """A column that a table has, or a field of a RECORD."""

    mode: str = "NULLABLE"
    fields: tuple[TableColumn, ...] = ()

    def __str__(self) -> str:
        return f"ARRAY<{self.kind}>" if self.mode == "REPEATED" else self.kind


def kind_of(name: str) -> str:
    """Return a type's name as the API writes it, from either spelling."""
    return _ALIASES.get(name.upper(), name.upper())


def fitted(column: Column, existing: TableColumn, path: str = "") -> Column:
    """Return the column with the type that the table's own has; an error names both types if its values do not fit."""
    if column.is_empty and (empty := _empty_as(column, existing)):
        return empty
    where = f"{path}{existing.name}"
    if column.repeated == (existing.mode == "REPEATED"):
        if column.kind == existing.kind:
            have = {f.name: f for f in existing.fields}
            fields = tuple(fitted(f, have[f.name], f"{where}.") if f.name in have else f for f in column.fields)
            return with_fields(column, fields)
        if existing.kind in _WIDER.get(column.kind, ()) and not (path and column.kind == "DATE"):
            if existing.kind == "BIGNUMERIC" and not (column.repeated and column.kind == "INTEGER"):
                return as_bignumeric(column)
            if not column.repeated:
                return replace(column, kind=existing.kind, arrow=_AS_UPLOADED[existing.kind])
    if existing.kind == "JSON" and existing.mode != "REPEATED" and (column.repeated or column.kind == "RECORD"):
        return replace(column, kind="JSON", arrow=pa.string(), repeated=False, fields=())
    raise type_conflict(where, existing, column)


def missing_required(columns: Sequence[Column], existing: Sequence[TableColumn], path: str = "") -> list[str]:
    """REQUIRED columns of the table, and fields of RECORDs (`record.field`), that the stream does not fill."""
    filled, missing = {c.name: c for c in columns}, list[str]()
    for e in existing:
        column = filled.get(e.name)
        if column is None and e.mode == "REQUIRED":
            missing.append(f"{path}{e.name}")
        elif column and column.fields and not column.is_empty:
            missing += missing_required(column.fields, e.fields, f"{path}{e.name}.")
    return missing


def nullable_required(
    columns: Sequence[Column],
    existing: Sequence[TableColumn],
    nullable: Collection[PropertyPath],
    at: PropertyPath = (),
    path: str = "",
) -> list[str]:
    """REQUIRED columns and fields, named alike, whose properties may be null."""
    have, found = {e.name: e for e in existing}, list[str]()
    for column in columns:
        if (e := have.get(column.name)) is None:
            continue
        own = (*at, column.source)
        if e.mode == "REQUIRED" and own in nullable:
            found.append(f"{path}{e.name}")
        found += nullable_required(column.fields, e.fields, nullable, own, f"{path}{e.name}.")
    return found


def new_columns(columns: Sequence[Column], existing: Sequence[TableColumn]) -> bool:
    """Return whether the table lacks a column, or a RECORD of it a field."""
    have = {e.name: e for e in existing}
    return any(c.name not in have or new_columns(c.fields, have[c.name].fields) for c in columns)


def count_of(columns: Sequence[Column], existing: Sequence[TableColumn] = ()) -> int:
    """Count the columns of a table as BigQuery does: those of both, and the fields of RECORDs."""
    have, fill = {e.name: e for e in existing}, {c.name: c for c in columns}
    count = len(have.keys() | fill.keys())
    for name in have.keys() | fill.keys():
        made, there = fill.get(name), have.get(name)
        if (made and made.fields) or (there and there.fields):
            count += count_of(made.fields if made else (), there.fields if there else ())
    return count


def has_kind(columns: Sequence[Column], kind: str) -> bool:
    """Return whether a column or a field at any depth is of that type."""
    return any(c.kind == kind or has_kind(c.fields, kind) for c in columns)


def column_of(
    field: pa.Field, name: str, nested: str = "record", existing: TableColumn | None = None, depth: int = 1
) -> Column:
    """Return the column of a property, whatever type the table's own has; the fields of a RECORD keep their names."""
    if is_json(field):
        return Column(name, field.name, "JSON", pa.string())
    t = field.type
    if pt.is_list(t) or pt.is_large_list(t):
        inner = t.value_field
        if nested == "json" or (pt.is_nested(inner.type) and not pt.is_struct(inner.type)):
            return Column(name, field.name, "JSON", pa.string())
        item = column_of(inner.with_name(field.name), name, nested, existing, depth)
        return item if item.kind == "JSON" else replace(item, repeated=True, arrow=pa.list_(item.arrow))
    if pt.is_struct(t):
        stays = existing is not None and existing.kind == "RECORD"  # members that it lacks are left out, and named
        if nested == "json" or depth > MAX_DEPTH or not t.num_fields or (is_open(field) and not stays):
            return Column(name, field.name, "JSON", pa.string())
        have = {e.name: e for e in existing.fields} if existing else {}
        names = columns_named([f.name for f in t], existing.fields if existing else (), RULES)
        fields = tuple(column_of(f, names[f.name], nested, have.get(names[f.name]), depth + 1) for f in t)
        return Column(name, field.name, "RECORD", _struct(fields), fields=fields)
    if pt.is_map(t):
        return Column(name, field.name, "JSON", pa.string())
    kind, arrow = _scalar(t, field.name)
    return Column(name, field.name, kind, arrow, is_empty=pt.is_null(t))


def named_as(column: Column, existing: TableColumn) -> Column:
    """Return the column with the names that the fields of the table's RECORD have, at every depth."""
    if not column.fields:
        return column
    have = {e.name: e for e in existing.fields}
    names = columns_named([f.source for f in column.fields], existing.fields, RULES)
    fields = (replace(f, name=names[f.source]) for f in column.fields)
    return with_fields(column, tuple(named_as(f, have[f.name]) if f.name in have else f for f in fields))


def as_bignumeric(column: Column) -> Column:
    """Return a column of numbers, or of lists of them, as one for BIGNUMERIC.

    Its type is one that load jobs take for that, by its digits, and that holds all values of a narrower one.
    """
    t = column.arrow.value_type if column.repeated else column.arrow
    before, scale = (t.precision - t.scale, t.scale) if pt.is_decimal(t) else (19, 0)
    item = pa.decimal128(38, 10) if before <= 28 and scale <= 10 else _AS_UPLOADED["BIGNUMERIC"]
    return replace(column, kind="BIGNUMERIC", arrow=pa.list_(item) if column.repeated else item)


def _empty_as(column: Column, existing: TableColumn) -> Column | None:
    """Return a column without values as one of the table's type; None if it cannot be one."""
    is_list = existing.mode == "REPEATED"
    if column.repeated and not is_list:
        return None
    item, fields = _EMPTY.get(existing.kind), tuple[Column, ...]()
    if existing.kind == "RECORD":
        inside = ((Column(e.name, e.name, "STRING", pa.string(), is_empty=True), e) for e in existing.fields)
        fields = tuple(made for f, e in inside if (made := _empty_as(f, e)))
        item = _struct(fields) if fields else None
    if item is None:
        return None
    return replace(
        column, kind=existing.kind, arrow=pa.list_(item) if is_list else item, repeated=is_list, fields=fields
    )


def _scalar(t: pa.DataType, column: str) -> tuple[str, pa.DataType]:
    if pt.is_uint64(t):
        return "NUMERIC", pa.decimal128(20, 0)
    if pt.is_integer(t):
        return "INTEGER", pa.int64()
    if pt.is_floating(t):
        return "FLOAT", pa.float64()
    if pt.is_decimal(t):
        kind = decimal_kind(t)
        if kind == "STRING":
            return kind, pa.string()
        if t.scale >= 0:
            return kind, t
        return kind, (pa.decimal128 if t.precision - t.scale <= 38 else pa.decimal256)(t.precision - t.scale, 0)
    if pt.is_timestamp(t):
        return "TIMESTAMP", TIMESTAMP
    if pt.is_time(t):
        return "TIME", TIME
    if pt.is_null(t):
        return "STRING", pa.string()
    if t in _SCALARS:
        return _SCALARS[t], t
    raise SchemaError(f"Column {column!r} is of type {t}, which BigQuery has no column for; leave it out by selection")


def decimal_kind(t: pa.DataType) -> str:
    """Return the smallest column type that holds all digits of a decimal type; STRING if none does."""
    before, scale = t.precision - t.scale, max(t.scale, 0)
    if before <= 29 and scale <= 9:
        return "NUMERIC"
    return "BIGNUMERIC" if before <= 38 and scale <= 38 else "STRING"


def _struct(fields: Sequence[Column]) -> pa.DataType:
    return pa.struct([f.upload_field for f in fields])


def with_fields(column: Column, fields: tuple[Column, ...]) -> Column:
    """Return the column, a RECORD, with other fields."""
    if fields == column.fields:
        return column
    struct = _struct(fields)
    return replace(column, fields=fields, arrow=pa.list_(struct) if column.repeated else struct)
