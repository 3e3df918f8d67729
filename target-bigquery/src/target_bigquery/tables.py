"""Creates the dataset and the tables; adds, widens and relaxes columns; their layout."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from singer_arrow.errors import ConfigError, CredentialsError, SchemaError, SingerArrowError
from singer_arrow.load.convert import RANK
from singer_arrow.naming import staging_name, stream_label
from singer_arrow.warehouse.settings import EVOLVE, of_stream, unfilled
from singer_arrow.warehouse.table import (
    OTHERS,
    Descriptions,
    PropertyPath,
    layout_column,
    log_new,
    taken_table,
    warn_of_layout,
)
from target_bigquery import columns as drift
from target_bigquery import sql
from target_bigquery.client import BigQuery, Fields
from target_bigquery.columns import NO_DESCRIPTIONS, ColumnEvolution, columns_of, relaxed, with_columns
from target_bigquery.resources import AlreadyExistsError, ChangedError, RefusedError, Table
from target_bigquery.settings import ARRIVAL
from target_bigquery.types import RULES, Column, count_of, missing_required, new_columns, nullable_required

# The columns by which new tables are partitioned and clustered.

_KINDS = {
    "partition_by": ("DATE", "TIMESTAMP", "DATETIME"),
    "cluster_by": ("INTEGER", "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "DATETIME", "NUMERIC", "BIGNUMERIC"),
}


def _column(setting: str, given: object, stream: str, columns: Sequence[Column], name: str) -> str | None:
    is_range = setting == "partition_by" and "range(" in str(of_stream(given, stream))
    column = layout_column(setting, given, stream, columns, name, logger=logger)
    kinds = ("INTEGER",) if is_range else _KINDS[setting]
    if column and (column.kind not in kinds or column.repeated):
        allowed = " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
        msg = f"Setting {setting!r} names column {name!r} of stream {stream!r}, which is {column}, not {allowed}"
        raise ConfigError(msg)
    return column.name if column else None


# Makes the dataset and the tables ready before any load: creates them, adds, widens and relaxes columns.

logger = logging.getLogger("target-bigquery")
OWNER = "singer_stream"
"""Label of a table: the stream that it belongs to."""
STAGING_DAYS = 7
LEFTOVER_AGE = timedelta(days=1)
"""Staging tables that are younger may be those of a run that is still at work."""
_TRIES = 20
_POSITION = "Its line or row in the file, of a RECORD message its line in the input; from 1"
_PART = "1; a very long record takes several rows, one for each part of it"
REJECTED_FIELDS: list[dict[str, Any]] = [
    {"name": "stream", "type": "STRING"},
    {"name": "batch_id", "type": "STRING", "description": "The tap's id of the batch, if it has one"},
    {"name": "file", "type": "STRING", "description": "The batch file; null for RECORD messages"},
    {"name": "position", "type": "INTEGER", "description": _POSITION},
    {"name": "column_name", "type": "STRING", "description": "The property that is at fault"},
    {"name": "reason", "type": "STRING"},
    {"name": "record", "type": "STRING", "description": "The row as JSON text"},
    {"name": "part", "type": "INTEGER", "description": _PART},
]


class Destination:
    """The table of a stream, and the columns of it that the stream fills."""

    def __init__(self, table: Table, columns: tuple[Column, ...]) -> None:
        self.table, self.columns, self.name = table, columns, table.name
        filled = {c.name for c in columns}
        self.load_fields: Fields = [f for f in table.fields if f["name"] in filled]
        """The columns of upload files as the table has them, for load jobs."""
        self.unfilled = unfilled(columns, table.columns)
        """Columns that the stream does not fill, and that an upsert empties in the rows that it replaces."""
        self.changes = 0  # columns that were added for the stream's properties, or widened


def prepare_dataset(client: BigQuery) -> None:
    """Make sure that there is a dataset, in the location that is set; loads run where it is."""
    location = client.dataset_location()
    if location is None:
        try:
            client.create_dataset()
        except SingerArrowError:
            if client.dataset_location() is None:  # else another run was faster
                raise
        location = client.dataset_location()
    configured = client.settings.location
    if configured and location and configured.lower() != location.lower():
        raise ConfigError(
            f"Dataset {client.settings.project}.{client.settings.dataset} is in {location}, and setting 'location' "
            f"is {configured}; a dataset cannot move: set location to {location}, or name another dataset"
        )
    client.location = location or configured


def prepare_table(
    client: BigQuery,
    stream: str,
    schema: pa.Schema,
    *,
    keys: Sequence[str] = (),
    nullable: Collection[PropertyPath] = (),
    descriptions: Descriptions = NO_DESCRIPTIONS,
) -> Destination:
    """Make sure that the stream's table exists and has a column for each property of `schema`, which its SCHEMA means.

    Keys have no variants; `nullable` are the properties that may be null, each with those that it is in; `descriptions`
    are given to what has none.
    """
    settings, fixed, widened = client.settings.of_stream(stream), set[str](), 0
    for _ in range(_TRIES):
        name, distinct = settings.table_names(stream, RULES)
        table = client.table(name)
        if table and table.labels.get(OWNER) not in (None, stream_label(stream)):  # it is another stream's
            if settings.names_table(stream):
                raise taken_table(stream, client.path(name))
            logger.warning(OTHERS, stream, client.path(name), client.path(distinct))
            name, table = distinct, client.table(distinct)
        may = ColumnEvolution(settings.on_drift == EVOLVE, keys, frozenset(fixed))
        try:
            if table is None:
                return _create(client, stream, name, schema, descriptions)
            if (kind := str(table.resource.table_type or "TABLE")) != "TABLE":
                raise SchemaError(
                    f"{client.path(name)} is no table but of the kind {kind}, into which nothing can be loaded; drop "
                    "or rename it, or set 'tables' or 'table_prefix'"
                )
            if settings.grants and OWNER in table.labels and not table.resource.num_rows:
                client.grant(name, settings.grants)  # as the run that created it may have ended before
            try:
                columns = columns_of(schema, nested=settings.nested, existing=table.columns, drift=may)
            except SchemaError as error:
                raise SchemaError(f"Table {client.path(name)}: {error}") from None
            if wider := drift.widened(columns, table.columns):
                refused = {c.name for c in wider if not _widen(client, name, c)}
                fixed, widened = fixed | refused, widened + len(wider) - len(refused)
            else:
                may_be_null = frozenset(nullable) - {(key,) for key in keys}
                found = _fit(client, stream, table, columns, keys, nullable=may_be_null, descriptions=descriptions)
                own = [c for c in columns if not c.source.startswith("_sdc_")]
                found.changes = widened + count_of(own, table.columns) - count_of((), table.columns)
                return found
        except (AlreadyExistsError, ChangedError):
            logger.debug("Somebody else changed table %s; looking again", name)
    path = client.path(settings.table_names(stream, RULES)[0])
    raise SchemaError(f"Table {path} is changed by others all the time; run again when they are done")


def follow(client: BigQuery, table: Table, like: Table) -> None:
    """Give a table of this run's own the columns that another one has got meanwhile."""
    have = {c.name: c for c in table.columns}
    for column in like.columns:
        if column.name in have and column.kind != have[column.name].kind:
            what = f"Widening column {column.name!r} of table {client.path(table.name)} to {column.kind}"
            client.query(sql.widen_column(client.quoted(table.name), column.name, column.kind), what=what)
    now = client.table(table.name)
    if now and now.columns != like.columns:
        client.set_fields(now, like.fields)


