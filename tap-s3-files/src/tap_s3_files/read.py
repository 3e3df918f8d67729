"""A task -> Arrow batches: whole objects or ranges; bad rows that leave the stream."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import pyarrow as pa

from singer_arrow.compression import detect
from singer_arrow.errors import (
    ArchivedError,
    ConfigError,
    DataError,
    EmptyObjectError,
    ObjectChangedError,
    SkippableError,
    one_line,
)
from singer_arrow.formats import DIVISIBLE, FORMATS
from singer_arrow.formats.base import SCAN_BYTES, JoiningFormat, RangeScan, divide, range_bounds, undivided
from singer_arrow.load.dead_letters import Rejected, TooManyRejectedError, too_many
from singer_arrow.read_options import MAX_LOGGED, ReadOptions, ReadProgress, ResumePoint, Skipped
from singer_arrow.reading.chunks import codec_name
from singer_arrow.reading.objects import ObjectReader, Span, prefetch_groups
from singer_arrow.reading.parallel import map_ordered
from singer_arrow.runtime.threads import Stopped
from singer_arrow.storage.urls import IMMUTABLE, Url
from tap_s3_files.discover import METADATA
from tap_s3_files.lake.table import ANEW, CHANGES, DELETED, NO_VALUES, partition_value, unlike_its_log
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import Position, RangeStarts, Syntax, Task
from tap_s3_files.progress import CountedStorage, Counts
from tap_s3_files.run import StreamJob, TaskContext, format_of

# Find where the ranges of a divided object begin.

UNREADABLE = (ObjectChangedError, DataError, SkippableError)
"""Errors that each task that reads the object raises too."""


def find_ranges(context: TaskContext, log: PlanLog, tasks: Iterable[Task]) -> None:
    """Make durable where the ranges of the divided objects of some tasks begin; log which objects cannot be read."""
    for task in tasks:
        if task.range is not None and task.range.number == 0 and (starts := log.range_starts(task)) is not None:
            try:
                starts.get(syntax_of(context.job, task), partial(find_row_starts, context, task))
            except UNREADABLE as error:
                logger.warning("%s; its tasks are planned", error)


def find_row_starts(context: TaskContext, task: Task) -> Sequence[ResumePoint]:
    """Return where the ranges of a divided object begin; scans them in parallel."""
    spans = scanned_spans(task)
    scan = partial(scan_range, context, task)
    return row_starts(
        context, task, list(map_ordered(iter(spans), scan, context.budget.decoded, cost=lambda _: SCAN_BYTES))
    )


def syntax_of(job: StreamJob, task: Task) -> Syntax:
    """Return the settings that decide where the rows of the object of a task begin."""
    url, options = task.objects[0].url, job.options
    kind = format_of(job.format, url)
    compression = detect(url.name) if options.compression == "auto" else options.compression
    found = {"format": kind, "compression": compression}
    if kind == "csv":
        found |= {name: getattr(options, name) or "" for name in ("delimiter", "quote", "escape", "comment")}
        if options.escape == "":  # and none is detected
            found["escape"] = "none"
        found["encoding"] = codec_name(options.encoding)
    return found


def scanned_spans(task: Task) -> Sequence[Span]:
    """Return the ranges that must be scanned to know where all ranges of the object of a task begin."""
    assert task.range is not None
    spans = divide(task.objects[0].size, task.range.count)[:-1]
    logger.info("%s: finding where its %d ranges begin", task.objects[0].url, len(spans) + 1)
    return spans


def scan_range(context: TaskContext, task: Task, span: Span) -> RangeScan:
    """Scan a range of the object of a task, whatever comes before it."""
    kind = DIVISIBLE.get(format_of(context.job.format, task.objects[0].url))
    return kind.scan(_reader(context, task), context.job.options, span) if kind is not None else RangeScan(span)


def row_starts(context: TaskContext, task: Task, scans: Sequence[RangeScan]) -> Sequence[ResumePoint]:
    """Return where the ranges of the object of a task begin, from the scans of `scanned_spans`.

    With the settings of today its format may be one that cannot be read from the middle: the first range then has all.
    """
    kind = DIVISIBLE.get(format_of(context.job.format, task.objects[0].url))
    if kind is None:
        return undivided(len(scans) + 1)
    return kind.row_starts(_reader(context, task), context.job.options, scans)


def _reader(context: TaskContext, task: Task) -> ObjectReader:
    (info,) = task.objects
    return ObjectReader(context.storage, info.url, info=info, budget=context.budget)


# Bad rows that leave the stream's rows, for the targets' table of rejected rows (`on_bad_row: dead_letter`).

_LONGEST_RECORD, _MOST_TEXT = 1 << 20, 8 << 20
"""Characters of one row, and of all of a message, which is a line that targets read as a whole."""


class BadRows:
    """Bad rows that wait for so many messages of their batches, which may have `most` each."""

    def __init__(self, most: int, messages: int = 1) -> None:
        self._most, self._messages, self._text = most, messages, 0
        self.rows: list[Skipped] = []

    def add(self, rows: Sequence[Skipped]) -> None:
        """Add rows; an error if there are too many, or they are too long for a message."""
        self.rows += rows
        self._text += sum(len(row.record) for row in rows)
        if len(self.rows) > self._most * self._messages:
            raise too_many(self._most, Rejected.of_tap(self.rows[0]))
        if self._text > _MOST_TEXT * self._messages:
            msg = f"its bad rows have more than {_MOST_TEXT >> 20} MiB of text; the first is {self.rows[0].reason}"
            raise TooManyRejectedError(msg, url=self.rows[0].file, hint="Correct the file, or set on_bad_row: skip")

    def take(self, count: int | None = None) -> tuple[Skipped, ...]:
        """Return the first rows, or all, and remove them from here."""
        taken = tuple(self.rows[:count])
        self.rows = self.rows[len(taken) :]
        self._text -= sum(len(row.record) for row in taken)
        return taken


class BadRowsOfObject(BadRows):
    """The bad rows since an object's last piece, as its reading passes them to `take_row`; logs its first ones."""

    def __init__(self, job: StreamJob) -> None:
        super().__init__(job.max_bad_rows)
        self._shows_rows, self._logged = job.shows_rows, 0

    def take_row(self, row: Skipped) -> None:
        """Add a row; of one that is sent only in part, none of the text."""
        record = row.record if self._shows_rows else "{}"
        if len(record) > _LONGEST_RECORD:
            record = json.dumps({"_raw": record[:_LONGEST_RECORD]}, ensure_ascii=False)
        file = (row.file or "").encode(errors="backslashreplace").decode()
        column = one_line(row.column) if row.column is not None else None
        made = replace(row, file=file, column=column, reason=one_line(row.reason), record=record)
        self._logged += 1
        if self._logged <= MAX_LOGGED:
            more = "; further ones of this file are counted only" if self._logged == MAX_LOGGED else ""
            logger.warning("A row is rejected: %s%s", Rejected.of_tap(made), more)
        self.add([made])


