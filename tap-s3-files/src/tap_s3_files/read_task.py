"""One task -> Arrow batches. Depends on its arguments alone, so it may run anywhere, and twice."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from singer_arrow.errors import ArchivedError, DataError, EmptyObjectError, ObjectChangedError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.base import HELD_BYTES, Format
from singer_arrow.formats.small_files import join_files
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint, Skipped
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.object_reader import ObjectReader, prefetch_groups
from singer_arrow.runtime.threads import Stopped
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.bad_rows import BadRowsOfObject
from tap_s3_files.catalog import split
from tap_s3_files.divided_object import Section, section_of
from tap_s3_files.plan.model import Position, Task
from tap_s3_files.plan.range_starts import RangeStarts
from tap_s3_files.progress import CountedStorage, Counts, Progress
from tap_s3_files.stream_job import StreamJob, format_of

logger = logging.getLogger("tap-s3-files")
NEW_VERSION = "if it is still there, its new version is read by this run or the next"


@dataclass(frozen=True, slots=True)
class Worker:
    """What a task is run with: where it reads, how much memory that may take, when to stop, and what to count.

    `held_bytes` are those of rows that it gathers before it encodes them.
    """

    storage: Storage
    budget: Budget
    progress: Progress
    stop: threading.Event
    held_bytes: int = HELD_BYTES


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a task, where they end, and what is to be counted with them. An object's last piece has no rows.

    `rejected` are the bad rows since the last piece, with `on_bad_row: dead_letter`.
    """

    batch: pa.RecordBatch | None
    after: Position
    counts: Counts
    rejected: tuple[Skipped, ...] = ()


def read(
    job: StreamJob,
    task: Task,
    worker: Worker,
    start: Position | None = None,
    end: ResumePoint | None = None,
    *,
    starts: RangeStarts | None = None,
) -> Generator[Piece]:
    """Yield the rows of a task's objects, in order, in batches of exactly the job's schema.

    Empty objects, and objects that were replaced or deleted since they were listed, are skipped with a warning. All
    changed objects are added to the worker's progress.

    Args:
        job: Of the stream.
        task: Which objects.
        worker: What the task is run with.
        start: Where the reading begins: at the task's start, or where an earlier piece ended.
        end: Where the reading of a task of one object ends, if not at the task's end.
        starts: For a range of an object, where all of its ranges begin.

    Raises:
        ArchivedError: An object is archived, and the stream does not skip such objects.
        ObjectChangedError: An object was replaced after some of its rows were given.
        DataError: A file does not fit the schema; names object, line or row group, and column.
        DriftError: A file does not fit the schema, which may change.
    """
    storage, start = CountedStorage(worker.storage, worker.progress, worker.stop), start or Position()
    for number, (reader, whole) in enumerate(_readers(job, task, start, storage, worker), start.object):
        begin = start if number == start.object else Position(number)
        counts, info, rows = Counts(objects=int(end is None and bool(task.ended_objects))), reader.info, 0
        assert info is not None
        try:
            if info.size == 0:  # whatever its name: `_SUCCESS` and other marks have no format
                raise EmptyObjectError
            section = section_of(job, task, begin, end, starts=starts, storage=worker.storage, budget=worker.budget)
            for piece in _read_object(job, reader, begin, worker, section, whole=whole) if section is not None else ():
                rows += piece.counts.rows_read
                yield piece
        except EmptyObjectError:
            logger.warning("%s is empty and was skipped", info.url)
            counts = Counts(skipped_objects=1)
        except ObjectChangedError:
            worker.progress.object_changed(info)
            if rows:
                raise
            first = f"; its first {begin.rows:,} rows were sent by an earlier run" if begin.rows else ""
            reason = f"{info.url} was replaced or deleted since it was listed{first}; {NEW_VERSION}"
            worker.progress.skip(info, reason)
            counts = Counts()
        except ArchivedError:
            if rows or begin.rows or job.archived == "fail":
                raise
            worker.progress.skip(info, f"{info.url} is archived and was skipped; no later run reads it")
            counts = Counts()
        yield Piece(None, Position(number + 1), counts)


def _readers(
    job: StreamJob, task: Task, start: Position, storage: Storage, worker: Worker
) -> Iterator[tuple[ObjectReader, pa.RecordBatch | None]]:
    """Yield a reader of each object of a task from a position on, with its rows if they were read together."""
    for group in prefetch_groups(storage, task.objects[start.object :], worker.budget):
        found = _rows_of(job, group) if not start.rows else None
        yield from zip(group, found or [None] * len(group), strict=True)
        start = Position()


