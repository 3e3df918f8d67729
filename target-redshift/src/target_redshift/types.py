"""Arrow types -> Redshift column types; names of columns and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.batch.message import LONGEST_RANK
from singer_arrow.errors import SchemaError
from singer_arrow.load.convert import RANK, UploadColumn
from singer_arrow.naming import NamingRules
from singer_arrow.schema.arrow_schema import is_json
from singer_arrow.warehouse.settings import ExistingColumn, type_conflict

# Arrow types -> Redshift column types, and which Arrow type a column is uploaded as. Pure.
#
# | Arrow | Redshift |
# |---|---|
# | int8, int16, uint8 | SMALLINT |
# | int32, uint16 | INTEGER |
# | int64, uint32 | BIGINT |
# | uint64 | DECIMAL(20, 0) |
# | float16, float32 | REAL |
# | float64 | DOUBLE PRECISION |
# | decimal | DECIMAL of the same digits, up to 38 and 37 of them after the point; with more, VARCHAR |
# | bool, string, binary, date32 | BOOLEAN, VARCHAR, VARBYTE, DATE |
# | time64 | TIME (microseconds) |
# | timestamp | TIMESTAMPTZ (microseconds) |
# | struct, list, map, JSON text | SUPER |
# | null | VARCHAR |
#
# A new VARCHAR column begins with 256 bytes and grows as its values do (`wider_length`).

TIMESTAMP = pa.timestamp("us", "UTC")
TIME = pa.time64("us")
MAX_VARCHAR = 65_535
"""Bytes, of columns; functions take 16,000,000 in memory [r_Character_types, read 2026-07]."""
MAX_VARBYTE = 16_777_216
"""Bytes [r_VARBYTE_type, read 2026-07]; more than 1 MB come by Parquet and not by JSON."""
MAX_COLUMNS = 1_600
MAX_DIGITS, MAX_SCALE = 38, 37
VARCHAR_STEPS = (256, 1_024, 4_096, 16_384, MAX_VARCHAR)
"""Lengths of VARCHAR columns in bytes; the first is that of new ones."""
_ALIASES = {
    "INT2": "SMALLINT",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "INT8": "BIGINT",
    "FLOAT4": "REAL",
    "FLOAT": "DOUBLE PRECISION",
    "FLOAT8": "DOUBLE PRECISION",
    "BOOL": "BOOLEAN",
    "NUMERIC": "DECIMAL",
    "CHARACTER VARYING": "VARCHAR",
    "NVARCHAR": "VARCHAR",
    "TEXT": "VARCHAR",
    "CHARACTER": "CHAR",
    "NCHAR": "CHAR",
    "BPCHAR": "CHAR",
    "BINARY VARYING": "VARBYTE",
    "VARBINARY": "VARBYTE",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIME WITH TIME ZONE": "TIMETZ",
    "TIME WITHOUT TIME ZONE": "TIME",
}
_SCALARS: dict[pa.DataType, str] = {
    pa.int8(): "SMALLINT",
    pa.int16(): "SMALLINT",
    pa.uint8(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.uint16(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint32(): "BIGINT",
    pa.float16(): "REAL",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE PRECISION",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}
_ARROW: dict[str, pa.DataType] = {
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "REAL": pa.float32(),
    "DOUBLE PRECISION": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "VARCHAR": pa.string(),
    "VARBYTE": pa.binary(),
    "SUPER": pa.string(),
}
"""What columns are uploaded as, but for DECIMAL."""
_INTEGER_DIGITS = {"SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_WIDER: dict[str, tuple[str, ...]] = {
    "SMALLINT": ("INTEGER", "BIGINT", "REAL", "DOUBLE PRECISION"),
    "INTEGER": ("BIGINT", "DOUBLE PRECISION"),
    "REAL": ("DOUBLE PRECISION",),
    "SUPER": ("VARCHAR",),
    "DATE": ("TIMESTAMPTZ", "TIMESTAMP"),
    "TIMESTAMPTZ": ("TIMESTAMP",),  # in UTC, as other targets fill the tables that they make
}
"""Columns of other types that hold every value of a type; `_holds` adds what depends on digits."""
_ROOMIEST = {"SMALLINT": "BIGINT", "INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION"}


@dataclass(frozen=True, slots=True)
class Column(UploadColumn):
    """A column of a table that the stream fills."""

    json_kind = "SUPER"
    length: int | None = None  # bytes of a VARCHAR or VARBYTE
    precision: int | None = None  # digits of a DECIMAL
    scale: int | None = None  # of these after the point
    becomes_text: bool = False  # its values are text in the table alone: JSON, or decimals of many digits
    is_quoted: bool = False  # its values are text that a SUPER column holds, as JSON text
    is_rescued: bool = False  # texts that are too long go into the column of long texts
    holds_long_texts: bool = False  # it is that column
    is_day: bool = False  # its values are days, of which the table has the midnights in UTC

    @property
    def is_foreign(self) -> bool:
        """Whether the table has it in a type that no Arrow type becomes; then all its values are null."""
        return self.kind != "DECIMAL" and self.kind not in _ARROW

    def __str__(self) -> str:
        return ddl_type(self)


@dataclass(frozen=True, slots=True)
class TableColumn(ExistingColumn):
    """A column that a table has."""

    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    nullable: bool = True
    is_filled: bool = False  # it has a default or is an identity
    comment: str | None = None

    def __str__(self) -> str:
        return ddl_type(self)


def ddl_type(column: Column | TableColumn) -> str:
    """Return the type as DDL writes it: `VARCHAR(256)`, `DECIMAL(38, 9)`, ..."""
    if column.kind == "DECIMAL" and column.precision is not None:
        return f"DECIMAL({column.precision:d}, {column.scale or 0:d})"
    if column.kind in ("VARCHAR", "VARBYTE", "CHAR") and column.length is not None:
        return f"{column.kind}({column.length:d})"
    return column.kind


def table_column(
    name: str,
    data_type: str,
    length: int | None = None,
    precision: int | None = None,
    scale: int | None = None,
    *,
    nullable: bool = True,
    is_filled: bool = False,
) -> TableColumn:
    """Return a column as the catalog describes it: `character varying` and 256, or `numeric` with 38 and 9."""
    match = re.fullmatch(r"([a-z0-9 ]+?)\s*(?:\((\d+)(?:,\s*(\d+))?\))?", data_type.strip().lower())
    name_of, first, second = match.groups() if match else (data_type, None, None)
    kind = _ALIASES.get(name_of.upper(), name_of.upper())
    if kind == "DECIMAL":
        digits = int(first) if first else precision or 18
        return TableColumn(name, kind, None, digits, int(second or 0) if first else scale or 0, nullable, is_filled)
    if kind in ("VARCHAR", "VARBYTE", "CHAR"):
        size = int(first) if first else length
        if size is None and kind == "VARBYTE":
            size = MAX_VARBYTE  # the catalog has no length; COPY and INSERT refuse longer values
        return TableColumn(name, kind, size, nullable=nullable, is_filled=is_filled)
    return TableColumn(name, kind, nullable=nullable, is_filled=is_filled)


def new_columns(columns: Sequence[Column], existing: Sequence[TableColumn]) -> list[Column]:
    have = {e.name for e in existing}
    return [c for c in columns if c.name not in have]


def missing_required(columns: Sequence[Column], existing: Sequence[TableColumn]) -> list[str]:
    """Columns of the table that must have a value, and that neither the stream nor Redshift fills."""
    filled = {c.name for c in columns}
    return [e.name for e in existing if not e.nullable and not e.is_filled and e.name not in filled]


def wider_length(needed: int, varchar_max: int = MAX_VARCHAR) -> int | None:
    """Return the length of a VARCHAR column for texts of so many bytes; None if they are longer than it may get."""
    if needed > varchar_max:
        return None
    return next((step for step in VARCHAR_STEPS if needed <= step <= varchar_max), varchar_max)


def column_of(field: pa.Field, name: str, varchar_max: int = MAX_VARCHAR) -> Column:
    """Return the column of a property, whatever type the table's own has."""
    t = field.type
    if is_json(field) or pt.is_nested(t):
        return Column(name, field.name, "SUPER", pa.string())
    if pt.is_decimal(t) or pt.is_uint64(t):
        if pt.is_uint64(t):
            precision, scale = 20, 0
        else:  # SQL counts no negative scale, and digits after the point among all
            precision, scale = (t.precision - t.scale, 0) if t.scale < 0 else (max(t.precision, t.scale), t.scale)
        if precision > MAX_DIGITS or scale > MAX_SCALE:
            return replace(_text(field, name, varchar_max), becomes_text=True)
        arrow = pa.decimal128(precision, scale)
        return Column(name, field.name, "DECIMAL", arrow, precision=precision, scale=scale)
    if pt.is_string(t) or pt.is_null(t):
        return _text(field, name, varchar_max)
    if pt.is_binary(t):
        return Column(name, field.name, "VARBYTE", pa.binary(), length=MAX_VARBYTE)
    if pt.is_timestamp(t):
        return Column(name, field.name, "TIMESTAMPTZ", TIMESTAMP)
    if pt.is_time(t):
        return Column(name, field.name, "TIME", TIME)
    if t in _SCALARS:
        return Column(name, field.name, _SCALARS[t], _ARROW[_SCALARS[t]])
    msg = f"Column {field.name!r} is of type {t}, which Redshift has no column for; leave it out by selection"
    raise SchemaError(msg)


