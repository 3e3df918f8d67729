"""Arrow schema <-> JSON Schema."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import SchemaError
from singer_arrow.schema.arrow_schema import (
    DIGITS_OF_128,
    MICROSECONDS,
    MOST_DIGITS,
    OPEN_METADATA,
    SIMPLE,
    UTC_MICROSECONDS,
    canonical,
    is_json,
    json_field,
    merge_fields,
)

# Arrow schema <-> JSON Schema. Pure: no data, no I/O.
#
# `from_json_schema(to_json_schema(s)) == canonical(s)` for every schema of supported types. Standard keywords (`type`,
# `format`, `contentEncoding`, `multipleOf`) are used wherever possible, so that any Singer connector understands the
# schema; the annotation `x-arrow-type` is added only where they do not determine the type. Validators ignore it.

ANNOTATION = "x-arrow-type"
_ANY = ["string", "number", "integer", "boolean", "object", "array"]
_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
_DECIMAL_DIGITS_TO_VALIDATE = 28  # of Python's decimal context, beyond which a validator's `%` fails
_INT64_DIGITS = 18
"""Whole numbers of more digits may exceed what targets use for `integer`, such as PostgreSQL's bigint."""
_NUMERIC_WHOLE_DIGITS, _NUMERIC_SCALE = 29, 9  # of BigQuery's NUMERIC
_SINGER_DECIMALS = ("singer.decimal", "x-singer.decimal")  # both occur in the SDK
_FORMATS = {"date-time": UTC_MICROSECONDS, "date": pa.date32(), "time": MICROSECONDS}