def create_staging_table(client: BigQuery, name: str, fields: Sequence[Mapping[str, Any]], **options: Any) -> None:
    """Create a staging table, which BigQuery deletes after `STAGING_DAYS` days."""
    client.create_table(name, fields, expires=datetime.now(UTC) + timedelta(days=STAGING_DAYS), **options)


def remove_leftovers(client: BigQuery, table: str) -> None:
    """Remove the staging tables that earlier runs left behind, but none that may still be in use."""
    for name in client.tables_named(staging_name(table)):
        found = client.table(name)
        if found and datetime.now(UTC) - found.created > LEFTOVER_AGE:
            client.delete_table(name)


def _create(client: BigQuery, stream: str, name: str, schema: pa.Schema, descriptions: Descriptions) -> Destination:
    settings = client.settings.of_stream(stream)
    columns = columns_of(schema, nested=settings.nested)
    partition: tuple[str | None, str | tuple[int, int, int]] | None = None
    spec = settings.partitioning(stream)
    if spec and spec[0].upper() == ARRIVAL:
        partition = None, spec[1]
    elif spec and (column := _column("partition_by", settings.partition_by, stream, columns, spec[0])):
        partition = column, spec[1]
    if settings.expiration_days and not (partition and isinstance(partition[1], str)):
        logger.warning("Table %s has no partitions by time, so expiration_days does not apply to it", client.path(name))
    clustering = settings.clustering(stream)
    cluster = [_column("cluster_by", settings.cluster_by, stream, columns, name) for name in clustering]
    table = client.create_table(
        name,
        with_columns((), columns, descriptions, is_ours=True),
        partition=partition,
        expiration_days=settings.expiration_days,
        require_partition_filter=settings.require_partition_filter,
        cluster=[name for name in cluster if name],
        labels={OWNER: stream_label(stream)},
        description=descriptions.table,
    )
    if settings.grants:
        client.grant(name, settings.grants)
    return Destination(table, columns)


