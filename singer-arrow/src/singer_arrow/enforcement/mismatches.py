"""Which values of a column do not fit a type: all of them, in a time that grows with the column and their number. Pure.

What surely does not fit is told at once by what all values that fit have in common; the rest is halved until each
half fits or is a few rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import CAST_ERRORS, convert, unwrap
from singer_arrow.casting.from_text import is_supported, parse_text
from singer_arrow.casting.temporal_text import beyond_years
from singer_arrow.casting.utf8 import is_valid
from singer_arrow.schema.arrow_schema import is_json

_FEW = 8
"""Rows that are tried one by one: halving them further would take more tries."""
_LIKE_A_NUMBER = r"^(?:\P{L}|[a-fA-FxXiInNtTyY])*$"  # with no letters but those of `1e5`, `0xff`, `infinity` and `nan`


def mismatched_rows(column: pa.Array, field: pa.Field, *, json_output: bool = False) -> pa.Array:
    """The rows whose value `exact.fit_read` refuses, in order. A null always fits."""
    column = unwrap(column)
    valid = pc.indices_nonzero(column.is_valid()).cast(pa.int64())
    present = column.take(valid)
    if _is_plain_text(column.type) and is_valid(present):
        distinct = present.unique()
        if 2 * len(distinct) < len(present):  # each text is tried once
            return valid.filter(
                pc.is_in(present, value_set=distinct.take(mismatched_rows(distinct, field, json_output=json_output)))
            )
    sure = _surely(present, field) if is_valid(present) else _nowhere(present)
    open_rows = pc.indices_nonzero(pc.invert(sure)).cast(pa.int64())
    found = open_rows.take(_tried(present.take(open_rows), field, json_output=json_output))
    rows = pa.concat_arrays([pc.indices_nonzero(sure).cast(pa.int64()), found])
    return valid.take(rows.take(pc.sort_indices(rows)))


def _surely(column: pa.Array, field: pa.Field) -> pa.Array:
    """True for values that cannot fit; false for all others, whether they do or not."""
    source, target = column.type, field.type
    if is_json(field) or pt.is_nested(target):
        return _nowhere(column)
    if pt.is_null(target):
        return column.is_valid()
    if pt.is_string(source) or pt.is_large_string(source):
        found = _nowhere(column)
        for pattern in _patterns(target):
            found = pc.or_(found, pc.invert(pc.match_substring_regex(column, pattern)))
        return found
    if _is_exact(target) and (_is_exact(source) or pt.is_floating(source)):
        try:
            back = column.cast(target, safe=False).cast(source, safe=False)
        except CAST_ERRORS:
            return _nowhere(column)
        return pc.fill_null(pc.not_equal(back, column), fill_value=False)
    return _nowhere(column)


def _nowhere(column: pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(value=False), len(column))


def _is_exact(t: pa.DataType) -> bool:
    """Whether a cast to it and back gives the same value, if it fits."""
    return bool(pt.is_integer(t) or pt.is_decimal(t) or pt.is_timestamp(t) or pt.is_date(t) or pt.is_boolean(t))


def _patterns(t: pa.DataType) -> list[str]:
    """What is found in every text that can become the type."""
    if pt.is_boolean(t):
        return [r"(?i)^\s*(true|false|0|1)\s*$"]
    if pt.is_integer(t) or pt.is_decimal(t):
        return [_LIKE_A_NUMBER, r"[0-9]"]
    if pt.is_floating(t):
        return [_LIKE_A_NUMBER, r"[0-9]|(?i:inf|nan)"]
    if pt.is_timestamp(t) or pt.is_date(t) or pt.is_time(t):
        return [r"[0-9]{2}"]
    return []


def _tried(column: pa.Array, field: pa.Field, *, json_output: bool) -> pa.Array:
    """The rows of a column without nulls that `convert` refuses."""
    found, pieces = list[int](), [(0, len(column))]
    while pieces:
        low, high = pieces.pop()
        error = _refusal(column.slice(low, high - low), field, json_output=json_output) if low < high else None
        if error is None:
            continue
        if high - low == 1 or _is_of_the_type(error, column, field):
            found.extend(range(low, high))
        elif high - low <= _FEW:
            pieces.extend((row, row + 1) for row in range(low, high))
        else:
            middle = (low + high) // 2
            pieces += [(low, middle), (middle, high)]
    return pa.array(sorted(found), pa.int64())


def _refusal(piece: pa.Array, field: pa.Field, *, json_output: bool) -> Exception | None:
    if pt.is_nested(piece.type):  # whose parts a slice does not cut
        piece = piece.take(pa.array(range(len(piece)), pa.int64()))
    if not is_valid(piece):
        return ValueError("not what its type says")
    try:
        if _is_plain_text(piece.type) and not _is_plain_text(field.type) and is_supported(field.type):
            parse_text(piece.cast(pa.string()), field.type)
        elif beyond_years(convert(piece, field)) and json_output:
            return ValueError("no date that JSON has")
    except (*CAST_ERRORS, ArithmeticError) as error:
        return error
    return None


def _is_of_the_type(error: Exception, column: pa.Array, field: pa.Field) -> bool:
    """Whether an error is the same for all values: there is no such cast. Of parts, it depends on which there are."""
    of_parts = pt.is_nested(column.type) and (pt.is_nested(field.type) or _is_plain_text(field.type))
    return isinstance(error, pa.ArrowNotImplementedError) and not of_parts


def _is_plain_text(t: pa.DataType) -> bool:
    return bool(pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t))
