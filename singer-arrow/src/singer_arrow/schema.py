"""Arrow schema <-> JSON Schema. Pure: no data, no I/O.

`from_json_schema(to_json_schema(s)) == canonical(s)` for every schema of supported types. Standard keywords say what
they can (`type`, `format`, `contentEncoding`, `multipleOf`), so that any Singer connector understands the schema; the
annotation `x-arrow-type` is added only where those leave the Arrow type open, and validators ignore it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import SchemaError

ANNOTATION = "x-arrow-type"
JSON_METADATA = {b"singer.json": b"true"}
UTC_MICROSECONDS = pa.timestamp("us", "UTC")
_TIME = pa.time64("us")
_ANY = ["string", "number", "integer", "boolean", "object", "array"]
_SIMPLE: dict[str, pa.DataType] = {
    str(t): t
    for t in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.null(), pa.date32()),
        *(pa.timestamp("ns", "UTC"), UTC_MICROSECONDS, pa.time64("ns"), _TIME),
    )
}
_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
_DIGITS_OF_128, _MOST_DIGITS = 38, 76
_DECIMAL_DIGITS_TO_VALIDATE = 28  # Python's decimal context: a validator's `%` fails on more
_SINGER_DECIMALS = ("singer.decimal", "x-singer.decimal")  # both are words of the SDK
_FORMATS = {"date-time": UTC_MICROSECONDS, "date": pa.date32(), "time": _TIME}


def json_field(name: str) -> pa.Field:
    """A column that holds any JSON value, as its text."""
    return pa.field(name, pa.string(), metadata=JSON_METADATA)


def is_json(field: pa.Field) -> bool:
    """Whether a column holds JSON text."""
    return (field.metadata or {}).get(b"singer.json") == b"true"


def canonical(schema: pa.Schema) -> pa.Schema:
    """The schema in the types that all connectors of this project exchange.

    Every value keeps its meaning: dictionaries become their values, large and view layouts their plain ones,
    seconds and milliseconds microseconds, any zone UTC, timestamps without a zone are taken as UTC, durations
    become their integers, maps with keys other than text lists of key and value, decimals that end before the point
    or begin far behind it get digits up to it, objects without members JSON text. All fields may be null.

    Raises:
        SchemaError: A type has no counterpart (unions, month intervals, decimals of more than 76 digits), or a
            column's name stands twice.
    """
    return pa.schema(_canonical_fields(schema))


def _canonical_fields(fields: Iterable[pa.Field], path: str = "") -> list[pa.Field]:
    found: dict[str, pa.Field] = {}
    for field in fields:
        if field.name in found:
            msg = f"Column {path + field.name!r} stands twice; rename one of them at the source"
            raise SchemaError(msg)
        found[field.name] = _canonical_field(field, path)
    return list(found.values())


def _canonical_field(field: pa.Field, path: str = "") -> pa.Field:
    t = None if is_json(field) else _canonical_type(field.type, path + field.name)
    return json_field(field.name) if t is None else pa.field(field.name, t)


def _canonical_type(t: pa.DataType, name: str) -> pa.DataType | None:
    """The type; None for JSON text."""
    if str(t) in _SIMPLE:
        return t
    if isinstance(t, pa.BaseExtensionType):
        return None if t.extension_name == "arrow.json" else _canonical_type(t.storage_type, name)
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return _canonical_type(t.value_type, name)
    if pt.is_decimal(t):
        return _canonical_decimal(t, name)
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
        return _canonical_map(t, name)
    if (
        pt.is_list(t)
        or pt.is_large_list(t)
        or pt.is_fixed_size_list(t)
        or pt.is_list_view(t)
        or pt.is_large_list_view(t)
    ):
        item = _canonical_field(t.value_field.with_name(name))
        return None if is_json(item) else pa.list_(item.type)
    msg = f"Column {name!r} is of type {t}, which has no counterpart in JSON; leave it out by selection"
    raise SchemaError(msg)


def _canonical_map(t: pa.DataType, name: str) -> pa.DataType | None:
    key, value = _canonical_field(pa.field(name, t.key_type)), _canonical_field(t.item_field.with_name(name))
    if key.type == pa.string() and not is_json(key):
        return None if is_json(value) else pa.map_(pa.string(), value.type)
    return pa.list_(pa.struct([key.with_name("key"), value.with_name("value")]))


def _canonical_decimal(t: pa.DataType, name: str) -> pa.DataType:
    """The decimal type of the same values that has a scale as SQL and Parquet know it: from 0 to the precision."""
    scale = max(t.scale, 0)
    precision = max(t.precision - min(t.scale, 0), scale)
    if precision > _MOST_DIGITS:
        msg = f"Column {name!r} is of type {t}, whose values may have {precision} digits; leave it out by selection"
        raise SchemaError(msg)
    if pt.is_decimal256(t) or precision > _DIGITS_OF_128:
        return pa.decimal256(precision, scale)
    return pa.decimal128(precision, scale)


def to_json_schema(schema: pa.Schema, *, keys: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON Schema of a stream's records; the columns in `keys` may not be null.

    Raises:
        SchemaError: As `canonical` does.
    """
    properties = {f.name: _property(f) for f in canonical(schema)}
    for key in set(keys) & set(properties):
        properties[key]["type"] = [t for t in properties[key]["type"] if t != "null"]
    return {"type": "object", "properties": properties}