# One task -> Arrow batches. Depends on its arguments alone, so it may run anywhere, and twice.

logger = logging.getLogger("tap-s3-files")
NEW_VERSION = "if it is still there, its new version is read by this run or the next"


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a task, where they end, and what is to be counted with them; an object ends with one or two without rows.

    `rejected` are the bad rows since the last piece, with `on_bad_row: dead_letter`.
    """

    batch: pa.RecordBatch | None
    after: Position
    counts: Counts
    rejected: tuple[Skipped, ...] = ()


def read(
    context: TaskContext,
    task: Task,
    start: Position | None = None,
    end: ResumePoint | None = None,
    *,
    starts: RangeStarts | None = None,
) -> Generator[Piece]:
    """Yield the rows of a task's objects, in order, in batches of exactly the job's schema.

    Empty objects, and objects that were replaced or deleted since they were listed, are skipped with a warning. All
    changed objects are added to the context's progress. An object that is replaced after some of its rows were given is
    an ObjectChangedError.

    A reading from `start` continues where an earlier piece ended; of a task of one object, it may end at `end`.
    `starts` has where all ranges of a divided object begin.
    """
    progress, first = context.progress, (start or Position()).object
    storage = CountedStorage(context.storage, progress, context.stop)
    rows = size = fetched = 0
    try:
        for piece in _read_objects(context, task, start or Position(), end, storage, starts=starts):
            # What is parsed: objects that ended; of a single one what had been fetched for the rows before these
            through = sum(info.size for info in task.objects[first : piece.after.object])
            if len(task.objects) == 1:
                through, fetched = max(through, fetched), storage.fetched
            through = max(size, min(through, task.bytes)) if end is None else 0
            progress.parsed(rows=piece.counts.rows_read, size=through - size)
            rows, size = rows + piece.counts.rows_read, through
            yield piece
        rows = size = 0
    finally:
        progress.parsed(rows=-rows, size=-size)  # another reading gives them again


def _read_objects(
    context: TaskContext,
    task: Task,
    at: Position,
    end: ResumePoint | None,
    storage: CountedStorage,
    *,
    starts: RangeStarts | None,
) -> Generator[Piece]:
    progress, began = context.progress, perf_counter()
    left = [o for n, o in enumerate(task.objects) if n >= at.object and n not in task.sent_later]
    for group in prefetch_groups(storage, left, context.budget):
        joined = None if at.rows or len(group) == 1 or task.values else _joined(context.job, group)
        for reader, whole in zip(group, joined or [None] * len(group), strict=True):
            while at.object in task.sent_later:
                at = Position(at.object + 1)
                yield Piece(None, at, Counts())
            counts, info, rows = Counts(objects=int(end is None and bool(task.ended_objects))), reader.info, 0
            assert info is not None
            try:
                if info.size == 0:  # whatever its name: `_SUCCESS` and other marks have no format
                    raise EmptyObjectError
                for piece in _read_object(context, task, reader, at, end, starts=starts, whole=whole):
                    rows += piece.counts.rows_read
                    progress.spend("read", perf_counter() - began)
                    yield piece
                    began = perf_counter()
            except EmptyObjectError:
                if info.etag == IMMUTABLE:
                    raise unlike_its_log(storage, info) from None
                logger.warning("%s is empty and was skipped", info.url)
                counts = Counts(skipped_objects=1)
            except ObjectChangedError:
                if info.etag == IMMUTABLE:
                    raise unlike_its_log(storage, info) from None
                progress.object_changed(info)
                if rows:
                    raise
                first = f"; its first {at.rows:,} rows were sent by an earlier run" if at.rows else ""
                progress.skip(info, f"{info.url} was replaced or deleted since it was listed{first}; {NEW_VERSION}")
                counts = Counts()
            except ArchivedError:
                if rows or at.rows or context.job.archived == "fail":
                    raise
                progress.skip(info, f"{info.url} is archived and was skipped; no later run reads it")
                counts = Counts()
            at = Position(at.object + 1)
            progress.spend("read", perf_counter() - began)
            yield Piece(None, at, counts)
            began = perf_counter()


def _source(
    job: StreamJob, url: Url, values: Mapping[str, str | None] = NO_VALUES
) -> tuple[pa.Schema, JoiningFormat, Mapping[str, Any], pa.Schema, ReadOptions]:
    """Return how an object is read: its columns; format, columns that its key gives, schema and options of all others.

    A file of a table has the `values` of partition columns instead.

    Of its columns `job.columns` makes those of the job's schema.
    """
    has_partitions, options = job.partitions.hive or job.partitions.paths, job.options
    source = job.columns.source(job.schema) if job.columns.entries else job.schema
    constants = job.partitions.values(url, source) if has_partitions else {}
    constants |= {f.name: partition_value(values[f.name], f, url) for f in source if f.name in values}
    own = METADATA.names if job.metadata_columns else []
    fields = [f for f in source if f.name not in own and f.name not in constants]
    if (values.get(DELETED.name) or CHANGES in values) and DELETED.name not in source.names:
        reason, hint = "it has deleted rows, and was planned with change_feed", "Set change_feed as before"
        raise DataError(reason, url=url, hint=f"{hint}; {ANEW}")
    if CHANGES in values:
        fields = [pa.field(CHANGES, pa.string()) if f.name == DELETED.name else f for f in fields]
    if not fields:
        kinds = "Only metadata and partition columns" if constants else "Only metadata columns"
        raise ConfigError(f"{kinds} are selected; select at least one column of the files")
    if options.known_columns is not None and constants:
        options = replace(options, known_columns=options.known_columns.union(constants))
    kind = FORMATS[format_of(job.format, url)]
    return source, job.table.reader(kind) if job.table else kind, constants, pa.schema(fields), options


def _joined(job: StreamJob, group: list[ObjectReader]) -> list[pa.RecordBatch] | None:
    """Return the rows of small objects of one format and one schema; None if they must be read one by one."""
    try:
        sources = [_source(job, reader.url) for reader in group]
    except DataError:  # of one of them, when its turn comes
        return None
    _, kind, constants, schema, options = sources[0]
    if any(other is not kind or given.keys() != constants.keys() for _, other, given, *_ in sources):
        return None
    return kind.join(group, schema, options)


def _read_object(
    context: TaskContext,
    task: Task,
    reader: ObjectReader,
    start: Position,
    end: ResumePoint | None,
    *,
    starts: RangeStarts | None,
    whole: pa.RecordBatch | None,
) -> Iterator[Piece]:
    """Yield the rows of an object, or of a range of it; `whole` has them if they were read with its neighbors."""
    import pyarrow.compute as pc

    from singer_arrow.enforcement import enforce

    job, info = context.job, reader.info
    assert info is not None
    # Which part of the object is read
    first, rows_before = ResumePoint(), 0
    if task.range is not None:
        assert starts is not None, "a range of an object is planned in a log"
        known = starts.get(syntax_of(job, task), partial(find_row_starts, context, task))
        bounds = range_bounds(known, task.range.number)
        if bounds is None:  # no row begins in it
            return
        first, end, rows_before = bounds[0], end or bounds[1], bounds[0].rows
    if start.place is not None and start.place != ResumePoint():
        first = start.place
    surplus = start.rows if start.place is None else 0  # rows after `first` that an earlier run has sent

    # A new column in its key is drift, like one in a file
    values = task.values[start.object] if task.values else NO_VALUES
    source, kind, constants, schema, options = _source(job, info.url, values)
    has_partitions = job.partitions.hive or job.partitions.paths
    new = enforce.unknown_columns(job.partitions.texts(info.url), source, job.options) if has_partitions else []
    if new:
        if job.options.on_drift == "raise":
            enforce.raise_new_columns((f for f in job.partitions.infer([info.url]) if f.name in new), info.url)
        logger.warning("%s: the values of %s in its key are no columns, and are left out", info.url, ", ".join(new))

    # Columns that are not in it: their values, or arrays made once for batches of about one size
    made = dict[str, pa.Array]()
    added = dict[str, Any]()
    if job.metadata_columns:
        added = {
            "_sdc_source_bucket": info.url.bucket,
            "_sdc_source_file": info.url.key,
            "_sdc_source_modified_at": info.modified,
            "_sdc_source_etag": info.etag or None,
        }
    added |= constants

    # Its rows
    bad, puts_aside = BadRowsOfObject(job), job.options.on_bad_row == "dead_letter"
    on_skip = bad.take_row if puts_aside else None
    progress = ReadProgress(None if whole is not None else first, end=end, on_skip=on_skip)
    batches = (whole,) if whole is not None else kind.read(reader, schema, options, progress)
    rows, before = start.rows, Counts()

    def so_far() -> Counts:
        return Counts(
            rows_read=rows - start.rows + progress.skipped,
            rows_skipped=0 if puts_aside else progress.skipped,
            rows_rescued=progress.rescued,
            rows_rejected=progress.skipped if puts_aside else 0,
        )

    kept, at, numbers = None, 0, pa.array([], pa.int64())  # of a file of which some rows are deleted
    if task.deletes and task.deletes[start.object]:
        assert job.rows_left is not None
        kept = job.rows_left(context.storage, task.deletes[start.object], info.url)
    for given in batches:
        if context.stop.is_set():
            raise Stopped
        if kept is not None:
            if progress.skipped:
                reason, hint = (
                    "it has bad rows, and deleted ones that are known by their numbers",
                    "Set on_bad_row: fail",
                )
                raise DataError(reason, url=info.url, hint=hint)
            mask = kept.slice(at, given.num_rows)
            if len(mask) < given.num_rows:
                reason = f"it has more rows than the {len(kept):,} that the log of its table gives it"
                raise DataError(reason, url=info.url, hint="Restore the file, or the log that its writer made")
            numbers = pc.add(pc.indices_nonzero(mask).cast(pa.int64()), at + 1)
            at += given.num_rows
            given = given.filter(mask)  # noqa: PLW2901
        if CHANGES in values:  # rows before an update are left out, deleted ones get the time
            given = given.filter(pc.not_equal(given.column(CHANGES), "update_preimage"))  # noqa: PLW2901
            number, kinds = given.schema.get_field_index(CHANGES), given.column(CHANGES)
            times = pa.repeat(pa.scalar(partition_value(values[CHANGES], DELETED, info.url), DELETED.type), len(kinds))
            times = pc.if_else(pc.equal(kinds, "delete"), times, None)
            given = given.set_column(number, DELETED, times)  # noqa: PLW2901
        batch = given.slice(surplus)
        surplus -= given.num_rows - batch.num_rows
        if not batch.num_rows:
            before = so_far()
            bad.take()  # an earlier run has sent them with these rows
            continue
        if added:
            columns = []
            for field in source:
                if field.name in added:
                    if len(made.get(field.name, ())) < batch.num_rows:
                        made[field.name] = pa.repeat(pa.scalar(added[field.name], field.type), batch.num_rows)
                    columns.append(made[field.name].slice(0, batch.num_rows))
                elif field.name == "_sdc_source_lineno" and job.metadata_columns:
                    ones = pa.repeat(pa.scalar(1, field.type), batch.num_rows)
                    counted = pc.cumulative_sum(ones, rows_before + rows)
                    columns.append(counted if kept is None else numbers[-batch.num_rows :])
                else:
                    columns.append(batch.column(field.name))
            batch = pa.RecordBatch.from_arrays(columns, schema=source)
        if job.columns.entries:
            batch = job.columns.apply(batch, job.schema)
        rows += batch.num_rows
        counts = so_far()
        yield Piece(batch, Position(start.object, rows, progress.resume_point), counts - before, bad.take())
        before = counts
    yield Piece(None, Position(start.object, rows, progress.resume_point), so_far() - before, bad.take())
