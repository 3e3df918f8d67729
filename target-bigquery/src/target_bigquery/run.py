"""What the streams of one run share: datasets, uploads, ledgers, staging tables, and the table of rejected rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial

from singer_arrow.errors import SingerArrowError
from singer_arrow.load.daemon_pool import LAST_SECONDS, DaemonPool
from singer_arrow.load.scheduler import Limits
from singer_arrow.load.staging import StagingFolder
from singer_arrow.storage.storage import Storage
from singer_arrow.warehouse.run import GRACE_SECONDS, RunContext, WarehouseRun
from singer_arrow.warehouse.settings import APPEND
from target_bigquery.connection import connection
from target_bigquery.connection.client import BigQuery
from target_bigquery.ledger import StreamLedger, remove_old
from target_bigquery.load.avro_processes import Processes
from target_bigquery.load.uploads import Files
from target_bigquery.settings import STORAGE_WRITE, Settings
from target_bigquery.storage_write.load_method import record_age_seconds
from target_bigquery.tables import migrate

_PUTTING = 8


class BigQueryRun(WarehouseRun[Settings]):
    """The shared parts of one run of the target. Each is made when it is first used."""

    def __init__(self, settings: Settings, context: RunContext) -> None:
        super().__init__(settings, context)
        self._clients: dict[str, BigQuery] = {}
        self._warnings: set[str] = set()

    @property
    def limits(self) -> Limits:
        """The limits of a load; putting files into a bucket is mostly waiting, so more of that is done at once."""
        puts_files = self.settings.stage is not None and self.settings.load_via != STORAGE_WRITE
        return replace(super().limits, workers=max(_PUTTING, self.cores)) if puts_files else super().limits

    @property
    def record_age_seconds(self) -> float | None:
        is_cheap = self.settings.load_via == STORAGE_WRITE and self.settings.load_method == APPEND
        return record_age_seconds(len(self.tallies), self.settings.max_batch_age_seconds) if is_cheap else None

    @cached_property
    def storage(self) -> Storage:
        """The storage, which has the credentials of BigQuery for Google Cloud Storage too."""
        return Storage(self.settings.aws, connection.storage_token(self.settings))

    @cached_property
    def processes(self) -> Processes:
        """The processes that write Avro, which would hold Python's global lock."""
        return Processes(self.cores)

    @cached_property
    def files(self) -> Files:
        """The maker of uploads from batch files."""
        if self.settings.stage is None:
            return Files(self.storage, self.temporary, self.processes)
        from target_bigquery.load.gcs_uploads import StagedFiles

        stage = StagingFolder(self.storage, self.settings.stage, self.logger)
        self.sweeper.submit(stage.remove_leftovers)
        return StagedFiles(self.storage, self.temporary, self.processes, stage, self.cores)

    @cached_property
    def sweeper(self) -> DaemonPool:
        """The thread that removes files left by other runs."""
        return DaemonPool(1, "leftovers")

    def client_of(self, stream: str) -> BigQuery:
        """Return the dataset of a stream's table; create it if it does not exist."""
        dataset = self.settings.schema_of(stream) or self.settings.dataset
        if dataset not in self._clients:
            client = self._clients[dataset] = BigQuery(replace(self.settings, dataset=dataset))
            migrate.prepare_dataset(client)
        return self._clients[dataset]

    @property
    def bytes_billed(self) -> int:
        return sum(client.bytes_billed for client in list(self._clients.values()))

    def dataset_of(self, table: str) -> tuple[str, str]:
        return "bigquery", table

    def warn_once(self, what: str) -> None:
        """Log a warning, once in a run."""
        if what not in self._warnings:
            self._warnings.add(what)
            self.logger.warning(what)

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
        """End the processes, threads and connections."""
        if "processes" in self.__dict__:
            self.processes.close()
        if "sweeper" in self.__dict__:
            self.sweeper.stop(LAST_SECONDS)
        for client in self._clients.values():
            client.close()
        super().close()
