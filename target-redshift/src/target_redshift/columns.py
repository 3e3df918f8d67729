"""The columns of staging tables; the column for values that do not fit; long texts and NUL characters."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.batch.message import PLACE
from singer_arrow.casting.to_json import json_text
from singer_arrow.errors import SchemaError
from singer_arrow.load.convert import RANK
from singer_arrow.warehouse.settings import type_conflict, variant_names
from singer_arrow.warehouse.table import columns_named
from target_redshift.types import (
    MAX_COLUMNS,
    MAX_DIGITS,
    MAX_SCALE,
    MAX_VARBYTE,
    MAX_VARCHAR,
    RULES,
    Column,
    TableColumn,
    column_of,
    ddl_type,
    fitted,
    in_super,
    is_text,
    roomiest,
)

# Staging tables: into which types a file is COPYed, and how its values get from there into the table. Pure.
#
# COPY of a columnar file goes by the place of its columns and converts nothing, so a staging table has the file's own
# columns, in the file's order and types; what the table's columns need is done by the INSERT that follows.
#
# | Parquet | staged as | brought into |
# |---|---|---|
# | int8, int16 | SMALLINT | it, or a wider column |
# | int32 | INTEGER | it, or a wider column |
# | int64 | BIGINT | it, or a wider DECIMAL |
# | float, double | REAL, DOUBLE PRECISION | them |
# | decimal128(p, s) | DECIMAL(p, s) | it, or a wider one |
# | bool, date32 | BOOLEAN, DATE | them |
# | timestamp in ms or us | TIMESTAMP | TIMESTAMPTZ, by AT TIME ZONE 'UTC'; TIMESTAMP |
# | text | VARCHAR(65535) | VARCHAR; TIME by a cast; SUPER by JSON_PARSE |
# | binary | VARBYTE | it |
# | struct, list | SUPER, by SERIALIZETOJSON | it |
#
# JSON Lines go by names. What is not in these tables is converted before it is uploaded: unsigned integers,
# nanoseconds, TIME, maps, decimals of more digits; in JSON Lines of others also decimals, which COPY would read as
# doubles.

ORDER = "_sdc_order"
"""Column of staging tables that holds the place of a row among those of its group."""
TEXT = f"VARCHAR({MAX_VARCHAR})"
_FLOATS = ("REAL", "DOUBLE PRECISION")
_OBJECT_RANK = re.compile(rf"(object |version \d{{20}} )\d{{4}}-\d\d-\d\d [\d:.]{{15}} .*?({PLACE[:-1]})", re.DOTALL)
OBJECT_COLUMNS = ("_sdc_source_modified_at", "_sdc_source_bucket", "_sdc_source_file")
BYTES = f"VARBYTE({MAX_VARBYTE})"


class Change(Enum):
    """What an INSERT does with a staged value."""

    NONE = "takes it as it is"
    CAST = "casts it"
    UTC = "takes it as a time of UTC"
    JSON = "parses it as JSON"
    BASE64 = "decodes it"
    RANK = "completes it by the columns of the row's object"


@dataclass(frozen=True, slots=True)
class StagingColumn:
    """A column of a staging table."""

    name: str
    type: str  # as DDL writes it
    column: Column | None = None  # that it fills
    change: Change = Change.NONE  # of its values, on the way
    constant: str | None = None  # the value of all rows as text; then the staging table itself does not have it


@dataclass(frozen=True, slots=True)
class NotCopyable:
    """Why a file cannot be COPYed as it is."""

    reason: str


ORDER_COLUMN = StagingColumn(ORDER, "BIGINT")


def staging_columns(
    file: pa.Schema, columns: Sequence[Column], keys: Sequence[str] = ()
) -> list[StagingColumn] | NotCopyable:
    """Return the columns into which a Parquet file, which must have `keys`, is COPYed as it is, or why it cannot be."""
    by_source = {c.source: c for c in columns}
    if len(set(file.names)) != len(file.names):
        return NotCopyable("it has a column twice")
    if len(file) > MAX_COLUMNS:
        return NotCopyable(f"it has {len(file):,} columns, and a table takes {MAX_COLUMNS:,}")
    staged: list[StagingColumn] = []
    for number, field in enumerate(file):
        column = by_source.get(field.name)
        made = _staged(_plain(field.type), column, column.name if column else f"_sdc_unused_{number}")
        if made is None:
            to = f", and the table's is {column}" if column else ""
            return NotCopyable(f"column {field.name!r} is {field.type}{to}")
        staged.append(made)
    return _complete(staged, keys)


def jsonl_columns(columns: Sequence[Column], keys: Sequence[str] = ()) -> list[StagingColumn] | NotCopyable:
    """Return the columns into which JSON Lines of ours are COPYed as they are, or why they cannot be."""
    staged: list[StagingColumn] = []
    for column in columns:
        if column.source != column.name and (not column.source.isascii() or column.source.lower() != column.name):
            return NotCopyable(f"property {column.source!r} is not the name of its column")
        if column.is_foreign:
            return NotCopyable(f"property {column.source!r} is always null, which is not sure before it is read")
        if column.kind == "DECIMAL":
            return NotCopyable(f"property {column.source!r} is a decimal, which COPY would read as a double")
        if column.becomes_text:
            return NotCopyable(f"property {column.source!r} is not text, and its column is")
        if column.is_day:
            return NotCopyable(f"property {column.source!r} is a date, and its column has a time")
        staged.append(_uploaded(column, "jsonl", is_tap_s=True))
    return _complete(staged, keys)


def rank_columns(
    staged: Sequence[StagingColumn], columns: Sequence[Column], ranks: Collection[str]
) -> list[StagingColumn] | NotCopyable:
    """Return the staging column of the ranks of a file's rows, or why they must be written into the file.

    In a rank of tap-s3-files the time and the name of the object differ from row to row, what is before and behind does
    not. These two are in the columns that the tap's setting metadata_columns adds. `staged` are the columns of the
    file; `ranks` those of the rows, none twice, empty if they have none.
    """
    if not ranks:
        return []
    (column,) = (c for c in columns if c.source == RANK)
    around = {(found[1], found[2]) for rank in ranks if (found := _OBJECT_RANK.fullmatch(rank))}
    if not around and len(ranks) == 1:
        return [_constant(column, next(iter(ranks)))]
    kinds = {c.column.source: c.column.kind for c in staged if c.column}
    if len(around) != 1 or [kinds.get(c) for c in OBJECT_COLUMNS] != ["TIMESTAMPTZ", "VARCHAR", "VARCHAR"]:
        return NotCopyable("its rows need their ranks, and it lacks columns of the tap's metadata_columns")
    return [StagingColumn(column.name, ddl_type(column), column, Change.RANK, "\n".join(around.pop()))]


def constant_columns(columns: Sequence[Column], constants: Mapping[str, Any]) -> list[StagingColumn]:
    """Return the columns that files do not have and that are the same in all their rows; those that are null need none.

    `constants` are texts, numbers, and times in UTC by property.
    """
    given = {c.source: c for c in columns if constants.get(c.source) is not None}
    return [_constant(c, str(constants[source])) for source, c in given.items()]


def _constant(column: Column, text: str) -> StagingColumn:
    if column.kind == "TIMESTAMP":
        return StagingColumn(column.name, "TIMESTAMPTZ", column, Change.UTC, text)
    return StagingColumn(column.name, ddl_type(column), column, Change.CAST, text)


def ignores_case(columns: Sequence[StagingColumn]) -> bool:
    """Return whether the keys of JSON Lines are equal to the columns but for case."""
    return any(c.column is not None and c.column.source != c.name for c in columns)


def has_nested(columns: Sequence[StagingColumn]) -> bool:
    """Return whether COPY of Parquet needs SERIALIZETOJSON."""
    return any(c.type == "SUPER" for c in columns)


def upload_columns(columns: Sequence[Column], file_format: str, *, ordered: bool = False) -> list[StagingColumn]:
    """Return the staging columns of what we upload ourselves, with their `ORDER` as the last column if `ordered`."""
    return [*(_uploaded(c, file_format) for c in columns), *([ORDER_COLUMN] if ordered else [])]


def file_schema(columns: Sequence[Column], file_format: str, *, ordered: bool = False) -> pa.Schema:
    """Return the Arrow schema of what we upload ourselves, whose columns are those of `upload_columns`.

    Parquet cannot be COPYed into TIME, so its TIME columns are text. In JSON Lines decimals are text too, because COPY
    reads JSON's numbers as doubles, and doubles, because JSON has no NaN.
    """
    texts = ("TIME", "DECIMAL", *_FLOATS) if file_format == "jsonl" else ("TIME",)
    fields = [pa.field(c.name, pa.string()) if c.kind in texts else c.upload_field for c in columns]
    return pa.schema([*fields, *([pa.field(ORDER, pa.int64())] if ordered else [])])


def _complete(staged: list[StagingColumn], keys: Sequence[str]) -> list[StagingColumn] | NotCopyable:
    have = {c.column.name for c in staged if c.column}
    if not have:
        return NotCopyable("it has none of the stream's columns")
    if lacking := [k for k in keys if k not in have]:
        return NotCopyable(f"it has no column for key {lacking[0]!r}")
    return staged


def _uploaded(column: Column, file_format: str, *, is_tap_s: bool = False) -> StagingColumn:
    """Return the staging column of a column in files of ours, in which the tap's JSON Lines have floats as numbers."""
    name, is_parquet = column.name, file_format == "parquet"
    if column.is_foreign:
        return StagingColumn(name, TEXT)
    match column.kind:
        case "TIMESTAMPTZ" if is_parquet:
            return StagingColumn(name, "TIMESTAMP", column, Change.UTC)
        case "TIMESTAMP" if not is_parquet:  # the text has a zone
            return StagingColumn(name, "TIMESTAMPTZ", column, Change.UTC)
        case "TIME":
            return StagingColumn(name, "VARCHAR(32)", column, Change.CAST)
        case "REAL" | "DOUBLE PRECISION" if file_format == "jsonl" and not is_tap_s:
            return StagingColumn(name, "VARCHAR(32)", column, Change.CAST)
        case "SUPER" if file_format != "jsonl":
            return StagingColumn(name, TEXT, column, Change.JSON)
        case "VARCHAR":
            return StagingColumn(name, TEXT, column)
        case "VARBYTE" if is_parquet:  # without a length it would take 64,000 bytes
            return StagingColumn(name, BYTES, column)
        case "VARBYTE":  # as digits, COPY would take none of them for null
            return StagingColumn(name, TEXT, column, Change.BASE64)
    return StagingColumn(name, ddl_type(column), column)


