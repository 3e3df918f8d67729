"""Nested Arrow values as JSON text, as SERIALIZETOJSON makes it (vectorised; numbers stay exact)."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from local_cloud.redshift.copy.columns import STRING, any_of, scalar

_CONTROLS = {chr(code): f"\\u{code:04x}" for code in range(32)} | {
    "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip


def json_text(values: pa.Array) -> pa.Array:
    """Return each value's JSON (a null stays a null, inside a value it is `null`); TypeError: a type without a form.

    A map becomes an object, NaN and infinity become null, dates and times strings.
    """
    kind = values.type
    if pa.types.is_struct(kind):
        return _struct(values)
    if pa.types.is_map(kind):
        return _map(values)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list(values)
    if pa.types.is_dictionary(kind):
        return json_text(values.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return string(values.cast(STRING))
    if pa.types.is_floating(kind):
        finite = pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))
        return finite.cast(STRING)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return values.cast(STRING)
    if pa.types.is_timestamp(kind):
        return _join(scalar('"'), values.cast(pa.timestamp(kind.unit)).cast(STRING), scalar('"'))
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _join(scalar('"'), values.cast(STRING), scalar('"'))
    raise TypeError(str(kind))


def string(values: pa.Array) -> pa.Array:
    """Return each text as a JSON string."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"')):
        if any_of(pc.match_substring(values, plain)):
            values = pc.replace_substring(values, plain, escaped)
    if any_of(pc.match_substring_regex(values, r"[\x00-\x1f]")):
        for plain, escaped in _CONTROLS.items():
            values = pc.replace_substring(values, plain, escaped)
    return _join(scalar('"'), values, scalar('"'))


def _struct(values: pa.StructArray) -> pa.Array:
    parts: list[Any] = []
    for field, child in zip(values.type, values.flatten(), strict=True):
        name = string(pa.array([field.name], STRING))[0].as_py()
        parts += [scalar(("," if parts else "{") + name + ":"), json_text(child).fill_null("null")]
    text = _join(*parts, scalar("}")) if parts else pa.repeat(scalar("{}"), len(values))
    return _with_nulls(text, values)


def _list(values: pa.Array) -> pa.Array:
    inside = json_text(values.flatten()).fill_null("null")
    return _with_nulls(_join(scalar("["), _joined(inside, values), scalar("]")), values)


def _map(values: pa.MapArray) -> pa.Array:
    # As a list of structs: an array of pairs with its own nulls and offsets.
    pairs = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    keys, items = pairs.flatten().flatten()
    named = json_text(keys)
    if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)):
        named = string(pc.utf8_trim(named, characters='"'))
    inside = _join(named, scalar(":"), json_text(items).fill_null("null"))
    return _with_nulls(_join(scalar("{"), _joined(inside, pairs), scalar("}")), values)


def _joined(inside: pa.Array, values: pa.Array) -> pa.Array:
    """Return the texts of each list's elements joined by commas; '' for an empty list and for a null."""
    if pa.types.is_fixed_size_list(values.type):
        width = values.type.list_size
        lengths = pc.if_else(values.is_valid(), pa.scalar(width, pa.int64()), pa.scalar(0, pa.int64()))
    else:
        lengths = pc.list_value_length(values).cast(pa.int64()).fill_null(0)
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    return pc.binary_join(pa.LargeListArray.from_arrays(offsets, inside), scalar(","))


def _with_nulls(text: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), text, pa.scalar(None, STRING)) if values.null_count else text


def _join(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, scalar(""))