def _text(field: pa.Field, name: str, varchar_max: int) -> Column:
    length = LONGEST_RANK if field.name == RANK else min(VARCHAR_STEPS[0], varchar_max)
    return Column(name, field.name, "VARCHAR", pa.string(), length=length)


def in_super(column: Column) -> Column:
    """Return a column for text as one for SUPER."""
    return replace(column, kind="SUPER", length=None, is_quoted=True)


def is_text(field: pa.Field, column: Column) -> bool:
    """Return whether a property's column is VARCHAR because its values are text, and for no other reason."""
    return bool(pt.is_string(field.type)) and column.kind == "VARCHAR"


def roomiest(column: Column) -> Column:
    """Return the column with the most room that its kind has, as new variants have it, which can never be widened."""
    if column.kind == "DECIMAL":
        return replace(column, precision=MAX_DIGITS, arrow=pa.decimal128(MAX_DIGITS, column.scale or 0))
    kind = _ROOMIEST.get(column.kind, column.kind)
    return replace(column, kind=kind, arrow=_ARROW[kind]) if kind != column.kind else column


def fitted(column: Column, field: pa.Field, have: TableColumn) -> Column:
    """Return the column with the type that the table's own has; an error names both types if its values do not fit."""
    if have.kind == "SUPER" and is_text(field, column):
        return in_super(column)
    sized = replace(column, kind=have.kind, length=have.length, precision=have.precision, scale=have.scale)
    if column.kind == "SUPER" and have.kind == "VARCHAR":
        sized = replace(sized, becomes_text=True)
    if column.kind == "DATE" and have.kind in _WIDER["DATE"]:
        sized = replace(sized, is_day=True)
    if have.kind == "DECIMAL" and have.precision is not None:
        sized = replace(sized, arrow=pa.decimal128(have.precision, have.scale or 0))
    else:
        sized = replace(sized, arrow=_ARROW.get(have.kind, pa.string()))
    if pt.is_null(field.type) or _holds(column, have):
        return sized
    raise type_conflict(have.name, have, column)


def _holds(column: Column, have: TableColumn) -> bool:
    """Return whether the table's column holds every value of the stream's."""
    if have.kind == "DECIMAL" and have.precision is not None:
        whole = have.precision - (have.scale or 0)
        if column.kind in _INTEGER_DIGITS:
            return whole >= _INTEGER_DIGITS[column.kind]
        if column.kind == "DECIMAL":
            precision, scale = column.precision or 0, column.scale or 0
            return whole >= precision - scale and (have.scale or 0) >= scale
        return False
    if column.kind == have.kind:
        return True
    return have.kind in _WIDER.get(column.kind, ())


# Rules of Redshift for names: at most 127 bytes, in lower case even if quoted. Pure.

LENGTH = 127
"""Bytes of a name; Redshift cuts what is longer, so that two of them might become one."""
RULES = NamingRules(
    table_length=LENGTH,
    column_length=LENGTH,
    reserved_columns=re.compile(
        r"(?:(?:oid|tableoid|xmin|xmax|cmin|cmax|ctid|deletexid|insertxid)$|_sdc_(?:order|row|unused|staged)(?:_|$)|padb_internal_)",
        re.IGNORECASE,
    ),
    lower=True,
)