def _property(field: pa.Field) -> dict[str, Any]:
    if is_json(field):
        return {"type": [*_ANY, "null"], ANNOTATION: "json"}
    return _describe(field.type)


def _describe(t: pa.DataType) -> dict[str, Any]:
    if pt.is_struct(t):
        return {"type": ["object", "null"], "properties": {f.name: _property(f) for f in t}}
    if pt.is_map(t):
        return {"type": ["object", "null"], "additionalProperties": _describe(t.item_type)}
    if pt.is_list(t):
        return {"type": ["array", "null"], "items": _describe(t.value_type)}
    described, plain = _scalar(t)
    return {**described, **({} if plain == t else {ANNOTATION: str(t)})}


def _scalar(t: pa.DataType) -> tuple[dict[str, Any], pa.DataType]:
    """The standard keywords for a type, and the type that they alone would be read as."""
    if pt.is_integer(t):
        return {"type": ["integer", "null"]}, pa.int64()
    if pt.is_floating(t):
        return {"type": ["number", "null"]}, pa.float64()
    if pt.is_decimal(t):
        if t.scale == 0:
            return {"type": ["integer", "null"]}, pa.int64()
        exact = (
            {"multipleOf": float(f"1e-{t.scale}")} if t.scale > 0 and t.precision <= _DECIMAL_DIGITS_TO_VALIDATE else {}
        )
        return {"type": ["number", "null"], **exact}, pa.float64()
    if pt.is_boolean(t):
        return {"type": ["boolean", "null"]}, t
    if pt.is_binary(t):
        return {"type": ["string", "null"], "contentEncoding": "base64"}, t
    for name, plain in _FORMATS.items():
        if t.id == plain.id:
            return {"type": ["string", "null"], "format": name}, plain
    return {"type": ["string", "null"]}, pa.string()


