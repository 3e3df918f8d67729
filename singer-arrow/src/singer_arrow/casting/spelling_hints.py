"""Suggested settings for a text column, which are logged but never assumed.

A sample of one file may determine the date format; another file, with days up to 12 only, may not.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.casting.spelling import Spelling

_DAYS = r"^ *\d{1,2}([/.-])\d{1,2}([/.-])\d{4}"
_CLOCK = (("", ""), (r" \d{1,2}:\d\d", " %H:%M"), (r" \d{1,2}:\d\d:\d\d", " %H:%M:%S"))
_COMMA = r"^ *-?(\d+|\d{1,3}(\.\d{3})+),\d+ *$"

_PERHAPS_THOUSANDS = r"^ *-?\d{1,3},\d{3} *$"


def hint(values: pa.Array) -> str | None:
    """Return the setting that makes all texts dates, timestamps or numbers; None if it is ambiguous."""
    if _all_match(values, _COMMA):
        if pc.any(pc.match_substring(values, ".")).as_py():
            return "'decimal_point' to ',' and 'thousands_separator' to '.'"
        return None if _all_match(values, _PERHAPS_THOUSANDS) else "'decimal_point' to ','"
    for clock, form in _CLOCK:
        if _all_match(values, f"{_DAYS}{clock} *$"):
            return _format_of(values, form)
    return None


def _format_of(values: pa.Array, clock: str) -> str | None:
    """Return the setting for the only order of day and month in which all texts are dates."""
    mark = re.search(r"\D", values[0].as_py().strip())
    forms = [f"{order.replace('-', mark[0] if mark else '-')}{clock}" for order in ("%d-%m-%Y", "%m-%d-%Y")]
    kind = "timestamp_formats" if clock else "date_formats"
    t = pa.timestamp("us", "UTC")
    fitting = [form for form in forms if _all_match(Spelling((form,)).normalize(values, t), r"^\d{4}-")]
    return f"{kind!r} to [{fitting[0]!r}]" if len(fitting) == 1 else None


def _all_match(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())
