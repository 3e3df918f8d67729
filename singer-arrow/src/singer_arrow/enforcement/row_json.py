"""Rows and values as JSON text for error reports, also if they are invalid. Pure."""

from __future__ import annotations

import math

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import unwrap
from singer_arrow.casting.from_json import BadRowError, parse
from singer_arrow.casting.from_text import display_value
from singer_arrow.casting.to_json import json_text, json_texts
from singer_arrow.casting.utf8 import is_valid_utf8
from singer_arrow.errors import DataError

NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""Texts of infinities, which JSON lacks; other non-finite numbers are `NaN`."""


def row_to_json(batch: pa.RecordBatch, row: int) -> str:
    """Return a row (from 0) as a JSON object, with nulls, `"NaN"` for NaN, and invalid UTF-8 escaped."""
    pairs = zip(batch.schema, batch.columns, strict=True)
    members = (f"{json_text(f.name)}:{_value(c.take(pa.array([row], pa.int64())), f)}" for f, c in pairs)
    return f"{{{','.join(members)}}}"


def line_to_json(line: bytes) -> str:
    """Return a line of JSON Lines unchanged, or as `{"_raw": ...}` if it is not JSON."""
    line = line.strip()
    try:
        parse(line)
        return line.decode()
    except (BadRowError, ValueError, RecursionError):
        return f'{{"_raw":{json_text(line.decode(errors="backslashreplace"))}}}'


def float_to_json(value: float) -> str:
    """Return a float as JSON, non-finite ones as text."""
    return json_text(value if math.isfinite(value) else NON_FINITE.get(value, "NaN"))


def _value(one: pa.Array, field: pa.Field) -> str:
    """Return the only value of a column as JSON."""
    one = unwrap(one)
    if one.null_count or pt.is_null(one.type):
        return "null"
    try:
        if pt.is_floating(one.type):
            return float_to_json(float(one[0].as_py()))
        if not is_valid_utf8(one):
            return json_text(display_value(one, 0))
        return str(json_texts(one, field.with_type(one.type))[0].as_py())
    except (pa.ArrowException, DataError, ArithmeticError, ValueError, TypeError):
        try:
            return json_text(str(one[0].as_py()))
        except (ArithmeticError, ValueError, TypeError):  # a year outside Python's range
            return json_text(str(one[0]))