def from_json_schema(schema: Mapping[str, Any]) -> pa.Schema:
    """The Arrow schema of a stream's records, for schemas of any Singer tap.

    What JSON Schema leaves open (free objects, mixed nested kinds, no type) becomes a column of JSON text; mixed scalar
    kinds become text; integers are int64 unless their bounds say more; `multipleOf` makes an exact decimal.

    Raises:
        SchemaError: There are no properties, or an annotation is unknown.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        msg = "The schema has no properties; a stream needs at least one column"
        raise SchemaError(msg)
    return pa.schema([_field(name, prop) for name, prop in properties.items()])


def _field(name: str, prop: Any) -> pa.Field:
    t = _read(prop if isinstance(prop, Mapping) else {}, name)
    return json_field(name) if t is None else pa.field(name, t)


def _read(prop: Mapping[str, Any], name: str) -> pa.DataType | None:
    """The type of a property; None for JSON text."""
    if ANNOTATION in prop:
        return _annotated(str(prop[ANNOTATION]), name)
    if branches := prop.get("anyOf") or prop.get("oneOf"):
        return _union([b for b in branches if isinstance(b, Mapping) and b.get("type") not in ("null", ["null"])], name)
    kinds = _kinds(prop)
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) > 1:
        return None if kinds & {"object", "array"} else pa.string()
    match next(iter(kinds), None):
        case "integer":
            return _integer(prop)
        case "number":
            return _number(prop)
        case "boolean":
            return pa.bool_()
        case "string":
            return _string(prop, name)
        case "array":
            return _array(prop, name)
        case "object":
            return _object(prop, name)
    return None


def _kinds(prop: Mapping[str, Any]) -> set[str]:
    given = prop.get("type")
    if given is None:
        return {"object"} if "properties" in prop else {"array"} if "items" in prop else set()
    return {given} - {"null"} if isinstance(given, str) else {str(k) for k in given} - {"null"}


def _annotated(text: str, name: str) -> pa.DataType | None:
    if text == "json":
        return None
    if text in _SIMPLE:
        return _SIMPLE[text]
    if match := _DECIMAL.fullmatch(text):
        make = pa.decimal128 if match[1] == "128" else pa.decimal256
        return make(int(match[2]), int(match[3]))
    msg = f"Column {name!r} has {ANNOTATION} {text!r}, which is no known type; remove it from the catalog"
    raise SchemaError(msg)


def _union(branches: list[Mapping[str, Any]], name: str) -> pa.DataType | None:
    fields = [_field(name, b) for b in branches]
    if not fields:
        return None
    merged = fields[0]
    for other in fields[1:]:
        merged = merge_fields(merged, other)
    return None if is_json(merged) else merged.type


def _integer(prop: Mapping[str, Any]) -> pa.DataType:
    low, high = prop.get("minimum", -1), prop.get("maximum", 0)
    if high < 2**63 and low >= -(2**63):
        return pa.int64()
    return pa.uint64() if low >= 0 and high < 2**64 else pa.decimal128(38, 0)


def _number(prop: Mapping[str, Any]) -> pa.DataType:
    step = prop.get("multipleOf")
    if not step:
        return pa.float64()
    scale = max(0, -int(Decimal(str(step)).normalize().as_tuple().exponent))
    scale = min(scale, _DIGITS_OF_128)
    return pa.decimal128(38, scale) if scale <= 9 else pa.decimal256(_DIGITS_OF_128 + scale, scale)


def _string(prop: Mapping[str, Any], name: str) -> pa.DataType:
    if prop.get("contentEncoding") == "base64":
        return pa.binary()
    if prop.get("format") in _SINGER_DECIMALS:
        return _singer_decimal(prop, name)
    return _FORMATS.get(prop.get("format", ""), pa.string())


def _singer_decimal(prop: Mapping[str, Any], name: str) -> pa.DataType:
    """What the SDK calls a decimal in a text: where it says no digits, 38 with 9 of them behind the point."""
    given = [prop.get("precision"), prop.get("scale")]
    if any(isinstance(n, bool) or not isinstance(n, int | None) for n in given):
        msg = f"Column {name!r}: 'precision' and 'scale' of its decimals must be numbers of digits; mend it in the tap"
        raise SchemaError(msg)
    precision, scale = given
    if scale is None:
        precision, scale = min((precision or _DIGITS_OF_128) + 9, _DIGITS_OF_128), 9
    before = max((precision or _DIGITS_OF_128) - scale, 0)
    digits = max(before + max(scale, 0), 1)
    if digits > _MOST_DIGITS:
        msg = (
            f"Column {name!r} has decimals of {digits} digits, and {_MOST_DIGITS} are the most; make it text in the tap"
        )
        raise SchemaError(msg)
    return (pa.decimal128 if digits <= _DIGITS_OF_128 else pa.decimal256)(digits, max(scale, 0))


def _array(prop: Mapping[str, Any], name: str) -> pa.DataType | None:
    items = prop.get("items")
    if not isinstance(items, Mapping):
        return None
    inner = _read(items, name)
    return None if inner is None else pa.list_(inner)


def _object(prop: Mapping[str, Any], name: str) -> pa.DataType | None:
    if properties := prop.get("properties"):
        return pa.struct([_field(f"{n}", p) for n, p in properties.items()])
    values = prop.get("additionalProperties")
    if isinstance(values, Mapping) and (inner := _read(values, name)) is not None:
        return pa.map_(pa.string(), inner)
    return None


def merge_schemas(a: pa.Schema, b: pa.Schema) -> pa.Schema:
    """The schema that holds the rows of both without loss: a's columns in order, then those that only b has.

    Integers widen, integer with float is float64, decimals get the digits of both, date with timestamp is a timestamp,
    an all-null column gives way. Kinds that share no number, and decimals of more than 76 digits, are text; nested
    with anything else is JSON text.
    """
    ours = {f.name: f for f in a}
    for field in b:
        ours[field.name] = merge_fields(ours[field.name], field) if field.name in ours else field
    return pa.schema(list(ours.values()))


def merge_all(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """`merge_schemas` over all; an empty schema if there are none."""
    merged = pa.schema([])
    for schema in schemas:
        merged = merge_schemas(merged, schema)
    return merged


def merge_fields(a: pa.Field, b: pa.Field) -> pa.Field:
    """The field that holds the values of both; named as `a`."""
    if pt.is_null(b.type):
        return a
    if pt.is_null(a.type):
        return b.with_name(a.name)
    if is_json(a) or is_json(b):
        return json_field(a.name)
    merged = _merge_types(a.type, b.type)
    return json_field(a.name) if merged is None else pa.field(a.name, merged)


def _merge_types(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if a == b:
        return a
    if pt.is_struct(a) and pt.is_struct(b):
        return pa.struct(list(merge_schemas(pa.schema(list(a)), pa.schema(list(b)))))
    if (pt.is_list(a) and pt.is_list(b)) or (pt.is_map(a) and pt.is_map(b)):
        inner = merge_fields(_inner(a), _inner(b))
        if is_json(inner):
            return None
        return pa.list_(inner.type) if pt.is_list(a) else pa.map_(pa.string(), inner.type)
    if pt.is_nested(a) or pt.is_nested(b):
        return None
    if _is_number(a) and _is_number(b):
        return _merge_numbers(a, b)
    if pt.is_temporal(a) and pt.is_temporal(b) and not (pt.is_time(a) or pt.is_time(b)):
        return pa.timestamp("ns" if "ns" in (getattr(a, "unit", ""), getattr(b, "unit", "")) else "us", "UTC")
    if pt.is_time(a) and pt.is_time(b):
        return pa.time64("ns")
    return pa.string()


def _inner(t: pa.DataType) -> pa.Field:
    return pa.field("item", t.value_type if pt.is_list(t) else t.item_type)


def _is_number(t: pa.DataType) -> bool:
    return bool(pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t))


def _merge_numbers(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pt.is_floating(a) and pt.is_floating(b):
        return a if a.bit_width >= b.bit_width else b
    if pt.is_floating(a) or pt.is_floating(b):
        return pa.float64()
    if pt.is_integer(a) and pt.is_integer(b):
        if pt.is_signed_integer(a) == pt.is_signed_integer(b):
            return a if a.bit_width >= b.bit_width else b
        signed, unsigned = (a, b) if pt.is_signed_integer(a) else (b, a)
        width = max(signed.bit_width, unsigned.bit_width * 2)
        return pa.decimal128(20, 0) if width > 64 else _SIMPLE[f"int{width}"]
    (before_a, scale_a), (before_b, scale_b) = _digits(a), _digits(b)
    scale = max(scale_a, scale_b)
    precision = max(before_a, before_b) + scale
    if precision > _MOST_DIGITS:
        return pa.string()
    return pa.decimal128(precision, scale) if precision <= _DIGITS_OF_128 else pa.decimal256(precision, scale)


def _digits(t: pa.DataType) -> tuple[int, int]:
    """Digits before and after the decimal point."""
    if pt.is_decimal(t):
        return t.precision - t.scale, t.scale
    return len(str(2 ** (t.bit_width - pt.is_signed_integer(t)))), 0
