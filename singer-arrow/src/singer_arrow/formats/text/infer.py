"""Infer the names and the types of the columns of a text file. Pure.

The type of a column is the first one in this list that fits all values (empty fields and null values are ignored):

- boolean: `true` and `false` in any case; 0 and 1 are integers.
- integer: digits without leading zeros or `+`: `007` is text. int64; decimal(38, 0) if one lies beyond.
- float64: numbers with a point or an exponent, of at most 17 digits, as many as a float64 prints; with more, text.
  Values may also be `NaN`, `inf` or `infinity`, in any case.
- decimal(38, 9): such numbers, if a float64 does not hold all whole numbers among them; text if that does not hold all.
- date: YYYY-MM-DD.
- timestamp in microseconds, UTC: ISO 8601, `T` or blank, with or without fraction and zone; dates may be among them.
- text: everything else; with `type_tolerance`, the type of nearly all values.

Other spellings of dates, numbers and booleans are options. A column without a value is of type null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.casting.from_text import TIMESTAMP, BadValueError, from_text
from singer_arrow.casting.spelling import Spelling
from singer_arrow.casting.whole_numbers import DIGITS_OF_ALL_FLOATS, holds_text, type_of
from singer_arrow.enforcement.mismatches import fit_text
from singer_arrow.enforcement.row_policy import rows_except
from singer_arrow.read_options import ReadOptions

_INTEGER = r"^ *-?(0|[1-9]\d*) *$"
_DIGITS_OF_FLOAT = 17
_NUMBER = r"^ *-?(0|[1-9]\d*)?(\.\d+|\.)?([eE][+-]?\d{1,3})? *$"
_SPECIAL = r"^ *(?i:nan|-?inf(inity)?) *$"
_HAS_DIGIT = r"^ *-?\.?\d"
_BOOLEAN = r"^ *(?i:true|false) *$"
_DATE = r"^ *\d{4}-\d\d-\d\d *$"


def present(column: pa.Array, nulls: pa.Array) -> pa.Array:
    """Return the values of a column that are not null and not among `nulls`."""
    return column.filter(pc.fill_null(pc.invert(pc.is_in(column, nulls)), False)).drop_null()


def infer_type(column: pa.Array, nulls: pa.Array, options: ReadOptions) -> pa.DataType:
    """Return the type of a column of text, null if all its values are null or among `nulls`."""
    values = present(column.unique(), nulls)  # far fewer, and of the same type
    if len(values) == 0:
        return pa.null()
    spelling = Spelling.of(options)
    for kind in _KINDS:
        if (t := kind.fits(spelling.normalize(values, kind.usual))) is not None:
            return t
    return _type_of_most(present(column, nulls), spelling, options.type_tolerance) or pa.string()


def _type_of_most(values: pa.Array, spelling: Spelling, tolerance: float) -> pa.DataType | None:
    """Return the type of most values, if the share of the others is within the tolerance."""
    best, most = None, len(values) * (1 - tolerance)
    for kind in _KINDS if tolerance else ():
        texts = spelling.normalize(values, kind.usual)
        likely = texts.filter(pc.match_substring_regex(pc.utf8_trim_whitespace(texts), kind.pattern))
        _, bad = fit_text(likely, pa.field("", kind.usual))
        good = likely.take(rows_except(len(likely), bad))
        if len(good) and len(good) >= most and (best is None or len(good) > most) and (t := kind.fits(good)):
            best, most = t, len(good)
    return best


def _all_match(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())


def _converts(values: pa.Array, t: pa.DataType) -> bool:
    try:
        from_text(values, t)
    except BadValueError:
        return False
    return True


def _integer(values: pa.Array) -> pa.DataType | None:
    if not _all_match(values, _INTEGER):
        return None
    return next((t for t in (pa.int64(), pa.decimal128(38, 0)) if _converts(values, t)), None)


def _float(values: pa.Array) -> pa.DataType | None:
    numbers, values = values, values.filter(pc.invert(pc.match_substring_regex(values, _SPECIAL)))
    if not (len(values) and _all_match(values, _NUMBER) and _all_match(values, _HAS_DIGIT)):
        return None
    long = values.filter(pc.greater(pc.utf8_length(values), DIGITS_OF_ALL_FLOATS))
    if not all(holds_text(pa.float64(), v.strip().encode()) for v in long.to_pylist()):
        if len(numbers) > len(values) or pc.any(pc.match_substring_regex(values, "[eE]")).as_py():
            return pa.string()
        parts = pc.extract_regex(values, r"^[ \-]*0*(?P<before>[0-9]*)\.?(?P<after>[0-9]*?)0* *$")
        before, after = (pc.max(pc.utf8_length(parts.field(i))).as_py() for i in range(2))
        return type_of(before=before, after=after, is_held=False)
    digits = pc.replace_substring_regex(pc.replace_substring_regex(values, r"[eE].*", ""), r"^[ \-0.]*|[. ]", "")
    digits = pc.replace_substring_regex(digits, r"0+$", "")
    longest = pc.max(pc.utf8_length(digits)).as_py()
    return pa.float64() if longest <= _DIGITS_OF_FLOAT else None


def _date(values: pa.Array) -> pa.DataType | None:
    return pa.date32() if _all_match(values, _DATE) and _converts(values, pa.date32()) else None


def _timestamp(values: pa.Array) -> pa.DataType | None:
    t = pa.timestamp("us", "UTC")
    return t if _all_match(pc.utf8_trim_whitespace(values), TIMESTAMP) and _converts(values, t) else None


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of values: its usual type, the pattern of its texts, and a function that returns the type of texts."""

    usual: pa.DataType
    pattern: str
    fits: Callable[[pa.Array], pa.DataType | None]


_KINDS = (
    _Kind(pa.bool_(), _BOOLEAN, lambda values: pa.bool_() if _all_match(values, _BOOLEAN) else None),
    _Kind(pa.int64(), _INTEGER, _integer),
    _Kind(pa.float64(), f"{_NUMBER}|{_SPECIAL}", _float),
    _Kind(pa.date32(), _DATE, _date),
    _Kind(pa.timestamp("us", "UTC"), TIMESTAMP, _timestamp),
)


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to repetitions: `a`, `a_2`, `a_3`."""
    found = list[str]()
    for name in names:
        own, number = name, 1
        while own in found or (number > 1 and own in names):
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found


def numbered(names: Iterable[str | None]) -> list[str]:
    """Return the names, with `column_1`, `column_2` and so on for empty ones."""
    return [name or f"column_{i}" for i, name in enumerate(names, 1)]
