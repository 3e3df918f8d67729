"""Warnings about digits of seconds that a type cannot hold: one per file and column.

Casts run in threads and know neither file nor column. So a reader wraps the casts of a block in `collect_truncated`,
calls `set_column` before each column, and logs the result by `warn_truncated`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import Logger


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
    """Log a warning for each column that is not in `warned`.

    Args:
        log: Logger.
        where: The file, or another source of the values.
        cuts: Result of `collect_truncated`.
        warned: Columns already warned about; extended by this call.
    """
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
