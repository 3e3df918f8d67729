"""Removal of `ReadOptions.excluded_members` from JSON values. Pure.

Members that the schema has are kept. Where the schema holds JSON text, or lacks the column, objects are never maps:
their keys are members.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_json import parse, to_json_bytes
from singer_arrow.enforcement.schema_drift import paths_with_exclusions
from singer_arrow.schema.arrow_schema import is_json


def exclude_members(value: Any, ours: pa.Field | None, excluded: frozenset[str], path: str) -> Any:
    """Return a value of `from_json.parse` without excluded members; `ours` is the schema's field at its path."""
    if path not in paths_with_exclusions(excluded):
        return value
    t = None if ours is None or is_json(ours) else ours.type
    if isinstance(value, list):
        inner = t.value_field if t is not None and pt.is_list(t) else None
        return [exclude_members(item, inner, excluded, path) for item in value]
    if not isinstance(value, dict):
        return value
    if t is not None and pt.is_map(t):
        return {key: exclude_members(item, t.item_field, excluded, path) for key, item in value.items()}
    own = {f.name: f for f in t} if t is not None and pt.is_struct(t) else {}
    return {
        name: exclude_members(member, own.get(name), excluded, f"{path}.{name}")
        for name, member in value.items()
        if name in own or f"{path}.{name}" not in excluded
    }


def exclude_from_json(raw: bytes, ours: pa.Field | None, excluded: frozenset[str], path: str) -> bytes:
    """Return the JSON of a value without excluded members; unchanged if it has none."""
    if raw.lstrip()[:1] not in (b"{", b"[") or path not in paths_with_exclusions(excluded):
        return raw
    value = parse(raw)
    kept = exclude_members(value, ours, excluded, path)
    return raw if kept == value else to_json_bytes(kept)


def exclude_from_column(
    column: pa.Array, field: pa.Field, excluded: frozenset[str], path: str | None = None
) -> pa.Array:
    """Remove excluded members from the JSON texts of a column of a field with canonical types, at any depth."""
    path = field.name if path is None else path
    if path not in paths_with_exclusions(excluded) or not _has_json(field):
        return column
    if is_json(field):
        texts = (None if text is None else text.encode() for text in column.to_pylist())
        return pa.array(
            [None if raw is None else exclude_from_json(raw, None, excluded, path).decode() for raw in texts],
            field.type,
        )
    column = column.take(
        pa.array(range(len(column)), pa.int64())
    )  # Arrow does not accept offsets of a slice with a mask
    t, mask = field.type, pc.is_null(column) if column.null_count else None
    if pt.is_struct(t):
        parts = [
            exclude_from_column(part, f, excluded, f"{path}.{f.name}")
            for f, part in zip(t, column.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(t), mask=mask)
    if pt.is_map(t):
        items = exclude_from_column(column.items, t.item_field, excluded, path)
        return pa.MapArray.from_arrays(column.offsets, column.keys, items, type=t, mask=mask)
    values = exclude_from_column(column.values, t.value_field, excluded, path)
    return pa.ListArray.from_arrays(column.offsets, values, type=t, mask=mask)


def _has_json(field: pa.Field) -> bool:
    t = field.type
    return is_json(field) or (pt.is_nested(t) and any(_has_json(t.field(i)) for i in range(t.num_fields)))
