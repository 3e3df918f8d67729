"""Bytes of rows in memory, computed from their types and values alone."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

_OFFSET = 4


def row_bytes(batch: pa.RecordBatch) -> int:
    """Return the approximate bytes of a batch, determined by types and values alone.

    `RecordBatch.nbytes` also counts optional bitmaps and bytes under nulls, which depend on how the rows were read.
    Here a value counts with the width of its type, and a text with its bytes, so the sizes of slices add up.
    """
    return sum(_bytes(column) for column in batch.columns)


def _bytes(values: pa.Array) -> int:
    import pyarrow.compute as pc

    t = values.type
    if (width := _width(t)) is not None:
        return len(values) * width
    if isinstance(values, pa.ExtensionArray):
        return _bytes(values.storage)
    if pt.is_dictionary(t):
        return _bytes(values.dictionary_decode())
    if pt.is_struct(t):
        return sum(_bytes(part) for part in values.flatten())
    if pt.is_map(t):
        # As a list of pairs; Arrow's cast crashes on slices of maps of objects.
        pairs = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        t, outer = pa.list_(pairs.type), values.buffers()[:2]
        values = pa.ListArray.from_buffers(t, len(values), outer, offset=values.offset, children=[pairs])
    if pt.is_nested(t):
        offsets, inner = len(values) * _OFFSET, _width(t.value_type)
        if inner is not None:
            return offsets + inner * (pc.sum(pc.list_value_length(values)).as_py() or 0)
        return offsets + _bytes(pc.list_flatten(values))
    if pt.is_string_view(t) or pt.is_binary_view(t):
        values = values.cast(pa.large_binary())
    return len(values) * _OFFSET + (pc.sum(pc.binary_length(values)).as_py() or 0)


def _width(t: pa.DataType) -> int | None:
    """Return the bytes of a value if the type determines them; a null counts as much."""
    if pt.is_null(t):
        return 0
    if pt.is_struct(t):
        parts = [_width(field.type) for field in t]
        return None if None in parts else sum(part for part in parts if part is not None)
    if pt.is_fixed_size_list(t):
        inner = _width(t.value_type)
        return None if inner is None else inner * t.list_size
    if pt.is_dictionary(t) or pt.is_nested(t) or isinstance(t, pa.BaseExtensionType):
        return None
    try:
        return int(-(-t.bit_width // 8))
    except ValueError:
        return None
