"""The names of types in settings, such as decimal(12,2). Pure."""

from __future__ import annotations

import re

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import ConfigError, nearest
from singer_arrow.schema.arrow_schema import is_json, json_field

_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(("string", "text", "utf8", "varchar", "interval"), pa.string()),
    **dict.fromkeys(("integer", "int", "bigint"), pa.int64()),
    **dict.fromkeys(("number", "float", "double"), pa.float64()),
    **dict.fromkeys(("boolean", "bool"), pa.bool_()),
    **dict.fromkeys(("timestamp", "datetime", "date-time"), pa.timestamp("us", "UTC")),
    "date": pa.date32(),
    **dict.fromkeys(("timestamp[us]", "timestamp[us, tz=utc]"), pa.timestamp("us", "UTC")),
    **dict.fromkeys(("timestamp[ns]", "timestamp[ns, tz=utc]"), pa.timestamp("ns", "UTC")),
    **dict.fromkeys(("time", "time[us]", "time64[us]"), pa.time64("us")),
    **dict.fromkeys(("time[ns]", "time64[ns]"), pa.time64("ns")),
    **dict.fromkeys(("binary", "bytes"), pa.binary()),
    "float32": pa.float32(),
    "float64": pa.float64(),
    **{f"{sign}int{bits}": pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_NAMES = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.null(): "string",
    pa.int64(): "integer",
    pa.float64(): "number",
    pa.bool_(): "boolean",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("ns", "UTC"): "timestamp[ns]",
    pa.time64("us"): "time",
    pa.time64("ns"): "time[ns]",
    pa.date32(): "date",
    pa.binary(): "binary",
    pa.float32(): "float32",
}
_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_MAX_DIGITS = 76


def parse_type(column: str, text: str) -> pa.Field:
    """Return the field for an entry of a stream's setting `schema`; ConfigError if there is no such type."""
    name = text.strip().lower()
    if name in ("json", "any"):
        return json_field(column)
    if name in _TYPES:
        return pa.field(column, _TYPES[name])
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= _MAX_DIGITS and scale <= precision:
            make = pa.decimal128 if precision <= 38 else pa.decimal256
            return pa.field(column, make(precision, scale))
    hint = nearest(name, _TYPES) or "; use string, integer, number, boolean, date, time, timestamp, decimal(p,s), ..."
    msg = f"The type {text!r} of column {column!r} in the setting 'schema' is unknown{hint}"
    raise ConfigError(msg)


def setting_type(field: pa.Field) -> str:
    """Return the name of a type in the setting `schema`; of types that it lacks, an Arrow name."""
    t = field.type
    if is_json(field):
        return "json"
    if pt.is_decimal(t):
        return f"decimal({t.precision},{t.scale})"
    if pt.is_struct(t):
        return "object"
    if pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t):
        return f"list of {setting_type(t.value_field)}"
    return _NAMES.get(t, str(t))
