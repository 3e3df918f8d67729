"""Numbers as Arrow's JSON reader makes them, where it does not look: of which types it can make no others. Pure.

It scales decimals without a look at their overflow, holds no decimal to the precision of its type, rounds what is read
as a float, and makes infinities of numbers that are too large.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

_MOST_DIGITS = {128: 38, 256: 76}
_TINY = re.compile(rb'-(?<=[eE]-)0*[1-9][0-9]+["\s,}\]]')
_NO_INTEGER = re.compile(rb"\.\d*[1-9]|[eE]")


def decimal_to_read(t: pa.DataType, *, wide: bool) -> pa.DataType:
    """The type to read decimals in: of so few digits that all of them can be scaled, or it refuses the number.

    Args:
        t: The type that is wanted, to which what is read must be cast, safely.
        wide: For numbers of more digits, which take longer.
    """
    if not wide and (digits := _digits(t, 128)) > 0:
        return pa.decimal128(digits, t.scale)
    return pa.decimal256(max(1, _digits(t, 256)), t.scale)


def may_hold_tiny(data: bytes) -> bool:
    """Whether JSON may hold a number with so many digits after the point that the reader scales it by a wrong power."""
    return b"-" in data and _TINY.search(data) is not None


def needs_wide(t: pa.DataType) -> bool:
    """Whether the type, or one within, has numbers of more digits than are read unless `wide`."""
    return any(_digits(part, 128) < part.precision for part in decimals(t))


def decimals(t: pa.DataType) -> Iterator[pa.DataType]:
    """The type, if it is one of decimals, or those within."""
    if pt.is_decimal(t):
        yield t
    for i in range(t.num_fields):
        yield from decimals(t.field(i).type)


def _digits(t: pa.DataType, bits: int) -> int:
    return _MOST_DIGITS[bits] - max(0, int(t.scale))


def all_finite(column: pa.Array) -> bool:
    """Whether no float in a column is infinite or no number, also within lists and objects."""
    if pt.is_floating(column.type):  # a sum that overflows tells nothing
        return isfinite(pc.sum(column).as_py() or 0.0) or pc.all(pc.is_finite(column)).as_py() is not False
    if pt.is_struct(column.type):
        return all(all_finite(part) for part in column.flatten())
    return not pt.is_list(column.type) or all_finite(column.flatten())


def all_integers(texts: Iterable[Any]) -> bool:
    """Whether JSON numbers (bytes or alike) are integers as they stand: no exponent, only zeros after a point."""
    return _NO_INTEGER.search(b" ".join(texts)) is None
