"""Warnings about digits of seconds that a type cannot hold: one per file and column.

Casts run in threads and know neither file nor column. So a reader wraps the casts of a block in `collect_truncated`,
calls `set_column` before each column, and logs the result by `warn_truncated`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import Logger

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt


def to_microseconds(column: pa.Array) -> pa.Array:
    """Return timestamps or times of nanoseconds as microseconds, rounded down, also before 1970."""
    t = column.type
    if not pt.is_timestamp(t):
        return column.cast(pa.time64("us"), safe=False)
    found = column.cast(pa.timestamp("us", t.tz), safe=False)  # rounds towards 1970
    is_later = pc.greater(found.cast(t), column)
    if not pc.any(is_later).as_py():
        return found
    return pc.if_else(is_later, pc.subtract(found, pa.scalar(1, pa.duration("us"))), found)


class _State(threading.local):
    column = ""
    found: dict[str, str] | None = None


_state = _State()


@contextmanager
def collect_truncated() -> Iterator[dict[str, str]]:
    """Collect, by column, the first value whose digits this thread truncates."""
    before, found = _state.found, dict[str, str]()
    _state.found = found
    try:
        yield found
    finally:
        _state.found = before


def set_column(name: str) -> None:
    """Set the name of the column that this thread casts next."""
    _state.column = name


def is_collecting() -> bool:
    """Return whether this thread is within `collect_truncated`."""
    return _state.found is not None


def record_truncated(value: str) -> None:
    """Record a value whose digits are truncated."""
    if _state.found is not None:
        _state.found.setdefault(_state.column, value)


def warn_truncated(log: Logger, where: object, cuts: Mapping[str, str], warned: set[str]) -> None:
    """Log a warning for each column of `cuts` that is not in `warned`, and add it; the values are from `where`."""
    for column, value in cuts.items():
        if column not in warned:
            warned.add(column)
            log.warning(
                "%s, column %r: digits beyond microseconds are cut off, first those of %r; only the types "
                "timestamp[ns] and time[ns] keep them",
                where,
                column,
                value,
            )
