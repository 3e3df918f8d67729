"""Whole numbers in columns of floats: which ones a float holds. Pure.

A number without a fraction and without a positive exponent, so one with all its digits, is never changed: it is the
number that a float holds or prints, or it does not fit a column of floats. Others are rounded as floats always are.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

DIGITS_OF_ALL_FLOATS = 15
"""Digits of which a float64 holds all whole numbers."""
_NUMERIC = pa.decimal128(38, 9)  # both warehouses have it
_BITS = {16: "eh", 32: "fi", 64: "dq"}  # formats of `struct` for a float and for the integer of its bits


def holds(t: pa.DataType, number: int | Decimal) -> bool:
    """Return whether a type of floats holds a number by the rule of the module."""
    near = nearest_float(t, number)
    if isinstance(number, Decimal):
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int) or exponent > 0 or number != number.to_integral_value():
            return math.isfinite(near)
    return near == number or (math.isfinite(near) and number == Decimal(pa.scalar(near, t).cast(pa.string()).as_py()))


def nearest_float(t: pa.DataType, number: int | Decimal) -> float:
    """Return the float of a type that is nearest to a number; infinity if the number is too large."""
    try:
        form = f"<{_BITS[t.bit_width][0]}"
        near: float = struct.unpack(form, struct.pack(form, float(number)))[0]
    except OverflowError:
        return math.inf
    return near


def type_of(*, before: int, after: int, is_held: bool) -> pa.DataType:
    """Return the type of numbers of which some have a fraction, so of all text formats.

    `before` and `after` are the most digits before and after the point; `is_held` is whether a float64 holds each.
    """
    if is_held:
        return pa.float64()
    return _NUMERIC if before <= _NUMERIC.precision - _NUMERIC.scale and after <= _NUMERIC.scale else pa.string()


def holds_text(t: pa.DataType, text: bytes) -> bool:
    """Return whether a type of floats holds the number of a text."""
    try:
        return holds(t, Decimal(text.decode()))
    except InvalidOperation:  # its exponent exceeds those of Decimal
        return False


def are_large(column: pa.Array) -> bool:
    """Return whether a float, at any depth, is so large that it may be a rounded whole number, or is infinite."""
    t = column.type
    if pt.is_floating(t):
        bits = pc.min_max(column.view(f"int{t.bit_width}"))  # 25 times as fast as that of floats
        low, high = bits["min"].as_py(), bits["max"].as_py()
        small = struct.unpack(f"<{_BITS[t.bit_width][1]}", struct.pack(f"<{_BITS[t.bit_width][0]}", _limit(t)))[0]
        return low is not None and not 0 <= low <= high < small and len(large_rows(column)) > 0
    if pt.is_struct(t):
        return any(are_large(part) for part in column.flatten())
    return bool(pt.is_list(t)) and are_large(column.flatten())


def large_rows(column: pa.Array) -> pa.Array:
    """Return the rows of a column of floats for which `are_large` is true."""
    wide = column.cast(pa.float64()) if pt.is_float16(column.type) else column
    return pc.indices_nonzero(pc.greater_equal(pc.abs(wide), pa.scalar(_limit(column.type), wide.type)))


def _limit(t: pa.DataType) -> float:
    """Return the number up to which a type of floats holds all whole numbers."""
    return 2.0 ** {16: 11, 32: 24, 64: 53}[t.bit_width]
