"""Rows of a column whose values do not fit a type: `mismatched_rows`. Pure.

Values that cannot fit are found by vectorised checks; the rest is bisected until each part fits or is a few rows.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import CAST_ERRORS, convert, is_text_type, json_fault, unwrap
from singer_arrow.casting.from_text import BadValueError, from_text, is_supported, parse_text
from singer_arrow.casting.to_json import text_as_json
from singer_arrow.casting.utf8 import is_valid_utf8
from singer_arrow.schema.arrow_schema import is_json

_FEW = 8  # number of rows that are checked one by one instead of bisected
_LIKE_A_NUMBER = r"^(?:\P{L}|[a-fA-FxXiInNtTyY])*$"  # no letters except those of `1e5`, `0xff`, `infinity` and `nan`


def mismatched_rows(column: pa.Array, field: pa.Field, *, json_output: bool = False) -> pa.Array:
    """Return the rows whose value `from_arrow.fit_read` refuses, in order. Nulls always fit."""
    column = unwrap(column)
    valid = pc.indices_nonzero(column.is_valid()).cast(pa.int64())
    present = column.take(valid)
    if is_text_type(column.type) and is_valid_utf8(present):
        distinct = present.unique()
        if 2 * len(distinct) < len(present):  # each text is tried once
            return valid.filter(
                pc.is_in(present, value_set=distinct.take(mismatched_rows(distinct, field, json_output=json_output)))
            )
    certain = _certain_mismatches(present, field) if is_valid_utf8(present) else _all_false(present)
    open_rows = pc.indices_nonzero(pc.invert(certain)).cast(pa.int64())
    found = open_rows.take(_bisect(present.take(open_rows), field, json_output=json_output))
    rows = pa.concat_arrays([pc.indices_nonzero(certain).cast(pa.int64()), found])
    return valid.take(rows.take(pc.sort_indices(rows)))


def _certain_mismatches(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return true for values that certainly do not fit, false for all others."""
    source, target = column.type, field.type
    if is_json(field) or pt.is_nested(target):
        return _all_false(column)
    if pt.is_null(target):
        return column.is_valid()
    if pt.is_string(source) or pt.is_large_string(source):
        patterns = list[str]()  # which every text contains that fits
        if pt.is_boolean(target):
            patterns = [r"(?i)^\s*(true|false|0|1)\s*$"]
        elif pt.is_integer(target) or pt.is_decimal(target) or pt.is_floating(target):
            patterns = [_LIKE_A_NUMBER, r"[0-9]|(?i:inf|nan)" if pt.is_floating(target) else r"[0-9]"]
        elif pt.is_timestamp(target) or pt.is_date(target) or pt.is_time(target):
            patterns = [r"[0-9]{2}"]
        found = _all_false(column)
        for pattern in patterns:
            found = pc.or_(found, pc.invert(pc.match_substring_regex(column, pattern)))
        return found
    if _is_exact(target) and (_is_exact(source) or pt.is_floating(source)):
        try:
            back = column.cast(target, safe=False).cast(source, safe=False)
        except CAST_ERRORS:
            return _all_false(column)
        return pc.fill_null(pc.not_equal(back, column), fill_value=False)
    return _all_false(column)


def _all_false(column: pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(value=False), len(column))


def _is_exact(t: pa.DataType) -> bool:
    """Return whether a cast to the type and back preserves every value that fits."""
    return bool(pt.is_integer(t) or pt.is_decimal(t) or pt.is_timestamp(t) or pt.is_date(t) or pt.is_boolean(t))


def _bisect(column: pa.Array, field: pa.Field, *, json_output: bool) -> pa.Array:
    """Return the rows of a column without nulls that `convert` refuses, by bisection."""
    found, pieces = list[int](), [(0, len(column))]
    while pieces:
        low, high = pieces.pop()
        error = _cast_error(column.slice(low, high - low), field, json_output=json_output) if low < high else None
        if error is None:
            continue
        # An error of the types concerns all values; but casts of children depend on the values present.
        of_parts = pt.is_nested(column.type) and (pt.is_nested(field.type) or is_text_type(field.type))
        if high - low == 1 or (isinstance(error, pa.ArrowNotImplementedError) and not of_parts):
            found.extend(range(low, high))
        elif high - low <= _FEW:
            pieces.extend((row, row + 1) for row in range(low, high))
        else:
            middle = (low + high) // 2
            pieces += [(low, middle), (middle, high)]
    return pa.array(sorted(found), pa.int64())


