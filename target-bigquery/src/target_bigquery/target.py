"""The target: settings, and what all its streams share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from singer_arrow.load.scheduler import Limits
from singer_arrow.storage.storage import Storage
from singer_arrow.warehouse.settings import APPEND
from singer_arrow.warehouse.warehouse import WarehouseTarget
from target_bigquery.run import BigQueryRun
from target_bigquery.settings import SETTINGS, STORAGE_WRITE, Settings
from target_bigquery.storage_write.load_method import record_age_seconds
from target_bigquery.stream_table import BigQueryStreamTable

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

    @cached_property
    def settings(self) -> Settings:
        """The settings, read."""
        return Settings.from_config(self.config)

    @cached_property
    def shared(self) -> BigQueryRun:
        """What the streams of this run share."""
        return BigQueryRun(self.settings, temporary=self.temporary, cores=self.cores, logger=self.logger)

    @property
    def storage(self) -> Storage:
        return self.shared.storage

    def check_settings(self) -> None:
        Settings.from_config(self.config)

    @property
    def record_age_seconds(self) -> float | None:
        is_cheap = self.settings.load_via == STORAGE_WRITE and self.settings.load_method == APPEND
        return record_age_seconds(len(self.tallies), self.settings.max_batch_age_seconds) if is_cheap else None

    @property
    def limits(self) -> Limits:
        """To put files into a bucket is mostly waiting, so more of that is done at once."""
        puts_files = self.settings.stage is not None and self.settings.load_via != STORAGE_WRITE
        return replace(super().limits, workers=max(_PUTTING, self.cores)) if puts_files else super().limits

    def process_endofpipe(self) -> None:
        super().process_endofpipe()
        self.shared.write_commits()
        if (days := self.settings.ledger_keep_days) is not None:
            self.shared.remove_old_entries(days)

    def abandon(self, error: BaseException | None = None) -> None:
        try:
            super().abandon(error)
        finally:
            self.shared.write_commits()

    def close(self) -> None:
        if "shared" in self.__dict__:
            self.shared.close()
        super().close()
