"""Variable-length integers, as Avro and Protocol Buffers (ORC) have them. Pure."""

from __future__ import annotations


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned integer at a position, and the position after it; IndexError if the data ends within it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