def _widen(client: BigQuery, table: str, column: Column) -> bool:
    """Widen a column; False if BigQuery refuses for good what the column, as it is now, would need.

    It also refuses where another run has just widened the column further; then the table is to be looked at again.
    """
    what = f"Widening column {column.name!r} of table {client.path(table)} to {column.kind}"
    logger.info("%s", what)
    try:
        client.query(sql.widen_column(client.quoted(table), column.name, column.kind), what=what)
    except RefusedError as error:
        logger.info("%s", error)
        found = client.table(table)
        return not (found and drift.widened([column], found.columns))
    return True


def _fit(
    client: BigQuery,
    stream: str,
    table: Table,
    columns: tuple[Column, ...],
    keys: Sequence[str],
    *,
    nullable: Collection[PropertyPath],
    descriptions: Descriptions,
) -> Destination:
    settings, strict = client.settings.of_stream(stream), set(missing_required(columns, table.columns))
    if settings.on_drift == EVOLVE:
        strict |= set(nullable_required(columns, table.columns, nullable))
    elif strict:
        raise SchemaError(
            f"Table {client.path(table.name)} requires column {min(strict)!r}, which stream {stream!r} does not have; "
            "drop the column, make it NULLABLE, or set on_drift: evolve"
        )
    description = descriptions.table if not table.resource.description else None
    fields = with_columns(relaxed(table.fields, strict), columns, descriptions, is_ours=OWNER in table.labels)
    if new_columns(columns, table.columns) or strict:
        found_by = keys if RANK in (c.source for c in columns) else ()
        path, variants = client.path(table.name), drift.new_variants(columns, table.columns)
        log_new(path, stream, columns, table.columns, variants, rules=RULES, keys=found_by, logger=logger)
        table = client.set_fields(table, fields, description=description)
    elif description or fields != list(table.fields):
        try:
            table = client.set_fields(table, fields, description=description)
        except (CredentialsError, RefusedError) as error:
            logger.info("%s; the table keeps the descriptions that it has", error)
    path, parts = client.path(table.name), table.partitions
    named, arrival = settings.partitioning(stream), [ARRIVAL] if table.resource.time_partitioning else []
    has = [parts.column] if parts else arrival
    words = {"by": "partitioned by", "without": "not partitioned"}
    warn_of_layout(path, "partition_by", [named[0]] if named else [], has, columns, **words, logger=logger)
    clustered, words = settings.clustering(stream), {"by": "clustered by", "without": "not clustered"}
    warn_of_layout(path, "cluster_by", clustered, table.clustered_by, columns, **words, logger=logger)
    return Destination(table, columns)
