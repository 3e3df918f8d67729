"""Extension types: VARIANT and geometries."""

from __future__ import annotations

import base64
import json
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.spelling import format_time
from singer_arrow.schema.arrow_schema import VARIANT, WKB

# Extension types that Arrow's Parquet reader recognises only if they are registered: VARIANT and geometries.
#
# They are used for reading only: Arrow's writers have classes of their own.


class _Named(pa.ExtensionType):  # type: ignore[misc]  # which has no types
    """An extension type identified by name and storage type."""

    name = ""

    def __init__(self, storage: pa.DataType, about: bytes = b"") -> None:
        self._about = about
        super().__init__(storage, self.name)

    def __hash__(self) -> int:
        return hash((self.name, str(self.storage_type)))

    def __arrow_ext_serialize__(self) -> bytes:
        return self._about

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> _Named:
        return cls(storage_type, serialized)


_VARIANT_PARTS = ("metadata", "value", "typed_value")


class VariantType(_Named):
    """VARIANT: a struct of `metadata`, `value` and, if it is shredded, `typed_value`."""

    name = VARIANT


class WkbType(_Named):
    """GEOMETRY and GEOGRAPHY: well-known binary. Its metadata is the coordinate system as JSON."""

    name = WKB


for _type in (VariantType(pa.struct([("metadata", pa.binary()), ("value", pa.binary())])), WkbType(pa.binary())):
    with suppress(pa.ArrowKeyError):  # another package has registered it
        pa.register_extension_type(_type)


def is_variant(t: pa.DataType) -> bool:
    """Return whether a type is VARIANT."""
    return isinstance(t, pa.BaseExtensionType) and t.extension_name == VARIANT


def is_wkb(t: pa.DataType) -> bool:
    """Return whether a type is GEOMETRY or GEOGRAPHY."""
    return isinstance(t, pa.BaseExtensionType) and t.extension_name == WKB


