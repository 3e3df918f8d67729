"""The tap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, ClassVar

import click
import pyarrow as pa

from singer_arrow.errors import EmptyObjectError
from singer_arrow.executors import ordered_results, threads
from singer_arrow.formats import FORMATS
from singer_arrow.reading.budget import Budget
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.singer.sdk_tap import ArrowTap
from singer_arrow.storage import ObjectInfo, Storage
from tap_s3_files.bookmarks import Bookmark
from tap_s3_files.catalog import catalog_schema, sample, source_schema
from tap_s3_files.config import CONFIG_JSONSCHEMA, Settings, StreamSettings
from tap_s3_files.convert import format_of
from tap_s3_files.objects import find
from tap_s3_files.preview import ReadOnlyStore, Row, table
from tap_s3_files.stream import TARGET_BYTES, FileStream, no_match, plan_of, read_options, unsent


class TapS3Files(ArrowTap):
    """Reads files from S3 (or another object store, or local disk) as Arrow and sends them as BATCH files."""

    name = "tap-s3-files"
    config_jsonschema: ClassVar[dict[str, Any]] = CONFIG_JSONSCHEMA
    settings: Settings

    def check_settings(self) -> None:
        """See ArrowTap."""
        self.settings = Settings.from_config(self.config)

    @classmethod
    def get_singer_command(cls) -> click.Command:
        """The SDK's command, and `--plan`."""
        command = super().get_singer_command()
        words = "Show what a run would read: objects, bytes, tasks and batch files. Reads no data."
        command.params.append(click.Option(["--plan"], is_flag=True, help=words))
        return command

    @classmethod
    def invoke(cls, *, plan: bool = False, **options: Any) -> None:
        """See ArrowTap."""
        if not plan or options.get("about"):
            super().invoke(**options)
            return
        for line in table(cls.from_options(**options).preview()):
            click.echo(line)

    def preview(self) -> Iterator[Row]:
        """What a run would read of each stream."""
        batch, root = self.settings.batch, self.settings.plan_root
        for stream in self.settings.streams:
            store = ReadOnlyStore(self.storage, root, stream.name) if root else None
            begin, segments = plan_of(self, stream, store, batch.target_bytes if batch else TARGET_BYTES)
            yield Row.of(stream.name, unsent(begin, segments), batches=batch is not None)

    @cached_property
    def storage(self) -> Storage:
        """Where objects are read and batch files are written."""
        return Storage(self.settings.aws)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """Where tasks run."""
        return threads(self.settings.max_workers)

    @cached_property
    def budget(self) -> Budget:
        """Half of the memory is for what is read; the rows that are being written need the rest."""
        return Budget(fetched=self.settings.memory_bytes // 4, decoded=self.settings.memory_bytes // 4)

    @cached_property
    def _listings(self) -> dict[str, list[ObjectInfo]]:
        return {}

    def listing(self, stream: StreamSettings) -> list[ObjectInfo]:
        """All objects of a stream; listed once for discovery and for the run that follows it.

        Raises:
            NotFoundError: The bucket does not exist.
        """
        known = self._listings.pop(stream.name, None)
        if known is not None:
            return known
        own = {u for u in (self.settings.plan_root, self.settings.batch and self.settings.batch.root) if u}
        return list(find(self.storage, stream.paths, own=own))

    def discover_streams(self) -> Sequence[FileStream]:
        """The streams of the settings; those that a given catalog holds have its schemas, and no object is read."""
        catalog = self.input_catalog
        if catalog is not None:
            for name in catalog.keys() - {s.name for s in self.settings.streams}:
                self.logger.warning("The catalog's stream %r is not in the setting 'streams'; it is left out", name)
            known = {name: entry.schema.to_dict() for name, entry in catalog.items()}
            nothing: Mapping[str, Any] = {"type": "object", "properties": {}}
            return [FileStream(self, s, known.get(s.name, nothing)) for s in self.settings.streams]
        return [
            FileStream(
                self, s, catalog_schema(source_schema(inferred, s), s, metadata_columns=self.settings.metadata_columns)
            )
            for s, inferred in self._inferred()
        ]

    def _inferred(self) -> Iterator[tuple[StreamSettings, list[pa.Schema]]]:
        """Each stream that has objects, with the schemas of its samples."""
        settings = self.settings
        samples: dict[str, list[ObjectInfo]] = {}
        for stream in settings.streams:
            listed = self.listing(stream)
            self._listings[stream.name] = listed
            samples[stream.name] = sample(listed, settings.sample_files, start=settings.start, end=settings.end)
            self._check_found(stream, listed, samples[stream.name])
        tasks = (partial(self._infer, s, info) for s in settings.streams for info in samples[s.name])
        results = ordered_results(self.pool, tasks, 2 * settings.max_workers)
        for stream in settings.streams:
            found = [next(results) for _ in samples[stream.name]]
            schemas = [schema for schema in found if schema is not None]
            if schemas or stream.types:
                yield stream, schemas

    def _check_found(self, stream: StreamSettings, listed: list[ObjectInfo], filled: list[ObjectInfo]) -> None:
        bookmark = Bookmark.from_state(self.given_state(stream.name), stream.name)
        if not listed and not (bookmark and bookmark.watermark):
            raise no_match(stream)
        if not filled and not stream.types:
            why = "all its objects are empty" if listed else "its objects are gone"
            self.logger.warning("Stream %r is left out of this run: %s, so its columns are unknown", stream.name, why)

    def _infer(self, stream: StreamSettings, info: ObjectInfo) -> pa.Schema | None:
        reader = ObjectReader(self.storage, info.url, info=info, budget=self.budget)
        kind = FORMATS[format_of(stream.format, info.url)]
        try:
            return kind.infer(reader, read_options(stream), sample_bytes=self.settings.sample_bytes)
        except EmptyObjectError:
            return None
