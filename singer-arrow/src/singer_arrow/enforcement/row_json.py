"""A row of a batch as JSON text from which it can be told, whatever is wrong with it. Pure."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import unwrap
from singer_arrow.casting.from_json import BadRowError, parse
from singer_arrow.casting.from_text import display_value
from singer_arrow.casting.to_json import json_text, json_texts
from singer_arrow.casting.utf8 import is_valid
from singer_arrow.errors import DataError

NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""What numbers are called that JSON lacks; others of them are `NaN`."""


def row_to_json(batch: pa.RecordBatch, row: int) -> str:
    """A row (from 0): numbers that JSON lacks are `"NaN"` and such, invalid text is escaped, nulls are there."""
    pairs = zip(batch.schema, batch.columns, strict=True)
    members = (f"{json_text(f.name)}:{_value(c.take(pa.array([row], pa.int64())), f)}" for f, c in pairs)
    return f"{{{','.join(members)}}}"


def line_to_json(line: bytes) -> str:
    """A line of JSON Lines: as it is, or an object with its text as `_raw` if it is no JSON."""
    line = line.strip()
    try:
        parse(line)
        return line.decode()
    except (BadRowError, ValueError, RecursionError):
        return f'{{"_raw":{json_text(line.decode(errors="backslashreplace"))}}}'


def float_to_json(value: float) -> str:
    """A float as JSON."""
    return json_text(value if math.isfinite(value) else NON_FINITE.get(value, "NaN"))


def _value(one: pa.Array, field: pa.Field) -> str:
    """The only value of a column."""
    one = unwrap(one)
    if one.null_count or pt.is_null(one.type):
        return "null"
    try:
        if pt.is_floating(one.type):
            return float_to_json(float(one[0].as_py()))
        if not is_valid(one):
            return json_text(display_value(one, 0))
        return str(json_texts(one, field.with_type(one.type))[0].as_py())
    except (pa.ArrowException, DataError, ArithmeticError, ValueError, TypeError):
        return json_text(_readable(one[0]))


def _readable(scalar: Any) -> str:
    """Something that tells a value which has no JSON."""
    try:
        return str(scalar.as_py())
    except (ArithmeticError, ValueError, TypeError):  # a moment of a year that Python does not have
        return str(scalar)