def with_geometries(schema: pa.Schema, metadata: Mapping[bytes, bytes] | None) -> pa.Schema:
    """Return the schema with the type of GEOMETRY for columns of bytes that hold geometries as GeoParquet 1 has them.

    The member `geo` of a file's metadata names the columns. Metadata that is not as the specification has it is passed
    over.
    """
    if metadata is None or b"geo" not in metadata:
        return schema
    try:
        columns = json.loads(metadata[b"geo"])["columns"]
        names = {name for name, about in columns.items() if about["encoding"] == "WKB"}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return schema
    fields = [f.with_type(WkbType(f.type)) if f.name in names and is_bytes(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)


def with_variants(schema: pa.Schema, names: frozenset[str]) -> pa.Schema:
    """Return the schema with the type VARIANT for columns of these names that are structs of its parts."""

    def is_one(t: pa.DataType) -> bool:
        return bool(pt.is_struct(t)) and {"metadata", "value"} <= {f.name for f in t} <= {*_VARIANT_PARTS}

    fields = [f.with_type(VariantType(f.type)) if f.name in names and is_one(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)


def is_bytes(t: pa.DataType) -> bool:
    """Return whether a type is binary of any variable length."""
    return bool(pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t))


# Parquet's VARIANT columns, also shredded ones, -> JSON values. Pure.
#
# See the Parquet specification, "Variant Binary Encoding" and "Variant Shredding". Dates, times, bytes and decimals are
# as in all JSON of this library; timestamps without a zone are in UTC; NaN and infinities are null.

_EPOCH, _DAY_ZERO = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_OBJECT, _ARRAY, _SHORT_TEXT = 2, 3, 1
_BINARY, _TEXT = 15, 16


def names_of(metadata: bytes) -> list[str]:
    """Return the member names in the metadata of a value; ValueError if it is damaged."""
    size = (metadata[0] >> 6) + 1 if metadata else 0
    if not metadata or metadata[0] & 15 != 1:
        raise ValueError("its metadata is of an unknown version")
    count = _number(metadata, 1, size)
    ends = _numbers(metadata, 1 + size, count + 1, size)
    start = 1 + size * (count + 2)
    return [metadata[start + a : start + b].decode() for a, b in pairwise(ends)]


def decode(value: bytes, names: Sequence[str]) -> Any:
    """Decode a value to Python objects for JSON; ValueError if it is damaged."""
    try:
        return _VariantReader(value, names).read(0)
    except (IndexError, struct.error, RecursionError, OverflowError) as error:
        raise ValueError(f"its bytes are damaged ({error})") from None


class _VariantReader:
    """Reads one value; overlapping parts are refused, as they could expand to far more than their bytes."""

    def __init__(self, data: bytes, names: Sequence[str]) -> None:
        self._data, self._names, self._left = data, names, len(data)

    def read(self, at: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError("its parts overlap")
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
            raise ValueError(f"it has a value of the unknown type {kind}")
        size, make = _PRIMITIVES[kind]
        return make(self._bytes(at, size))

    def _bytes(self, at: int, size: int) -> bytes:
        if at + size > len(self._data):
            raise ValueError("it ends before its end")
        return self._data[at : at + size]


def _number(data: bytes, at: int, size: int) -> int:
    return _numbers(data, at, 1, size)[0]


def _numbers(data: bytes, at: int, count: int, size: int) -> list[int]:
    if at + count * size > len(data):
        raise ValueError("it ends before its end")
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


# Geometries in well-known binary -> well-known text. Pure.
#
# Both follow ISO 19125, with Z and M, and the flags of PostGIS; numbers have their shortest exact digits.

_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
_NAMES = {
    _POINT: "POINT",
    _LINE: "LINESTRING",
    _POLYGON: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    _COLLECTION: "GEOMETRYCOLLECTION",
}
_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000


def to_wkt(data: bytes) -> str:
    """Return the text of a geometry, without its coordinate system.

    Raises ValueError if the bytes are damaged, or the type is not a point, line, polygon or collection.
    """
    reader = _WkbReader(data)
    try:
        text = reader.geometry()
    except (IndexError, struct.error, RecursionError, OverflowError) as error:
        raise ValueError(f"its bytes are damaged ({error})") from None
    if reader.at != len(data):
        raise ValueError("bytes follow its end")
    return text


class _WkbReader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def geometry(self, *, named: bool = True) -> str:
        order = ">" if self._data[self.at] == 0 else "<"
        self.at += 1
        code = self._count(order)
        if code & _SRID:
            self._count(order)
        kind, axes = (code & 0xFFFF) % 1000, (code & 0xFFFF) // 1000
        has_z, has_m = bool(code & _Z) or axes in (1, 3), bool(code & _M) or axes in (2, 3)
        if kind not in _NAMES or axes > 3:
            raise ValueError(f"it is a geometry of the type {code}, which has no text here")
        mark = f" {'Z' * has_z}{'M' * has_m}" if has_z or has_m else ""
        body = self._body(order, kind, 2 + has_z + has_m)
        if not named and kind != _COLLECTION:
            return body
        return f"{_NAMES[kind]}{mark} {body}"

    def _body(self, order: str, kind: int, width: int) -> str:
        if kind == _POINT:
            (point,) = self._points(order, 1, width)
            return "EMPTY" if point.startswith("nan nan") else f"({point})"
        if kind == _LINE:
            return _listed(self._points(order, self._count(order), width))
        count = self._count(order)
        if kind == _POLYGON:
            return _listed([_listed(self._points(order, self._count(order), width)) for _ in range(count)])
        return _listed([self.geometry(named=kind == _COLLECTION) for _ in range(count)])

    def _count(self, order: str) -> int:
        (count,) = struct.unpack_from(f"{order}I", self._data, self.at)
        self.at += 4
        return int(count)

    def _points(self, order: str, count: int, width: int) -> list[str]:
        numbers = struct.unpack_from(f"{order}{count * width}d", self._data, self.at)
        self.at += 8 * count * width
        texts = [repr(n).removesuffix(".0") for n in numbers]
        return [" ".join(texts[i : i + width]) for i in range(0, len(texts), width)]


def _listed(parts: list[str]) -> str:
    return f"({', '.join(parts)})" if parts else "EMPTY"