def _staged(t: pa.DataType, column: Column | None, name: str) -> StagingColumn | None:
    """Return the staging column for a file's column, if COPY takes it and no value is lost in the table's."""
    made = _copied(t)
    if made is None:
        return None
    if column is None:
        return StagingColumn(name, made)
    if made == TEXT:
        if column.kind == "SUPER":
            return None if column.is_quoted else StagingColumn(name, made, column, Change.JSON)
        return StagingColumn(name, made, column) if column.kind == "VARCHAR" else None
    if made == "TIMESTAMP":
        changes = {"TIMESTAMPTZ": Change.UTC, "TIMESTAMP": Change.NONE}
        return StagingColumn(name, made, column, changes[column.kind]) if column.kind in changes else None
    if made in (BYTES, "SUPER"):
        return StagingColumn(name, made, column) if made.startswith(column.kind) else None
    if made == ddl_type(column):
        return StagingColumn(name, made, column)
    return StagingColumn(name, made, column, Change.CAST) if _widens(t, column) else None


def _copied(t: pa.DataType) -> str | None:
    """Return the type that COPY takes a Parquet column into; None if there is none."""
    if t in _COPIED:
        return _COPIED[t]
    if pt.is_timestamp(t) and t.unit != "ns":
        return "TIMESTAMP"
    if pt.is_decimal128(t) and 0 <= t.scale <= min(t.precision, MAX_SCALE) and t.precision <= MAX_DIGITS:
        return f"DECIMAL({t.precision:d}, {t.scale:d})"
    return "SUPER" if (pt.is_struct(t) or pt.is_list(t)) and _is_plain_json(t) else None


