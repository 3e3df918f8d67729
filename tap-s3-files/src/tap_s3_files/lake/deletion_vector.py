"""Deletion vectors of Delta Lake: where the bytes of one are, and up to which row it reaches. Pure.

The library makes a value for each row up to the last one that is deleted, so this is looked at first. A vector is a
map from the upper half of rows to bitmaps: https://github.com/delta-io/delta/blob/master/PROTOCOL.md and
https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any
from uuid import UUID

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_UUID_DIGITS = 20
_MAGIC, _NO_RUNS, _RUNS = 1681511377, 12346, 12347
_WITH_OFFSETS, _LARGEST_LIST, _BITS = 4, 4096, 8192
SHIFT = 16
"""Rows are known up to groups of 65,536."""


def decode(text: str) -> bytes:
    """Return the bytes of a text in Z85; ValueError if it is none."""
    if len(text) % 5 or not _VALUES.keys() >= set(text):
        raise ValueError("its text is not Z85")
    numbers = (
        sum(_VALUES[c] * 85 ** (4 - i) for i, c in enumerate(text[at : at + 5])) for at in range(0, len(text), 5)
    )
    try:
        return b"".join(number.to_bytes(4, "big") for number in numbers)
    except OverflowError:
        raise ValueError("its text is not Z85") from None


def file_of(vector: Mapping[str, Any]) -> str:
    """Return the path of the file in the table with a vector of the storage type `u`; ValueError if it names none."""
    text = vector["pathOrInlineDv"]
    prefix, name = text[:-_UUID_DIGITS], UUID(bytes=decode(text[-_UUID_DIGITS:]))
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


def highest_group(data: bytes) -> int:
    """Return the number of the last group of rows of which a vector has one, -1 if it has none; ValueError: damaged."""
    try:
        magic, count = struct.unpack_from("<IQ", data)
        if magic != _MAGIC:
            raise ValueError(f"it begins with {magic}, not with {_MAGIC}")
        at, found = 12, -1
        for _ in range(count):
            (upper,) = struct.unpack_from("<I", data, at)
            at, last = _bitmap_end(data, at + 4)
            found = max(found, (upper << SHIFT) + last if last >= 0 else -1)
    except (struct.error, IndexError):
        raise ValueError("it ends too early") from None
    return found


def _bitmap_end(data: bytes, at: int) -> tuple[int, int]:
    """Return where a bitmap ends that begins there, and the number of its last group; -1 if it is empty."""
    (cookie,) = struct.unpack_from("<I", data, at)
    runs = b""
    if cookie & 0xFFFF == _RUNS:
        size = (cookie >> 16) + 1
        runs = data[at + 4 : at + 4 + (size + 7) // 8]
        at += 4 + len(runs)
    elif cookie == _NO_RUNS:
        (size,) = struct.unpack_from("<I", data, at + 4)
        at += 8
    else:
        raise ValueError(f"a bitmap begins with {cookie}")
    if size > 1 << SHIFT:
        raise ValueError(f"a bitmap has {size} groups")
    heads = struct.unpack_from(f"<{2 * size}H", data, at)
    at += 4 * size + (4 * size if not runs or size >= _WITH_OFFSETS else 0)
    for number in range(size):
        rows = heads[2 * number + 1] + 1
        if runs and runs[number // 8] >> number % 8 & 1:
            at += 2 + 4 * int(struct.unpack_from("<H", data, at)[0])
        else:
            at += 2 * rows if rows <= _LARGEST_LIST else _BITS
    if at > len(data):
        raise ValueError("it ends too early")
    return at, max(heads[::2], default=-1)
