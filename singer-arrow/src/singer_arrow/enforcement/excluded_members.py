"""JSON without members of objects that are left out. Pure.

Which ones `ReadOptions.left_out` tells; a member that the schema has stays. What the schema holds as JSON, or lacks,
has no maps: their keys would be members like any other.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_json import any_json, parse
from singer_arrow.enforcement.schema_drift import holders
from singer_arrow.schema.arrow_schema import is_json


def cut_value(value: Any, ours: pa.Field | None, left_out: frozenset[str], path: str) -> Any:
    """A parsed value without them.

    Args:
        value: As `jsonl_rows.parse` gives it.
        ours: What the schema has there.
        left_out: As in the options.
        path: Of the value.
    """
    if path not in holders(left_out):
        return value
    t = None if ours is None or is_json(ours) else ours.type
    if isinstance(value, list):
        inner = t.value_field if t is not None and pt.is_list(t) else None
        return [cut_value(item, inner, left_out, path) for item in value]
    if not isinstance(value, dict):
        return value
    if t is not None and pt.is_map(t):
        return {key: cut_value(item, t.item_field, left_out, path) for key, item in value.items()}
    own = {f.name: f for f in t} if t is not None and pt.is_struct(t) else {}
    return {
        name: cut_value(member, own.get(name), left_out, f"{path}.{name}")
        for name, member in value.items()
        if name in own or f"{path}.{name}" not in left_out
    }


def cut_json(raw: bytes, ours: pa.Field | None, left_out: frozenset[str], path: str) -> bytes:
    """The JSON of a value without them; as it is, if it has none.

    Raises:
        BadRowError: It is not JSON.
    """
    if raw.lstrip()[:1] not in (b"{", b"[") or path not in holders(left_out):
        return raw
    value = parse(raw)
    kept = cut_value(value, ours, left_out, path)
    return raw if kept == value else any_json(kept)


def cut_column(column: pa.Array, field: pa.Field, left_out: frozenset[str]) -> pa.Array:
    """A column of which the JSON texts, its own or those within, are without them.

    Args:
        column: Of the field's type.
        field: In canonical types.
        left_out: As in the options.

    Raises:
        BadRowError: A text is not JSON.
    """
    return _cut(column, field, left_out, field.name) if field.name in holders(left_out) and _has_json(field) else column


def _cut(column: pa.Array, field: pa.Field, left_out: frozenset[str], path: str) -> pa.Array:
    if path not in holders(left_out) or not _has_json(field):
        return column
    if is_json(field):
        texts = (None if text is None else text.encode() for text in column.to_pylist())
        return pa.array(
            [None if raw is None else cut_json(raw, None, left_out, path).decode() for raw in texts], field.type
        )
    column = column.take(pa.array(range(len(column)), pa.int64()))  # offsets of a slice do not go with a mask
    t, mask = field.type, pc.is_null(column) if column.null_count else None
    if pt.is_struct(t):
        parts = [_cut(part, f, left_out, f"{path}.{f.name}") for f, part in zip(t, column.flatten(), strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(t), mask=mask)
    if pt.is_map(t):
        items = _cut(column.items, t.item_field, left_out, path)
        return pa.MapArray.from_arrays(column.offsets, column.keys, items, type=t, mask=mask)
    values = _cut(column.values, t.value_field, left_out, path)
    return pa.ListArray.from_arrays(column.offsets, values, type=t, mask=mask)


def _has_json(field: pa.Field) -> bool:
    t = field.type
    return is_json(field) or (pt.is_nested(t) and any(_has_json(t.field(i)) for i in range(t.num_fields)))
