"""What readers of Parquet and ORC do not check: that text is UTF-8, and that decimals have no further digits. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt


def is_sound(column: pa.Array) -> bool:
    """Whether all values of a column are what its type says, also within lists, maps and objects."""
    if not _is_doubtful(column.type) or _is_ascii(column):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def readable(value: object) -> object:
    """A value without bytes: what of them is no UTF-8 is told by its number."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {key: readable(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [readable(v) for v in value]
    return value


def as_bytes(t: pa.DataType) -> pa.DataType:
    """The type with bytes in place of text, to which all text can be cast."""
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t):
        return pa.large_binary()
    if pt.is_struct(t):
        return pa.struct([f.with_type(as_bytes(f.type)) for f in t])
    if pt.is_map(t):
        return pa.map_(as_bytes(t.key_type), as_bytes(t.item_type))
    if pt.is_list(t) or pt.is_large_list(t):
        return pa.list_(as_bytes(t.value_type))
    return t


def _is_doubtful(t: pa.DataType) -> bool:
    return bool(pt.is_nested(t) or pt.is_decimal(t) or pt.is_dictionary(t) or as_bytes(t) != t)


def _is_ascii(column: pa.Array) -> bool:
    """Whether a column of text holds nothing but ASCII: by one look at all its characters, whatever it is cut to."""
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