_COPIED = {
    pa.int8(): "SMALLINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE PRECISION",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.string(): TEXT,
    pa.binary(): BYTES,
}


def _is_plain_json(t: pa.DataType) -> bool:
    """Return whether SERIALIZETOJSON writes the values as JSON has them: not dates, decimals, bytes and maps."""
    if pt.is_struct(t):
        return t.num_fields > 0 and all(_is_plain_json(f.type) for f in t)
    if pt.is_list(t):
        return _is_plain_json(t.value_type)
    return bool(pt.is_signed_integer(t) or pt.is_boolean(t) or pt.is_string(t) or pt.is_float64(t))


def _widens(t: pa.DataType, column: Column) -> bool:
    if column.kind == "DECIMAL" and column.precision is not None:
        scale = column.scale or 0
        whole = column.precision - scale
        if pt.is_signed_integer(t):
            return whole >= {8: 3, 16: 5, 32: 10, 64: 19}[t.bit_width]
        return bool(pt.is_decimal(t)) and scale >= t.scale and whole >= t.precision - t.scale
    if pt.is_signed_integer(t):
        bits = {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "REAL": 24, "DOUBLE PRECISION": 53}
        return bool(t.bit_width <= bits.get(column.kind, 0))
    return bool(pt.is_float32(t)) and column.kind == "DOUBLE PRECISION"


