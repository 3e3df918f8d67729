"""Arrow schemas: merged, compared, checked; names of types."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import ConfigError, SchemaError, nearest

# Canonical Arrow schemas of all connectors, and merging of schemas. Pure.

JSON_METADATA = {b"singer.json": b"true"}
OPEN_METADATA = {b"singer.open": b"true"}
JSON_EXTENSION = "arrow.json"
"""Extension name of Arrow's JSON columns."""
VARIANT = "arrow.parquet.variant"
"""Extension name of VARIANT columns."""
WKB = "geoarrow.wkb"
"""Extension name of GEOMETRY and GEOGRAPHY columns."""
UTC_MICROSECONDS = pa.timestamp("us", "UTC")
MICROSECONDS = pa.time64("us")
DIGITS_OF_128, MOST_DIGITS = 38, 76
SIMPLE: dict[str, pa.DataType] = {
    str(t): t
    for t in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.null(), pa.date32()),
        *(pa.timestamp("ns", "UTC"), UTC_MICROSECONDS, pa.time64("ns"), MICROSECONDS),
    )
}
"""Canonical types by name, without decimals and nested types."""


_LISTS = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)


def json_field(name: str) -> pa.Field:
    """Return a field for JSON text of any value."""
    return pa.field(name, pa.string(), metadata=JSON_METADATA)


def is_json(field: pa.Field) -> bool:
    """Return whether a field holds JSON text."""
    return (field.metadata or {}).get(b"singer.json") == b"true"


def is_open(field: pa.Field) -> bool:
    """Return whether the SCHEMA lets an object have members beside those of the field's struct."""
    return (field.metadata or {}).get(b"singer.open") == b"true"


def canonical(schema: pa.Schema) -> pa.Schema:
    """Return the schema in canonical types, which preserve the meaning of every value.

    Dictionaries become their values, `arrow.bool8` booleans, large and view layouts their plain ones, seconds and
    milliseconds microseconds, any zone UTC, timestamps without a zone are taken as UTC, durations become their
    integers, maps with keys other than text lists of key and value, decimals that end before the point or begin far
    behind it get digits up to it, objects without members and VARIANT JSON text, geometries their well-known text. All
    fields may be null.

    Raises:
        SchemaError: A type has no counterpart (unions, month intervals, decimals of more than 76 digits), or a column
            name is not unique.
    """
    return pa.schema(_canonical_fields(schema))


def _canonical_fields(fields: Iterable[pa.Field], path: str = "") -> list[pa.Field]:
    found: dict[str, pa.Field] = {}
    for field in fields:
        if field.name in found:
            raise SchemaError(f"Column {path + field.name!r} occurs twice; rename one of them at the source")
        found[field.name] = _canonical_field(field, path)
    return list(found.values())


def _canonical_field(field: pa.Field, path: str = "") -> pa.Field:
    t = None if is_json(field) else _canonical_type(field.type, path + field.name)
    return json_field(field.name) if t is None else pa.field(field.name, t)


def _canonical_type(t: pa.DataType, name: str) -> pa.DataType | None:
    """Return the canonical type; None for JSON text."""
    if str(t) in SIMPLE:
        return t
    if isinstance(t, pa.BaseExtensionType):
        if t.extension_name == WKB:
            return pa.string()
        if t.extension_name == "arrow.bool8":
            return pa.bool_()
        return None if t.extension_name in (JSON_EXTENSION, VARIANT) else _canonical_type(t.storage_type, name)
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return _canonical_type(t.value_type, name)
    if pt.is_decimal(t):
        # The same values with a scale from 0 to the precision, as in SQL and Parquet.
        scale = max(t.scale, 0)
        precision = max(t.precision - min(t.scale, 0), scale)
        if precision > MOST_DIGITS:
            msg = f"Column {name!r} is of type {t}, whose values may have {precision} digits; leave it out by selection"
            raise SchemaError(msg)
        is_wide = pt.is_decimal256(t) or precision > DIGITS_OF_128
        return pa.decimal256(precision, scale) if is_wide else pa.decimal128(precision, scale)
    if pt.is_large_string(t) or pt.is_string_view(t):
        return pa.string()
    if pt.is_large_binary(t) or pt.is_fixed_size_binary(t) or pt.is_binary_view(t):
        return pa.binary()
    if pt.is_timestamp(t):
        return pa.timestamp("ns" if t.unit == "ns" else "us", "UTC")
    if pt.is_date(t):
        return pa.date32()
    if pt.is_time(t):
        return pa.time64("ns" if t.unit == "ns" else "us")
    if pt.is_duration(t):
        return pa.int64()
    if pt.is_struct(t):
        return pa.struct(_canonical_fields(t, f"{name}.")) if t.num_fields else None
    if pt.is_map(t):
        key, value = _canonical_field(pa.field(name, t.key_type)), _canonical_field(t.item_field.with_name(name))
        if key.type == pa.string() and not is_json(key):
            return None if is_json(value) else pa.map_(pa.string(), value.type)
        return pa.list_(pa.struct([key.with_name("key"), value.with_name("value")]))
    if any(is_kind(t) for is_kind in _LISTS):
        item = _canonical_field(t.value_field.with_name(name))
        return None if is_json(item) else pa.list_(item.type)
    raise SchemaError(f"Column {name!r} is of type {t}, which has no counterpart in JSON; leave it out by selection")


