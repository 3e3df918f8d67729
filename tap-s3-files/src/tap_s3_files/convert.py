"""Arrow batches -> batch files and their BATCH messages; objects that go as they are."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from time import perf_counter

from singer_arrow.batch.files import BatchFile, write_batch_files
from singer_arrow.batch.message import Batch
from singer_arrow.compression import archive_of, detect
from singer_arrow.enforcement import enforce as drift
from singer_arrow.errors import ArchivedError, DataError, EmptyObjectError, NotFoundError, ObjectChangedError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.parquet_read import read_footer
from singer_arrow.naming import folder_name
from singer_arrow.read_options import RESCUED, Skipped
from singer_arrow.reading.chunks import read_sample
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.schema.arrow_schema import is_json
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.plan_log import identity, task_name
from tap_s3_files.plan_model import Cut, PendingTask, Position, Task, rank
from tap_s3_files.progress import CountedStorage, Counts
from tap_s3_files.read import NEW_VERSION, BadRows, Piece, read
from tap_s3_files.stream_job import StreamJob, Worker, format_of

# Objects that a target can load as they are: they go into the manifest, and none of their rows is read.
#
# Of a Parquet file the footer is read, of JSON Lines the beginning. What a reading would add, change or look for makes
# an object one to be converted.

SAMPLE_BYTES = 64 << 10
"""Of JSON Lines, how much is looked at for columns that are news."""


@dataclass(frozen=True, slots=True)
class PassthroughBatch:
    """Objects that go as they are, with their rows if these are known."""

    objects: tuple[ObjectInfo, ...]
    rows: int | None


class _NeedsConversionError(Exception):
    """Reason why an object must be converted; empty if reading it reports the reason."""


def passthrough_batch(worker: Worker, task: Task) -> PassthroughBatch | None:
    """Return the objects of a task if all of them can go as they are; else None, and the reason is logged.

    All or none: the objects are one batch, whose id does not depend on the setting.
    """
    rows: int | None = 0
    for info in task.objects:
        try:
            found = _check(worker, info)
        except _NeedsConversionError as error:
            if str(error):
                logger.info("%s is converted although passthrough is on: %s", info.url, error)
            return None
        except (ArchivedError, EmptyObjectError, ObjectChangedError):
            return None
        rows = None if rows is None or found is None else rows + found
    return PassthroughBatch(task.objects, rows) if task.objects else None


def _check(worker: Worker, info: ObjectInfo) -> int | None:
    """Return the rows of an object that is passed as it is, or None if unknown; raise if it cannot be passed."""
    job = worker.job
    if job.metadata_columns:
        raise _NeedsConversionError("metadata_columns adds columns")
    if job.partitions.hive or job.partitions.paths:
        raise _NeedsConversionError("keys give columns")
    if job.options.excluded_members:
        raise _NeedsConversionError("the catalog does not select all of it")
    if job.options.on_bad_row != "fail" or RESCUED in job.schema.names:
        raise _NeedsConversionError("on_bad_row and on_drift want each row looked at")
    if info.size == 0:
        raise _NeedsConversionError
    kind = format_of(job.format, info.url)
    if kind != job.passthrough:
        reason = f"it is {kind}, and batch files are {job.passthrough}"
        raise _NeedsConversionError(reason)
    storage = CountedStorage(worker.storage, worker.progress, worker.stop)
    reader = ObjectReader(storage, info.url, info=info, budget=worker.budget)
    if kind == "parquet":
        return _check_parquet(job, reader)
    _check_lines(job, reader)
    return None


def _check_parquet(job: StreamJob, reader: ObjectReader) -> int:
    if archive_of(reader.url.name):
        raise _NeedsConversionError("it is an archive")
    metadata = read_footer(reader, reader.url, fresh=True).metadata
    file = metadata.schema.to_arrow_schema()
    if sorted(file.names) != sorted(job.schema.names):
        other = sorted(set(file.names).symmetric_difference(job.schema.names))
        reason = f"its columns are not those of SCHEMA ({', '.join(other[:5]) or 'one occurs twice'})"
        raise _NeedsConversionError(reason)
    for field in job.schema:
        t = file.field(field.name).type
        if t != field.type or is_json(field):
            reason = f"its column {field.name!r} is {t}, in SCHEMA {drift.type_name(field)}"
            raise _NeedsConversionError(reason)
    return int(metadata.num_rows)


def _check_lines(job: StreamJob, reader: ObjectReader) -> None:
    head = bytes(reader.head_bytes(SAMPLE_BYTES)[:16])
    is_other = job.options.compression not in ("auto", "gzip") or archive_of(reader.url.name) is not None
    if is_other or detect(reader.url.name, head) != "gzip":
        raise _NeedsConversionError("it is not compressed by gzip")
    if read_sample(reader, SAMPLE_BYTES, compression="gzip")[0].lstrip()[:1] == b"[":
        raise _NeedsConversionError("it is a list")
    found = FORMATS["jsonl"].infer(reader, job.options, sample_bytes=SAMPLE_BYTES)
    shared = set(found.names) & set(job.schema.names)
    other = drift.unknown_columns(found.names, job.schema, job.options)
    other += [n for n in shared if drift.widened_field(job.schema.field(n), found.field(n)) is not None]
    if other:
        reason = f"its first lines do not fit SCHEMA ({', '.join(sorted(other)[:5])})"
        raise _NeedsConversionError(reason)


# One task -> batch files. Depends on its arguments alone, so it may run anywhere, and twice.

logger = logging.getLogger("tap-s3-files")
FINAL = -1
"""Used instead of the row count of a task's last batch file, which holds all remaining rows."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a task: a batch file, if it made one, and what is to be counted once that is sent.

    `after` is where the task can continue; None after the last file and within bundles.
    """

    batch: Batch | None
    after: Position | None
    counts: Counts


def convert_task(worker: Worker, pending: PendingTask) -> Iterator[Step]:
    """Write a task's rows as batch files; yield a step for each, once the file is durable.

    A task ends early where its object is replaced or deleted while it is read; the worker's progress counts it.

    The same task gives batches with the same ids on every run, whatever the settings are: an object that was cut into
    files is cut at the same places again. Files that earlier runs made, and that are still there, are sent again, not
    made again. The size of a file is that of the task's segment; a bundle becomes one file, however large: if it were
    cut, an object that is gone on a later run would move the cuts, and rows would be lost or sent twice.

    A DataError is one that `read` raises, and the steps before it are good. A SupersededError means that another run
    cuts the object elsewhere at the same time.
    """
    job, task, cuts, at = worker.job, pending.task, pending.cuts, pending.start
    files = _TaskFiles(job, pending)
    with cuts.lock if cuts is not None else nullcontext():
        known = cuts.known() if cuts is not None else []
        at = cuts.with_resume_point(at) if cuts is not None else at

        # Objects that go as they are: the batch that they would make, under its id
        if job.passthrough and task.range is None and not at.rows and all(c.after is None for c in known):
            passed = passthrough_batch(worker, task)
            if passed is not None:
                if cuts is not None and not known:
                    cuts.add(Cut(str(passed.objects[0].url), 0, -1, task.bytes, None))
                count, found = len(passed.objects), passed.rows or 0
                counts = Counts(objects=count, rows_read=found, rows_written=found, batch_files=count)
                yield Step(files.passed(passed), None, counts)
                return

        # Files that earlier runs made; made again if they are gone, or would differ
        for cut in known:
            if cut.first_row == at.rows:
                if not cut.bad_rows and cut.url == str(files.url(cut.first_row, cut.rows)) and _is_whole(worker, cut):
                    ended = len(task.ended_objects) if cut.after is None else 0
                    counts = Counts(objects=ended, batch_files=1, rows_read=cut.rows, rows_written=cut.rows)
                    message = files.message(cut, cut.first_row, FINAL if cut.after is None else cut.rows)
                    yield Step(message, cut.after, counts)
                else:
                    yield from _write_rows(worker, pending, files, at, cut)
                if cut.after is None:
                    return
                at = cut.after

        yield from _write_rows(worker, pending, files, at)


def _is_whole(worker: Worker, cut: Cut) -> bool:
    """Return whether a file is there in full; on a disk it may have been cut off since."""
    try:
        return worker.storage.head(Url.parse(cut.url)).size == cut.bytes
    except NotFoundError:
        return False


def _write_rows(
    worker: Worker, pending: PendingTask, files: _TaskFiles, start: Position, made: Cut | None = None
) -> Iterator[Step]:
    """Yield the steps of the rows from a position on; of `made` alone, if that file is made again."""
    job, task, cuts = worker.job, pending.task, pending.cuts
    assert job.batch is not None
    divisible = task.may_be_cut and made is None
    end = made.after.place if made is not None and made.after is not None else None
    at, counts, bad_rows = start, Counts(), 0  # where the reading is, and what it has found up to there
    by_object = Counter[int]()
    bad = BadRows(job.max_bad_rows, messages=3)  # one file is uploaded while others are encoded

    def has_rows(piece: Piece) -> bool:
        """Count a piece when it is read."""
        nonlocal at, counts, bad_rows
        at, counts, bad_rows = piece.after, counts + piece.counts, bad_rows + len(piece.rejected)
        bad.add(piece.rejected)
        if piece.batch is not None:
            by_object[at.object] += piece.batch.num_rows
        return piece.batch is not None

    counted, sent, began = Counts(), 0, perf_counter()
    with closing(read(worker, task, start, end, starts=pending.starts)) as pieces:
        parts = write_batch_files(
            (piece.batch for piece in pieces if has_rows(piece) and piece.batch is not None),
            job.schema,
            storage=worker.storage,
            url_of=files.url,
            format=job.batch.format,
            compression=job.batch.compression,
            target_bytes=pending.segment.target_bytes if divisible else sys.maxsize,
            first_row=start.rows,
            mark=lambda: (at, counts, bad_rows),
            can_end=lambda mark: mark[0].place is not None,  # only where a reading can begin
            held_bytes=job.held_bytes,
            parallel=worker.budget.encoded,
        )
        try:
            for part in parts:
                worker.progress.spend("write", perf_counter() - began)
                after, found, bad_found = (at, counts, bad_rows) if part.is_last else part.mark
                rejected = bad.take(None if part.is_last else bad_found - sent)
                more = found - counted + Counts(batch_files=1, rows_written=part.rows)
                counted, sent = found, sent + len(rejected)
                if made is not None:
                    count = made.rows if made.after is not None else FINAL
                    yield Step(files.message(part, part.first_row, count, rejected=rejected), made.after, more)
                    return
                rest = after if divisible and not part.is_last else None
                if cuts is not None:
                    cuts.add(Cut(str(part.url), part.first_row, part.rows, part.bytes, rest, len(rejected)))
                count = part.rows if rest is not None else FINAL
                yield Step(files.message(part, part.first_row, count, by_object, rejected), rest, more)
                began = perf_counter()
        except ObjectChangedError as error:
            if len(task.objects) > 1:  # the bundle's other rows would be lost; the next try leaves the object out
                raise
            # What is durable of its old version is sent: what a batch's id identifies is never more or less than it
            # holds.
            (info,) = task.objects
            worker.progress.skip(info, f"{error}; the rest of its old version is left out; {NEW_VERSION}")
            if made is not None:
                yield Step(None, None, Counts())
            return
        except DataError as error:  # also of a value that cannot be written
            url = task.objects[min(at.object, len(task.objects) - 1)].url
            raise error if error.url is not None else error.at(url) from None
    rest = made.after if made is not None else None
    count = made.rows if made is not None and rest is not None else FINAL
    yield Step(files.message(None, start.rows, count, rejected=bad.take()), rest, counts - counted)


class _TaskFiles:
    """URLs of a task's batch files, and their messages."""

    def __init__(self, job: StreamJob, pending: PendingTask) -> None:
        assert job.batch is not None
        assert pending.reading
        self._job, self._batch, self._task, self._reading = job, job.batch, pending.task, pending.reading
        self._name = task_name(job.stream, pending.task)
        columns = [[f.name, str(f.type), bool(f.metadata)] for f in job.schema]
        self._content = identity(self._name, columns, job.settings, job.batch.compression)

    def url(self, first_row: int, rows: int) -> Url:
        """Return the URL of a batch file; it depends on all that decides what is in the file."""
        name = f"{folder_name(self._job.stream)}--{self._content}-{first_row}-{rows}.{self._batch.suffix}"
        return self._batch.root.join(f"{self._batch.prefix}{name}")

    def message(
        self,
        part: BatchFile | Cut | None,
        first_row: int,
        rows: int,
        by_object: Mapping[int, int] | None = None,
        rejected: tuple[Skipped, ...] = (),
    ) -> Batch | None:
        """Return the message for a batch file, or for bad rows alone; None if there is nothing to send.

        `first_row` and `rows` are those with which the file was first made. The id of the last file does not depend on
        them: if an object of a bundle has gone since an earlier run sent the file, the rest must still be recognized,
        or it would be loaded twice. `by_object` has the rows of the file's objects, in order, if the task has several.
        """
        BadRows(self._job.max_bad_rows).add(rejected)
        if part is None and not rejected:
            return None
        job, objects = self._job, self._task.objects
        part_of = self._task.range.number if self._task.range else 0
        counts = {} if part is None else {0: part.rows} if len(objects) == 1 else by_object or {}
        ranks = tuple(
            (count, rank(objects[n], job.version, self._reading, part_of, first_row)) for n, count in counts.items()
        )
        return Batch(
            job.stream,
            format=self._batch.format,
            compression=self._batch.message_compression,
            manifest=(str(part.url),) if part is not None else (),
            version=job.version,
            batch_id=identity(self._name, first_row, rows, *job.own_ids),
            row_count=part.rows if part is not None else 0,
            byte_count=part.bytes if part is not None else 0,
            ranks=(ranks,) if part is not None else (),
            rejected=rejected,
        )

    def passed(self, passed: PassthroughBatch) -> Batch:
        """Return the message for objects that go as they are."""
        job = self._job
        return Batch(
            job.stream,
            format=job.passthrough,
            compression="gzip" if job.passthrough == "jsonl" else None,
            manifest=tuple(str(o.url) for o in passed.objects),
            version=job.version,
            batch_id=identity(self._name, 0, FINAL, *job.own_ids),
            row_count=passed.rows,
            byte_count=sum(o.size for o in passed.objects),
            passthrough=True,
            ranks=tuple(((None, rank(o, job.version, self._reading)),) for o in passed.objects),
        )
