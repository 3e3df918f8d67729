"""What the streams of one run share (settings, storage, memory, threads, listings), and the tasks of one stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from singer_arrow.batch.message import BatchSettings
from singer_arrow.errors import ConfigError, DataError, IdentityError, NotFoundError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.parallel import Budget
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.columns import NO_COLUMNS, Columns
from tap_s3_files.lake.delta import DeltaTable
from tap_s3_files.lake.iceberg import IcebergTable
from tap_s3_files.lake.table import LakeTable, RowsLeft, TableColumns, is_version
from tap_s3_files.listing import Listing, list_objects, read_inventory
from tap_s3_files.paths import NO_PARTITIONS, ObjectFilter, Partitions, last_date, placeholders
from tap_s3_files.plan import StreamPlan
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import Division, Segment
from tap_s3_files.progress import Progress
from tap_s3_files.settings import Bookmark, Settings, StreamSettings
from tap_s3_files.shards import check_state
from tap_s3_files.table_plan import TablePlan

logger = logging.getLogger("tap-s3-files")
RANGE_BYTES = 256 << 20
"""Default size of the ranges of large objects, for tasks that run on several machines."""


class TapRun:
    """The shared parts of one run of the tap. Each is made when it is first used."""

    def __init__(self, settings: Settings, given_state: Callable[[str], Mapping[str, Any]]) -> None:
        """Share these settings; `given_state` returns the STATE that the stream of a name was started with."""
        self.settings = settings
        self._given_state = given_state
        self._listings: dict[str, Listing] = {}
        self._full_tables: set[str] = set()
        self._tables: dict[str, LakeTable] = {}
        self.left_out = set[str]()
        """The streams that are not read, as they have only objects from which no column is known."""
        self.first_rows: dict[str, str] = {}
        """By stream, the first line of a sample that names the columns and looks like a row."""

    @cached_property
    def storage(self) -> Storage:
        """Where objects are read and batch files are written."""
        return Storage(self.settings.aws)

    @cached_property
    def now(self) -> datetime:
        """When the run began, for the dates in paths."""
        return datetime.now(UTC)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        return ThreadPool(self.settings.max_workers, "task")

    @cached_property
    def budget(self) -> Budget:
        """The memory of this process."""
        return make_budget(self.settings.memory_bytes)

    @cached_property
    def own_roots(self) -> list[Url]:
        """The folders that this tap writes to."""
        root, batch = self.settings.plan_root, self.settings.batch
        return [*([root] if root else []), *([batch.root] if batch and batch.root != root else [])]

    def bookmark(self, stream: str) -> Bookmark | None:
        """Return the bookmark that a stream was started with."""
        given = self._given_state(stream)
        check_state(given, stream, self.settings.shard)
        return Bookmark.from_state(given, stream)

    def _settings_of(self, stream: StreamSettings) -> Settings:
        """Return the settings with the start of a stream, which may count from its STATE."""
        is_full = stream.name in self._full_tables or stream.replication_method == "FULL_TABLE"
        at = None if is_full else Bookmark.from_state(self._given_state(stream.name), stream.name)
        return self.settings.behind(at.watermark.last_modified if at and at.watermark else None)

    def object_filter(self, stream: StreamSettings) -> ObjectFilter:
        """Return which objects belong to a stream, without listing them."""
        settings = self._settings_of(stream)
        dates = (settings.start, settings.end)
        is_relative = any(text and not text[0].isdigit() for text in settings.moments)
        moments = settings.moments if is_relative else ()
        window = settings.window(stream)
        own, given = tuple(self.own_roots), stream.pattern_urls
        return ObjectFilter(stream.name, stream.paths, own, dates, window, moments, self.now, given)

    def listing(self, stream: StreamSettings, *, begin: Url | None = None, keep: bool = False) -> Listing:
        """Return all objects of a stream; with `keep`, the next call returns the same. `begin`: see `list_objects`."""
        found = self._listings.pop(stream.name, None)
        if found is None and self.settings.replication.manifest:
            found = self._inventory[stream.name]
        elif found is None:
            paths = self._settings_of(stream).paths(stream, begin=begin)
            found = list_objects(self.storage, paths, own=self.own_roots, begin=begin)
        if keep:
            found.compress()
            self._listings[stream.name] = found
        return found

    def ahead(self, stream: StreamSettings, listed_before: datetime) -> Listing:
        """Return all objects of a stream in places of dates that were not listed before."""
        paths = replace(self._settings_of(stream), start=listed_before).paths(stream)
        return list_objects(self.storage, paths, own=self.own_roots)

    def report_no_match(self, stream: StreamSettings) -> None:
        """Raise the error for a stream that has no object at all; warn instead where some dates may have none."""
        error = self.no_match(stream)
        is_full = stream.name in self._full_tables or stream.replication_method == "FULL_TABLE"
        if is_full or not (stream.is_dated and self._settings_of(stream).start is not None):
            raise error  # of a full table, nothing would take its place
        if stream.name not in self.left_out:
            self.left_out.add(stream.name)
            logger.warning("%s. Nothing is read of it in this run", error)

    def no_match(self, stream: StreamSettings) -> NotFoundError:
        """Return the error for a stream that has no object at all.

        IdentityError: its objects are not there because `after_load` has removed them.
        """
        if self.settings.plan_root is not None and not placeholders(stream.name):
            log = PlanLog(self.storage, self.settings.plan_root, stream.name, read_only=True)
            log.check_gone(log.first_number)
        paths, dates = ", ".join(map(str, stream.paths)), ""
        check = "check the path and its wildcards"
        settings = self._settings_of(stream)
        if stream.is_dated and settings.start is not None and (tried := settings.paths(stream)):
            first, end = (
                f"{at.astimezone(UTC):%Y-%m-%dT%H:%M}".removesuffix("T00:00")
                for at in (settings.start, settings.end or last_date(self.now))
            )
            dates = f" with a date from {first} to before {end} (UTC). The last path tried was {tried[-1]}"
            check = "check start_date, end_date and the path"
        return NotFoundError(f"Stream {stream.name!r}: no object matches {paths}{dates}; {check}")

    def table(self, stream: StreamSettings) -> LakeTable:
        """Return the table that a stream is, at the version that this run reads."""
        if stream.name not in self._tables:
            kinds: dict[str, Callable[..., LakeTable]] = {"delta": DeltaTable, "iceberg": IcebergTable}
            self._tables[stream.name] = kinds[stream.format](self.storage, stream.urls[0], stream.table)
        return self._tables[stream.name]

    @cached_property
    def _inventory(self) -> dict[str, Listing]:
        """The objects of the inventory by stream; it is read once for all of them."""
        assert self.settings.replication.manifest is not None
        found = [(self.object_filter(stream), Listing()) for stream in self.settings.streams]
        for bucket, rows in read_inventory(self.storage, self.settings.replication.manifest, self.budget):
            for object_filter, listing in found:
                listing.add_rows(bucket, rows.filter(object_filter.select(bucket, rows["key"])))
        return {object_filter.stream: listing for object_filter, listing in found}

    def plan(
        self,
        stream: StreamSettings,
        log: PlanLog | None,
        target_bytes: int,
        *,
        rows_identity: str | None = None,
        full_table: bool = False,
        is_shared: bool = False,
        sends: bool = True,
    ) -> StreamPlan:
        """Return the plan of a stream, from its STATE on.

        `full_table`: all objects that there are are sent, under ids of their own; `is_shared`: several runs will share
        its tasks; `sends`: the run sends what the plan holds, all of it.
        """
        kind: Callable[..., StreamPlan] = StreamPlan
        if stream.is_table:
            kind = partial(TablePlan, self.table(stream), keys=stream.key_properties or ())
        if full_table:
            self._full_tables.add(stream.name)
            if log is not None:
                log.check_gone(log.first_number)
            return kind(None, None, self.object_filter(stream), target_bytes)
        at = self.bookmark(stream.name)
        if log is None and at is not None and at.is_begun and sends:
            raise IdentityError(
                f"Stream {stream.name!r}: its STATE is within segment {at.segment} of a plan log, which this run does "
                "not follow: it has no plan_root and no batch_config. Let a run with them finish the segment first"
            )
        settings, division = self.settings, None
        if log is not None and settings.batch is not None:
            size = settings.range_bytes
            if size is None:
                size = RANGE_BYTES if is_shared or settings.dask is not None else 0
            passed = settings.batch.format if settings.passthrough and settings.batch.can_pass else ""
            file_format = "parquet" if stream.is_table else stream.format
            division = Division(size, file_format, stream.read, passed) if size else None
        plan = kind(
            log,
            at,
            self.object_filter(stream),
            target_bytes,
            settings=rows_identity,
            overlap=self.settings.replication.overlap,
            from_queue=self.settings.sqs is not None,
            shard=self.settings.shard if log is not None else None,
            division=division,
            keys_ascend=self.settings.replication.keys_ascend,
            is_inventory=self.settings.replication.manifest is not None,
            sends=sends,
        )
        plan.replaces_rows = stream.load_method in ("upsert", "overwrite")
        mark = plan.bookmark.watermark
        if not stream.is_table and ((plan.newest and plan.newest.table_version) or (mark and is_version(mark.key))):
            raise IdentityError(
                f"Stream {stream.name!r}: its STATE or plan log is of a table, and its path is of objects, which may "
                "be the same rows; give the stream another name, or set its format as before"
            )
        return plan

    def listed_segments(
        self, stream: StreamSettings, plan: StreamPlan, expect: Callable[[int, int], None] = lambda *_: None
    ) -> Iterator[Segment]:
        """Yield the segments of a stream whose objects are listed: those of earlier runs, then new ones.

        `expect` is called with the number of objects that are probably new, and their bytes, once they are listed.
        """
        if plan.shard is not None and not plan.is_begun:
            msg = f"Stream {stream.name!r}: setting 'shard' needs a plan, and there is none; run --write-plan first"
            raise ConfigError(msg)
        if plan.shard is not None or isinstance(plan, TablePlan) or not plan.plans_first:
            yield from plan.unfinished_segments()
        if plan.shard is not None:
            return
        if isinstance(plan, TablePlan):
            yield from plan.new_segments()
            return
        found = self.listing(stream, begin=plan.last_key if self.settings.replication.keys_ascend else None)
        if not found and plan.since is None and not plan.is_begun and not stream.pattern:
            self.report_no_match(stream)
        expect(*plan.probably_new(found))
        may_be_ahead = plan.listed_before is not None and not self.settings.replication.keys_ascend
        ahead = self.ahead(stream, plan.listed_before) if plan.listed_before is not None and may_be_ahead else None
        if not plan.plans_first:
            yield from plan.plan_listed(found, ahead)
            return
        for _ in plan.plan_listed(
            found, ahead
        ):  # so that a version which is there again is sent once, by its last task
            pass
        yield from plan.unfinished_segments(with_new=True)


def make_budget(memory: int) -> Budget:
    """Return the memory for objects that are read, half of the limit, and for rows that are encoded in parallel."""
    return Budget(fetched=memory // 4, decoded=memory // 4, encoded=memory // 8)


@dataclass(frozen=True, slots=True)
class StreamJob:
    """What all tasks of a stream have in common, also where another process runs them.

    `schema` is that of SCHEMA, in Arrow; `batch` is None where rows are sent as records; `version` is that of
    ACTIVATE_VERSION, if there is one; `passthrough` is the format of objects that go into manifests as they are, if
    some do; `settings` identifies the settings of rows; `run` identifies the run, if its batches are to have ids of
    their own; a batch has at most `max_bad_rows` bad rows, whose text may be shown unless the stream sends its files
    only in part or changed; a task gathers `held_bytes` of rows before it encodes them; of the columns of `schema`,
    `stream_maps` makes those that are `made`, see `sdk.stream_maps`; files of a `table` may have names of their own,
    and rows of some are deleted: `rows_left` has true for each other one.
    """

    stream: str
    schema: pa.Schema
    metadata_columns: bool
    format: str
    options: ReadOptions
    batch: BatchSettings | None = None
    version: int | None = None
    partitions: Partitions = NO_PARTITIONS
    passthrough: str = ""
    archived: str = "fail"
    settings: str = ""
    run: str = ""
    max_bad_rows: int = 1000
    shows_rows: bool = True
    held_bytes: int = HELD_BYTES
    columns: Columns = NO_COLUMNS
    made: Mapping[str, str | pa.StringScalar] | None = None
    table: TableColumns | None = None
    rows_left: RowsLeft | None = None

    @property
    def sent(self) -> pa.Schema:
        """The columns of batch files, where they are `made`; else they are those of `schema`."""
        made = (self.made or {}).items()
        fields = ((n, self.schema.field(c) if isinstance(c, str) else pa.field(n, c.type)) for n, c in made)
        return pa.schema([field.with_name(name) for name, field in fields])

    def mapped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of `schema` as those of batch files, where columns are `made`."""
        made = (self.made or {}).values()
        columns = [batch.column(c) if isinstance(c, str) else pa.repeat(c, batch.num_rows) for c in made]
        return pa.RecordBatch.from_arrays(columns, schema=self.sent)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What the tasks of a stream are run with in a process: storage, memory, what to count, and when to stop."""

    job: StreamJob
    storage: Storage
    budget: Budget
    progress: Progress
    stop: threading.Event = field(default_factory=threading.Event)


def format_of(setting: str, url: Url) -> str:
    """Return the format of an object; with `auto`, the one that its name implies."""
    found = setting if setting != "auto" else detect_format(url.name)
    if found is None:
        hint = f"Set the stream's 'format' to {', '.join(FORMATS)}"
        raise DataError("its name does not imply a format", url=url, hint=hint)
    return found
