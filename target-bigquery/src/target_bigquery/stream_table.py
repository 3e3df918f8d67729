"""The table of a stream in BigQuery: its columns, its load method, and the removal of old versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from singer_arrow.batch.message import Batch
from singer_arrow.load.key_ranges import Extents, Grid
from singer_arrow.naming import REJECTED
from singer_arrow.warehouse.descriptions import descriptions_of
from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT
from singer_arrow.warehouse.table import WarehouseTable
from target_bigquery import merge_pruning as bounds
from target_bigquery import sql
from target_bigquery.connection.client import BigQuery
from target_bigquery.conversion import Conversion
from target_bigquery.ledger import StreamLedger
from target_bigquery.load.append import AppendOnly
from target_bigquery.load.base import BigQueryLoadMethod, upload_format
from target_bigquery.load.context import BigQueryContext
from target_bigquery.load.dead_letter_table import DeadLetterTable
from target_bigquery.load.overwrite import Overwrite
from target_bigquery.load.overwrite_staging import OverwriteStaging
from target_bigquery.load.upsert import Upsert
from target_bigquery.run import BigQueryRun
from target_bigquery.settings import STORAGE_WRITE
from target_bigquery.storage_write.load_method import STREAMED, why_not
from target_bigquery.tables import migrate
from target_bigquery.tables.types import Column

METHODS: dict[str, type[AppendOnly] | type[Upsert] | type[Overwrite]] = {
    APPEND: AppendOnly,
    UPSERT: Upsert,
    OVERWRITE: Overwrite,
}
ALONE_BYTES = 64 << 20
"""A Parquet file of that size is a load of its own: as it is, it costs nothing to make. With gcs_stage none does."""


class BigQueryStreamTable(WarehouseTable):
    """The table of one stream in BigQuery while its SCHEMA stays the same."""

    run: BigQueryRun
    client: BigQuery  # the dataset that its table is in
    watched: Mapping[str, Grid | None]  # the columns whose values bound a MERGE

    def prepare_table(self) -> Sequence[Column]:
        self.client = self.run.client_of(self.stream_name)
        self.destination = migrate.prepare_table(
            self.client,
            self.stream_name,
            self.given,
            keys=self.key_properties,
            nullable=self.nullable,
            descriptions=descriptions_of(self.schema),
        )
        self.run.claim_table(self.client.path(self.destination.name), self.stream_name)
        return self.destination.columns

    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> BigQueryLoadMethod:
        run, destination = self.run, self.destination
        settings = run.settings
        keys_stay = load_method == UPSERT and settings.keys_stay(self.stream_name)
        self.watched = bounds.watched(destination.table, destination.columns, keys, keys_stay=keys_stay)
        client, path = self.client, self.client.path(destination.name)
        context = self.load_context(
            BigQueryContext,
            keys,
            client=client,
            files=run.files,
            destination=destination,
            upload_format=upload_format(settings.load_format, destination.columns),
            ledger=run.once(StreamLedger, path, client, self.stream_name, destination.table, settings.replay),
            overwrite_staging=run.once(OverwriteStaging, path, client),
            dead_letter_table=run.once(DeadLetterTable, client.path(REJECTED), client, run.temporary),
        )
        if settings.load_via == STORAGE_WRITE:
            if (reason := why_not(load_method, destination.columns)) is None:
                return STREAMED[load_method](context)
            run.warn_once(f"Stream {self.stream_name!r} goes by load jobs: {reason}")
        return METHODS[load_method](context)

    def conversion(self, constants: Mapping[str, Any], *, keys: tuple[str, ...], place: int | None) -> Conversion:
        never_null = {e.name for e in self.destination.table.columns if e.mode == "REQUIRED"}
        required = frozenset(c.source for c in self.destination.columns if c.name in never_null)
        extents = Extents(self.watched) if keys and self.watched else None
        return Conversion(self.destination.columns, self.given, constants, keys, place, required, extents)

    def is_load_of_its_own(self, batch: Batch) -> bool:
        if self.run.settings.stage is not None:
            return False
        return batch.format == "parquet" and (batch.byte_count or 0) >= ALONE_BYTES and len(batch.manifest) == 1

    def warehouse_time(self) -> datetime:
        (row,) = self.client.query(sql.NOW, what="Asking for the time").rows
        moment: datetime = row["now"]
        return moment

    def remove_versions(self, version: int, *, version_column: str, deleted_column: str | None) -> int:
        client, table = self.client, self.destination.name
        quoted, filtered_by = client.quoted(table), self.destination.table.filtered_by
        text = (
            sql.mark_versions_deleted(quoted, version_column, deleted_column, filtered_by)
            if deleted_column
            else sql.delete_versions(quoted, version_column, filtered_by)
        )
        what = f"Removing old versions from table {client.path(table)}"
        return client.query(text, {"version": version}, what=what).affected
