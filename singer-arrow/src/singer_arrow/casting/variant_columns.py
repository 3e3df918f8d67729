"""VARIANT columns, also shredded ones, as Python values for JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.variant import decode, names_of

_MISSING = object()
"""Marker of a missing member."""


def variant_values(column: pa.ExtensionArray, scalars: Any) -> list[Any]:
    """Return the values of a column, None for nulls.

    Args:
        column: A VARIANT column.
        scalars: Returns the values of a typed column that is neither a list nor an object.

    Raises:
        ValueError: A value is damaged.
    """
    storage = column.storage
    parts = dict(zip((f.name for f in storage.type), storage.flatten(), strict=True))
    valid = storage.is_valid().to_pylist()
    metadata = [m if ok else None for m, ok in zip(parts["metadata"].to_pylist(), valid, strict=True)]
    names = lru_cache(maxsize=1024)(names_of)  # a column has few different ones
    found = _values(parts, [None if m is None else names(m) for m in metadata], scalars)
    return [None if v is _MISSING or not ok else v for v, ok in zip(found, valid, strict=True)]


def _values(parts: dict[str, pa.Array], names: Sequence[list[str] | None], scalars: Any) -> list[Any]:
    """Merge `value` and `typed_value`; `_MISSING` where both are null."""
    count = len(names)
    rest = parts["value"].to_pylist() if "value" in parts else [None] * count
    found = [_MISSING if v is None or n is None else decode(v, n) for v, n in zip(rest, names, strict=True)]
    typed = parts.get("typed_value")
    if typed is None:
        return found
    there = typed.is_valid().to_pylist()
    for row, value in enumerate(_typed(typed, names, scalars)):
        if there[row]:
            others = found[row]
            found[row] = {**others, **value} if isinstance(value, dict) and isinstance(others, dict) else value
    return found


def _typed(column: pa.Array, names: Sequence[list[str] | None], scalars: Any) -> list[Any]:
    if pt.is_struct(column.type):
        members = {
            f.name: _values(_parts(part), names, scalars) for f, part in zip(column.type, column.flatten(), strict=True)
        }
        return [{n: v[row] for n, v in members.items() if v[row] is not _MISSING} for row in range(len(column))]
    if pt.is_list(column.type) or pt.is_large_list(column.type):
        offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
        spans = [(a, b) if ok else (a, a) for a, b, ok in zip(offsets, offsets[1:], valid, strict=False)]
        inner = [n for (a, b), n in zip(spans, names, strict=True) for _ in range(a, b)]
        rows = pa.array([i for a, b in spans for i in range(a, b)], pa.int64())
        items = iter(_values(_parts(column.values.take(rows)), inner, scalars))
        return [[next(items) for _ in range(a, b)] for a, b in spans]
    return list(scalars(column))


def _parts(column: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((f.name for f in column.type), column.flatten(), strict=True))
