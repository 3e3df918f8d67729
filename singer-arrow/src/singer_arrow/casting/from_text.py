"""Text columns -> columns of a type; whole numbers that a float holds. Pure."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.spelling import (
    decode_bytes,
    is_valid_utf8,
    record_truncated,
    storage_type,
    temporal_to_text,
    text_to_decimals,
)

# Whole numbers in columns of floats: which ones a float holds. Pure.
#
# A number without a fraction and without a positive exponent, so one with all its digits, is never changed: it is the
# number that a float holds or prints, or it does not fit a column of floats. Others are rounded as floats always are.

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


# Exact casts of text columns to a type. Pure.
#
# Accepted in addition to Arrow's syntax: blanks around a value, a leading `+`, `1.0` as an integer, any case of true
# and false, and every ISO 8601 timestamp with `T` or a blank, with or without minutes, seconds, fraction and zone (`Z`,
# `UTC`, `+02`, `+0200`, `+02:00`), mixed in one column. A timestamp without a zone is in UTC. Digits of a fraction
# beyond the type's unit are truncated and recorded (`cut_digits`). A timestamp at midnight is also a date. A time of
# day with a zone is converted to UTC.

TIMESTAMP = (
    r"^(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](?P<time>\d\d:\d\d)(?P<seconds>:\d\d)?(?:[.,](?P<fraction>\d{1,9}))?"
    r" ?(?P<zone>[Zz]|UTC|[+-]\d\d(?::?\d\d)?)?)?$"
)
_ON_THE_HOUR = r"^(\d{4}-\d\d-\d\d[Tt ]\d\d)( ?(?:[Zz]|UTC|[+-]\d\d(?::?\d\d)?)?)$"  # Arrow's parser accepts these
_TIME = (
    r"^(?P<time>\d\d:\d\d)(?P<seconds>:\d\d)?(?:\.(?P<fraction>\d{1,9}))?"
    r" ?(?P<zone>[Zz]|UTC|[+-]\d\d(?::?\d\d)?)?$"
)
_INFINITY = r"^[+-]?(?i:inf|infinity)$"
_MOST_SHOWN = 60
_FIRST_VALUES = 100
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class BadValueError(ValueError):
    """A value that does not fit a type; `row` is its index in the column, `kind` what fits, in words."""

    def __init__(self, row: int, value: object, kind: str) -> None:
        super().__init__(f"{shorten(value)} is not {kind}")
        self.row, self.value, self.kind = row, value, kind


def shorten(value: object, most: int = _MOST_SHOWN) -> str:
    """Return a value for a message, shortened to so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def display_value(column: pa.Array, row: int) -> object:
    """Return a value for a message: a Python value, or text if Python has no such value."""
    t, value = column.type, column.take(pa.array([row], pa.int64()))
    if pt.is_temporal(t):
        return temporal_to_text(value[0])
    readings = ([t] if is_valid_utf8(value) else []) + [storage_type(t), storage_type(t, moments=True)]
    for stored in readings:
        try:
            return decode_bytes(value.cast(stored)[0].as_py()) if stored is not t else value[0].as_py()
        except (ValueError, OverflowError, pa.ArrowException):
            continue
    return str(value[0])


def type_in_words(t: pa.DataType) -> str:
    """Return a type in words, with its article."""
    if pt.is_integer(t):
        return "an integer" if t.bit_width == 64 and pt.is_signed_integer(t) else f"an integer of the type {t}"
    if pt.is_floating(t):
        return "a number"
    if pt.is_decimal(t):
        return f"a decimal of at most {t.precision - t.scale} digits before and {t.scale} after the point"
    if pt.is_boolean(t):
        return "true or false"
    if pt.is_date(t):
        return "a date (YYYY-MM-DD)"
    if pt.is_timestamp(t):
        if t.unit == "ns":
            return "a date and time (YYYY-MM-DDTHH:MM:SS) from 1677 to 2262, the range of nanoseconds"
        return "a date and time (YYYY-MM-DDTHH:MM:SS) of whole microseconds"
    if pt.is_time(t):
        return "a time of a day (HH:MM:SS)"
    if pt.is_binary(t):
        return "base64"
    if pt.is_string(t):
        return "text"
    if pt.is_null(t):
        return "null, as all values of the column were when its type was found"
    return f"of the type {t}"


def from_text(column: pa.Array, t: pa.DataType) -> pa.Array:
    """Cast a text column to a scalar type; BadValueError has the first row whose value does not fit."""
    try:
        return parse_text(column, t)
    except (pa.ArrowException, ValueError, ArithmeticError):
        row, end = 0, len(column)  # the first bad row lies in [row, end)
        while end - row > 1:
            middle = (row + end) // 2
            try:
                parse_text(column.slice(row, middle - row), t)
                row = middle
            except (pa.ArrowException, ValueError, ArithmeticError):
                end = middle
        value, kind = column[row].as_py(), type_in_words(t)
        if pt.is_floating(t):
            with suppress(ValueError):  # it is no number
                is_finite = isfinite(float(value))
                kind = f"a number that the type {t} holds" if is_finite else f"within the range of the type {t}"
        raise BadValueError(row, value, kind) from None


