"""The target: settings, and what all its streams share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from singer_arrow.errors import SingerArrowError
from singer_arrow.load.daemon_pool import LAST_SECONDS, DaemonPool
from singer_arrow.load.scheduler import Limits
from singer_arrow.naming import REJECTED
from singer_arrow.warehouse.warehouse import WarehouseTarget
from target_redshift.connection.client import Redshift
from target_redshift.connection.resources import Table
from target_redshift.ledger import StreamLedger, remove_old
from target_redshift.load.dead_letter_table import Rejections
from target_redshift.load.overwrite_staging import Replacement
from target_redshift.load.s3_staging import Stage
from target_redshift.load.uploads import Files
from target_redshift.settings import REQUIRED, SETTINGS, Settings
from target_redshift.stream_table import RedshiftStreamTable
from target_redshift.tables import migrate

_LOOKING = 8


class TargetRedshift(WarehouseTarget):
    """Singer target that loads BATCH files and records into Amazon Redshift, exactly once."""

    name = "target-redshift"
    config_jsonschema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": dict(SETTINGS),  # to which the SDK adds its own
        "required": list(REQUIRED),
    }
    table_class = RedshiftStreamTable

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._clients: dict[str, Redshift] = {}
        self._ledgers: dict[str, StreamLedger] = {}
        self._replacements: dict[str, Replacement] = {}
        self._rejections: dict[str, Rejections] = {}

    @cached_property
    def settings(self) -> Settings:
        """The settings, read from the configuration."""
        return Settings.from_config(self.config)

    def check_settings(self) -> None:
        Settings.from_config(self.config)

    @property
    def limits(self) -> Limits:
        """The limits of concurrency, with more files examined at once, which mostly waits for S3."""
        return replace(super().limits, workers=max(_LOOKING, self.cores))

    def client_of(self, stream: str) -> Redshift:
        """Return the client of a stream's schema, which exists from then on."""
        schema = (self.settings.schema_of(stream) or self.settings.schema).lower()
        if schema not in self._clients:
            client = self._clients[schema] = Redshift(replace(self.settings, schema=schema))
            migrate.prepare_schema(client)
        return self._clients[schema]

    @cached_property
    def files(self) -> Files:
        """The object that prepares batch files for COPY."""
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
    def place(self) -> Stage:
        """This run's folder in `s3_stage`."""
        stage = Stage(
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
        """The number of slices of the cluster."""
        return next(iter(self._clients.values())).slices()

    @cached_property
    def workers(self) -> DaemonPool:
        """The threads that write and upload files."""
        return DaemonPool(self.cores, "upload")

    def ledger(self, client: Redshift, stream: str, table: Table) -> StreamLedger:
        """Return the ledger of a stream's table, the same for the whole run."""
        path = client.path(table.name)
        if path not in self._ledgers:
            self._ledgers[path] = StreamLedger(client, stream, table)
        return self._ledgers[path]

    def rejections(self, client: Redshift) -> Rejections:
        """Return the table of rejected rows in a client's schema."""
        return self._rejections.setdefault(client.path(REJECTED), Rejections(client))

    def replacement(self, client: Redshift, table: str) -> Replacement:
        """Return what replaces a table's rows at the end of the run."""
        return self._replacements.setdefault(client.path(table), Replacement(client))

    def process_endofpipe(self) -> None:
        super().process_endofpipe()
        if (days := self.settings.ledger_keep_days) is not None:
            self._remove_old_entries(days)

    def _remove_old_entries(self, days: int) -> None:
        """Remove entries of this run's streams that are older than some days, in one transaction a schema."""
        streams: dict[Redshift, set[str]] = {}
        for ledger in self._ledgers.values():
            streams.setdefault(ledger.client, set()).add(ledger.stream)
        try:
            for client, names in streams.items():
                remove_old(client, names, days)
        except SingerArrowError as error:  # everything is loaded, and the next run tries it again
            self.logger.warning("Old entries of the ledger stay for now: %s", error)

    def close(self) -> None:
        if "workers" in self.__dict__:
            self.workers.stop(LAST_SECONDS)
        for client in self._clients.values():
            client.close()  # a load that is still running would keep staging tables from being dropped
        for replacement in self._replacements.values():
            replacement.close()
        for client in self._clients.values():
            client.close()
        super().close()