@dataclass(frozen=True, slots=True)
class _Source:
    """How an object is read: its format, the columns that its key gives, and schema and options of all others."""

    kind: Format
    constants: Mapping[str, Any]
    schema: pa.Schema
    options: ReadOptions

    @classmethod
    def of(cls, job: StreamJob, url: Url) -> _Source:
        """Return how an object is read.

        Raises:
            DataError: Its name implies no format, or its key has a value of another type.
        """
        constants, options = job.partitions.values(url, job.schema), job.options
        schema = split(job.schema, metadata_columns=job.metadata_columns, constants=constants)
        if options.known_columns is not None and constants:
            options = replace(options, known_columns=options.known_columns.union(constants))
        return cls(FORMATS[format_of(job.format, url)], constants, schema, options)


def _rows_of(job: StreamJob, group: list[ObjectReader]) -> list[pa.RecordBatch] | None:
    """Return the rows of small objects of one format and one schema; None if they must be read one by one."""
    if len(group) == 1:
        return None
    try:
        first, *others = (_Source.of(job, reader.url) for reader in group)
    except DataError:  # of one of them, when its turn comes
        return None
    if any(o.kind is not first.kind or o.constants.keys() != first.constants.keys() for o in others):
        return None
    return join_files(first.kind, group, first.schema, first.options)


def _read_object(
    job: StreamJob,
    reader: ObjectReader,
    start: Position,
    worker: Worker,
    section: Section,
    *,
    whole: pa.RecordBatch | None,
) -> Iterator[Piece]:
    """Yield the rows of a section of an object; `whole` has them if they were read with its neighbors."""
    info = reader.info
    assert info is not None
    source = _Source.of(job, info.url)
    _check_partitions(job, info)
    added = _AddedColumns(job, info, source.constants, section.rows_before + start.rows)
    bad, puts_aside = BadRowsOfObject(job), job.options.on_bad_row == "dead_letter"
    on_skip = bad.take_row if puts_aside else None
    progress = ReadProgress(None if whole is not None else section.start, end=section.end, on_skip=on_skip)
    batches = (whole,) if whole is not None else source.kind.read(reader, source.schema, source.options, progress)
    surplus, rows, before = section.surplus, start.rows, Counts()

    def so_far() -> Counts:
        return Counts(
            rows_read=rows - start.rows + progress.skipped,
            rows_skipped=0 if puts_aside else progress.skipped,
            rows_rescued=progress.rescued,
            rows_rejected=progress.skipped if puts_aside else 0,
        )

    for given in batches:
        if worker.stop.is_set():
            raise Stopped
        batch = given.slice(surplus)
        surplus -= given.num_rows - batch.num_rows
        if not batch.num_rows:
            before = so_far()
            bad.take()  # an earlier run has sent them with these rows
            continue
        rows += batch.num_rows
        counts = so_far()
        yield Piece(
            added.add_to(batch), Position(start.object, rows, progress.resume_point), counts - before, bad.take()
        )
        before = counts
    yield Piece(None, Position(start.object, rows, progress.resume_point), so_far() - before, bad.take())


def _check_partitions(job: StreamJob, info: ObjectInfo) -> None:
    """Raise or warn about a new column in the key of an object, which is drift like one in a file.

    Raises:
        DriftError: It does, and the schema may change.
    """
    from singer_arrow.enforcement import schema_drift as drift

    if new := drift.unknown_columns(job.partitions.texts(info.url), job.schema, job.options):
        if job.options.on_drift == "raise":
            drift.raise_new_columns((f for f in job.partitions.infer([info.url]) if f.name in new), info.url)
        logger.warning("%s: the values of %s in its key are no columns, and are left out", info.url, ", ".join(new))


class _AddedColumns:
    """The metadata columns and partition columns of one object's rows."""

    def __init__(self, job: StreamJob, info: ObjectInfo, constants: Mapping[str, Any], rows: int) -> None:
        self._job = job
        self._rows = rows
        self._columns: dict[str, pa.Array] = {}
        metadata = {
            "_sdc_source_bucket": info.url.bucket,
            "_sdc_source_file": info.url.key,
            "_sdc_source_modified_at": info.modified,
            "_sdc_source_etag": info.etag,
        }
        self._values = {**(metadata if job.metadata_columns else {}), **constants}

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Complete the next batch of the object with the metadata and partition columns of the job's schema."""
        import pyarrow.compute as pc

        if not self._values:
            return batch
        count = batch.num_rows
        columns = []
        for field in self._job.schema:
            if field.name in self._values:
                columns.append(self._constant(field, count))
            elif field.name == "_sdc_source_lineno" and self._job.metadata_columns:
                columns.append(pc.cumulative_sum(pa.repeat(pa.scalar(1, field.type), count), self._rows))
            else:
                columns.append(batch.column(field.name))
        self._rows += count
        return pa.RecordBatch.from_arrays(columns, schema=self._job.schema)

    def _constant(self, field: pa.Field, count: int) -> pa.Array:
        """Made once for batches of about one size: that is cheaper than the values are."""
        if field.name not in self._columns or len(self._columns[field.name]) < count:
            self._columns[field.name] = pa.repeat(pa.scalar(self._values[field.name], field.type), count)
        return self._columns[field.name].slice(0, count)