def to_json_schema(schema: pa.Schema, *, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON Schema of a stream's records; the columns in `keys` are not nullable.

    Raises:
        SchemaError: See `canonical`.
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
    """Return the standard keywords for a type, and the type that they alone represent."""
    if pt.is_uint64(t) or (pt.is_decimal(t) and t.scale == 0 and t.precision > _INT64_DIGITS):
        return {"type": ["number", "null"], "multipleOf": 1}, pa.decimal128(DIGITS_OF_128, 0)
    if pt.is_integer(t) or (pt.is_decimal(t) and t.scale == 0):
        return {"type": ["integer", "null"]}, pa.int64()
    if pt.is_floating(t):
        return {"type": ["number", "null"]}, pa.float64()
    if pt.is_decimal(t):
        exact = {"multipleOf": float(f"1e-{t.scale}")} if t.precision <= _DECIMAL_DIGITS_TO_VALIDATE else {}
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
    """Return the Arrow schema of a stream's records, for the SCHEMA of any Singer tap.

    Properties without a definite type (free objects, mixed nested types, no type) become JSON text; mixed scalar types
    become text; integers are int64 unless their bounds exceed it; `multipleOf` makes an exact decimal. Structs whose
    objects may have more members are `is_open`.

    Raises:
        SchemaError: There are no properties, or an annotation is unknown.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise SchemaError("The schema has no properties; a stream needs at least one column")
    return pa.schema([_field(name, prop) for name, prop in properties.items()])


def _field(name: str, prop: Any) -> pa.Field:
    t = _read(prop if isinstance(prop, Mapping) else {}, name)
    if t is None:
        return json_field(name)
    return pa.field(name, t, metadata=OPEN_METADATA if pt.is_struct(t) and _is_open(prop) else None)


def _is_open(prop: Any) -> bool:
    """Return whether objects may have members that are no properties; if a keyword allows it."""
    if not isinstance(prop, Mapping):
        return False
    branches = [*(prop.get("anyOf") or ()), *(prop.get("oneOf") or ())]
    rest = prop.get("additionalProperties", False)
    return bool(rest) or rest == {} or bool(prop.get("patternProperties")) or any(map(_is_open, branches))


def _read(prop: Mapping[str, Any], name: str) -> pa.DataType | None:
    """Return the type of a property; None for JSON text."""
    if ANNOTATION in prop:
        text = str(prop[ANNOTATION])
        if text == "json" or text in SIMPLE:
            return SIMPLE.get(text)
        if match := _DECIMAL.fullmatch(text):
            make = pa.decimal128 if match[1] == "128" else pa.decimal256
            return make(int(match[2]), int(match[3]))
        msg = f"Column {name!r} has {ANNOTATION} {text!r}, which is not a known type; remove it from the catalog"
        raise SchemaError(msg)
    if branches := prop.get("anyOf") or prop.get("oneOf"):
        given = [b for b in branches if isinstance(b, Mapping) and b.get("type") not in ("null", ["null"])]
        merged = reduce(merge_fields, [_field(name, b) for b in given]) if given else json_field(name)
        return None if is_json(merged) else merged.type
    given_kinds = prop.get("type")
    if given_kinds is None:
        kinds = {"object"} if "properties" in prop else {"array"} if "items" in prop else set()
    else:
        kinds = {given_kinds} if isinstance(given_kinds, str) else {str(kind) for kind in given_kinds}
    kinds.discard("null")
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) > 1:
        return None if kinds & {"object", "array"} else pa.string()
    match next(iter(kinds), None):
        case "integer":
            low, high = whole_limits(prop)
            if (high or 0) < 2**63 and (low or 0) >= -(2**63):
                return pa.int64()
            return pa.uint64() if low is not None and low >= 0 and (high or 0) < 2**64 else _decimal(prop, 0)
        case "number":
            if not (step := finite(prop.get("multipleOf"))):
                return pa.float64()
            return _decimal(prop, min(max(0, -int(step.normalize().as_tuple().exponent)), DIGITS_OF_128))
        case "boolean":
            return pa.bool_()
        case "string":
            if prop.get("contentEncoding") == "base64":
                return pa.binary()
            if prop.get("format") in _SINGER_DECIMALS:
                return _singer_decimal(prop, name)
            return _FORMATS.get(prop.get("format", ""), pa.string())
        case "array":
            items = prop.get("items")
            if not isinstance(items, Mapping) or "prefixItems" in prop:
                return None
            item = _field(name, items).with_name("item")
            return None if is_json(item) else pa.list_(item)
        case "object":
            if properties := prop.get("properties"):
                return pa.struct([_field(f"{n}", p) for n, p in properties.items()])
            values = prop.get("additionalProperties")
            if isinstance(values, Mapping) and (inner := _read(values, name)) is not None:
                return pa.map_(pa.string(), inner)
    return None


def _decimal(prop: Mapping[str, Any], scale: int) -> pa.DataType:
    """Return the widest decimal type of a scale among those of the warehouses that fit the bounds."""
    low, high = whole_limits(prop)
    if low is None and high is not None and high > 0 and scale > _NUMERIC_SCALE:
        low = -high  # otherwise the column would be text
    if low is None or high is None:
        return (
            pa.decimal128(DIGITS_OF_128, scale)
            if scale <= _NUMERIC_SCALE
            else pa.decimal256(DIGITS_OF_128 + scale, scale)
        )
    whole = len(str(max(abs(low), abs(high))))
    if whole <= _NUMERIC_WHOLE_DIGITS and scale <= _NUMERIC_SCALE:
        return pa.decimal128(_NUMERIC_WHOLE_DIGITS + scale, scale)
    if whole + scale <= DIGITS_OF_128:
        return pa.decimal128(DIGITS_OF_128, scale)
    return pa.decimal256(min(max(whole, DIGITS_OF_128) + scale, MOST_DIGITS), scale)


def _digits(number: Any, least: int) -> int | None:
    """Parse a number of digits, which some taps write as text; ValueError if it is invalid."""
    if number is None:
        return None
    digits = int(str(number).removesuffix(".0"))
    if digits < least:
        raise ValueError
    return digits


def _singer_decimal(prop: Mapping[str, Any], name: str) -> pa.DataType:
    """Return the type of the SDK's decimals in text; by default 38 digits, 9 of them after the point."""
    try:
        precision, scale = _digits(prop.get("precision"), 0), _digits(prop.get("scale"), -MOST_DIGITS)
    except ValueError:
        msg = f"Column {name!r}: 'precision' and 'scale' of its decimals must be numbers of digits; correct the tap"
        raise SchemaError(msg) from None
    if scale is None:
        precision, scale = min((precision or DIGITS_OF_128) + 9, DIGITS_OF_128), 9
    before = max((precision or DIGITS_OF_128) - scale, 0)
    digits = max(before + max(scale, 0), 1)
    if digits > MOST_DIGITS:
        raise SchemaError(
            f"Column {name!r} has decimals of {digits} digits, and {MOST_DIGITS} are the most; make it text in the tap"
        )
    return (pa.decimal128 if digits <= DIGITS_OF_128 else pa.decimal256)(digits, max(scale, 0))


_LARGEST_EXPONENT = 400  # maximum exponent of a bound; all columns have fewer digits


def finite(value: Any) -> Decimal | None:
    """Return a number as a Decimal; None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() and number.adjusted() <= _LARGEST_EXPONENT else None


def whole_limits(prop: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the smallest and largest whole number within the bounds; None if unbounded.

    Draft 4's `exclusiveMaximum: true` excludes `maximum` itself.
    """
    low, above = _bound(prop, "minimum", "exclusiveMinimum")
    high, below = _bound(prop, "maximum", "exclusiveMaximum")
    lows = [*([] if low is None else [math.ceil(low)]), *([] if above is None else [math.floor(above) + 1])]
    highs = [*([] if high is None else [math.floor(high)]), *([] if below is None else [math.ceil(below) - 1])]
    return max(lows, default=None), min(highs, default=None)


def _bound(prop: Mapping[str, Any], inclusive: str, exclusive: str) -> tuple[Decimal | None, Decimal | None]:
    bound = finite(prop.get(inclusive))
    return (None, bound) if prop.get(exclusive) is True else (bound, finite(prop.get(exclusive)))


# Conversion of the Decimals in parsed JSON, which the SDK uses for numbers with a point or an exponent. Pure.

_LARGEST_PLAIN_EXPONENT = 308


def plain_numbers(value: Any) -> Any:
    """Return parsed JSON with ints and floats instead of Decimals, except those that neither represents exactly."""
    return _converted(value, _plain)


def whole_numbers(value: Any) -> Any:
    """Return parsed JSON with ints instead of Decimals without a fraction."""
    return _converted(value, _whole)


def _plain(number: Decimal) -> int | float | Decimal:
    whole = _whole(number)
    near = float(number)
    return whole if isinstance(whole, int) else near if Decimal(repr(near)) == number else number


def _whole(number: Decimal) -> int | Decimal:
    if number.is_finite() and number.adjusted() <= _LARGEST_PLAIN_EXPONENT and number == number.to_integral_value():
        return int(number)
    return number


def _converted(value: Any, convert: Callable[[Decimal], Any]) -> Any:
    if isinstance(value, Decimal):
        return convert(value)
    if isinstance(value, Mapping):
        return {key: _converted(inner, convert) for key, inner in value.items()}
    if isinstance(value, list):
        return [_converted(inner, convert) for inner in value]
    return value
