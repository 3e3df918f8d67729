"""The target, its run and its tables of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, ClassVar

from singer_arrow.errors import SingerArrowError
from singer_arrow.load.convert import RANK
from singer_arrow.load.staging import Extents, Grid, StagingFolder
from singer_arrow.naming import REJECTED
from singer_arrow.runtime.threads import LAST_SECONDS, DaemonPool
from singer_arrow.sdk.target import WarehouseTarget
from singer_arrow.storage.store import Storage
from singer_arrow.warehouse.run import GRACE_SECONDS, RunContext, WarehouseRun
from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT, target_schema
from singer_arrow.warehouse.table import WarehouseTable, descriptions_of, nullable_paths
from target_bigquery import connection, load, merge_pruning, sql, tables
from target_bigquery.client import BigQuery
from target_bigquery.conversion import Conversion
from target_bigquery.ledger import StreamLedger, remove_old
from target_bigquery.settings import STORAGE_WRITE, Settings
from target_bigquery.storage_write.load_method import STREAMED, why_not
from target_bigquery.types import Column
from target_bigquery.uploads import Files, Processes, upload_format

# What the streams of one run share: datasets, uploads, ledgers, staging tables, and the table of rejected rows.

_PUTTING = 8
_RECORD_AGE_SECONDS = 1.0
_OPENED_A_SECOND = 2
"""How many write streams a run of many streams opens for RECORD messages; a project has 10,000 an hour in a region."""


class BigQueryRun(WarehouseRun[Settings]):
    """The shared parts of one run of the target. Each is made when it is first used."""

    def __init__(self, settings: Settings, context: RunContext) -> None:
        puts_files = settings.stage is not None and settings.load_via != STORAGE_WRITE  # which is mostly waiting
        super().__init__(settings, context, preparing=_PUTTING if puts_files else 1)
        self.namespace = "bigquery"
        self._clients: dict[str, BigQuery] = {}
        self.processes = Processes(self.cores)
        self.sweeper: DaemonPool | None = None
        self.warnings: set[str] = set()  # each is logged once in a run

    @property
    def record_age_seconds(self) -> float | None:
        """Seconds that records wait for others, at most, where each load adds rows to the table at once."""
        if self.settings.load_via != STORAGE_WRITE or all(
            self.settings_of(tally.stream).load_method != APPEND for tally in self.tallies
        ):
            return None
        return min(self.settings.max_batch_age_seconds, max(_RECORD_AGE_SECONDS, len(self.tallies) / _OPENED_A_SECOND))

    @cached_property
    def storage(self) -> Storage:
        """The storage, which has the credentials of BigQuery for Google Cloud Storage too."""
        return Storage(self.settings.aws, connection.storage_token(self.settings))

    @cached_property
    def files(self) -> Files:
        if self.settings.stage is None:
            return Files(self.storage, self.temporary, self.processes)
        from target_bigquery.gcs_uploads import StagedFiles

        stage = StagingFolder(self.storage, self.settings.stage, self.logger)
        self.sweeper = DaemonPool(1, "leftovers")  # removes files left by other runs
        self.sweeper.submit(stage.remove_leftovers)
        return StagedFiles(self.storage, self.temporary, self.processes, stage, self.cores)

    def client_of(self, stream: str) -> BigQuery:
        """Return the dataset of a stream's table; create it if it does not exist."""
        dataset = self.settings_of(stream).place_of(stream)[0] or self.settings.dataset
        if dataset not in self._clients:
            client = self._clients[dataset] = BigQuery(replace(self.settings, dataset=dataset))
            tables.prepare_dataset(client)
        return self._clients[dataset]

    @property
    def bytes_billed(self) -> int:
        return sum(client.bytes_billed for client in list(self._clients.values()))

    def write_commits(self) -> None:
        """Write what was committed into the ledgers, before BigQuery forgets it; the end of the run waits a little."""
        tasks = [ledger.write_commits for ledger in self.all_of(StreamLedger)]
        # it is loaded; a run that meets these batches will see it too
        self._within_grace(tasks, "What was committed could not be written down: %s")

    def remove_old_entries(self, days: int) -> None:
        """Remove entries of this run's streams that are older than some days, by one query per dataset."""
        by_client: dict[BigQuery, list[StreamLedger]] = {}
        for ledger in self.all_of(StreamLedger):
            if ledger.exists:
                by_client.setdefault(ledger.client, []).append(ledger)
        tasks = [partial(remove_old, client, ledgers, days) for client, ledgers in by_client.items()]
        # everything is loaded, and the next run tries it again
        self._within_grace(tasks, "Old entries of the ledger stay for now: %s")

    def _within_grace(self, tasks: Iterable[Callable[[], None]], warning: str) -> None:
        """Run what the end of the run waits for a little, one after the other, and log what prevents it."""
        workers = DaemonPool(1, "ledger")
        try:
            for task in tasks:
                workers.submit(task).result(GRACE_SECONDS)
        except (SingerArrowError, TimeoutError) as error:
            self.logger.warning(warning, str(error) or "it took too long")
        finally:
            workers.stop()

    def close(self) -> None:
        self.processes.close()
        if self.sweeper is not None:
            self.sweeper.stop(LAST_SECONDS)
        for client in self._clients.values():
            client.close()
        super().close()


