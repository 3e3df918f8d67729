"""The target: settings, and what all its streams share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from singer_arrow.errors import SingerArrowError
from singer_arrow.load.daemon_pool import LAST_SECONDS, DaemonPool
from singer_arrow.load.scheduler import Limits
from singer_arrow.load.staging import Stage
from singer_arrow.naming import REJECTED
from singer_arrow.sdk.target import GRACE_SECONDS
from singer_arrow.storage.storage import Storage
from singer_arrow.warehouse.settings import APPEND
from singer_arrow.warehouse.warehouse import WarehouseTarget
from target_bigquery.connection import connection
from target_bigquery.connection.client import BigQuery
from target_bigquery.connection.resources import Table
from target_bigquery.ledger import StreamLedger, remove_old
from target_bigquery.load.avro_processes import Processes
from target_bigquery.load.dead_letter_table import Rejections
from target_bigquery.load.overwrite_staging import Replacement
from target_bigquery.load.uploads import Files
from target_bigquery.settings import SETTINGS, STORAGE_WRITE, Settings
from target_bigquery.storage_write.load_method import record_age_seconds
from target_bigquery.stream_table import BigQueryStreamTable
from target_bigquery.tables import migrate

_PUTTING = 8


class TargetBigQuery(WarehouseTarget):
    """Singer target that loads BATCH files and records into BigQuery, exactly once."""

    name = "target-bigquery"
    config_jsonschema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": dict(SETTINGS),  # to which the SDK adds its own
        "required": ["project"],
    }
    table_class = BigQueryStreamTable

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._clients: dict[str, BigQuery] = {}
        self._ledgers: dict[str, StreamLedger] = {}
        self._replacements: dict[str, Replacement] = {}
        self._rejections: dict[str, Rejections] = {}
        self._told: set[str] = set()

    @cached_property
    def settings(self) -> Settings:
        """The settings, read from the configuration."""
        return Settings.from_config(self.config)

    def check_settings(self) -> None:
        Settings.from_config(self.config)

    def client_of(self, stream: str) -> BigQuery:
        """The dataset of a stream's table, which is there from now on."""
        dataset = self.settings.schema_of(stream) or self.settings.dataset
        if dataset not in self._clients:
            client = self._clients[dataset] = BigQuery(replace(self.settings, dataset=dataset))
            migrate.prepare_dataset(client)
        return self._clients[dataset]

    @property
    def record_age_seconds(self) -> float | None:
        is_cheap = self.settings.load_via == STORAGE_WRITE and self.settings.load_method == APPEND
        return record_age_seconds(len(self.tallies), self.settings.max_batch_age_seconds) if is_cheap else None

    @cached_property
    def files(self) -> Files:
        """The factory of uploads of batch files."""
        if self.settings.stage is None:
            return Files(self.storage, self.temporary, self.processes)
        from target_bigquery.load.gcs_uploads import StagedFiles

        stage = Stage(self.storage, self.settings.stage, self.logger)
        self.sweeper.submit(stage.remove_leftovers)
        return StagedFiles(self.storage, self.temporary, self.processes, stage, self.cores)

    @cached_property
    def sweeper(self) -> DaemonPool:
        """The threads that remove files of earlier runs."""
        return DaemonPool(1, "leftovers")

    @property
    def limits(self) -> Limits:
        """The limits of concurrency, with more uploads at once for `gcs_stage`, which mostly wait."""
        puts_files = self.settings.stage is not None and self.settings.load_via != STORAGE_WRITE
        return replace(super().limits, workers=max(_PUTTING, self.cores)) if puts_files else super().limits

    @cached_property
    def storage(self) -> Storage:
        """The storage, which uses BigQuery's credentials for Google Cloud Storage."""
        return Storage(self.settings.aws, connection.storage_token(self.settings))

    @cached_property
    def processes(self) -> Processes:
        """The processes that write Avro, which holds Python's lock."""
        return Processes(self.cores)

    def ledger(self, client: BigQuery, stream: str, table: Table) -> StreamLedger:
        """Return the ledger of a stream's table, the same for the whole run."""
        path = client.path(table.name)
        if path not in self._ledgers:
            self._ledgers[path] = StreamLedger(client, stream, table)
        return self._ledgers[path]

    def rejections(self, client: BigQuery) -> Rejections:
        """Return the table of rejected rows in a client's dataset."""
        return self._rejections.setdefault(client.path(REJECTED), Rejections(client, self.temporary))

    def replacement(self, client: BigQuery, table: str) -> Replacement:
        """Return what replaces a table at the end of the run."""
        return self._replacements.setdefault(client.path(table), Replacement(client))

    def warn_once(self, what: str) -> None:
        """Log a warning, once a run."""
        if what not in self._told:
            self._told.add(what)
            self.logger.warning(what)

    def process_endofpipe(self) -> None:
        super().process_endofpipe()
        self._write_commits()
        if (days := self.settings.ledger_keep_days) is not None:
            self._remove_old_entries(days)

    def abandon(self, error: BaseException | None = None) -> None:
        try:
            super().abandon(error)
        finally:
            self._write_commits()

    def _write_commits(self) -> None:
        """Record commits in the ledgers before BigQuery forgets them, within a limited time."""
        workers = DaemonPool(1, "ledger")
        try:
            for ledger in self._ledgers.values():
                workers.submit(ledger.write_commits).result(GRACE_SECONDS)
        except (
            SingerArrowError,
            TimeoutError,
        ) as error:  # it is loaded; a run that meets these batches will see it too
            self.logger.warning("What was committed could not be written down: %s", str(error) or "it took too long")
        finally:
            workers.stop()

    def _remove_old_entries(self, days: int) -> None:
        """Remove entries of this run's streams that are older than some days, by one query a dataset."""
        by_client: dict[BigQuery, list[StreamLedger]] = {}
        for ledger in self._ledgers.values():
            if ledger.exists:
                by_client.setdefault(ledger.client, []).append(ledger)
        workers = DaemonPool(1, "ledger")
        try:
            for client, ledgers in by_client.items():
                workers.submit(remove_old, client, ledgers, days).result(GRACE_SECONDS)
        except (SingerArrowError, TimeoutError) as error:  # everything is loaded, and the next run tries it again
            self.logger.warning("Old entries of the ledger stay for now: %s", str(error) or "it took too long")
        finally:
            workers.stop()

    def close(self) -> None:
        if "processes" in self.__dict__:
            self.processes.close()
        if "sweeper" in self.__dict__:
            self.sweeper.stop(LAST_SECONDS)
        for client in self._clients.values():
            client.close()
        super().close()
