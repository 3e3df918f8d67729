"""How a stream writes dates, numbers and booleans where that is not as ISO 8601 and JSON do it.

Each column of text is brought to that spelling at once, before it is converted. What is not written as the settings say
is no value then: `1.234` is no number where the comma is the decimal point and no separator of thousands is set.
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
_FIRST_YEAR = 100  # `%Y` takes `25` as the year 25
_EXAMPLE = datetime(2004, 11, 25, 13, 14, 15)  # noqa: DTZ001


@dataclass(frozen=True, slots=True)
class Spelling:
    """As in `ReadOptions`; what is empty is as everywhere."""

    date_formats: tuple[str, ...] = ()
    timestamp_formats: tuple[str, ...] = ()
    decimal_point: str = "."
    thousands_separator: str = ""
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: ReadOptions) -> Spelling:
        """That of a reading.

        Raises:
            ConfigError: A setting makes no sense.
        """
        found = cls(
            options.date_formats,
            options.timestamp_formats,
            options.decimal_point,
            options.thousands_separator or "",
            options.true_values,
            options.false_values,
        )
        for mark in (found.decimal_point, found.thousands_separator):
            if len(mark) > 1 or mark.isalnum() or mark in ("+", "-"):
                msg = f"'decimal_point' and 'thousands_separator' must be one character each, it is {mark!r}"
                raise ConfigError(msg)
        if not found.decimal_point or found.decimal_point == found.thousands_separator:
            msg = "'decimal_point' must be a character, and not that of 'thousands_separator'"
            raise ConfigError(msg)
        if twice := {_folded(t) for t in found.true_values} & {_folded(t) for t in found.false_values}:
            msg = f"{min(twice)!r} is both in 'true_values' and in 'false_values'"
            raise ConfigError(msg)
        for form in (*found.date_formats, *found.timestamp_formats):
            _check_format(form)
        return found

    def concerns(self, t: pa.DataType) -> bool:
        """Whether texts of a type are to be brought to the plain spelling."""
        if pt.is_date(t):
            return bool(self.date_formats)
        if pt.is_timestamp(t):
            return bool(self.date_formats or self.timestamp_formats)
        if pt.is_boolean(t):
            return bool(self.true_values or self.false_values)
        number = pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t)
        return bool(number and (self.decimal_point != "." or self.thousands_separator))

    def plain(self, column: pa.Array, t: pa.DataType) -> pa.Array:
        """A column of text in the plain spelling; `?` for what is no value of the type."""
        if not self.concerns(t):
            return column
        text = pc.utf8_trim_whitespace(column)
        if pt.is_boolean(t):
            return self._booleans(text)
        if pt.is_date(t) or pt.is_timestamp(t):
            return self._moments(text, t)
        return self._numbers(text)

    def _numbers(self, text: pa.Array) -> pa.Array:
        point, separator = re.escape(self.decimal_point), re.escape(self.thousands_separator)
        whole = rf"(?:\d+|\d{{1,3}}(?:{separator}\d{{3}})+)" if separator else r"\d+"
        pattern = rf"^[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?$|^[+-]?(?i:nan|inf|infinity)$"
        fits = pc.match_substring_regex(text, pattern)
        if self.thousands_separator:
            text = pc.replace_substring(text, self.thousands_separator, "")
        if self.decimal_point != ".":
            text = pc.replace_substring(text, self.decimal_point, ".")
        return pc.if_else(fits, text, _NO_VALUE)

    def _booleans(self, text: pa.Array) -> pa.Array:
        folded = pc.utf8_lower(text)
        made = pa.nulls(len(text), pa.string())
        for words, meaning in ((self.true_values, "true"), (self.false_values, "false")):
            known = pa.array([_folded(word) for word in words], pa.string())
            made = pc.coalesce(made, pc.if_else(pc.is_in(folded, known), meaning, None))
        usual = pc.is_in(folded, pa.array(["true", "false"]))
        made = pc.coalesce(made, pc.if_else(usual, folded, _NO_VALUE))
        return pc.if_else(pc.is_valid(text), made, None)

    def _moments(self, text: pa.Array, t: pa.DataType) -> pa.Array:
        """The moments of the first format that fits each text, in ISO 8601; other texts as they are."""
        formats = self.date_formats if pt.is_date(t) else (*self.timestamp_formats, *self.date_formats)
        made = pa.nulls(len(text), pa.string())
        for form in formats:
            made = pc.coalesce(made, _iso(text, form))
        if pt.is_date(t):
            made = pc.replace_substring_regex(made, r" 00:00:00(\.0+)?$", "")
        return pc.coalesce(made, text)


def _iso(text: pa.Array, form: str) -> pa.Array:
    """The moments of texts of a format, in UTC, with all their digits; null for other texts."""
    moments = _read(text, form, "us")
    iso = moments.cast(pa.string())
    if "f" not in form:
        return iso
    exact = _read(text, form, "ns")  # wrong beyond the 584 years that it has, and then not the same
    same = pc.fill_null(pc.equal(exact.cast(moments.type, safe=False), moments), fill_value=False)
    return pc.if_else(same, exact.cast(pa.string()), iso)


def _read(text: pa.Array, form: str, unit: Literal["us", "ns"]) -> pa.Array:
    """The moments of texts of a format; null for other texts."""
    import polars as pl

    found = pl.Series(pl.from_arrow(text)).str.to_datetime(form, time_unit=unit, strict=False, exact=True)
    if found.dtype.time_zone is not None:  # type: ignore[attr-defined]
        found = found.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    moments = found.to_arrow()
    return pc.if_else(pc.less(pc.year(moments), _FIRST_YEAR), pa.scalar(None, moments.type), moments)


def _check_format(form: str) -> None:
    """Refuse a format from which no date can be read.

    Raises:
        ConfigError: It is one.
    """
    import polars as pl

    try:
        text = pl.Series([_EXAMPLE]).dt.replace_time_zone("UTC").dt.strftime(form).to_arrow()
        found = _read(text.cast(pa.string()), form, "us")[0].as_py()
    except pl.exceptions.PolarsError:
        found = None
    if found is None or found.date() != _EXAMPLE.date():
        msg = f"{form!r} in 'date_formats' or 'timestamp_formats' is no format of dates, such as '%d/%m/%Y'"
        raise ConfigError(msg)


def _folded(word: str) -> str:
    return word.strip().lower()
