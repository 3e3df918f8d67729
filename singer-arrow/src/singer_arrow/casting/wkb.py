"""Geometries in well-known binary -> well-known text. Pure.

Both follow ISO 19125, with Z and M, and the flags of PostGIS; numbers have their shortest exact digits.
"""

from __future__ import annotations

import struct

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
    reader = _Reader(data)
    try:
        text = reader.geometry()
    except (IndexError, struct.error, RecursionError, OverflowError) as error:
        msg = f"its bytes are damaged ({error})"
        raise ValueError(msg) from None
    if reader.at != len(data):
        msg = "bytes follow its end"
        raise ValueError(msg)
    return text


class _Reader:
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
            msg = f"it is a geometry of the type {code}, which has no text here"
            raise ValueError(msg)
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
