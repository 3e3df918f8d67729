"""The target, its run and its tables of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, cached_property
from typing import Any, ClassVar

from singer_arrow.errors import SingerArrowError
from singer_arrow.load.convert import RANK
from singer_arrow.naming import REJECTED
from singer_arrow.runtime.threads import LAST_SECONDS, DaemonPool
from singer_arrow.sdk.target import WarehouseTarget
from singer_arrow.warehouse.run import RunContext, WarehouseRun
from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT, target_schema
from singer_arrow.warehouse.table import WarehouseTable, descriptions_of
from target_redshift import load, sql, tables
from target_redshift.client import Redshift
from target_redshift.conversion import Conversion
from target_redshift.ledger import StreamLedger, remove_old
from target_redshift.settings import Settings
from target_redshift.types import Column
from target_redshift.uploads import Files, S3StagingFolder

# What the streams of one run share: schemas, uploads, ledgers, staging tables, and the table of rejected rows.

_PROBING = 8  # how many files on S3 are looked at at once


class RedshiftRun(WarehouseRun[Settings]):
    """The shared parts of one run of the target. Each is made when it is first used."""

    def __init__(self, settings: Settings, context: RunContext) -> None:
        super().__init__(settings, context, preparing=_PROBING)
        host = settings.host or ""
        cluster, _, rest = host.partition(".")
        region = rest.split(".")[1] if host.endswith(".amazonaws.com") else None
        self.namespace = f"redshift://{f'{cluster}.{region}' if region else host}:{settings.port}"
        self.catalog = f"{settings.dbname}."
        self._clients: dict[str, Redshift] = {}

    @cached_property
    def files(self) -> Files:
        settings = self.settings
        return Files(
            self.storage,
            self.temporary,
            upload_format=settings.upload_format,
            varchar_max=settings.varchar_max,
            nul_text=settings.nul_text,
            parallel=self.cores,
        )

    @cached_property
    def staging_folder(self) -> S3StagingFolder:
        stage = S3StagingFolder(
            self.storage,
            self.settings.stage,
            temporary=self.temporary,
            workers=self.workers,
            parallel=self.cores,
            slices=cache(lambda: next(iter(self._clients.values())).slices()),
        )
        self.workers.submit(stage.remove_leftovers)
        return stage

    @cached_property
    def workers(self) -> DaemonPool:
        return DaemonPool(self.cores, "upload")

    def client_of(self, stream: str) -> Redshift:
        """Return the schema of a stream's table; create it if it does not exist."""
        schema = (self.settings_of(stream).place_of(stream)[0] or self.settings.schema).lower()
        if schema not in self._clients:
            client = self._clients[schema] = Redshift(replace(self.settings, schema=schema))
            tables.prepare_schema(client)
        return self._clients[schema]

    def remove_old_entries(self, days: int) -> None:
        """Remove entries of this run's streams that are older than some days, in one transaction per schema."""
        by_client: dict[Redshift, list[StreamLedger]] = {}
        for ledger in self.all_of(StreamLedger):
            by_client.setdefault(ledger.client, []).append(ledger)
        try:
            for client, ledgers in by_client.items():
                remove_old(client, ledgers, days)
        except SingerArrowError as error:  # everything is loaded, and the next run tries it again
            self.logger.warning("Old entries of the ledger stay for now: %s", error)

    def close(self) -> None:
        if "workers" in self.__dict__:
            self.workers.stop(LAST_SECONDS)
        for client in self._clients.values():
            client.close()  # a load that is still running would keep staging tables from being dropped
        for overwrite_staging in self.all_of(load.OverwriteStaging):
            overwrite_staging.close()
        for client in self._clients.values():
            client.close()
        super().close()


# The table of a stream in Redshift: its columns, its load method, and the removal of old versions.

METHODS: dict[str, type[load.AppendOnly] | type[load.Upsert] | type[load.Overwrite]] = {
    APPEND: load.AppendOnly,
    UPSERT: load.Upsert,
    OVERWRITE: load.Overwrite,
}


class RedshiftStreamTable(WarehouseTable):
    """The table of one stream in Redshift while its SCHEMA stays the same."""

    run: RedshiftRun
    settings: Settings
    client: Redshift  # the schema that its table is in

    def prepare_table(self) -> Sequence[Column]:
        self.client = self.run.client_of(self.stream_name)
        keys, descriptions = self.key_properties, descriptions_of(self.schema)
        self.destination = tables.prepare_table(
            self.client, self.stream_name, self.given, keys, descriptions=descriptions
        )
        self.run.claim_table(self.client.path(self.destination.name), self.stream_name)
        if self.destination.changes:
            self.tally.add(schema_changes=self.destination.changes)
        return self.destination.columns

    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> load.RedshiftLoadMethod:
        run, destination = self.run, self.destination
        client, path = self.client, self.client.path(destination.name)
        context = self.load_context(
            load.RedshiftContext,
            keys,
            client=client,
            files=run.files,
            staging_folder=run.staging_folder,
            destination=destination,
            copy_options=self.settings.copy_options,
            ledger=run.once(
                *(StreamLedger, path, client, self.stream_name, destination.table, self.settings.replay),
                merges=load_method == UPSERT,
            ),
            overwrite_staging=run.once(load.OverwriteStaging, path, client),
            dead_letter_table=run.once(load.DeadLetterTable, client.path(REJECTED), client),
        )
        return METHODS[load_method](context)

    def conversion(self, constants: Mapping[str, object], *, keys: tuple[str, ...], place: int | None) -> Conversion:
        never_null = {e.name for e in self.destination.table.columns if not e.nullable}
        required = frozenset(c.source for c in self.destination.columns if c.name in never_null)
        return Conversion(self.destination.columns, self.given, constants, keys, place, required)

    def has_rows(self) -> bool:
        return not self.client.is_empty(self.destination.name)

    def has_ranks(self) -> bool:
        return any(column.name == RANK for column in self.destination.table.columns)

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


# The target: its name, and the classes of its settings, tables and runs.


class TargetRedshift(WarehouseTarget):
    """Singer target that loads BATCH files and records into Amazon Redshift, exactly once."""

    name = "target-redshift"
    package_name = "singer-arrow-target-redshift"
    config_jsonschema: ClassVar[dict[str, Any]] = target_schema(Settings)  # to which the SDK adds its own
    setting_options = ("host", "port", "dbname", "user", "default_target_schema", "copy_role_arn", "load_method")
    settings_class = Settings
    table_class = RedshiftStreamTable
    run_class = RedshiftRun