def _plain(t: pa.DataType) -> pa.DataType:
    """Return the type as Parquet stores it, whatever layout it had in memory."""
    if pt.is_dictionary(t):
        return _plain(t.value_type)
    if pt.is_large_string(t) or pt.is_string_view(t):
        return pa.string()
    if pt.is_large_binary(t) or pt.is_binary_view(t):
        return pa.binary()
    if pt.is_large_list(t):
        return pa.list_(_plain(t.value_type))
    return t


# NUL characters in text, which Redshift takes in no column: they are replaced, removed or refused. Pure.
#
# In JSON text a NUL is the escape `\u0000`.

NUL_REPLACE, NUL_REMOVE, NUL_FAIL = "replace", "remove", "fail"
NUL_CHOICES = (NUL_REPLACE, NUL_REMOVE, NUL_FAIL)
NUL_SYMBOL = "\u2400"
"""Replacement of a NUL: the symbol for it."""
_INSTEAD = {NUL_REPLACE: NUL_SYMBOL, NUL_REMOVE: ""}
_JSON_INSTEAD = {NUL_REPLACE: r"\\u2400", NUL_REMOVE: ""}
_ESCAPE = r"(^|[^\\])((?:\\\\)*)\\u0000"  # the escape, but not `\\u0000`, which is a backslash and some letters


def first_nul(array: pa.Array, *, is_json: bool = False) -> int | None:
    """Return the row of the first text with a NUL, from 0, or None if there is none."""
    has = _has(array, is_json=is_json)
    return pc.index(has, True).as_py() if pc.any(has).as_py() else None


