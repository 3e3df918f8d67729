"""How dates, numbers, times and texts are spelled in files. Pure."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from logging import Logger
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.errors import ConfigError
from singer_arrow.read_options import ReadOptions

# Custom formats of dates, numbers and booleans in text files: `Spelling`, and `hint`, which proposes them.
#
# Text columns are normalised to ISO 8601 and JSON syntax before they are cast. A text that does not match the settings
# is invalid: `1.234` is not a number if the comma is the decimal point and no thousands separator is set.

_NO_VALUE = "?"
_FIRST_YEAR = 100  # `%Y` reads `25` as the year 25
_EXAMPLE = datetime(2004, 11, 25, 13, 14, 15)  # noqa: DTZ001


@dataclass(frozen=True, slots=True)
class Spelling:
    """Formats of `ReadOptions`; empty ones mean the standard syntax."""

    options: ReadOptions

    @classmethod
    def of(cls, options: ReadOptions) -> Spelling:
        """Return the formats of `options`; ConfigError if one is invalid."""
        point, separator = options.decimal_point, options.thousands_separator or ""
        for mark in (point, separator):
            if len(mark) > 1 or mark.isalnum() or mark in ("+", "-"):
                msg = f"'decimal_point' and 'thousands_separator' must be one character each, it is {mark!r}"
                raise ConfigError(msg)
        if not point or point == separator:
            raise ConfigError("'decimal_point' must be a character, and not that of 'thousands_separator'")
        if twice := {_folded(t) for t in options.true_values} & {_folded(t) for t in options.false_values}:
            raise ConfigError(f"{min(twice)!r} is both in 'true_values' and in 'false_values'")
        for form in (*options.date_formats, *options.timestamp_formats):
            _check_format(form)
        return cls(options)

    def applies_to(self, t: pa.DataType) -> bool:
        """Return whether texts of a type must be normalised."""
        options = self.options
        if pt.is_date(t):
            return bool(options.date_formats)
        if pt.is_timestamp(t):
            return bool(options.date_formats or options.timestamp_formats)
        if pt.is_boolean(t):
            return bool(options.true_values or options.false_values)
        number = pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t)
        return bool(number and (options.decimal_point != "." or options.thousands_separator))

    def normalize(self, column: pa.Array, t: pa.DataType) -> pa.Array:
        """Return a text column in standard syntax; invalid numbers and booleans become `?`."""
        if not self.applies_to(t):
            return column
        options, text = self.options, pc.utf8_trim_whitespace(column)
        if pt.is_boolean(t):
            folded = pc.utf8_lower(text)
            made = pa.nulls(len(text), pa.string())
            for words, meaning in ((options.true_values, "true"), (options.false_values, "false")):
                known = pa.array([_folded(word) for word in words], pa.string())
                made = pc.coalesce(made, pc.if_else(pc.is_in(folded, known), meaning, None))
            usual = pc.is_in(folded, pa.array(["true", "false"]))
            made = pc.coalesce(made, pc.if_else(usual, folded, _NO_VALUE))
            return pc.if_else(pc.is_valid(text), made, None)
        if pt.is_date(t) or pt.is_timestamp(t):  # by the first format that matches; other texts are unchanged
            formats = options.date_formats if pt.is_date(t) else (*options.timestamp_formats, *options.date_formats)
            made = pa.nulls(len(text), pa.string())
            for form in formats:
                made = pc.coalesce(made, _iso(text, form))
            if pt.is_date(t):
                made = pc.replace_substring_regex(made, r" 00:00:00(\.0+)?$", "")
            return pc.coalesce(made, text)
        point, separator = re.escape(options.decimal_point), re.escape(options.thousands_separator or "")
        whole = rf"(?:\d+|\d{{1,3}}(?:{separator}\d{{3}})+)" if separator else r"\d+"
        pattern = rf"^[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?$|^[+-]?(?i:nan|inf|infinity)$"
        fits = pc.match_substring_regex(text, pattern)
        if options.thousands_separator:
            text = pc.replace_substring(text, options.thousands_separator, "")
        if options.decimal_point != ".":
            text = pc.replace_substring(text, options.decimal_point, ".")
        return pc.if_else(fits, text, _NO_VALUE)


def _iso(text: pa.Array, form: str) -> pa.Array:
    """Return texts of a format in ISO 8601, in UTC, with all digits; null for other texts."""
    moments = _read(text, form, "us")
    iso = moments.cast(pa.string())
    if "f" not in form:
        return iso
    exact = _read(text, form, "ns")  # overflows outside a range of 584 years, and then differs
    same = pc.fill_null(pc.equal(exact.cast(moments.type, safe=False), moments), fill_value=False)
    return pc.if_else(same, exact.cast(pa.string()), iso)


def _read(text: pa.Array, form: str, unit: Literal["us", "ns"]) -> pa.Array:
    """Parse texts of a format; null for other texts."""
    import polars as pl

    found = pl.Series(pl.from_arrow(text)).str.to_datetime(form, time_unit=unit, strict=False, exact=True)
    if found.dtype.time_zone is not None:  # type: ignore[attr-defined]
        found = found.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    moments = found.to_arrow()
    return pc.if_else(pc.less(pc.year(moments), _FIRST_YEAR), pa.scalar(None, moments.type), moments)


def _check_format(form: str) -> None:
    """Raise ConfigError if a format does not contain a complete date."""
    import polars as pl

    try:
        text = pl.Series([_EXAMPLE]).dt.replace_time_zone("UTC").dt.strftime(form).to_arrow()
        found = _read(text.cast(pa.string()), form, "us")[0].as_py()
    except pl.exceptions.PolarsError:
        found = None
    if found is None or found.date() != _EXAMPLE.date():
        raise ConfigError(f"{form!r} in 'date_formats' or 'timestamp_formats' is not a date format, such as '%d/%m/%Y'")


def _folded(word: str) -> str:
    return word.strip().lower()


_DAYS = r"^ *\d{1,2}([/.-])\d{1,2}([/.-])\d{4}"
_CLOCK = (("", ""), (r" \d{1,2}:\d\d", " %H:%M"), (r" \d{1,2}:\d\d:\d\d", " %H:%M:%S"))
_COMMA = r"^ *-?(\d+|\d{1,3}(\.\d{3})+),\d+ *$"

_PERHAPS_THOUSANDS = r"^ *-?\d{1,3},\d{3} *$"


def hint(values: pa.Array) -> str | None:
    """Return the setting that makes all texts dates, timestamps or numbers; None if it is ambiguous."""
    if all_match(values, _COMMA):
        if pc.any(pc.match_substring(values, ".")).as_py():
            return "'decimal_point' to ',' and 'thousands_separator' to '.'"
        return None if all_match(values, _PERHAPS_THOUSANDS) else "'decimal_point' to ','"
    for clock, form in _CLOCK:
        if all_match(values, f"{_DAYS}{clock} *$"):
            return _format_of(values, form)
    return None


def _format_of(values: pa.Array, clock: str) -> str | None:
    """Return the setting for the only order of day and month in which all texts are dates."""
    mark = re.search(r"\D", values[0].as_py().strip())
    forms = [f"{order.replace('-', mark[0] if mark else '-')}{clock}" for order in ("%d-%m-%Y", "%m-%d-%Y")]
    kind = "timestamp_formats" if clock else "date_formats"
    t = pa.timestamp("us", "UTC")
    spellings = [Spelling(ReadOptions(date_formats=(form,))) for form in forms]
    fitting = [form for form, s in zip(forms, spellings, strict=True) if all_match(s.normalize(values, t), r"^\d{4}-")]
    return f"{kind!r} to [{fitting[0]!r}]" if len(fitting) == 1 else None


def all_match(values: pa.Array, pattern: str) -> bool:
    """Return whether all texts that are not null match a pattern."""
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())


# Warnings about digits of seconds that a type cannot hold: one per file and column.
#
# Casts run in threads and know neither file nor column. So a reader wraps the casts of a block in `collect_truncated`,
# calls `set_column` before each column, and logs the result by `warn_truncated`.


def to_microseconds(column: pa.Array) -> pa.Array:
    """Return timestamps or times of nanoseconds as microseconds, rounded down, also before 1970; record what is lost.

    ValueError: digits of a column are lost that must keep them; see `collect_truncated`.
    """
    t = column.type
    if pt.is_timestamp(t):
        found = column.cast(pa.timestamp("us", t.tz), safe=False)  # rounds towards 1970
        is_later = pc.greater(found.cast(t), column)
        if pc.any(is_later).as_py():
            found = pc.if_else(is_later, pc.subtract(found, pa.scalar(1, pa.duration("us"))), found)
    else:
        found = column.cast(pa.time64("us"), safe=False)
    if is_collecting():
        differs = pc.fill_null(pc.not_equal(found.cast(t, safe=False), column), fill_value=False)
        if (lost := pc.index(differs, pa.scalar(value=True)).as_py()) >= 0:
            record_truncated(f"{temporal_to_text(column[lost])}")
    return found


class _State(threading.local):
    column = ""
    found: dict[str, str] | None = None
    exact: Collection[str] = ()


_state = _State()


@contextmanager
def collect_truncated(exact: Collection[str] = ()) -> Iterator[dict[str, str]]:
    """Collect, by column, the first value whose digits this thread truncates; those of `exact` columns do not fit."""
    before, found = (_state.found, _state.exact), dict[str, str]()
    _state.found, _state.exact = found, exact
    try:
        yield found
    finally:
        _state.found, _state.exact = before


def set_column(name: str) -> None:
    """Set the name of the column that this thread casts next."""
    _state.column = name


def is_collecting() -> bool:
    """Return whether this thread is within `collect_truncated`."""
    return _state.found is not None


def record_truncated(value: str) -> None:
    """Record a value whose digits are truncated; ValueError if its column must keep them."""
    if _state.column in _state.exact:
        raise ValueError(f"{value!r} has digits beyond microseconds")
    if _state.found is not None:
        _state.found.setdefault(_state.column, value)


KEEPERS = "only the types timestamp[ns] and time[ns] keep them"


def warn_truncated(
    log: Logger, where: object, cuts: Mapping[str, str], warned: set[str], keepers: str = KEEPERS
) -> None:
    """Log a warning for each column of `cuts` that is not in `warned`, and add it; the values are from `where`."""
    for column, value in cuts.items():
        if column not in warned:
            warned.add(column)
            log.warning(
                "%s, column %r: digits beyond microseconds are cut off, first those of %r; %s",
                where,
                column,
                value,
                keepers,
            )


# Exact casts from text and decimals to decimals, and to text. Pure.
#
# Arrow's casts ignore overflow when they scale decimals, so values that may overflow are cast differently.

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
    return pa.array([None if text is None else decimal_of(text, t) for text in column.to_pylist()], wide).cast(t)


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


def decimal_of(text: str, t: pa.DataType) -> Decimal:
    """Return a number with the scale of the type, so that Arrow need not rescale it; ValueError if it does not fit."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).lstrip("0")
    if not figures:
        return Decimal((0, (0,), -t.scale))
    exponent += len(figures) - len(figures.rstrip("0"))
    figures = figures.rstrip("0")
    whole = exponent + t.scale  # zeros to add
    if whole < 0 or len(figures) + whole > t.precision:
        raise ValueError("too many digits")
    return Decimal((sign, tuple(map(int, figures + "0" * whole)), -t.scale))


