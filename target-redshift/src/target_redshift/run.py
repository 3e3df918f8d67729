"""What the streams of one run share: schemas, uploads, ledgers, staging tables, and the table of rejected rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from singer_arrow.errors import SingerArrowError
from singer_arrow.load.daemon_pool import LAST_SECONDS, DaemonPool
from singer_arrow.load.scheduler import Limits
from singer_arrow.warehouse.run import RunContext, WarehouseRun
from target_redshift.connection.client import Redshift
from target_redshift.ledger import StreamLedger, remove_old
from target_redshift.load.overwrite_staging import OverwriteStaging
from target_redshift.load.s3_staging import S3StagingFolder
from target_redshift.load.uploads import Files
from target_redshift.settings import Settings
from target_redshift.tables import migrate

_PROBING = 8


class RedshiftRun(WarehouseRun[Settings]):
    """The shared parts of one run of the target. Each is made when it is first used."""

    def __init__(self, settings: Settings, context: RunContext) -> None:
        super().__init__(settings, context)
        self._clients: dict[str, Redshift] = {}

    @property
    def limits(self) -> Limits:
        """The limits of a load; probing a file on S3 is mostly waiting, so more of that is done at once."""
        return replace(super().limits, workers=max(_PROBING, self.cores))

    @cached_property
    def files(self) -> Files:
        """The preparation of batch files for COPY."""
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
        """The folder of this run in `s3_stage`."""
        stage = S3StagingFolder(
            self.storage,
            self.settings.stage,
            temporary=self.temporary,
            workers=self.workers,
            parallel=self.cores,
            slices=lambda: self.slices,
        )
        self.workers.submit(stage.remove_leftovers)
        return stage

    @cached_property
    def slices(self) -> int:
        """Number of slices of the cluster."""
        return next(iter(self._clients.values())).slices()

    @cached_property
    def workers(self) -> DaemonPool:
        """The threads that write and upload files."""
        return DaemonPool(self.cores, "upload")

    def client_of(self, stream: str) -> Redshift:
        """Return the schema of a stream's table; create it if it does not exist."""
        schema = (self.settings.schema_of(stream) or self.settings.schema).lower()
        if schema not in self._clients:
            client = self._clients[schema] = Redshift(replace(self.settings, schema=schema))
            migrate.prepare_schema(client)
        return self._clients[schema]

    def dataset_of(self, table: str) -> tuple[str, str]:
        host, settings = self.settings.host or "", self.settings
        cluster, _, rest = host.partition(".")
        region = rest.split(".")[1] if host.endswith(".amazonaws.com") else None
        return f"redshift://{f'{cluster}.{region}' if region else host}:{settings.port}", f"{settings.dbname}.{table}"

    def remove_old_entries(self, days: int) -> None:
        """Remove entries of this run's streams that are older than some days, in one transaction per schema."""
        streams: dict[Redshift, set[str]] = {}
        for ledger in self.all_of(StreamLedger):
            streams.setdefault(ledger.client, set()).add(ledger.stream)
        try:
            for client, names in streams.items():
                remove_old(client, names, days)
        except SingerArrowError as error:  # everything is loaded, and the next run tries it again
            self.logger.warning("Old entries of the ledger stay for now: %s", error)

    def close(self) -> None:
        """End the threads and connections."""
        if "workers" in self.__dict__:
            self.workers.stop(LAST_SECONDS)
        for client in self._clients.values():
            client.close()  # a load that is still running would keep staging tables from being dropped
        for overwrite_staging in self.all_of(OverwriteStaging):
            overwrite_staging.close()
        for client in self._clients.values():
            client.close()
        super().close()
