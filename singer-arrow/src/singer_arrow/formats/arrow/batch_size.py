"""Split record batches so that the decoded rows are bounded in memory, however small the file is. Pure.

Dictionaries, runs, views and nulls repeat values without bytes of their own: a text of 1 MB in a dictionary that a
million rows use is a terabyte of text. What a slice decodes to is computed without decoding it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.formats.file_errors import too_large

SLICE_BYTES = 64 << 20
"""Maximum bytes of a slice of several rows."""
_OFFSET, _NULL = 8, 8
_VIEW = 16  # bytes of a view; the first four are the length of its value


def slices(batch: pa.RecordBatch, rows: int, most: int, url: object) -> Iterator[pa.RecordBatch]:
    """Yield the rows in slices of at most `rows` rows and `SLICE_BYTES` decoded bytes; every run has the same slices.

    A row of repeated values that decodes to more than `most` bytes is a DataError.
    """
    compact = [i for i, field in enumerate(batch.schema) if _repeats(field.type)]
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        yield from _halved(part, compact, most, url) if compact else (part,)


def _halved(part: pa.RecordBatch, compact: list[int], most: int, url: object) -> Iterator[pa.RecordBatch]:
    size, rows = sum(_decoded(part.column(i)) for i in compact), part.num_rows
    if size <= SLICE_BYTES or (rows == 1 and size <= most):
        yield part
        return
    if rows == 1:
        raise too_large("a row", size, most, url=url)
    yield from _halved(part.slice(0, rows // 2), compact, most, url)
    yield from _halved(part.slice(rows // 2), compact, most, url)


def _repeats(t: pa.DataType) -> bool:
    """Return whether values of a type may share bytes, or have none."""
    if isinstance(t, pa.BaseExtensionType):
        return _repeats(t.storage_type)
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t) or pt.is_null(t) or _is_view(t) or _is_list_view(t):
        return True
    return pt.is_nested(t) and any(_repeats(t.field(i).type) for i in range(t.num_fields))


def _decoded(array: Any) -> int:
    """Return at least the bytes of the decoded values."""
    t, count = array.type, len(array)
    if isinstance(array, pa.ExtensionArray):
        return _decoded(array.storage)
    if not count or pt.is_null(t):
        return count * _NULL
    if pt.is_dictionary(t):
        if (width := _width(array.dictionary)) is not None:
            return count * width
        return pc.sum(_sizes(array.dictionary).take(array.indices)).as_py() or 0
    if pt.is_run_end_encoded(t):
        if (width := _width(array.values)) is not None:
            return count * width
        first, runs = array.find_physical_offset(), array.find_physical_length()
        inner = array.run_ends.slice(first, runs - 1).cast(pa.int64())
        start, end = (pa.array([at], pa.int64()) for at in (array.offset, array.offset + count))
        bounds = pa.concat_arrays([start, inner, end])
        lengths = pc.subtract(bounds.slice(1), bounds.slice(0, runs))
        return pc.sum(pc.multiply(_sizes(array.values.slice(first, runs)), lengths)).as_py() or 0
    if _is_view(t):
        return count * _OFFSET + (pc.sum(_view_lengths(array)).as_py() or 0)
    if _is_text(t):
        return count * _OFFSET + (pc.sum(pc.binary_length(array)).as_py() or 0)
    if pt.is_struct(t):
        return sum(_decoded(array.field(i)) for i in range(t.num_fields))
    if _is_list_view(t):
        if (longest := _width(array.values)) is None:
            longest = pc.max(_sizes(array.values)).as_py() or 0
        return count * _OFFSET + (pc.sum(array.sizes).as_py() or 0) * longest
    if pt.is_fixed_size_list(t):
        return _decoded(array.values.slice(array.offset * t.list_size, count * t.list_size))
    if pt.is_nested(t):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        children = (array.keys, array.items) if pt.is_map(t) else (array.values,)
        return count * _OFFSET + sum(_decoded(child.slice(start, end - start)) for child in children)
    return count * int(-(-t.bit_width // 8))


def _width(values: Any) -> int | None:
    """Return the most bytes of a value, for nested values those of all; None for texts, see `_sizes`."""
    t = values.type
    if isinstance(values, pa.ExtensionArray):
        return _width(values.storage)
    if _is_view(t) or _is_text(t):
        return None
    if pt.is_null(t):
        return _NULL
    if pt.is_nested(t) or pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return _decoded(values)
    return int(-(-t.bit_width // 8))


def _sizes(values: Any) -> pa.Array:
    """Return the bytes of each text."""
    if isinstance(values, pa.ExtensionArray):
        return _sizes(values.storage)
    lengths = _view_lengths(values) if _is_view(values.type) else pc.binary_length(values)
    return pc.add(pc.fill_null(lengths.cast(pa.int64()), 0), _OFFSET)


def _view_lengths(array: Any) -> pa.Array:
    views = pa.Array.from_buffers(pa.binary(_VIEW), len(array), [None, array.buffers()[1]], offset=array.offset)
    return pc.if_else(array.is_valid(), pc.binary_slice(views, 0, 4).cast(pa.binary(4)).view(pa.int32()), 0)


def _is_text(t: pa.DataType) -> bool:
    return bool(pt.is_string(t) or pt.is_binary(t) or pt.is_large_string(t) or pt.is_large_binary(t))


def _is_view(t: pa.DataType) -> bool:
    return bool(pt.is_string_view(t) or pt.is_binary_view(t))


def _is_list_view(t: pa.DataType) -> bool:
    return bool(pt.is_list_view(t) or pt.is_large_list_view(t))
