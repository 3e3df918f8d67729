"""A target for a warehouse, and its sinks: what is the same for all of them.

A warehouse supplies its settings, a table for a stream, its load methods, a conversion for its types, and the
SQL that removes old versions.
"""

from __future__ import annotations

import abc
import copy
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from singer_sdk.helpers.capabilities import CapabilitiesEnum, PluginCapabilities, TargetCapabilities

from singer_arrow.batch import spool
from singer_arrow.batch.message import Batch
from singer_arrow.errors import SchemaError
from singer_arrow.load.conversion import Conversion, UploadColumn
from singer_arrow.load.dead_letters import RecordOrigins, cut
from singer_arrow.load.item import Item
from singer_arrow.load.load_method import LoadMethod
from singer_arrow.load.scheduler import Limits
from singer_arrow.naming import digest
from singer_arrow.records.validation import is_valid, validator
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.sink import DELETED_COLUMN, VERSION_COLUMN, LoadSink
from singer_arrow.sdk.target import LoadTarget
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.descriptions import Path as PropertyPath
from singer_arrow.warehouse.settings import APPEND, STORAGE_PARAMS, UPSERT, LoadSettings

_MOST_ID = 1000
"""Bytes of a batch's id that are kept where it is given a suffix; the ledger's column takes 1,024."""


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

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.claimed: set[tuple[str, str]] = set()
        """Stream and batch_id of the batches of this run."""
        self._streams_of: dict[str, str] = {}

    @property
    @abc.abstractmethod
    def settings(self) -> LoadSettings:
        """The settings, read."""

    @classmethod
    def append_builtin_config(cls, config_jsonschema: dict[str, Any]) -> None:
        """Add the SDK's settings, and what it reads of `batch_config.storage` but does not declare."""
        super().append_builtin_config(config_jsonschema)
        batch_config = copy.deepcopy(config_jsonschema["properties"]["batch_config"])  # the SDK's plugins share it
        batch_config["properties"]["storage"]["properties"]["params"] = STORAGE_PARAMS
        config_jsonschema["properties"]["batch_config"] = batch_config

    @property
    def limits(self) -> Limits:
        """See `LoadTarget.limits`."""
        return Limits(
            age_seconds=self.settings.max_batch_age_seconds,
            bytes=self.settings.max_batch_bytes,
            parallel=self.settings.max_parallel_loads,
            workers=self.cores,
        )

    @property
    def cores(self) -> int:
        """How many things can be computed at once."""
        return max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2)

    @property
    def most_rejected(self) -> int | None:
        """See `LoadTarget.most_rejected`."""
        return self.settings.most_rejected

    def claim_table(self, table: str, stream: str) -> None:
        """A table, by its path, is a stream's for the whole run.

        Raises:
            SchemaError: It is another one's: what the ledger, or a replacement, says of one would be taken for both.
        """
        if (other := self._streams_of.setdefault(table, stream)) != stream:
            msg = (
                f"Streams {other!r} and {stream!r} both go to table {table}, which was there before and is neither's; "
                "give each one of its own by the setting tables or, if their SCHEMAs are alike, both one __alias__"
            )
            raise SchemaError(msg)

    def check_batch(self, batch: Batch) -> None:
        """See `LoadTarget.check_batch`."""
        self.settings.manifest_roots.check(batch.stream, batch.manifest)

    @cached_property
    def storage(self) -> Storage:
        """See `LoadTarget.storage`."""
        return Storage(self.settings.aws)


def _of_stream(batch_id: str, stream: str) -> str:
    """A batch's id where its stream bears another's name: ids of two streams, which may be alike, stay apart."""
    return f"{cut(batch_id, _MOST_ID)}@{digest(f'{stream} {batch_id}', 16)}"


def is_nullable(said: Any) -> bool:
    """Whether a property may be null, by what SCHEMA says of it: also by `anyOf`, or by saying nothing of types."""
    return said is True or (isinstance(said, Mapping) and is_valid(None, validator(said)))


def _nullable(properties: Mapping[str, Any], path: PropertyPath) -> Iterator[PropertyPath]:
    for name, said in properties.items():
        at, node = (*path, name), said
        if is_nullable(said):
            yield at
        while isinstance(node, Mapping) and isinstance(node.get("items"), Mapping):
            node = node["items"]
        if isinstance(node, Mapping) and isinstance(inside := node.get("properties"), Mapping):
            yield from _nullable(inside, at)


