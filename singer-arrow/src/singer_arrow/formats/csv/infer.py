"""Which types the columns of a CSV file have, told from a sample.

A column is of the first type in this list that fits all its values (empty fields and null values left out):

- boolean: `true` and `false` in any case; 0 and 1 are integers.
- integer: digits without leading zeros or `+`: `007` is text. int64; decimal(38, 0) if one lies beyond.
- float64: numbers with a point or an exponent, of at most 17 digits, as many as a float64 prints; with more, text. Some
  of them may be `NaN`, `inf` or `infinity`, in any case.
- date: YYYY-MM-DD.
- timestamp in microseconds, UTC: ISO 8601, `T` or blank, with or without fraction and zone; dates may be among them.
- text: all else; with `type_tolerance`, the type of nearly all values.

The options say how dates, numbers and booleans may be written else.

A column without a value is of type null.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_text import TIMESTAMP, BadValueError, from_text
from singer_arrow.casting.spelling import Spelling
from singer_arrow.casting.spelling_hints import hint
from singer_arrow.enforcement.text_mismatches import fit_text
from singer_arrow.formats.csv.dialect import Dialect
from singer_arrow.formats.csv.parser import BlockParser
from singer_arrow.formats.text.rows import TextRows
from singer_arrow.read_options import ReadOptions

logger = logging.getLogger(__name__)
_INTEGER = r"^ *-?(0|[1-9]\d*) *$"
_DIGITS_OF_FLOAT = 17
_NUMBER = r"^ *-?(0|[1-9]\d*)?(\.\d+|\.)?([eE][+-]?\d{1,3})? *$"
_SPECIAL = r"^ *(?i:nan|-?inf(inity)?) *$"
_HAS_DIGIT = r"^ *-?\.?\d"
_BOOLEAN = r"^ *(?i:true|false) *$"
_DATE = r"^ *\d{4}-\d\d-\d\d *$"


def infer_columns(
    data: bytes, names: Sequence[str], dialect: Dialect, options: ReadOptions, *, url: object, lines_before: int
) -> pa.Schema:
    """The types of the columns in a text of whole records; rows that cannot be read count only if they are an error.

    Raises:
        DataError: A row has another number of fields than there are columns, or is not UTF-8, and
            `options.on_bad_row` is `fail`.
    """
    if not data:
        return pa.schema([(name, pa.null()) for name in names])
    rows = TextRows(names, pa.schema([(name, pa.string()) for name in names]), options)
    outcome = BlockParser(rows, dialect)(memoryview(data), checked=True).outcome
    if outcome.failed is not None:
        raise outcome.failed.error(url, lines_before)
    assert outcome.batch is not None
    nulls = pa.array(sorted({*options.null_values, ""}), pa.string())
    found = pa.schema(
        [(name, infer_type(column, nulls, options)) for name, column in zip(names, outcome.batch.columns, strict=True)]
    )
    for name, column in zip(names, outcome.batch.columns, strict=True):
        values = _present(column, nulls)
        if pt.is_string(found.field(name).type) and (setting := hint(values)):
            logger.info("%s, column %r is text; set %s to read it as more", url, name, setting)
    return found


def _present(column: pa.Array, nulls: pa.Array) -> pa.Array:
    return column.filter(pc.fill_null(pc.invert(pc.is_in(column, nulls)), False)).drop_null()


def infer_type(column: pa.Array, nulls: pa.Array, options: ReadOptions) -> pa.DataType:
    """The type of a column of text; values among `nulls` are left out."""
    values = _present(column, nulls)
    if len(values) == 0:
        return pa.null()
    spelling = Spelling.of(options)
    for kind in _KINDS:
        if (t := kind.fits(spelling.plain(values, kind.plain))) is not None:
            return t
    return _type_of_most(values, spelling, options.type_tolerance) or pa.string()


def _type_of_most(values: pa.Array, spelling: Spelling, tolerance: float) -> pa.DataType | None:
    """The type of most values, where no larger share than tolerated is of none or of another."""
    best, most = None, len(values) * (1 - tolerance)
    for kind in _KINDS if tolerance else ():
        texts = spelling.plain(values, kind.plain)
        likely = texts.filter(pc.match_substring_regex(pc.utf8_trim_whitespace(texts), kind.pattern))
        _, bad = fit_text(likely, pa.field("", kind.plain))
        good = likely.filter(pc.invert(pc.is_in(pa.array(range(len(likely)), pa.int64()), value_set=bad)))
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


def _boolean(values: pa.Array) -> pa.DataType | None:
    return pa.bool_() if _all_match(values, _BOOLEAN) else None


def _integer(values: pa.Array) -> pa.DataType | None:
    if not _all_match(values, _INTEGER):
        return None
    return next((t for t in (pa.int64(), pa.decimal128(38, 0)) if _converts(values, t)), None)


def _float(values: pa.Array) -> pa.DataType | None:
    values = values.filter(pc.invert(pc.match_substring_regex(values, _SPECIAL)))
    if not (len(values) and _all_match(values, _NUMBER) and _all_match(values, _HAS_DIGIT)):
        return None
    digits = pc.replace_substring_regex(pc.replace_substring_regex(values, r"[eE].*", ""), r"^[ \-0.]*|[. ]", "")
    digits = pc.replace_substring_regex(digits, r"0+$", "")
    longest = pc.max(pc.utf8_length(digits)).as_py()
    return pa.float64() if longest <= _DIGITS_OF_FLOAT else None


def _date(values: pa.Array) -> pa.DataType | None:
    return pa.date32() if _all_match(values, _DATE) and _converts(values, pa.date32()) else None


def _timestamp(values: pa.Array) -> pa.DataType | None:
    t = pa.timestamp("us", "UTC")
    if not _all_match(pc.utf8_trim_whitespace(values), TIMESTAMP):
        return None
    return t if _converts(values, t) else None


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of values: its type unless they need a larger one, what all of them match, and the type of some texts."""

    plain: pa.DataType
    pattern: str
    fits: Callable[[pa.Array], pa.DataType | None]


_KINDS = (
    _Kind(pa.bool_(), _BOOLEAN, _boolean),
    _Kind(pa.int64(), _INTEGER, _integer),
    _Kind(pa.float64(), f"{_NUMBER}|{_SPECIAL}", _float),
    _Kind(pa.date32(), _DATE, _date),
    _Kind(pa.timestamp("us", "UTC"), TIMESTAMP, _timestamp),
)
