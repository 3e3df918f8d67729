"""Parquet's VARIANT columns, also shredded ones, -> JSON values. Pure.

See the Parquet specification, "Variant Binary Encoding" and "Variant Shredding". Dates, times, bytes and decimals are
as in all JSON of this library; timestamps without a zone are in UTC; NaN and infinities are null.
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.temporal_text import format_time

_EPOCH, _DAY_ZERO = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_OBJECT, _ARRAY, _SHORT_TEXT = 2, 3, 1
_BINARY, _TEXT = 15, 16


def names_of(metadata: bytes) -> list[str]:
    """Return the member names in the metadata of a value; ValueError if it is damaged."""
    size = (metadata[0] >> 6) + 1 if metadata else 0
    if not metadata or metadata[0] & 15 != 1:
        msg = "its metadata is of an unknown version"
        raise ValueError(msg)
    count = _number(metadata, 1, size)
    ends = _numbers(metadata, 1 + size, count + 1, size)
    start = 1 + size * (count + 2)
    return [metadata[start + a : start + b].decode() for a, b in pairwise(ends)]


def decode(value: bytes, names: Sequence[str]) -> Any:
    """Decode a value to Python objects for JSON; ValueError if it is damaged."""
    try:
        return _Reader(value, names).read(0)
    except (IndexError, struct.error, RecursionError, OverflowError) as error:
        msg = f"its bytes are damaged ({error})"
        raise ValueError(msg) from None


class _Reader:
    """Reads one value; overlapping parts are refused, as they could expand to far more than their bytes."""

    def __init__(self, data: bytes, names: Sequence[str]) -> None:
        self._data, self._names, self._left = data, names, len(data)

    def read(self, at: int) -> Any:
        self._left -= 1
        if self._left < 0:
            msg = "its parts overlap"
            raise ValueError(msg)
        kind, header = self._data[at] & 3, self._data[at] >> 2
        if kind == _OBJECT:
            return dict(self._members(at + 1, header))
        if kind == _ARRAY:
            size, wide = (header & 3) + 1, 4 if header >> 2 & 1 else 1
            count = _number(self._data, at + 1, wide)
            offsets = _numbers(self._data, at + 1 + wide, count + 1, size)
            first = at + 1 + wide + size * (count + 1)
            return [self.read(first + offset) for offset in offsets[:-1]]
        if kind == _SHORT_TEXT:
            return self._bytes(at + 1, header).decode()
        return self._primitive(at + 1, header)

    def _members(self, at: int, header: int) -> Iterator[tuple[str, Any]]:
        size, id_size, wide = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header >> 4 & 1 else 1
        count = _number(self._data, at, wide)
        numbers = _numbers(self._data, at + wide, count, id_size)
        offsets = _numbers(self._data, at + wide + id_size * count, count + 1, size)
        first = at + wide + id_size * count + size * (count + 1)
        for number, offset in zip(numbers, offsets, strict=False):
            yield self._names[number], self.read(first + offset)

    def _primitive(self, at: int, kind: int) -> Any:
        if kind in (_BINARY, _TEXT):
            data = self._bytes(at + 4, _number(self._data, at, 4))
            return data.decode() if kind == _TEXT else base64.b64encode(data).decode()
        if kind not in _PRIMITIVES:
            msg = f"it has a value of the unknown type {kind}"
            raise ValueError(msg)
        size, make = _PRIMITIVES[kind]
        return make(self._bytes(at, size))

    def _bytes(self, at: int, size: int) -> bytes:
        if at + size > len(self._data):
            msg = "it ends before its end"
            raise ValueError(msg)
        return self._data[at : at + size]


def _number(data: bytes, at: int, size: int) -> int:
    return _numbers(data, at, 1, size)[0]


def _numbers(data: bytes, at: int, count: int, size: int) -> list[int]:
    if at + count * size > len(data):
        msg = "it ends before its end"
        raise ValueError(msg)
    return [int.from_bytes(data[i : i + size], "little") for i in range(at, at + count * size, size)]


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _float(data: bytes) -> float | None:
    value: float = struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
    return value if isfinite(value) else None


def _decimal(data: bytes) -> Decimal:
    unscaled = _integer(data[1:])
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -data[0]))


def _timestamp(data: bytes, per_second: int) -> str:
    seconds, fraction = divmod(_integer(data), per_second)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text:0>19}.{fraction:0{len(str(per_second)) - 1}}Z"


_PRIMITIVES: dict[int, tuple[int, Callable[[bytes], Any]]] = {
    0: (0, lambda _: None),
    1: (0, lambda _: True),
    2: (0, lambda _: False),
    3: (1, _integer),
    4: (2, _integer),
    5: (4, _integer),
    6: (8, _integer),
    7: (8, _float),
    8: (5, _decimal),
    9: (9, _decimal),
    10: (17, _decimal),
    11: (4, lambda data: date.fromordinal(_DAY_ZERO + _integer(data)).isoformat()),
    12: (8, lambda data: _timestamp(data, 10**6)),
    13: (8, lambda data: _timestamp(data, 10**6)),
    14: (4, _float),
    17: (8, lambda data: format_time(_integer(data), 10**6)),
    18: (8, lambda data: _timestamp(data, 10**9)),
    19: (8, lambda data: _timestamp(data, 10**9)),
    20: (16, lambda data: str(uuid.UUID(bytes=data))),
}
"""By the number of a primitive type: how many bytes its values have, and what makes JSON of them."""


_MISSING = object()  # marker of a missing member


def variant_values(column: pa.ExtensionArray, scalars: Any) -> list[Any]:
    """Return the values of a VARIANT column, None for nulls; ValueError if one is damaged.

    `scalars` returns the values of a typed column that is neither a list nor an object.
    """
    storage = column.storage
    parts = _parts(storage)
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
        made = (None if item is _MISSING else item for item in items)
        return [[next(made) for _ in range(a, b)] for a, b in spans]
    return list(scalars(column))


def _parts(column: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((f.name for f in column.type), column.flatten(), strict=True))
