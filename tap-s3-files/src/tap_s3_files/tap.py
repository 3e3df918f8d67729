"""The tap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import click

from singer_arrow.errors import ConfigError, DataError, IdentityError, SingerArrowError
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.plugin import config_input
from singer_arrow.sdk.setting_options import add_setting_options
from singer_arrow.sdk.tap import ArrowTap
from tap_s3_files.bookmark import Bookmark
from tap_s3_files.catalog import catalog_schema, source_schema
from tap_s3_files.command_line import OTHER_COMMANDS, inspection_params, merge_paths, path_params
from tap_s3_files.config_schema import CONFIG_JSONSCHEMA
from tap_s3_files.discovery import inferred_schemas
from tap_s3_files.plan.log import PlanLog
from tap_s3_files.plan.model import unsent
from tap_s3_files.plan.stream_plan import start_of
from tap_s3_files.replication.sqs_events import SqsEvents
from tap_s3_files.replication.sqs_queue import Queue
from tap_s3_files.run import TapRun
from tap_s3_files.settings import Settings, StreamSettings
from tap_s3_files.stream import FileStream

if TYPE_CHECKING:
    from tap_s3_files.inspection.plan_table import Row
    from tap_s3_files.inspection.shard_table import ShardShares


class TapS3Files(ArrowTap):
    """Reads files from S3 (or another object store, or local disk) as Arrow and sends them as BATCH files."""

    name = "tap-s3-files"
    package_name = "singer-arrow-tap-s3-files"
    config_jsonschema: ClassVar[dict[str, Any]] = CONFIG_JSONSCHEMA
    settings: Settings

    def check_settings(self) -> None:
        self.settings = Settings.from_config(self.config)

    @classmethod
    def read_config(cls, sources: Sequence[str]) -> Mapping[str, Any]:
        """Return the settings of configuration files, or of the environment for `ENV`."""
        given: Mapping[str, Any] = config_input(cls, sources).config
        return given

    @classmethod
    def get_singer_command(cls) -> click.Command:
        """Return the SDK's command with paths, `--batch-root`, `--plan` and `--preview`."""
        command = super().get_singer_command()
        add_setting_options(command, path_params(), merge_paths)
        command.params.extend(inspection_params())
        command.epilog = OTHER_COMMANDS
        return command

    @classmethod
    def invoke(
        cls,
        *,
        plan: bool = False,
        write_plan: bool = False,
        new_plan_log: bool = False,
        targets: Sequence[str] = (),
        shard_count: int | None = None,
        preview: int | None = None,
        **options: Any,
    ) -> None:
        if options.get("about") or not (
            plan or write_plan or new_plan_log or targets or shard_count or preview is not None
        ):
            super().invoke(**options)
            return
        tap = cls.from_options(**options)
        if write_plan or new_plan_log:
            tap.begin_plan_logs(has_state=bool(options.get("state"))) if new_plan_log else tap.write_plan()
            return
        for line in tap.preview_lines(preview) if preview is not None else tap.plan_lines(targets, shard_count):
            click.echo(line)

    def write_plan(self) -> None:
        """List objects, and append those that are new to the plan logs."""
        if self.settings.sqs or self.settings.shard:
            msg = "--write-plan lists objects: it is for polling and inventory, without setting 'shard'"
            raise ConfigError(msg)
        self.setup_mapper()
        for stream in self.streams.values():
            if isinstance(stream, FileStream) and stream.selected:
                count = stream.write_plan(self.settings.target_bytes)
                self.logger.info("Stream %r: %d segments are new in its plan", stream.name, count)

    def begin_plan_logs(self, *, has_state: bool) -> None:
        """Begin a new plan log for each stream that the catalog selects, in place of the one it has.

        With a STATE the logs begin where it ends, and streams that it lacks are left as they are.
        """
        root = self.settings.plan_root
        if root is None:
            msg = "--new-plan-log needs 'plan_root' or 'batch_config'"
            raise ConfigError(msg)
        selected = {s.name for s in self.streams.values() if s.selected} if self.input_catalog else None
        for name in (s.name for s in self.settings.streams if selected is None or s.name in selected):
            given = {key: value for key, value in self.given_state(name).items() if key != "shard"}
            at = Bookmark.from_state(given, name)
            if has_state and at is None:
                self.logger.info("Stream %r: the STATE does not have it; its plan log is left as it is", name)
                continue
            if at is None and self.settings.sqs:
                msg = (
                    f"Stream {name!r}: a queue announces new objects alone, so those that are there would be left out: "
                    "begin the log with replication.method polling, and let a run with it read them"
                )
                raise ConfigError(msg)
            if at is not None:
                with suppress(DataError, IdentityError):
                    log = PlanLog(self.shared.storage, root, name, read_only=True)
                    begin = start_of(log, at, name).segment
                    if log.next_number > begin:
                        msg = f"Stream {name!r}: its STATE has not passed segment {begin}; let a run send it first"
                        raise ConfigError(msg)
            if at is not None and at.is_begun:
                self.logger.warning(
                    "Stream %r: its STATE is within a segment that is gone. All objects of after %s are sent under new "
                    "ids, also those of the segment that were sent: with append-only, remove their rows first",
                    name,
                    at.watermark.last_modified if at.watermark else "the beginning",
                )
            before = at.watermark if at is not None else None
            url = PlanLog.begin_anew(self.shared.storage, root, name, before, given if at is not None else None)
            where = f"after {before.last_modified}, for runs with this STATE" if before else "at the beginning"
            self.logger.info("Stream %r: a new plan log begins %s: %s", name, where, url)

    def plan_lines(self, targets: Sequence[str], shard_count: int | None = None) -> Iterator[str]:
        """Yield the lines that show what a run would read, what targets need to load it, and what shards would read."""
        from tap_s3_files.inspection import load_cost, plan_table
        from tap_s3_files.inspection.shard_table import ShardShares, shard_lines

        if shard_count and self.settings.shard:
            msg = "--shard-count divides the whole plan: leave out setting 'shard'"
            raise ConfigError(msg)
        shares = [ShardShares(stream.name, shard_count) for stream in self.settings.streams] if shard_count else []
        rows = list(self._plan_rows(shares))
        yield from plan_table.plan_lines(rows)
        if any(row.columns is None for row in rows):
            self.logger.info("--plan reads no data: columns are known with --catalog; --preview reads samples")
        for target in targets:
            yield ""
            yield from load_cost.cost_lines(target, rows)
        if shares:
            yield ""
            yield from shard_lines(shares)

    def _plan_rows(self, shares: Sequence[ShardShares]) -> Iterator[Row]:
        """Yield what a run would read of each stream; its tasks are counted in the shares of the stream."""
        from tap_s3_files.inspection.plan_table import Row

        batch, root = self.settings.batch, self.settings.plan_root
        for number, stream in enumerate(self.settings.streams):
            log = PlanLog(self.shared.storage, root, stream.name, read_only=True) if root else None
            full = stream.replication_method == "FULL_TABLE"
            plan = self.shared.plan(stream, log, self.settings.target_bytes, full_table=full, is_shared=bool(shares))
            segments = plan.unfinished_segments() if self.settings.sqs else self.shared.listed_segments(stream, plan)
            tasks = unsent(plan.bookmark, segments, plan.selects, plan.shard)
            tasks = shares[number].counted(tasks) if shares else tasks
            entry = self.input_catalog.get_stream(stream.name) if self.input_catalog else None
            columns = from_json_schema(entry.schema.to_dict()) if entry else None
            yield Row.of(stream.name, tasks, batches=batch is not None, file_format=stream.format, columns=columns)
        if self.settings.sqs:
            waiting = self.queue.approximate_size()
            self.logger.info("Besides, about %d messages wait in %s", waiting, self.queue.url)

    def preview_lines(self, count: int) -> Iterator[str]:
        """Yield the lines that show the first rows of each stream; no STATE is written, and no batch file."""
        from tap_s3_files.inspection.preview import preview_lines

        self.setup_mapper()
        for number, stream in enumerate(self.streams.values()):
            assert isinstance(stream, FileStream)
            if number:
                yield ""
            yield from preview_lines(self.shared, stream.settings, stream.job(), count)

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
        sqs, size = self.settings.sqs, self.settings.target_bytes
        assert sqs is not None
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
        fail, found = partial(self.fail_stream, is_only=len(self.settings.streams) == 1), []
        try:
            for s, inferred, partitions in inferred_schemas(self.shared, fail):
                try:
                    source = source_schema(list(inferred.values()), s, partitions, sampled=list(inferred))
                    schema = catalog_schema(source, s, metadata_columns=self.settings.metadata_columns)
                except SingerArrowError as error:
                    fail(s.name, error)
                else:
                    found.append(self._stream(s, schema))
        except BaseException:
            self.shared.storage.cancelled.set()  # else the process would wait for samples that are asked for again
            raise
        return found

    def _stream(self, settings: StreamSettings, schema: Mapping[str, Any]) -> FileStream:
        return FileStream(self, self.shared, settings, schema, events=lambda: self.sqs_events)