def merge_schemas(a: pa.Schema, b: pa.Schema, *, exact: bool = False) -> pa.Schema:
    """Return the schema that holds the rows of both without loss: columns of `a` in order, then new ones of `b`.

    Integers widen, integer with float is float64, decimals get the digits of both, date with timestamp is a timestamp,
    the null type gives way. Other combinations, and decimals of more than 76 digits, are text; nested types with
    other types are JSON text. A float64 does not hold integers and decimals of more digits: with `exact` these are text
    together with floats.
    """
    ours = {f.name: f for f in a}
    for field in b:
        ours[field.name] = merge_fields(ours[field.name], field, exact=exact) if field.name in ours else field
    return pa.schema(list(ours.values()))


def merge_all(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Merge all schemas by `merge_schemas`; an empty schema if there are none."""
    merged = pa.schema([])
    for schema in schemas:
        merged = merge_schemas(merged, schema)
    return merged


def merge_fields(a: pa.Field, b: pa.Field, *, exact: bool = False) -> pa.Field:
    """Return the field that holds the values of both, with the name of `a`; `exact`: see `merge_schemas`."""
    if pt.is_null(b.type):
        return a
    if pt.is_null(a.type):
        return b.with_name(a.name)
    if is_json(a) or is_json(b):
        return json_field(a.name)
    merged = _merge_types(a.type, b.type, exact=exact)
    return json_field(a.name) if merged is None else pa.field(a.name, merged)


def _merge_types(a: pa.DataType, b: pa.DataType, *, exact: bool) -> pa.DataType | None:
    if a == b:
        return a
    if pt.is_struct(a) and pt.is_struct(b):
        return pa.struct(list(merge_schemas(pa.schema(list(a)), pa.schema(list(b)), exact=exact)))
    if (pt.is_list(a) and pt.is_list(b)) or (pt.is_map(a) and pt.is_map(b)):
        inner = merge_fields(_inner(a), _inner(b), exact=exact)
        if is_json(inner):
            return None
        return pa.list_(inner.type) if pt.is_list(a) else pa.map_(pa.string(), inner.type)
    if pt.is_nested(a) or pt.is_nested(b):
        return None
    if all(pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t) for t in (a, b)):
        return _merge_numbers(a, b, exact=exact)
    if pt.is_temporal(a) and pt.is_temporal(b) and not (pt.is_time(a) or pt.is_time(b)):
        return pa.timestamp("ns" if "ns" in (getattr(a, "unit", ""), getattr(b, "unit", "")) else "us", "UTC")
    if pt.is_time(a) and pt.is_time(b):
        return pa.time64("ns")
    return pa.string()


def _inner(t: pa.DataType) -> pa.Field:
    return pa.field("item", t.value_type if pt.is_list(t) else t.item_type)


def _merge_numbers(a: pa.DataType, b: pa.DataType, *, exact: bool) -> pa.DataType:
    if pt.is_floating(a) and pt.is_floating(b):
        return a if a.bit_width >= b.bit_width else b
    if pt.is_floating(a) or pt.is_floating(b):
        other = b if pt.is_floating(a) else a
        return pa.string() if exact and not (pt.is_integer(other) and other.bit_width <= 32) else pa.float64()
    if pt.is_integer(a) and pt.is_integer(b):
        if pt.is_signed_integer(a) == pt.is_signed_integer(b):
            return a if a.bit_width >= b.bit_width else b
        signed, unsigned = (a, b) if pt.is_signed_integer(a) else (b, a)
        width = max(signed.bit_width, unsigned.bit_width * 2)
        return pa.decimal128(20, 0) if width > 64 else SIMPLE[f"int{width}"]
    (before_a, scale_a), (before_b, scale_b) = _digits(a), _digits(b)
    scale = max(scale_a, scale_b)
    precision = max(before_a, before_b) + scale
    if precision > MOST_DIGITS:
        return pa.string()
    return pa.decimal128(precision, scale) if precision <= DIGITS_OF_128 else pa.decimal256(precision, scale)


def _digits(t: pa.DataType) -> tuple[int, int]:
    """Return the digits before and after the decimal point."""
    if pt.is_decimal(t):
        return t.precision - t.scale, t.scale
    return len(str(2 ** (t.bit_width - pt.is_signed_integer(t)))), 0


# The names of types in settings, such as decimal(12,2). Pure.

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


def parse_type(column: str, text: str) -> pa.Field:
    """Return the field for an entry of a stream's setting `schema`; ConfigError if there is no such type."""
    name = text.strip().lower()
    if name in ("json", "any"):
        return json_field(column)
    if name in _TYPES:
        return pa.field(column, _TYPES[name])
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= MOST_DIGITS and scale <= precision:
            make = pa.decimal128 if precision <= 38 else pa.decimal256
            return pa.field(column, make(precision, scale))
    hint = nearest(name, _TYPES) or "; use string, integer, number, boolean, date, time, timestamp, decimal(p,s), ..."
    raise ConfigError(f"The type {text!r} of column {column!r} in the setting 'schema' is unknown{hint}")


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
