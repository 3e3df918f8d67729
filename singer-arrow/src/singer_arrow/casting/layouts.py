"""Layouts of Arrow -> plain ones, which all of Arrow's functions take: `plain_type`, `to_plain`. Pure."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import convert
from singer_arrow.casting.to_json import is_list


def plain_type(t: pa.DataType) -> pa.DataType:
    """Return the type of the same values without dictionaries, runs, views and decimals of 32 and 64 bits."""
    if isinstance(t, pa.BaseExtensionType):
        stored = plain_type(t.storage_type)
        return t if stored == t.storage_type else stored
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return plain_type(t.value_type)
    if pt.is_string_view(t) or pt.is_binary_view(t):
        return pa.string() if pt.is_string_view(t) else pa.binary()
    if pt.is_decimal32(t) or pt.is_decimal64(t):
        return pa.decimal128(t.precision, t.scale)
    if pt.is_struct(t):
        return pa.struct([_plain(f) for f in t])
    if pt.is_map(t):
        return pa.map_(_plain(t.key_field), _plain(t.item_field))
    if is_list(t):
        inner = _plain(t.value_field)
        is_view = pt.is_list_view(t) or pt.is_large_list_view(t)
        return pa.list_(inner) if is_view or inner.type != t.value_type else t
    return t


def to_plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with columns of plain types."""
    fields = [_plain(f) for f in batch.schema]
    if all(f.type == c.type for f, c in zip(fields, batch.columns, strict=True)):
        return batch
    arrays = [convert(c, pa.field(f.name, f.type)) for c, f in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, batch.schema.metadata))


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))
