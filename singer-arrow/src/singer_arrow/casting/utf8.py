"""Validation of values that readers of columnar files do not check. Pure.

Text must be UTF-8, decimals must not exceed their precision, and times must lie within a day.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def is_valid_utf8(column: pa.Array) -> bool:
    """Return whether all values of a column are valid for its type, at any depth."""
    t = column.type
    is_checked = pt.is_nested(t) or pt.is_decimal(t) or pt.is_dictionary(t) or storage_type(t) != t
    if not is_checked or _is_ascii(column):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def decode_bytes(value: object) -> object:
    """Decode bytes within a value, with invalid UTF-8 escaped."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {key: decode_bytes(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [decode_bytes(v) for v in value]
    return value


def storage_type(t: pa.DataType, *, moments: bool = False) -> pa.DataType:
    """Return a type of the same layout in which all values are valid: bytes for text, integers for times.

    With `moments`, integers for dates and timestamps too.
    """

    def inner(field: pa.Field) -> pa.Field:
        return field.with_type(storage_type(field.type, moments=moments))

    if (stored := _BYTES.get(t)) is not None:
        return stored
    if pt.is_time(t) or (moments and pt.is_temporal(t)):
        return pa.int32() if t.bit_width == 32 else pa.int64()
    if pt.is_struct(t):
        return pa.struct([inner(f) for f in t])
    if pt.is_map(t):
        return pa.map_(inner(t.key_field), inner(t.item_field))
    if pt.is_fixed_size_list(t):
        return pa.list_(inner(t.value_field), t.list_size)
    if pt.is_list(t) or pt.is_large_list(t):
        return (pa.list_ if pt.is_list(t) else pa.large_list)(inner(t.value_field))
    return t


def _is_ascii(column: pa.Array) -> bool:
    """Return whether a text column is ASCII, by one pass over its bytes."""
    if not (pt.is_string(column.type) or pt.is_large_string(column.type)) or not len(column):
        return False
    _, offsets, data = column.buffers()
    counts = pa.int32() if pt.is_string(column.type) else pa.int64()
    bounds = pa.Array.from_buffers(counts, len(column) + 1, [None, offsets], offset=column.offset)
    start, end = bounds[0].as_py(), bounds[-1].as_py()
    if data is None or start == end:
        return True
    signed = pa.Array.from_buffers(pa.int8(), end - start, [None, data.slice(start, end - start)], null_count=0)
    return bool(pc.min(signed).as_py() >= 0)
