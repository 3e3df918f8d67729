"""The tap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any, ClassVar

import click
import pyarrow as pa

from singer_arrow.errors import ArchivedError, EmptyObjectError, ObjectChangedError
from singer_arrow.formats import FORMATS
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.runtime.threads import ordered_results
from singer_arrow.sdk.setting_options import add_setting_options
from singer_arrow.sdk.tap import ArrowTap
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.catalog import catalog_schema, refuse_reserved, sample_objects, source_schema
from tap_s3_files.command_line import merge_paths, path_params
from tap_s3_files.config_schema import CONFIG_JSONSCHEMA
from tap_s3_files.listing.listing import Listing
from tap_s3_files.listing.path_match import find
from tap_s3_files.plan.log import PlanLog
from tap_s3_files.plan.model import unsent
from tap_s3_files.preview import Row, format_table
from tap_s3_files.read_task import format_of
from tap_s3_files.replication.sqs_events import SqsEvents
from tap_s3_files.replication.sqs_queue import Queue
from tap_s3_files.run import TARGET_BYTES, TapRun, no_match
from tap_s3_files.settings import Settings, StreamSettings
from tap_s3_files.stream import FileStream

MAX_LISTED = 1000
"""Objects that are listed for schema inference if new objects come from a queue."""


class TapS3Files(ArrowTap):
    """Reads files from S3 (or another object store, or local disk) as Arrow and sends them as BATCH files."""

    name = "tap-s3-files"
    config_jsonschema: ClassVar[dict[str, Any]] = CONFIG_JSONSCHEMA
    settings: Settings

    def check_settings(self) -> None:
        self.settings = Settings.from_config(self.config)

    @classmethod
    def get_singer_command(cls) -> click.Command:
        """Return the SDK's command with paths, `--batch-root` and `--plan`."""
        command = super().get_singer_command()
        add_setting_options(command, path_params(), merge_paths)
        words = "Show what a run would read: objects, bytes, tasks and batch files. Reads no data."
        command.params.append(click.Option(["--plan"], is_flag=True, help=words))
        return command

    @classmethod
    def invoke(cls, *, plan: bool = False, **options: Any) -> None:
        if not plan or options.get("about"):
            super().invoke(**options)
            return
        for line in format_table(cls.from_options(**options).preview()):
            click.echo(line)

    def preview(self) -> Iterator[Row]:
        """Yield what a run would read of each stream."""
        batch, root = self.settings.batch, self.settings.plan_root
        for stream in self.settings.streams:
            log = PlanLog(self.shared.storage, root, stream.name, read_only=True) if root else None
            plan = self.shared.plan(stream, log, batch.target_bytes if batch else TARGET_BYTES)
            segments = plan.unfinished_segments() if self.settings.sqs else self.shared.listed_segments(stream, plan)
            yield Row.of(stream.name, unsent(plan.bookmark, segments, plan.selects), batches=batch is not None)
        if self.settings.sqs:
            waiting = self.queue.approximate_size()
            self.logger.info("Besides, about %d messages wait in %s", waiting, self.queue.url)

    @cached_property
    def shared(self) -> TapRun:
        """What the streams of this run share."""
        return TapRun(self.settings, self.given_state)

    @cached_property
    def queue(self) -> Queue:
        """The queue of S3 events."""
        sqs = self.settings.sqs
        assert sqs is not None
        return Queue(sqs.queue_url, self.settings.aws, visibility=sqs.visibility_timeout)

    @cached_property
    def sqs_events(self) -> SqsEvents:
        """The S3 events of all streams of this run that read the queue."""
        sqs, batch = self.settings.sqs, self.settings.batch
        assert sqs is not None
        size = batch.target_bytes if batch else TARGET_BYTES
        streams = [s for s in self.streams.values() if isinstance(s, FileStream) and s.reads_queue]
        plans = {s.name: s.plan(s.plan_log(), size) for s in streams}
        others = [self.shared.object_filter(s) for s in self.settings.streams if s.name not in plans]
        return SqsEvents(self.queue, plans, others, self.shared.storage, sqs)

    def discover_streams(self) -> Sequence[FileStream]:
        """Return the streams of the settings; those of a given catalog have its schemas, and no object is read."""
        catalog = self.input_catalog
        if catalog is not None:
            for name in catalog.keys() - {s.name for s in self.settings.streams}:
                self.logger.warning("The catalog's stream %r is not in the setting 'streams'; it is left out", name)
            known = {name: entry.schema.to_dict() for name, entry in catalog.items()}
            nothing: Mapping[str, Any] = {"type": "object", "properties": {}}
            return [self._stream(s, known.get(s.name, nothing)) for s in self.settings.streams]
        try:
            return [
                self._stream(
                    s,
                    catalog_schema(
                        source_schema(list(inferred.values()), s, partitions, sampled=list(inferred)),
                        s,
                        metadata_columns=self.settings.metadata_columns,
                    ),
                )
                for s, inferred, partitions in self._inferred()
            ]
        except BaseException:
            self.shared.storage.cancelled.set()  # else the process would wait for samples that are asked for again
            raise

    def _stream(self, settings: StreamSettings, schema: Mapping[str, Any]) -> FileStream:
        return FileStream(self, self.shared, settings, schema, events=lambda: self.sqs_events)

    def _inferred(self) -> Iterator[tuple[StreamSettings, dict[Url, pa.Schema], list[pa.Field]]]:
        """Yield each stream that has objects, with the schemas of its samples, and its partition columns."""
        settings = self.settings
        samples: dict[str, list[ObjectInfo]] = {}
        folders: dict[str, list[pa.Field]] = {}
        for stream in settings.streams:
            if settings.sqs:  # a bucket that is too large to be listed has a queue
                listed = Listing(
                    islice(
                        find(self.shared.storage, self.settings.paths(stream), own=self.shared.own_roots), MAX_LISTED
                    )
                )
            else:
                listed = self.shared.list_for_discovery(stream)
            samples[stream.name] = sample_objects(listed, settings.sample_files, *settings.window(stream))
            folders[stream.name] = stream.partitions.infer(
                (o.url for o in listed) if stream.partitions.paths else listed.folders()
            )
            self._check_found(stream, listed, samples[stream.name])
        tasks = (partial(self._infer, s, info) for s in settings.streams for info in samples[s.name])
        results = ordered_results(self.shared.pool, tasks, 2 * settings.max_workers)
        for stream in settings.streams:
            found = [(info.url, next(results)) for info in samples[stream.name]]
            schemas = {url: schema for url, schema in found if isinstance(schema, pa.Schema)}
            if not schemas and not stream.types:
                self._check_archived(stream, (schema for _, schema in found))
            if schemas or stream.types:
                yield stream, schemas, folders[stream.name]

    def _check_found(self, stream: StreamSettings, listed: Listing, filled: list[ObjectInfo]) -> None:
        bookmark = self.shared.bookmark(stream.name)
        may_be_empty = self.settings.sqs or self.settings.is_backfill(stream)
        if not listed and not may_be_empty and not (bookmark and bookmark.watermark):
            raise no_match(stream)
        if not filled and not stream.types:
            nothing = "no object matches its path" if may_be_empty else "its objects are gone"
            why = "all its objects are empty" if listed else nothing
            self.logger.warning("Stream %r is left out of this run: %s, so its columns are unknown", stream.name, why)

    def _check_archived(self, stream: StreamSettings, found: Iterable[object]) -> None:
        error = next((e for e in found if isinstance(e, ArchivedError)), None)
        if error is not None and stream.archived == "fail":
            raise error
        if error is not None:
            why = "its samples are archived, so its columns are unknown"
            self.logger.warning("Stream %r is left out of this run: %s; give them in 'schema'", stream.name, why)

    def _infer(self, stream: StreamSettings, info: ObjectInfo) -> pa.Schema | ArchivedError | None:
        reader = ObjectReader(self.shared.storage, info.url, info=info, budget=self.shared.budget)
        kind = FORMATS[format_of(stream.format, info.url)]
        try:
            schema = kind.infer(reader, stream.read, sample_bytes=self.settings.sample_bytes)
        except EmptyObjectError:
            return None
        except ArchivedError as error:  # it may have been read when it was none
            self.logger.warning("%s is archived; it is no sample", info.url)
            return error
        except ObjectChangedError:
            self.logger.warning("%s was replaced or deleted since it was listed; it is no sample", info.url)
            return None
        refuse_reserved(schema.names, stream, metadata_columns=self.settings.metadata_columns, url=info.url)
        return schema
