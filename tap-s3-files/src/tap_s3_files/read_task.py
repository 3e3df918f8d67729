"""One task -> Arrow batches. Depends on its arguments alone, so it may run anywhere, and twice."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from singer_arrow.errors import ArchivedError, ConfigError, DataError, EmptyObjectError, ObjectChangedError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.base import Format
from singer_arrow.formats.range_scan import range_bounds
from singer_arrow.formats.small_files import join_files
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint, Skipped
from singer_arrow.reading.object_reader import ObjectReader, prefetch_groups
from singer_arrow.runtime.threads import Stopped
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.bad_rows import BadRowsOfObject
from tap_s3_files.catalog import METADATA
from tap_s3_files.divided_object import find_row_starts, syntax_of
from tap_s3_files.plan.cuts import Position
from tap_s3_files.plan.model import Task
from tap_s3_files.plan.range_starts import RangeStarts
from tap_s3_files.progress import CountedStorage, Counts
from tap_s3_files.stream_job import StreamJob, Worker, format_of

logger = logging.getLogger("tap-s3-files")
NEW_VERSION = "if it is still there, its new version is read by this run or the next"


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
    worker: Worker,
    task: Task,
    start: Position | None = None,
    end: ResumePoint | None = None,
    *,
    starts: RangeStarts | None = None,
) -> Generator[Piece]:
    """Yield the rows of a task's objects, in order, in batches of exactly the job's schema.

    Empty objects, and objects that were replaced or deleted since they were listed, are skipped with a warning. All
    changed objects are added to the worker's progress. An object that is replaced after some of its rows were given is
    an ObjectChangedError.

    A reading from `start` continues where an earlier piece ended; of a task of one object, it may end at `end`.
    `starts` has where all ranges of a divided object begin.
    """
    progress, at = worker.progress, start or Position()
    storage = CountedStorage(worker.storage, progress, worker.stop)
    for group in prefetch_groups(storage, task.objects[at.object :], worker.budget):
        joined = None if at.rows else _joined(worker.job, group)
        for reader, whole in zip(group, joined or [None] * len(group), strict=True):
            counts, info, rows = Counts(objects=int(end is None and bool(task.ended_objects))), reader.info, 0
            assert info is not None
            try:
                if info.size == 0:  # whatever its name: `_SUCCESS` and other marks have no format
                    raise EmptyObjectError
                for piece in _read_object(worker, task, reader, at, end, starts=starts, whole=whole):
                    rows += piece.counts.rows_read
                    yield piece
            except EmptyObjectError:
                logger.warning("%s is empty and was skipped", info.url)
                counts = Counts(skipped_objects=1)
            except ObjectChangedError:
                progress.object_changed(info)
                if rows:
                    raise
                first = f"; its first {at.rows:,} rows were sent by an earlier run" if at.rows else ""
                progress.skip(info, f"{info.url} was replaced or deleted since it was listed{first}; {NEW_VERSION}")
                counts = Counts()
            except ArchivedError:
                if rows or at.rows or worker.job.archived == "fail":
                    raise
                progress.skip(info, f"{info.url} is archived and was skipped; no later run reads it")
                counts = Counts()
            at = Position(at.object + 1)
            yield Piece(None, at, counts)


def _source(job: StreamJob, url: Url) -> tuple[Format, Mapping[str, Any], pa.Schema, ReadOptions]:
    """Return how an object is read: format, the columns that its key gives, and schema and options of all others."""
    constants, options = job.partitions.values(url, job.schema), job.options
    own = METADATA.names if job.metadata_columns else []
    fields = [f for f in job.schema if f.name not in own and f.name not in constants]
    if not fields:
        kinds = "Only metadata and partition columns" if constants else "Only metadata columns"
        msg = f"{kinds} are selected; select at least one column of the files"
        raise ConfigError(msg)
    if options.known_columns is not None and constants:
        options = replace(options, known_columns=options.known_columns.union(constants))
    return FORMATS[format_of(job.format, url)], constants, pa.schema(fields), options


def _joined(job: StreamJob, group: list[ObjectReader]) -> list[pa.RecordBatch] | None:
    """Return the rows of small objects of one format and one schema; None if they must be read one by one."""
    if len(group) == 1:
        return None
    try:
        sources = [_source(job, reader.url) for reader in group]
    except DataError:  # of one of them, when its turn comes
        return None
    kind, constants, schema, options = sources[0]
    if any(other is not kind or given.keys() != constants.keys() for other, given, _, _ in sources):
        return None
    return join_files(kind, group, schema, options)


def _read_object(
    worker: Worker,
    task: Task,
    reader: ObjectReader,
    start: Position,
    end: ResumePoint | None,
    *,
    starts: RangeStarts | None,
    whole: pa.RecordBatch | None,
) -> Iterator[Piece]:
    """Yield the rows of an object, or of a range of it; `whole` has them if they were read with its neighbors."""
    from singer_arrow.enforcement import schema_drift as drift

    job, info = worker.job, reader.info
    assert info is not None
    # Which part of the object is read
    first, rows_before = ResumePoint(), 0
    if task.range is not None:
        assert starts is not None, "a range of an object is planned in a log"
        known = starts.get(syntax_of(job, task), partial(find_row_starts, worker, task))
        bounds = range_bounds(known, task.range.number)
        if bounds is None:  # no row begins in it
            return
        first, end, rows_before = bounds[0], end or bounds[1], bounds[0].rows
    if start.place is not None and start.place != ResumePoint():
        first = start.place
    surplus = start.rows if start.place is None else 0  # rows after `first` that an earlier run has sent

    # A new column in its key is drift, like one in a file
    kind, constants, schema, options = _source(job, info.url)
    if new := drift.unknown_columns(job.partitions.texts(info.url), job.schema, job.options):
        if job.options.on_drift == "raise":
            drift.raise_new_columns((f for f in job.partitions.infer([info.url]) if f.name in new), info.url)
        logger.warning("%s: the values of %s in its key are no columns, and are left out", info.url, ", ".join(new))

    # Its rows
    added = _AddedColumns(job, info, constants, rows_before + start.rows)
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
                if len(self._columns.get(field.name, ())) < count:  # made once for batches of about one size
                    self._columns[field.name] = pa.repeat(pa.scalar(self._values[field.name], field.type), count)
                columns.append(self._columns[field.name].slice(0, count))
            elif field.name == "_sdc_source_lineno" and self._job.metadata_columns:
                columns.append(pc.cumulative_sum(pa.repeat(pa.scalar(1, field.type), count), self._rows))
            else:
                columns.append(batch.column(field.name))
        self._rows += count
        return pa.RecordBatch.from_arrays(columns, schema=self._job.schema)
