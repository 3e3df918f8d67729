"""Settings for the layout of new tables: the columns that they name, and whether a table has that layout."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

from singer_arrow.errors import ConfigError
from singer_arrow.warehouse.variant_columns import Filled, is_or_was

ColumnT = TypeVar("ColumnT", bound=Filled)


def layout_column(
    setting: str, given: object, stream: str, columns: Sequence[ColumnT], named: str, *, logger: logging.Logger
) -> ColumnT | None:
    """Return the column that a setting names; None, logged, where this stream lacks a column that it names for all.

    `given` is the value of the setting: for all streams, or an object from streams to such values; `named` the property
    or column in it. ConfigError: it names, for this stream, a column that there is not.
    """
    column = _find(columns, named)
    if column is None:
        if isinstance(given, Mapping):
            raise ConfigError(f"Setting {setting!r} names column {named!r}, which stream {stream!r} does not have")
        logger.warning("Stream %r has no column %r, so %s does not apply to its table", stream, named, setting)
    return column


def is_laid_out_by(named: Sequence[str], has: Sequence[str | None], columns: Sequence[Filled]) -> bool:
    """Return whether a table is laid out by the columns of a setting, or by those of which they are variants."""
    return len(named) == len(has) and all(_is(*pair, columns) for pair in zip(named, has, strict=True))


def _is(named: str, has: str | None, columns: Sequence[Filled]) -> bool:
    column = _find(columns, named)
    return is_or_was(column, has) if column else has is not None and named.lower() == has.lower()


def _find(columns: Sequence[ColumnT], name: str) -> ColumnT | None:
    """Return the column of the property of that name, else the column of that name."""
    return next((c for c in columns if c.source == name), None) or next(
        (c for c in columns if c.name.lower() == name.lower()), None
    )
