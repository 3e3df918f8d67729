"""What SCHEMAs of other taps mean: examples of JSON Schema, for the table of `type_tables.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WORDS = """\
Keywords have the meaning of their draft of JSON Schema, as `$schema` names it: 4, 6, 7, 2019-09 or 2020-12; without it
their form decides. A keyword that cannot be used (`"pattern": "("`) is left out, with a warning.

- `multipleOf` makes a decimal, and the bounds give the number of digits before its point. The column has the digits
  of BigQuery's NUMERIC if these suffice, else 38; without bounds, a scale of more than 9 makes it text in Redshift.
- A `time` with an offset becomes the time in UTC: `00:30:00+02:00` is `22:30:00`. To keep offsets, leave `format` out
  of the SCHEMA: the column is then text.
- Whole numbers that may not fit int64 are `number` with `multipleOf: 1`, so that targets of other projects make a
  decimal column; `x-arrow-type` gives the exact type to ours.
"""


def schemas() -> Iterator[dict[str, Any]]:
    """Properties as other taps write them."""
    yield {"type": "integer"}
    yield {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
    yield {"type": "integer", "minimum": -(2**64), "maximum": 2**64}
    yield {"type": "number"}
    yield {"type": "number", "multipleOf": 1}
    yield {"type": "number", "multipleOf": 0.01}
    yield {"type": "number", "multipleOf": 0.01, "exclusiveMinimum": -(10**10), "exclusiveMaximum": 10**10}
    yield {"type": "number", "multipleOf": 1e-10}
    yield {"type": "number", "multipleOf": 1e-10, "exclusiveMinimum": -1e28, "exclusiveMaximum": 1e28}
    bounds = {"minimum": -1e28, "exclusiveMinimum": True, "maximum": 1e28, "exclusiveMaximum": True}
    yield {"type": "number", "multipleOf": 1e-10, **bounds}
    yield {"type": "string", "format": "singer.decimal", "precision": 12, "scale": 3}
    yield {"type": "string"}
    for name in ("date", "date-time", "time", "uuid"):
        yield {"type": "string", "format": name}
    yield {"type": "string", "contentEncoding": "base64"}
    yield {"type": ["integer", "string"]}
    yield {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string"}]}
    yield {"type": "array", "items": {"type": "string"}}
    yield {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}
    yield {"type": "object", "properties": {"a": {"type": "integer"}}}
    yield {"type": "object", "additionalProperties": {"type": "integer"}}
    yield {"type": "object"}
    yield {}
