"""Thrift's compact protocol for the footers of Parquet files: structures as dicts by field number. Pure.

Reading and writing a structure preserves it, including unknown fields.
"""

from __future__ import annotations

from typing import Any, NamedTuple

I16, I64 = 4, 6
_TRUE, _FALSE, _BYTE, _I32, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 5, 7, 8, 9, 10, 12
_NUMBERS = (I16, _I32, I64)
_LONG_LIST = 15


class Field(NamedTuple):
    """A value and its type: an int, bool, bytes (also for doubles), or (type, items) for a list.

    A structure is a `Struct`, or its encoded bytes.
    """

    type: int
    value: Any

    def holding(self, value: Any) -> Field:
        """Return the field with another value of the same type."""
        return Field(self.type, value)


Struct = dict[int, Field]


def read_struct(data: bytes) -> Struct | None:
    """Return the structure at the start of the bytes; None if it is invalid or repeats a field."""
    try:
        return _Reader(data).struct()
    except (IndexError, KeyError, RecursionError):
        return None


def write_struct(struct: Struct) -> bytes:
    """Return the encoded structure."""
    out = bytearray()
    _write(out, _STRUCT, struct)
    return bytes(out)


class _Reader:
    """Reads values from the start of the bytes; integers of one byte, the most frequent ones, without a call."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> Struct:
        data, fields, number = self._data, Struct(), 0
        while head := data[self._at]:
            self._at += 1
            kind = head & 0x0F
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in fields:
                raise KeyError(number)
            if kind in _NUMBERS and (byte := data[self._at]) < 0x80:
                self._at += 1
                fields[number] = Field(kind, byte >> 1 ^ -(byte & 1))
            else:
                fields[number] = Field(kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind))
        self._at += 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind == _STRUCT:
            return self.struct()
        if kind in _NUMBERS:
            return self._signed()
        if kind in (_LIST, _SET):
            head = self._byte()
            size = head >> 4 if head >> 4 < _LONG_LIST else self._unsigned()
            of = head & 0x0F
            return of, [self._value(of) for _ in range(size)]
        if kind in (_TRUE, _FALSE, _BYTE):  # booleans in lists take a byte
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise KeyError(kind)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise IndexError(self._at)
        return self._data[self._at - size : self._at]

    def _unsigned(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 0x80:
            found |= (byte & 0x7F) << shift
            shift += 7
        return found | byte << shift

    def _signed(self) -> int:
        found = self._unsigned()
        return found >> 1 ^ -(found & 1)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in _NUMBERS:
        _write_signed(out, value)
    elif kind == _BINARY:
        _write_unsigned(out, len(value))
        out += value
    elif kind == _STRUCT and isinstance(value, bytes):
        out += value
    elif kind == _STRUCT:
        before = 0
        for number, field in sorted(value.items()):
            of = (_TRUE if field.value else _FALSE) if field.type in (_TRUE, _FALSE) else field.type
            step = number - before
            if 0 < step < 16:
                out.append(step << 4 | of)
            else:
                out.append(of)
                _write_signed(out, number)
            if of not in (_TRUE, _FALSE):
                _write(out, of, field.value)
            before = number
        out.append(0)
    elif kind in (_LIST, _SET):
        of, items = value
        out.append(min(len(items), _LONG_LIST) << 4 | of)
        if len(items) >= _LONG_LIST:
            _write_unsigned(out, len(items))
        for item in items:
            _write(out, of, item)
    elif kind == _DOUBLE:
        out += value
    else:
        out.append(value)


def _write_signed(out: bytearray, value: int) -> None:
    _write_unsigned(out, value << 1 ^ value >> 63)


def _write_unsigned(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
