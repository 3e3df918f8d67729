"""Exact casts from text and decimals to decimals, and to text. Pure.

Arrow's casts ignore overflow when they scale decimals, so values that may overflow are cast differently.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_MOST = 38  # digits of 128 bits
_MOST_WIDE = 76
_EXPONENT = r"^-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{1,2}$"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def text_to_decimals(column: pa.Array, t: pa.DataType) -> pa.Array:
    """Cast trimmed text to decimals; raises ArrowException, ValueError or ArithmeticError if a value does not fit."""
    wide = pa.decimal256(_MOST_WIDE, t.scale)
    if _are_short(column, _MOST - max(0, t.scale)):
        return column.cast(t)
    if _are_short(column, _MOST_WIDE - max(0, t.scale)):
        return column.cast(wide).cast(t)
    return pa.array([None if text is None else _decimal(text, t) for text in column.to_pylist()], wide).cast(t)


def cast_decimals(column: pa.Array, t: pa.DataType) -> pa.Array:
    """Cast decimals to another decimal type; raises as `text_to_decimals` if a value does not fit."""
    digits = column.type.precision + max(0, t.scale - column.type.scale)
    if digits <= _MOST:
        return column.cast(t)
    if digits <= _MOST_WIDE:
        return column.cast(pa.decimal256(digits, t.scale)).cast(t)
    return text_to_decimals(column.cast(pa.string()), t)


def without_exponents(texts: pa.Array) -> pa.Array:
    """Rewrite numbers with an exponent of at most two digits without it; other texts are unchanged."""
    short = pc.fill_null(pc.match_substring_regex(texts, _EXPONENT), False)
    if not pc.any(short).as_py():
        return texts
    return pc.replace_with_mask(texts, short, pa.array([f"{Decimal(v):f}" for v in texts.filter(short).to_pylist()]))


def _are_short(column: pa.Array, most: int) -> bool:
    """Return whether no text exceeds `most` characters or has an exponent."""
    longest = pc.max(pc.binary_length(column)).as_py()
    return (longest is None or longest <= most) and not any(pc.any(pc.match_substring(column, e)).as_py() for e in "eE")


def _decimal(text: str, t: pa.DataType) -> Decimal:
    """Parse a number with exactly the scale of the type, so that Arrow need not rescale it."""
    if not _NUMBER.fullmatch(text):
        msg = "not a number"
        raise ValueError(msg)
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).lstrip("0")
    if not figures:
        return Decimal((0, (0,), -t.scale))
    exponent += len(figures) - len(figures.rstrip("0"))
    figures = figures.rstrip("0")
    whole = exponent + t.scale  # zeros to add
    if whole < 0 or len(figures) + whole > t.precision:
        msg = "too many digits"
        raise ValueError(msg)
    return Decimal((sign, tuple(map(int, figures + "0" * whole)), -t.scale))