class WarehouseSink(LoadSink):
    """One stream, while its SCHEMA stays the same: its table, and what is done with its messages."""

    target: WarehouseTarget
    method: LoadMethod[Any, Any]
    given: pa.Schema
    """What SCHEMA means."""
    columns: Sequence[UploadColumn]
    """The columns of the table that the stream fills."""

    def __init__(self, target: WarehouseTarget, stream_name: str, schema: dict[str, Any], key_properties: Any) -> None:
        super().__init__(target, stream_name, schema, key_properties)
        self._places = itertools.count()

    @abc.abstractmethod
    def prepare_table(self) -> Sequence[UploadColumn]:
        """Make sure that the table exists and has a column for each property of `given`; those columns.

        Raises:
            SchemaError: The table or the stream's SCHEMA cannot be used.
        """

    @abc.abstractmethod
    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> LoadMethod[Any, Any]:
        """What is done with the stream's items.

        Args:
            load_method: A word of the setting; never upsert where there are no keys.
            keys: The columns of the stream's key_properties.
        """

    @abc.abstractmethod
    def conversion(self, constants: Mapping[str, Any], *, keys: tuple[str, ...], place: int | None) -> Conversion[Any]:
        """How the rows of an item are made ready; see `Conversion`."""

    @abc.abstractmethod
    def remove_versions(self, version: int, *, version_column: str, deleted_column: str | None) -> int:
        """Take the rows of versions before this one out of the table; rows without a version stay.

        Args:
            version: The first that stays.
            version_column: The column of the rows' version.
            deleted_column: The column that gets the time of deletion; None: the rows are deleted.

        Returns:
            How many rows that were.
        """

    def is_load_of_its_own(self, batch: Batch) -> bool:  # noqa: ARG002 - a warehouse may look at it
        """Whether it is better not to load this batch together with others."""
        return False

    def open_load_method(self) -> LoadMethod[Any, Any]:
        """See `LoadSink.open_load_method`.

        Raises:
            SchemaError: The table or the stream's SCHEMA cannot be used.
        """
        if self.says_deletions and DELETED_COLUMN not in self.schema["properties"]:
            self.logger.warning(
                "Stream %r says by %s which of its rows are deleted, which is left out, so they look like others; set "
                "hard_delete to delete them (with load_method: upsert), or add_record_metadata to keep the column",
                self.stream_name,
                DELETED_COLUMN,
            )
        self.given = from_json_schema(self.schema)
        self.columns = self.prepare_table()
        return self.make_load_method(self._load_method(), self._key_columns())

    def take_batch(self, batch: Batch) -> None:
        """See `LoadSink.take_batch`."""
        token = self.target.checkpoints.open()
        self.tally.add(batches=1)
        if batch.batch_id and batch.stream != self.stream_name:
            batch = replace(batch, batch_id=_of_stream(batch.batch_id, batch.stream))
        if batch.batch_id and self.method.leaves_out_loaded:
            if (self.stream_name, batch.batch_id) in self.target.claimed:
                self.logger.info("Batch %s came twice in this run and is loaded once", batch.batch_id)
                self.tally.add(skipped=1)
                self.target.checkpoints.close([token])
                return
            self.target.claimed.add((self.stream_name, batch.batch_id))
            self.method.expect(batch.batch_id)
        item = Item(
            urls=batch.manifest,
            file_format=batch.format,
            conversion=self._conversion(self.metadata(batch.version)),
            batch_id=batch.batch_id,
            rows=batch.row_count,
            bytes=batch.byte_count,
            is_source=batch.passthrough,
            stream=self.stream_name,
        )
        alone = self.is_load_of_its_own(batch)
        self.target.scheduler.add(self.method, item, token=token, kind=self.method.kind(item), alone=alone)

    @cached_property
    def record_schema(self) -> pa.Schema:
        """See `LoadSink.record_schema`."""
        return self.conversion({}, keys=(), place=None).read_schema

    @property
    def is_streamed(self) -> bool:
        """See `LoadSink.is_streamed`."""
        return self.method.streams

    def take_records(self, path: Path | None, rows: int, token: int, origins: RecordOrigins | None = None) -> None:
        """See `LoadSink.take_records`."""
        item = Item(
            urls=(str(Url.parse(str(path))),) if path else (),
            file_format=spool.FORMAT if path and path.suffix == spool.SUFFIX else "jsonl",
            conversion=self._conversion({}),
            rows=rows,
            bytes=path.stat().st_size if path else 0,
            is_temporary=True,
            stream=self.stream_name,
            origins=origins,
        )
        kind = self.method.kind(item)
        self.target.scheduler.add(
            self.method, item, token=token, kind=kind, alone=self.is_streamed, since=self.records_since
        )

    def activate_version(self, new_version: int) -> None:
        """Take the rows of older versions out of the table, once all that came before is in it."""
        self.target.drain_stream(self.stream_name)
        if self.method.deferred:
            self.target.scheduler.hold(self.method, self.target.checkpoints.open())
            self.method.replace_table()
            return
        if not self.tracks_versions:
            self.logger.warning(
                "ACTIVATE_VERSION of stream %r has no effect: rows carry no version; "
                "set add_record_metadata or hard_delete",
                self.stream_name,
            )
            return
        columns = {c.source: c.name for c in self.columns}
        hard = self.target.settings.hard_delete
        gone = self.remove_versions(
            new_version,
            version_column=columns[VERSION_COLUMN],
            deleted_column=None if hard else columns[DELETED_COLUMN],
        )
        verb = "deleted" if hard else "marked as deleted"
        self.logger.info("Stream %r: version %d is active, %d older rows %s", self.stream_name, new_version, gone, verb)

    @property
    def deleted_column(self) -> str | None:
        """The column that says, where it is not null, that the row of its key is to be deleted; None: none does."""
        columns = {c.source: c.name for c in self.columns}
        return columns.get(DELETED_COLUMN) if self.target.settings.hard_delete else None

    @property
    def nullable(self) -> frozenset[PropertyPath]:
        """The properties that may be null, at every depth, each with those that it is in."""
        return frozenset(_nullable(self.schema["properties"], ()))

    def _load_method(self) -> str:
        method = self.target.settings.load_method
        if method == UPSERT and not self.key_properties:
            self.logger.warning("It has no key_properties, so rows are appended, not merged")
            return APPEND
        return method

    def _conversion(self, constants: Mapping[str, Any]) -> Conversion[Any]:
        merges = self.method.merges
        return self.conversion(
            constants,
            keys=tuple(self.key_properties) if merges else (),
            place=next(self._places) if merges else None,
        )

    def _key_columns(self) -> tuple[str, ...]:
        columns = {c.source: c.name for c in self.columns}
        if missing := [k for k in self.key_properties if k not in columns]:
            msg = (
                f"Key property {missing[0]!r} of stream {self.stream_name!r} is not among the properties of its SCHEMA"
            )
            raise SchemaError(msg)
        return tuple(columns[k] for k in self.key_properties)