def parse_text(column: pa.Array, t: pa.DataType) -> pa.Array:
    """Cast as `from_text` does, without searching for the first value that does not fit.

    Raises ArrowException, ValueError or ArithmeticError if one does not.
    """
    if pt.is_string(t) or pt.is_large_string(t):
        return column.cast(t)
    if pt.is_null(t):
        if column.null_count != len(column):
            raise ValueError("a column without any value has one")
        return pa.nulls(len(column), t)
    if pt.is_timestamp(t):
        return _to_timestamp(column, t)
    if pt.is_time(t):
        return _to_time(column, t)
    if pt.is_binary(t) or pt.is_large_binary(t):
        try:
            decoded = [None if v is None else base64.b64decode(v, validate=True) for v in column.to_pylist()]
        except binascii.Error as error:
            raise ValueError(str(error)) from None
        return pa.array(decoded, t)
    text = pc.utf8_trim_whitespace(column)
    if pt.is_date(t):
        return _to_date(text, t)
    if pt.is_boolean(t):
        return pc.utf8_lower(text).cast(pa.bool_())
    if pt.is_integer(t):
        return _to_integer(text, t)
    if pt.is_decimal(t):
        return text_to_decimals(text, t)
    return _to_float(text, t) if pt.is_floating(t) else text.cast(t)


def is_supported(t: pa.DataType) -> bool:
    """Return whether `from_text` supports the type."""
    return not (pt.is_nested(t) or pt.is_duration(t) or pt.is_dictionary(t) or pt.is_interval(t))


def _to_integer(text: pa.Array, t: pa.DataType) -> pa.Array:
    trimmed = pc.replace_substring_regex(text, r"^\+", "")
    try:
        return trimmed.cast(t)
    except pa.ArrowInvalid:  # some are like 1.0 or 1e3: cast them as decimals
        whole = pc.replace_substring_regex(trimmed, r"^(-?\d+)\.0*$", r"\1")
        plain = pc.match_substring_regex(whole, r"^-?(\d+|0[xX][0-9a-fA-F]+)$")
        rest = text_to_decimals(pc.if_else(plain, None, whole), pa.decimal128(38, 18)).cast(t)
        return pc.coalesce(pc.if_else(plain, whole, None).cast(t), rest)


def _to_float(text: pa.Array, t: pa.DataType) -> pa.Array:
    numbers = text.cast(t)
    if are_large(numbers):
        rows = large_rows(numbers)
        texts = text.take(rows)
        finite = texts.filter(pc.invert(pc.match_substring_regex(texts, _INFINITY)))
        if not all(holds_text(t, value.encode()) for value in finite.to_pylist()):
            raise ValueError("a number is too large, or loses digits")
    return numbers


def _to_timestamp(column: pa.Array, t: pa.DataType) -> pa.Array:
    """Cast text to timestamps by the rules of the module."""
    instant = pa.timestamp(t.unit, "UTC")
    for kind in (pa.timestamp(t.unit), instant):  # Arrow's parser requires all values with a zone, or none
        try:
            column.slice(0, _FIRST_VALUES).cast(kind)  # Arrow makes an error's text for each value that fails
            return column.cast(kind).cast(instant).cast(t)
        except pa.ArrowInvalid:
            continue
    exact = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), _ON_THE_HOUR, r"\1:00\2")
    parts = _extract(exact, TIMESTAMP)
    zone = parts["zone"]
    zone = pc.if_else(pc.is_in(zone, pa.array(["", "z", "UTC"])), "Z", zone)
    moment = pc.binary_join_element_wise(parts["date"], _clock(parts, t.unit), "T")
    return pc.binary_join_element_wise(moment, zone, "").cast(instant).cast(t)


def _to_date(text: pa.Array, t: pa.DataType) -> pa.Array:
    try:
        return text.cast(t)
    except pa.ArrowInvalid:
        moments = _to_timestamp(text, pa.timestamp("us", "UTC"))
        days = moments.cast(t)
        if not days.cast(moments.type).equals(moments):
            raise ValueError("the time of a day would be lost") from None
        return days


def _to_time(column: pa.Array, t: pa.DataType) -> pa.Array:
    parts = _extract(column, _TIME)
    zone = parts["zone"]
    moment = pc.binary_join_element_wise("1970-01-01", _clock(parts, t.unit), "T")
    if not pc.any(pc.not_equal(zone, "")).as_py():
        return moment.cast(pa.timestamp(t.unit)).cast(t)
    zone = pc.if_else(pc.is_in(zone, pa.array(["", "z", "UTC"])), "Z", zone)
    instants = pc.binary_join_element_wise(moment, zone, "").cast(pa.timestamp(t.unit, "UTC"))
    return instants.cast(pa.timestamp(t.unit)).cast(t)


def _extract(column: pa.Array, pattern: str) -> dict[str, pa.Array]:
    found = pc.extract_regex(pc.utf8_trim_whitespace(column), pattern)
    if found.null_count != column.null_count:
        raise ValueError("not all values match")
    return {f.name: pc.if_else(pc.is_valid(found), v, None) for f, v in zip(found.type, found.flatten(), strict=True)}


def _clock(parts: dict[str, pa.Array], unit: str) -> pa.Array:
    """Return HH:MM:SS with the digits of the unit."""
    time = pc.if_else(pc.equal(parts["time"], ""), "00:00", parts["time"])
    seconds = pc.if_else(pc.equal(parts["seconds"], ""), ":00", parts["seconds"])
    clock = pc.binary_join_element_wise(time, seconds, "")
    if digits := _DIGITS[unit]:
        padded = pc.utf8_rpad(parts["fraction"], 9, "0")
        fraction = pc.utf8_slice_codeunits(padded, 0, digits)
        rest = pc.utf8_slice_codeunits(padded, digits, 9)
        lost = pc.index(pc.fill_null(pc.match_substring_regex(rest, "[1-9]"), False), pa.scalar(True)).as_py()
        if lost >= 0:
            record_truncated(pc.binary_join_element_wise(clock, padded, ".")[lost].as_py())
        clock = pc.binary_join_element_wise(clock, fraction, ".")
    return clock
