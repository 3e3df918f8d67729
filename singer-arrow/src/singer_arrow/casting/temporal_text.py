"""Dates, times and timestamps as text, also outside the ranges of Python and Arrow. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

JSON_YEARS = (-62135596800, 253402300800)
"""Seconds from 1970 to the years 1 and 10000: outside, years do not have four digits."""
PRINTABLE_YEARS = (-1096193779200, 971890963200)
"""Seconds from 1970 to the years -32767 and 32768: Arrow prints no others."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def beyond_years(column: pa.Array, years: tuple[int, int] = JSON_YEARS) -> bool:
    """Return whether a date or timestamp, at any depth, lies outside the range."""
    t = column.type
    if pt.is_struct(t):
        return any(beyond_years(part, years) for part in column.flatten())
    if pt.is_map(t):
        return beyond_years(column.items, years)
    if pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t):
        return beyond_years(column.flatten(), years)
    if not (pt.is_date(t) or pt.is_timestamp(t)):
        return False
    found = pc.min_max(column)
    seconds, units = (86_400, 1) if pt.is_date32(t) else (1, _PER_SECOND["ms" if pt.is_date(t) else t.unit])
    low, high = (found[k].value for k in ("min", "max"))
    return low is not None and not (years[0] * units <= low * seconds and high * seconds < years[1] * units)


def check_printable(column: pa.Array) -> None:
    """Raise ValueError if Arrow does not print a date or timestamp correctly."""
    if beyond_years(column, PRINTABLE_YEARS):
        msg = "a date lies outside the years -32767 to 32767"
        raise ValueError(msg)


def temporal_to_text(value: pa.Scalar) -> str | None:
    """Return a date, time or timestamp as exact text, also `24:00:00`; outside Arrow's range a count of units."""
    t = value.type
    if not value.is_valid:
        return None
    if pt.is_time(t):
        return format_time(value.value, _PER_SECOND[t.unit])
    if pt.is_interval(t):
        return f"{value.as_py()}"
    if pt.is_duration(t) or beyond_years(pa.array([value], t), PRINTABLE_YEARS):
        return f"{value.value} ({t})"
    text: str = value.cast(pa.string()).as_py()
    return text


def format_time(units: int, per_second: int) -> str:
    """Return a time since midnight as hours, minutes, seconds and fraction, also negative or above a day."""
    seconds, rest = divmod(abs(units), per_second)
    fraction = f".{rest:0{len(str(per_second)) - 1}}" if per_second > 1 else ""
    return f"{'-' if units < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