def nul_count(array: pa.Array, *, is_json: bool = False) -> int:
    """Return the number of NULs in the texts."""
    if not is_json:
        return pc.sum(pc.count_substring(array, "\0")).as_py() or 0
    return (pc.sum(pc.count_substring(array, r"\u0000")).as_py() or 0) - (
        pc.sum(pc.count_substring(without_nuls(array, NUL_REPLACE, is_json=True), r"\u0000")).as_py() or 0
    )


def without_nuls(array: pa.Array, choice: str, *, is_json: bool = False) -> pa.Array:
    """Return the texts, or JSON, without NULs, which were replaced or removed by `choice`."""
    if not is_json:
        return pc.replace_substring(array, "\0", _INSTEAD[choice])
    while pc.any(_has(array, is_json=True)).as_py():  # of two escapes in a row, the second is seen after the first
        array = pc.replace_substring_regex(array, _ESCAPE, rf"\1\2{_JSON_INSTEAD[choice]}")
    return array


def _has(array: pa.Array, *, is_json: bool) -> pa.Array:
    if not is_json:
        return pc.match_substring(array, "\0")
    if not pc.any(pc.match_substring(array, r"\u0000")).as_py():
        return pa.repeat(pa.scalar(False), len(array))
    return pc.match_substring_regex(array, _ESCAPE)


# Texts that are too long for their VARCHAR column: they go into a SUPER column of the same row, whole. Pure.
#
# Redshift's SUPER takes strings of more than 65,535 bytes where the cluster's parameter `enable_large_strings_opt_in`
# allows it [r_enable_large_strings_opt_in].

LONG_TEXT_FAIL, SUPER, RESCUE = "fail", "super", "rescue"
LONG_TEXT_CHOICES = (LONG_TEXT_FAIL, SUPER, RESCUE)
LONG_TEXTS_COLUMN = "_sdc_long_text"
"""The column that rescued texts go into: an object from columns to texts; null where a row has none."""
_PLAIN_BYTES = 64  # more than a number, a time or a word takes in JSON


def split_long_texts(array: pa.Array, most: int) -> tuple[pa.Array, pa.Array]:
    """Split texts into those of at most so many bytes and longer ones; each is null in one of the two."""
    is_long = pc.fill_null(pc.greater(pc.binary_length(array), most), False)
    nothing = pa.scalar(None, array.type)
    return pc.if_else(is_long, nothing, array), pc.if_else(is_long, array, nothing)


def long_texts_as_json(rows: int, texts: Mapping[str, pa.Array]) -> pa.Array:
    """Return the JSON text of each row's long texts by column; null where a row has none."""
    found: dict[int, dict[str, str]] = {}
    for name, array in texts.items():
        for row in pc.indices_nonzero(array.is_valid()).to_pylist():
            found.setdefault(row, {})[name] = array[row].as_py()
    return pa.array([json_text(found[row]) if row in found else None for row in range(rows)], pa.string())


