"""The base of the targets for warehouses, which supply their settings and the class of their tables."""

from __future__ import annotations

import abc
import copy
import os
from functools import cached_property
from typing import Any, ClassVar

from singer_sdk.helpers.capabilities import CapabilitiesEnum, PluginCapabilities, TargetCapabilities

from singer_arrow.batch.message import Batch
from singer_arrow.errors import SchemaError
from singer_arrow.load.scheduler import Limits
from singer_arrow.sdk.sink import LoadSink
from singer_arrow.sdk.target import LoadTarget
from singer_arrow.storage.storage import Storage
from singer_arrow.warehouse.settings import STORAGE_PARAMS, LoadSettings
from singer_arrow.warehouse.table import WarehouseTable


class WarehouseTarget(LoadTarget):
    """A target that loads BATCH files and records into tables of a warehouse, each batch once."""

    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.BATCH,
        PluginCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.STRUCTURED_LOGGING,
        TargetCapabilities.VALIDATE_RECORDS,
        TargetCapabilities.TARGET_SCHEMA,
        TargetCapabilities.HARD_DELETE,
        TargetCapabilities.SOFT_DELETE,
    ]

    table_class: ClassVar[type[WarehouseTable]]
    """The tables of its streams."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.claimed: set[tuple[str, str]] = set()
        """Stream and batch_id of the batches of this run."""
        self._streams_of: dict[str, str] = {}

    @property
    @abc.abstractmethod
    def settings(self) -> LoadSettings:
        """The checked settings."""

    def open_table(self, sink: LoadSink) -> WarehouseTable:
        """Create or alter the table of a sink, and return it."""
        return self.table_class(self, sink)

    @classmethod
    def append_builtin_config(cls, config_jsonschema: dict[str, Any]) -> None:
        """Add the SDK's settings, and what it reads of `batch_config.storage` but does not declare."""
        super().append_builtin_config(config_jsonschema)
        batch_config = copy.deepcopy(config_jsonschema["properties"]["batch_config"])  # the SDK's plugins share it
        batch_config["properties"]["storage"]["properties"]["params"] = STORAGE_PARAMS
        config_jsonschema["properties"]["batch_config"] = batch_config

    @property
    def limits(self) -> Limits:
        return Limits(
            age_seconds=self.settings.max_batch_age_seconds,
            bytes=self.settings.max_batch_bytes,
            parallel=self.settings.max_parallel_loads,
            workers=self.cores,
        )

    @property
    def cores(self) -> int:
        """Number of CPU cores, at least 2."""
        return max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2)

    @property
    def most_rejected(self) -> int | None:
        return self.settings.most_rejected

    def claim_table(self, table: str, stream: str) -> None:
        """Reserve a table, by its path, for a stream.

        Raises:
            SchemaError: Another stream has it: entries of the ledger, or a replacement, of one would count for both.
        """
        if (other := self._streams_of.setdefault(table, stream)) != stream:
            msg = (
                f"Streams {other!r} and {stream!r} both go to table {table}, which existed before and is neither's; "
                "give each one of its own by the setting tables or, if their SCHEMAs are alike, both one __alias__"
            )
            raise SchemaError(msg)

    def check_batch(self, batch: Batch) -> None:
        self.settings.manifest_roots.check(batch.stream, batch.manifest)

    @cached_property
    def storage(self) -> Storage:
        return Storage(self.settings.aws)
