"""Exact casts of text columns to a type. Pure.

Accepted in addition to Arrow's syntax: blanks around a value, a leading `+`, `1.0` as an integer, any case of
true and false, and every ISO 8601 timestamp with `T` or a blank, with or without minutes, seconds, fraction and zone
(`Z`, `UTC`, `+02`, `+0200`, `+02:00`), mixed in one column. A timestamp without a zone is in UTC. Digits of a fraction
beyond the type's unit are truncated and recorded (`cut_digits`). A timestamp at midnight is also a date. A time of day
with a zone is converted to UTC.
"""

from __future__ import annotations

import base64
import binascii
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import record_truncated
from singer_arrow.casting.decimals import text_to_decimals
from singer_arrow.casting.temporal_text import temporal_to_text
from singer_arrow.casting.utf8 import decode_bytes, is_valid_utf8, storage_type
from singer_arrow.casting.whole_numbers import are_large, holds_text, large_rows

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


def shorten(value: object) -> str:
    """Return a value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text)} characters)"


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
        value = column[row].as_py()
        raise BadValueError(row, value, _float_in_words(value, t) if pt.is_floating(t) else type_in_words(t)) from None


def parse_text(column: pa.Array, t: pa.DataType) -> pa.Array:
    """Cast as `from_text` does, without searching for the first value that does not fit.

    Raises ArrowException, ValueError or ArithmeticError if one does not.
    """
    if pt.is_string(t) or pt.is_large_string(t):
        return column.cast(t)
    if pt.is_null(t):
        if column.null_count != len(column):
            msg = "a column without any value has one"
            raise ValueError(msg)
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
            msg = "a number is too large, or loses digits"
            raise ValueError(msg)
    return numbers


def _float_in_words(text: str, t: pa.DataType) -> str:
    try:
        is_finite = isfinite(float(text))
    except ValueError:
        return type_in_words(t)
    return f"a number that the type {t} holds" if is_finite else f"within the range of the type {t}"


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
            msg = "the time of a day would be lost"
            raise ValueError(msg) from None
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
        msg = "not all values match"
        raise ValueError(msg)
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
