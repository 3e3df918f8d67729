"""Columns of text -> columns of a type, with all values that do not fit told and made null. Pure.

Which values fit is as `values.from_text` says. What clearly does not is found by a pattern, for all values at once; the
rest is halved until each part fits, which takes time only for values that look right and are not.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_text import BadValueError, from_text
from singer_arrow.casting.to_json import text_as_json
from singer_arrow.schema.arrow_schema import is_json

_ODD = r"0[xX][0-9a-fA-F]+|[-+0-9.]*[eE][-+0-9]+|(?i:nan|inf|infinity)"  # numbers whose size their digits do not tell
_DAY = r"^[0-9]{4}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])"


def fit_text(column: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Array]:
    """The column in the field's type, null where a value does not fit; and the numbers of these rows, ascending.

    Args:
        column: Of type string.
        field: Of a type that `values.supported` knows.
    """
    none = pa.array([], pa.int64())
    if is_json(field):
        return text_as_json(column), none
    if pt.is_string(field.type) or pt.is_large_string(field.type):
        return column.cast(field.type), none
    try:
        return from_text(column, field.type), none
    except BadValueError:
        pass  # it does not say which values do not fit
    coded = column.dictionary_encode()
    texts = coded.dictionary
    likely = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), _pattern(field.type))
    values, fits = _halve(pc.if_else(likely, texts, None), field.type)
    bad = pc.invert(pc.and_(likely, fits)).take(coded.indices)
    return values.take(coded.indices), pc.indices_nonzero(pc.fill_null(bad, False)).cast(pa.int64())


def _halve(column: pa.Array, t: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The values that fit, and which do."""
    parts, fits = [pa.nulls(0, t)], [pa.array([], pa.bool_())]
    todo = [(column, True)]  # parts in order, the next one last, and whether it may fit
    while todo:
        part, hopeful = todo.pop()
        try:
            parts.append(from_text(part, t) if hopeful and len(part) else pa.nulls(len(part), t))
        except BadValueError as error:
            rest = part.slice(error.row + 1)
            middle = len(rest) // 2
            todo += [(rest.slice(middle), True), (rest.slice(0, middle), True)]
            todo += [(part.slice(error.row, 1), False), (part.slice(0, error.row), True)]
            continue
        fits.append(pa.repeat(hopeful, len(part)))
    return pa.concat_arrays(parts), pa.concat_arrays(fits)


def _pattern(t: pa.DataType) -> str:
    """What all texts match that fit a type, blanks around them left out, and few others."""
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
    """Where a text stops to be UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def printable(text: bytes) -> str:
    """A text for people, without its line break; bytes that are no UTF-8 by their numbers."""
    return re.sub(r"\r?\n\Z|\r\Z", "", text.decode(errors="backslashreplace"))
