"""Arrow -> the records of RECORD messages, fit for JSON and exact. Pure.

Timestamps are RFC 3339 in UTC, dates and times ISO 8601, binary is base64, decimals stay decimals (the SDK writes them
as numbers), NaN and infinities are null, columns of JSON text are the values that it stands for.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.formats.json_values import check_years, object_of
from singer_arrow.schema import is_json

_CELLS = 1 << 18  # values that are Python objects at once, about: 20 MB


def to_records(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a batch of canonical types.

    Raises:
        DataError: A date or timestamp lies outside the years 1 to 9999, or a map has a key twice.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        check_years(column, field.name)
    names = batch.schema.names
    step = max(1, _CELLS // max(1, len(names)))
    for start in range(0, batch.num_rows, step):
        part = batch.slice(start, step)
        columns = [_values(column, field) for column, field in zip(part.columns, batch.schema, strict=True)]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _values(column: pa.Array, field: pa.Field) -> list[Any]:
    t = column.type
    if is_json(field):
        return [None if text is None else json.loads(text, parse_float=Decimal) for text in column.to_pylist()]
    if pt.is_floating(t):
        wide = column.cast(pa.float64())
        return list(pc.if_else(pc.is_finite(wide), wide, None).to_pylist())
    if pt.is_timestamp(t):
        return list(pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1).to_pylist())
    if pt.is_date(t) or pt.is_time(t):
        return list(column.cast(pa.string()).to_pylist())
    if pt.is_decimal(t) and t.scale <= 0:
        return [None if v is None else int(v) for v in column.to_pylist()]
    if pt.is_binary(t):
        return [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    if pt.is_nested(t):
        return _nested(column, field.name)
    return list(column.to_pylist())


def _nested(column: Any, name: str) -> list[Any]:
    t = column.type
    present = column.is_valid().to_pylist()
    if pt.is_struct(t):
        parts = [_values(part, f) for f, part in zip(t, column.flatten(), strict=True)]
        names = [f.name for f in t]
        rows = zip(*parts, strict=True) if parts else iter([()] * len(column))
        return [dict(zip(names, row, strict=True)) if there else None for there, row in zip(present, rows, strict=True)]
    offsets = column.offsets.to_pylist()
    spans = zip(present, offsets[:-1], offsets[1:], strict=True)
    if pt.is_map(t):
        keys, items = column.keys.to_pylist(), _values(column.items, t.item_field)
        return [object_of(keys[a:b], items[a:b], name) if there else None for there, a, b in spans]
    flat = _values(column.values, t.value_field)
    return [flat[a:b] if there else None for there, a, b in spans]
