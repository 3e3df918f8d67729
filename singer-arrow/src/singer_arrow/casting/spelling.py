"""Custom formats of dates, numbers and booleans in text files: `Spelling`, and `hint`, which proposes them.

Text columns are normalised to ISO 8601 and JSON syntax before they are cast. A text that does not match the settings is
invalid: `1.234` is not a number if the comma is the decimal point and no thousands separator is set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.errors import ConfigError
from singer_arrow.read_options import ReadOptions

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
            msg = "'decimal_point' must be a character, and not that of 'thousands_separator'"
            raise ConfigError(msg)
        if twice := {_folded(t) for t in options.true_values} & {_folded(t) for t in options.false_values}:
            msg = f"{min(twice)!r} is both in 'true_values' and in 'false_values'"
            raise ConfigError(msg)
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
        msg = f"{form!r} in 'date_formats' or 'timestamp_formats' is not a date format, such as '%d/%m/%Y'"
        raise ConfigError(msg)


def _folded(word: str) -> str:
    return word.strip().lower()


_DAYS = r"^ *\d{1,2}([/.-])\d{1,2}([/.-])\d{4}"
_CLOCK = (("", ""), (r" \d{1,2}:\d\d", " %H:%M"), (r" \d{1,2}:\d\d:\d\d", " %H:%M:%S"))
_COMMA = r"^ *-?(\d+|\d{1,3}(\.\d{3})+),\d+ *$"

_PERHAPS_THOUSANDS = r"^ *-?\d{1,3},\d{3} *$"


def hint(values: pa.Array) -> str | None:
    """Return the setting that makes all texts dates, timestamps or numbers; None if it is ambiguous."""
    if _all_match(values, _COMMA):
        if pc.any(pc.match_substring(values, ".")).as_py():
            return "'decimal_point' to ',' and 'thousands_separator' to '.'"
        return None if _all_match(values, _PERHAPS_THOUSANDS) else "'decimal_point' to ','"
    for clock, form in _CLOCK:
        if _all_match(values, f"{_DAYS}{clock} *$"):
            return _format_of(values, form)
    return None


def _format_of(values: pa.Array, clock: str) -> str | None:
    """Return the setting for the only order of day and month in which all texts are dates."""
    mark = re.search(r"\D", values[0].as_py().strip())
    forms = [f"{order.replace('-', mark[0] if mark else '-')}{clock}" for order in ("%d-%m-%Y", "%m-%d-%Y")]
    kind = "timestamp_formats" if clock else "date_formats"
    t = pa.timestamp("us", "UTC")
    spellings = [Spelling(ReadOptions(date_formats=(form,))) for form in forms]
    fitting = [form for form, s in zip(forms, spellings, strict=True) if _all_match(s.normalize(values, t), r"^\d{4}-")]
    return f"{kind!r} to [{fitting[0]!r}]" if len(fitting) == 1 else None


def _all_match(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())
