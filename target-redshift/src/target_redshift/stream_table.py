"""The table of a stream in Redshift: its columns, its load method, and the removal of old versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from singer_arrow.naming import REJECTED
from singer_arrow.warehouse.descriptions import descriptions_of
from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT
from singer_arrow.warehouse.table import WarehouseTable
from target_redshift import sql
from target_redshift.connection.client import Redshift
from target_redshift.conversion import Conversion
from target_redshift.ledger import StreamLedger
from target_redshift.load.append import AppendOnly
from target_redshift.load.base import RedshiftLoadMethod
from target_redshift.load.context import RedshiftContext
from target_redshift.load.dead_letter_table import DeadLetterTable
from target_redshift.load.overwrite import Overwrite
from target_redshift.load.overwrite_staging import OverwriteStaging
from target_redshift.load.upsert import Upsert
from target_redshift.run import RedshiftRun
from target_redshift.tables import migrate
from target_redshift.tables.types import Column

METHODS: dict[str, type[AppendOnly] | type[Upsert] | type[Overwrite]] = {
    APPEND: AppendOnly,
    UPSERT: Upsert,
    OVERWRITE: Overwrite,
}


class RedshiftStreamTable(WarehouseTable):
    """The table of one stream in Redshift while its SCHEMA stays the same."""

    run: RedshiftRun
    client: Redshift  # the schema that its table is in

    def prepare_table(self) -> Sequence[Column]:
        self.client = self.run.client_of(self.stream_name)
        keys, descriptions = self.key_properties, descriptions_of(self.schema)
        self.destination = migrate.prepare_table(
            self.client, self.stream_name, self.given, keys, descriptions=descriptions
        )
        self.run.claim_table(self.client.path(self.destination.name), self.stream_name)
        return self.destination.columns

    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> RedshiftLoadMethod:
        run, destination = self.run, self.destination
        replay = run.settings.replay or ("skip" if load_method == UPSERT else None)  # merged again, whatever it has
        client, path = self.client, self.client.path(destination.name)
        context = self.load_context(
            RedshiftContext,
            keys,
            client=client,
            files=run.files,
            staging_folder=run.staging_folder,
            upload_format=run.settings.upload_format,
            destination=destination,
            ledger=run.once(StreamLedger, path, client, self.stream_name, destination.table, replay),
            overwrite_staging=run.once(OverwriteStaging, path, client),
            dead_letter_table=run.once(DeadLetterTable, client.path(REJECTED), client),
        )
        return METHODS[load_method](context)

    def conversion(self, constants: Mapping[str, object], *, keys: tuple[str, ...], place: int | None) -> Conversion:
        never_null = {e.name for e in self.destination.table.columns if not e.nullable}
        required = frozenset(c.source for c in self.destination.columns if c.name in never_null)
        return Conversion(self.destination.columns, self.given, constants, keys, place, required)

    def warehouse_time(self) -> datetime:
        return self.client.now()

    def remove_versions(self, version: int, *, version_column: str, deleted_column: str | None) -> int:
        client, table = self.client, self.destination.name
        quoted = client.quoted(table)
        text = (
            sql.mark_versions_deleted(quoted, version_column, deleted_column)
            if deleted_column
            else sql.delete_versions(quoted, version_column)
        )
        what = f"Removing old versions from table {client.path(table)}"
        return client.query(text, [version], what=what).affected