# Dates, times and timestamps as text, also outside the ranges of Python and Arrow. Pure.

JSON_YEARS = (-62135596800, 253402300800)
"""Seconds from 1970 to the years 1 and 10000: outside, years do not have four digits."""
PRINTABLE_YEARS = (-1096193779200, 971890963200)
"""Seconds from 1970 to the years -32767 and 32768: Arrow prints no others."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def beyond_years(column: pa.Array, years: tuple[int, int] = JSON_YEARS) -> bool:
    """Return whether a date or timestamp, at any depth, lies outside the range."""
    t = column.type
    if pt.is_struct(t):
        return any(beyond_years(part, years) for part in column.flatten())
    if pt.is_map(t):
        return beyond_years(column.items, years)
    if pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t):
        return beyond_years(column.flatten(), years)
    if not (pt.is_date(t) or pt.is_timestamp(t)):
        return False
    found = pc.min_max(column)
    seconds, units = (86_400, 1) if pt.is_date32(t) else (1, _PER_SECOND["ms" if pt.is_date(t) else t.unit])
    low, high = (found[k].value for k in ("min", "max"))
    return low is not None and not (years[0] * units <= low * seconds and high * seconds < years[1] * units)


def check_printable(column: pa.Array) -> None:
    """Raise ValueError if Arrow does not print a date or timestamp correctly."""
    if beyond_years(column, PRINTABLE_YEARS):
        raise ValueError("a date lies outside the years -32767 to 32767")


def temporal_to_text(value: pa.Scalar) -> str | None:
    """Return a date, time or timestamp as exact text, also `24:00:00`; outside Arrow's range a count of units."""
    t = value.type
    if not value.is_valid:
        return None
    if pt.is_time(t):
        return format_time(value.value, _PER_SECOND[t.unit])
    if pt.is_interval(t):
        return f"{value.as_py()}"
    if pt.is_duration(t) or beyond_years(pa.array([value], t), PRINTABLE_YEARS):
        return f"{value.value} ({t})"
    text: str = value.cast(pa.string()).as_py()
    return text