def _cast_error(piece: pa.Array, field: pa.Field, *, json_output: bool) -> Exception | None:
    if pt.is_nested(piece.type):  # slices do not slice children
        piece = piece.take(pa.array(range(len(piece)), pa.int64()))
    if not is_valid_utf8(piece):
        return ValueError("a value is invalid for its type")
    try:
        if is_text_type(piece.type) and not is_text_type(field.type) and is_supported(field.type):
            parse_text(piece.cast(pa.string()), field.type)
        elif (fault := json_fault(convert(piece, field))) and json_output:
            return ValueError(fault)
    except (*CAST_ERRORS, ArithmeticError) as error:
        return error
    return None


_ODD = r"0[xX][0-9a-fA-F]+|[-+0-9.]*[eE][-+0-9]+|(?i:nan|inf|infinity)"  # numbers whose digits do not show their size
_DAY = r"^[0-9]{4}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])"


def fit_text(column: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Array]:
    """Return the column in the field's type, with mismatches as null, and the mismatched rows in order.

    The field is of a type that `from_text.is_supported` accepts.
    """
    none = pa.array([], pa.int64())
    if is_json(field):
        return text_as_json(column), none
    if pt.is_string(field.type) or pt.is_large_string(field.type):
        return column.cast(field.type), none
    try:
        return from_text(column, field.type), none
    except BadValueError:
        pass  # it reports the first mismatch only
    coded = column.dictionary_encode()
    texts = coded.dictionary
    likely = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), _pattern(field.type))
    values, fits = _halve(pc.if_else(likely, texts, None), field.type)
    bad = pc.invert(pc.and_(likely, fits)).take(coded.indices)
    return values.take(coded.indices), pc.indices_nonzero(pc.fill_null(bad, False)).cast(pa.int64())


def _halve(column: pa.Array, t: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return the values that fit, and whether each does, by bisection."""
    parts, fits = [pa.nulls(0, t)], [pa.array([], pa.bool_())]
    todo = [(column, True)]  # parts in reverse order, and whether each may fit
    while todo:
        part, may_fit = todo.pop()
        try:
            parts.append(from_text(part, t) if may_fit and len(part) else pa.nulls(len(part), t))
        except BadValueError as error:
            rest = part.slice(error.row + 1)
            middle = len(rest) // 2
            todo += [(rest.slice(middle), True), (rest.slice(0, middle), True)]
            todo += [(part.slice(error.row, 1), False), (part.slice(0, error.row), True)]
            continue
        fits.append(pa.repeat(may_fit, len(part)))
    return pa.concat_arrays(parts), pa.concat_arrays(fits)


def _pattern(t: pa.DataType) -> str:
    """Return a pattern that all trimmed texts that fit the type match, and few others."""
    if pt.is_integer(t):
        digits = len(str(2 ** (t.bit_width - pt.is_signed_integer(t))))
        return f"^[-+]*(0*[0-9]{{0,{digits}}}(\\.0*)?|{_ODD})$"
    if pt.is_decimal(t):
        before, after = max(0, t.precision - t.scale), max(0, t.scale)
        return f"^[-+]*(0*[0-9]{{0,{before}}}(\\.[0-9]{{0,{after}}}0*)?|{_ODD})$"
    if pt.is_floating(t):
        return f"^[-+]*([0-9]*\\.?[0-9]*|{_ODD})$"
    if pt.is_boolean(t):
        return "^(?i:true|false|0|1)$"
    if pt.is_temporal(t):
        return r"^[0-9]{2}:?[0-9]{2}" if pt.is_time(t) else _DAY
    return "^$" if pt.is_null(t) else ""


def first_invalid(text: bytes) -> int | None:
    """Return the offset of the first invalid UTF-8 byte; None if there is none."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def escape_line(text: bytes) -> str:
    """Decode a line for messages, without its line break and with invalid bytes escaped."""
    return re.sub(r"\r?\n\Z|\r\Z", "", text.decode(errors="backslashreplace"))
