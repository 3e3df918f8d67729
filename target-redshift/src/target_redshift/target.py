"""The target: settings, and what all its streams share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from singer_arrow.load.scheduler import Limits
from singer_arrow.warehouse.warehouse import WarehouseTarget
from target_redshift.run import RedshiftRun
from target_redshift.settings import REQUIRED, SETTINGS, Settings
from target_redshift.stream_table import RedshiftStreamTable

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

    @cached_property
    def settings(self) -> Settings:
        """The settings, read."""
        return Settings.from_config(self.config)

    @cached_property
    def shared(self) -> RedshiftRun:
        """What the streams of this run share."""
        return RedshiftRun(self.settings, self.storage, temporary=self.temporary, cores=self.cores, logger=self.logger)

    def check_settings(self) -> None:
        Settings.from_config(self.config)

    @property
    def limits(self) -> Limits:
        """To look at a file on S3 is mostly waiting, so more of that is done at once."""
        return replace(super().limits, workers=max(_LOOKING, self.cores))

    def process_endofpipe(self) -> None:
        super().process_endofpipe()
        if (days := self.settings.ledger_keep_days) is not None:
            self.shared.remove_old_entries(days)

    def close(self) -> None:
        if "shared" in self.__dict__:
            self.shared.close()
        super().close()