def format_time(units: int, per_second: int) -> str:
    """Return a time since midnight as hours, minutes, seconds and fraction, also negative or above a day."""
    seconds, rest = divmod(abs(units), per_second)
    fraction = f".{rest:0{len(str(per_second)) - 1}}" if per_second > 1 else ""
    return f"{'-' if units < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


# Validation of values that readers of columnar files do not check. Pure.
#
# Text must be UTF-8, decimals must not exceed their precision, and times must lie within a day.

_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def is_valid_utf8(column: pa.Array) -> bool:
    """Return whether all values of a column are valid for its type, at any depth."""
    t = column.type
    if not (pt.is_nested(t) or pt.is_decimal(t) or pt.is_dictionary(t) or pt.is_time(t) or t in _BYTES):
        return True
    if (pt.is_string(t) or pt.is_large_string(t)) and len(column):  # ASCII is known by one pass over the bytes
        _, offsets, data = column.buffers()
        counts = pa.int32() if pt.is_string(t) else pa.int64()
        bounds = pa.Array.from_buffers(counts, len(column) + 1, [None, offsets], offset=column.offset)
        start, end = bounds[0].as_py(), bounds[-1].as_py()
        if data is None or start == end:
            return True
        signed = pa.Array.from_buffers(pa.int8(), end - start, [None, data.slice(start, end - start)], null_count=0)
        if pc.min(signed).as_py() >= 0:
            return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def decode_bytes(value: object) -> object:
    """Decode bytes within a value, with invalid UTF-8 escaped."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {key: decode_bytes(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [decode_bytes(v) for v in value]
    return value


def storage_type(t: pa.DataType, *, moments: bool = False) -> pa.DataType:
    """Return a type of the same layout in which all values are valid: bytes for text, integers for times.

    With `moments`, integers for dates and timestamps too.
    """

    def inner(field: pa.Field) -> pa.Field:
        return field.with_type(storage_type(field.type, moments=moments))

    if (stored := _BYTES.get(t)) is not None:
        return stored
    if pt.is_time(t) or (moments and pt.is_temporal(t)):
        return pa.int32() if t.bit_width == 32 else pa.int64()
    if pt.is_struct(t):
        return pa.struct([inner(f) for f in t])
    if pt.is_map(t):
        return pa.map_(inner(t.key_field), inner(t.item_field))
    if pt.is_fixed_size_list(t):
        return pa.list_(inner(t.value_field), t.list_size)
    if pt.is_list(t) or pt.is_large_list(t):
        return (pa.list_ if pt.is_list(t) else pa.large_list)(inner(t.value_field))
    return t
