"""Digits of seconds for which a type has no place: they are cut off, and noted for one warning per file and column.

Conversions run in threads and know neither their file nor, within a column, its name. So a reader opens a note around
the conversions of a block, names each column before it converts it, and warns of what was noted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import Logger


class _Note(threading.local):
    column = ""
    found: dict[str, str] | None = None


_note = _Note()


@contextmanager
def collect_truncated() -> Iterator[dict[str, str]]:
    """Collect, by column, the first value of which this thread cuts digits."""
    before, found = _note.found, dict[str, str]()
    _note.found = found
    try:
        yield found
    finally:
        _note.found = before


def set_column(name: str) -> None:
    """Name the column that is converted next in this thread."""
    _note.column = name


def record_truncated(value: str) -> None:
    """Note a value of which digits are cut."""
    if _note.found is not None:
        _note.found.setdefault(_note.column, value)


def warn_truncated(log: Logger, where: object, cuts: Mapping[str, str], warned: set[str]) -> None:
    """Log a warning for each column that is not `warned` of yet.

    Args:
        log: Where to.
        where: The file, or what else the values are of.
        cuts: As `collect_truncated` gives them.
        warned: Columns with a warning, which grows.
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