# The table of a stream in BigQuery: its columns, its load method, and the removal of old versions.

METHODS: dict[str, type[load.AppendOnly] | type[load.Upsert] | type[load.Overwrite]] = {
    APPEND: load.AppendOnly,
    UPSERT: load.Upsert,
    OVERWRITE: load.Overwrite,
}
ALONE_BYTES = 64 << 20
"""A Parquet file of that size costs nothing to make, as it is. With gcs_stage none does."""


class BigQueryStreamTable(WarehouseTable):
    """The table of one stream in BigQuery while its SCHEMA stays the same."""

    run: BigQueryRun
    settings: Settings
    client: BigQuery  # the dataset that its table is in
    watched: Mapping[str, Grid | None]  # the columns whose values bound a MERGE

    def prepare_table(self) -> Sequence[Column]:
        self.client = self.run.client_of(self.stream_name)
        self.destination = tables.prepare_table(
            self.client,
            self.stream_name,
            self.given,
            keys=self.key_properties,
            nullable=frozenset(nullable_paths(self.schema["properties"])),
            descriptions=descriptions_of(self.schema),
        )
        self.run.claim_table(self.client.path(self.destination.name), self.stream_name)
        if self.destination.changes:
            self.tally.add(schema_changes=self.destination.changes)
        return self.destination.columns

    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> load.BigQueryLoadMethod:
        run, settings, destination = self.run, self.settings, self.destination
        if settings.stage is None:
            self.alone_bytes = ALONE_BYTES
        keys_stay = load_method == UPSERT and settings.keys_stay(self.stream_name)
        self.watched = merge_pruning.watched(destination.table, destination.columns, keys, keys_stay=keys_stay)
        client, path = self.client, self.client.path(destination.name)
        context = self.load_context(
            load.BigQueryContext,
            keys,
            client=client,
            files=run.files,
            destination=destination,
            upload_format=upload_format(settings.load_format, destination.columns),
            ledger=run.once(
                *(StreamLedger, path, client, self.stream_name, destination.table, settings.replay),
                merges=load_method == UPSERT,
            ),
            overwrite_staging=run.once(load.OverwriteStaging, path, client),
            dead_letter_table=run.once(load.DeadLetterTable, client.path(REJECTED), client, run.temporary),
        )
        if settings.load_via == STORAGE_WRITE:
            if (reason := why_not(load_method, destination.columns)) is None:
                return STREAMED[load_method](context)
            warning = f"Stream {self.stream_name!r} goes by load jobs: {reason}"
            if warning not in run.warnings:
                run.warnings.add(warning)
                self.logger.warning(warning)
        return METHODS[load_method](context)

    def conversion(self, constants: Mapping[str, Any], *, keys: tuple[str, ...], place: int | None) -> Conversion:
        never_null = {e.name for e in self.destination.table.columns if e.mode == "REQUIRED"}
        required = frozenset(c.source for c in self.destination.columns if c.name in never_null)
        extents = Extents(self.watched) if keys and self.watched else None
        return Conversion(self.destination.columns, self.given, constants, keys, place, required, extents)

    def has_rows(self) -> bool:
        found = self.destination.table.resource
        return bool(found.num_rows or found.streaming_buffer)

    def has_ranks(self) -> bool:
        return any(column.name == RANK for column in self.destination.table.columns)

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


# The target: its name, and the classes of its settings, tables and runs.


class TargetBigQuery(WarehouseTarget):
    """Singer target that loads BATCH files and records into BigQuery, exactly once."""

    name = "target-bigquery"
    package_name = "singer-arrow-target-bigquery"
    config_jsonschema: ClassVar[dict[str, Any]] = target_schema(Settings)  # to which the SDK adds its own
    setting_options = ("project", "dataset", "location", "credentials_path", "load_method")
    settings_class = Settings
    table_class = BigQueryStreamTable
    run_class = BigQueryRun
