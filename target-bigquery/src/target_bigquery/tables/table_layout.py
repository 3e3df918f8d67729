"""Partitions and clusters new tables by the settings; warns of tables with another layout."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from singer_arrow.errors import ConfigError
from singer_arrow.warehouse.table_layout import is_laid_out_by, layout_column
from target_bigquery.connection.client import BigQuery
from target_bigquery.connection.resources import Table
from target_bigquery.tables.types import Column

logger = logging.getLogger("target-bigquery")
_KINDS = {
    "partition_by": ("DATE", "TIMESTAMP", "DATETIME"),
    "cluster_by": ("INTEGER", "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "DATETIME", "NUMERIC", "BIGNUMERIC"),
}


def partition(client: BigQuery, stream: str, columns: Sequence[Column]) -> tuple[str, str] | None:
    """Return the column by which the stream's table is partitioned, and by what of it: HOUR, DAY, ..."""
    spec = client.settings.partitioning(stream)
    if spec is None:
        return None
    column = _column("partition_by", client.settings.partition_by, stream, columns, spec[0])
    return (column, spec[1]) if column else None


def cluster(client: BigQuery, stream: str, columns: Sequence[Column]) -> list[str]:
    """Return the columns by which the stream's table is clustered; raises as `partition`."""
    given, names = client.settings.cluster_by, client.settings.clustering(stream)
    found = [_column("cluster_by", given, stream, columns, name) for name in names]
    return [name for name in found if name]


def warn_of_layout(client: BigQuery, stream: str, table: Table, columns: Sequence[Column]) -> None:
    """Warn if the layout of a table differs from the settings, which apply to new tables only."""
    path, spec = client.path(table.name), client.settings.partitioning(stream)
    if spec and not is_laid_out_by([spec[0]], [table.partitioned_by], columns):
        now = f"partitioned by {table.partitioned_by}" if table.partitioned_by else "not partitioned"
        logger.warning("Table %s is %s; partition_by applies to new tables alone", path, now)
    clustering = client.settings.clustering(stream)
    if clustering and not is_laid_out_by(clustering, table.clustered_by, columns):
        now = f"clustered by {', '.join(table.clustered_by)}" if table.clustered_by else "not clustered"
        logger.warning("Table %s is %s; cluster_by applies to new tables alone", path, now)


def _column(setting: str, given: object, stream: str, columns: Sequence[Column], name: str) -> str | None:
    column, kinds = layout_column(setting, given, stream, columns, name, logger=logger), _KINDS[setting]
    if column and (column.kind not in kinds or column.repeated):
        allowed = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        msg = f"Setting {setting!r} names column {name!r} of stream {stream!r}, which is {column}, not {allowed}"
        raise ConfigError(msg)
    return column.name if column else None