def json_bytes(batch: pa.RecordBatch, row: int, long: str) -> int:
    """Return the most bytes that a row takes in JSON Lines, with the JSON text of its long texts."""
    size = len(long.encode()) + len(LONG_TEXTS_COLUMN) + _PLAIN_BYTES
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        value = array[row].as_py()
        size += len(json_text(name)) + _PLAIN_BYTES
        if isinstance(value, bytes):
            size += -(-len(value) // 3) * 4
        elif isinstance(value, str):
            size += len(json_text(value).encode())
    return size


# Which column each property fills, and what becomes of one whose values do not fit the table's. Pure.
#
# Redshift alters the length of a VARCHAR and no other type. Another type would take a new column, an UPDATE of all
# rows, and the old column's end, under a lock that keeps readers out; views, grants, keys and the order of columns
# would not survive. So everything else goes into a variant column, which costs nothing.

_WORDS = {
    "SMALLINT": "integer",
    "INTEGER": "integer",
    "BIGINT": "integer",
    "DECIMAL": "decimal",
    "REAL": "float",
    "DOUBLE PRECISION": "float",
    "BOOLEAN": "boolean",
    "VARCHAR": "string",
    "VARBYTE": "binary",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMPTZ": "timestamp",
    "SUPER": "json",
}


@dataclass(frozen=True, slots=True)
class ColumnEvolution:
    """What may be done where values do not fit: whether there may be variants, and properties that have none."""

    evolves: bool = False
    keys: Collection[str] = ()


def columns_of(
    schema: pa.Schema,
    existing: Sequence[TableColumn] = (),
    *,
    varchar_max: int = MAX_VARCHAR,
    super_texts: Collection[str] = (),
    rescued_texts: Collection[str] | None = None,
    drift: ColumnEvolution | None = None,
) -> tuple[Column, ...]:
    """Return the columns of a stream's table, in the order of the schema.

    Where values fit, they have the names and types of the `existing` ones. `super_texts` are properties whose text new
    columns hold as SUPER, which has room for more; `rescued_texts` those whose texts go into the column of long texts
    when they are too long for their own, where that may be null; None if there is no such column. By default nothing
    may be done where values do not fit.
    """
    have = {e.name: e for e in existing}
    names = columns_named(schema.names, existing, RULES)
    taken, may = set(names.values()), drift or ColumnEvolution()
    columns = (column_of(f, names[f.name], varchar_max) for f in schema)
    placed = (_placed(c, schema.field(c.source), have, taken, may) for c in columns)
    made = tuple(
        in_super(c) if c.name not in have and c.source in super_texts and is_text(schema.field(c.source), c) else c
        for c in placed
    )
    if rescued_texts is not None:
        made = _with_long_texts(made, have, rescued_texts)
    if (count := len(have.keys() | {c.name for c in made})) > MAX_COLUMNS:
        msg = f"The table would have {count} columns, and Redshift takes {MAX_COLUMNS}; leave some out by selection"
        raise SchemaError(msg)
    return made


def _with_long_texts(
    columns: Sequence[Column], have: Mapping[str, TableColumn], rescued: Collection[str]
) -> tuple[Column, ...]:
    """Add the column for texts that are too long for theirs."""
    if taken := next((c for c in columns if c.name == LONG_TEXTS_COLUMN), None):
        raise SchemaError(
            f"Property {taken.source!r} has the name of the column that long_text: rescue puts long texts into; "
            "rename the property by stream_maps, or set long_text: fail"
        )
    holder = Column(LONG_TEXTS_COLUMN, LONG_TEXTS_COLUMN, "SUPER", pa.string(), holds_long_texts=True)
    if LONG_TEXTS_COLUMN in have and have[LONG_TEXTS_COLUMN].kind != "SUPER":
        raise type_conflict(LONG_TEXTS_COLUMN, have[LONG_TEXTS_COLUMN], holder)
    may_be_null = {c.name for c in columns if c.name not in have or have[c.name].nullable}
    marked = (
        replace(c, is_rescued=c.kind == "VARCHAR" and c.source in rescued and c.name in may_be_null) for c in columns
    )
    return (*marked, holder)


def _placed(
    column: Column, field: pa.Field, have: Mapping[str, TableColumn], taken: set[str], drift: ColumnEvolution
) -> Column:
    """Return the column that a property fills: the table's, the first variant that the values fit, or a new one.

    `taken` are those of other properties; nor is a column a variant that has the name but not the mark of one.
    """
    if column.name not in have:
        return column
    try:
        return fitted(column, field, have[column.name])
    except SchemaError:
        if not drift.evolves or column.source in drift.keys:
            raise
    for name in variant_names(column.name, _WORDS[column.kind], RULES):
        if name in taken or (name in have and have[name].variant_of != column.name):
            continue
        made = replace(column, name=name, variant_of=column.name)
        try:
            made = fitted(made, field, have[name]) if name in have else roomiest(made)
        except SchemaError:
            continue
        taken.add(name)
        return made
    raise AssertionError
