"""Arrow -> RECORD messages, exact: their lines at once, or each record as an object where one must be changed. Pure.

Timestamps are RFC 3339 in UTC, dates and times ISO 8601, binary is base64, decimals stay decimals (the SDK writes them
as numbers), NaN and infinities are null, columns of JSON text become their values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.to_json import check_years, from_json_text, iso_texts, object_of
from singer_arrow.formats.json.writer import JsonEncoder
from singer_arrow.schema.arrow_schema import is_json

_CELLS = 1 << 18  # values that are Python objects at once, about: 20 MB
_BLOCK_BYTES = 8 << 20
_FIRST_ROWS = 256  # before it is known how long the lines are


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Whole lines, and how many."""

    lines: memoryview
    count: int


def rows_in(item: object) -> int:
    """Return how many rows an encoded part of a batch has: those of a block, or one record."""
    return item.count if isinstance(item, EncodedRecords) else 1


class RecordEncoder:
    """Writes batches of one schema, in canonical types, as lines of RECORD messages, without an object for each record.

    Values are as in `to_records`, and keys in the order in which the SDK writes them.
    """

    def __init__(self, stream: str, schema: pa.Schema, version: int | None = None) -> None:
        self._encoder = JsonEncoder(schema)
        self._before = f'{{"type":"RECORD","stream":{json.dumps(stream)},"record":'
        self._after = "" if version is None else f',"version":{version}'
        self._rows = _FIRST_ROWS

    def blocks(self, batch: pa.RecordBatch) -> Iterator[EncodedRecords]:
        """Yield the lines of a batch in blocks of some MB; a record is never split. Errors: see `to_records`."""
        check_all_years(batch)
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, self._rows)
            after = f'{self._after},"time_extracted":"{datetime.now(UTC).isoformat()}"}}'
            lines = self._encoder.lines(part, self._before, after)
            start += part.num_rows
            self._rows = max(1, min(4 * self._rows, _BLOCK_BYTES * part.num_rows // len(lines)))
            yield EncodedRecords(lines, part.num_rows)


def check_all_years(batch: pa.RecordBatch) -> None:
    """See `check_years`, for all columns."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        check_years(column, field.name)


def to_records(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch of canonical types.

    DataError: a date or timestamp lies outside the years 1 to 9999, a map has a key twice, or JSON text is not JSON.
    """
    check_all_years(batch)
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
        return [None if text is None else from_json_text(text, field.name) for text in column.to_pylist()]
    if pt.is_floating(t):
        wide = column.cast(pa.float64())
        return list(pc.if_else(pc.is_finite(wide), wide, None).to_pylist())
    if pt.is_timestamp(t) or pt.is_date(t) or pt.is_time(t):
        return list(iso_texts(column).to_pylist())
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
