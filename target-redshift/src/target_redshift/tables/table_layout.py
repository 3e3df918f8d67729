"""Distributes and sorts new tables by the settings; warns of tables with another layout."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from singer_arrow.errors import ConfigError, SingerArrowError
from singer_arrow.warehouse.table_layout import is_laid_out_by, layout_column
from target_redshift.connection.client import Redshift
from target_redshift.connection.resources import Table
from target_redshift.tables.types import Column

logger = logging.getLogger("target-redshift")
NO_KEYS = ("SUPER",)
"""Types that rows can neither be spread nor sorted nor compared by."""


def dist_key(client: Redshift, stream: str, columns: Sequence[Column]) -> str | None:
    """Return the column by which the rows of the stream's table are spread."""
    name = client.settings.distribution(stream)
    return _column("dist_key", client.settings.dist_key, stream, columns, name) if name else None


def sort_keys(client: Redshift, stream: str, columns: Sequence[Column]) -> list[str]:
    """Return the columns by which the rows of the stream's table are sorted; raises as `dist_key`."""
    given = client.settings.sort_keys
    found = [_column("sort_keys", given, stream, columns, n) for n in client.settings.sorting(stream)]
    return [name for name in found if name]


def warn_of_layout(client: Redshift, stream: str, table: Table, columns: Sequence[Column]) -> None:
    """Warn if the layout of a table differs from the settings, which apply to new tables only."""
    dist, sort = client.settings.distribution(stream), client.settings.sorting(stream)
    if not (dist or sort):
        return
    try:
        has_dist, has_sort = client.layout(table.name)
    except SingerArrowError as error:
        logger.debug("%s", error)  # the layout is only for a warning
        return
    path = client.path(table.name)
    if dist and not is_laid_out_by([dist], [has_dist], columns):
        now = f"distributed by {has_dist}" if has_dist else "not distributed by a key"
        logger.warning("Table %s is %s; dist_key applies to new tables alone", path, now)
    if sort and not is_laid_out_by(sort, has_sort, columns):
        now = f"sorted by {', '.join(has_sort)}" if has_sort else "not sorted by keys"
        logger.warning("Table %s is %s; sort_keys applies to new tables alone", path, now)


def _column(setting: str, given: object, stream: str, columns: Sequence[Column], name: str) -> str | None:
    column = layout_column(setting, given, stream, columns, name, logger=logger)
    if column and column.kind in NO_KEYS:
        msg = f"Setting {setting!r} names column {name!r} of stream {stream!r}, which is {column}; name another"
        raise ConfigError(msg)
    return column.name if column else None
