"""Text columns -> columns of a type, with mismatches as null: `fit_text`. Pure.

`from_text.from_text` decides which values fit. A pattern finds most mismatches at once; the rest is bisected, which is
slow only for values that look valid but are not.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_text import BadValueError, from_text
from singer_arrow.casting.to_json import text_as_json
from singer_arrow.schema.arrow_schema import is_json

_ODD = r"0[xX][0-9a-fA-F]+|[-+0-9.]*[eE][-+0-9]+|(?i:nan|inf|infinity)"  # numbers whose digits do not show their size
_DAY = r"^[0-9]{4}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])"


def fit_text(column: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Array]:
    """Return the column in the field's type, with mismatches as null, and the mismatched rows in order.

    Args:
        column: Column of type string.
        field: Field of a type that `from_text.is_supported` accepts.
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
