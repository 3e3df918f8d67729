"""Arrow batches -> batch files and their BATCH messages; objects that go as they are."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import UTC
from time import perf_counter

import pyarrow as pa

from singer_arrow.batch.files import BatchFile, write_batch_files
from singer_arrow.batch.message import Batch
from singer_arrow.compression import archive_of, detect
from singer_arrow.enforcement import enforce
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
from tap_s3_files.plan_model import Cut, PendingTask, Position, Task
from tap_s3_files.progress import CountedStorage, Counts
from tap_s3_files.read import NEW_VERSION, BadRows, Piece, read
from tap_s3_files.run import StreamJob, TaskContext, format_of

# Objects that a target can load as they are: they go into the manifest, and none of their rows is read.
#
# Of a Parquet file the footer is read, of JSON Lines the beginning. What a reading would add, change or look for makes
# an object one to be converted.

SAMPLE_BYTES = 64 << 10
"""Of JSON Lines, how much is looked at for columns that are news."""


def passthrough_rows(context: TaskContext, task: Task) -> list[int | None] | None:
    """Return the rows of a task's objects, as far as they are known, if all can go as they are; else None, and log why.

    All or none: the objects are one batch, whose id does not depend on the setting.
    """
    rows = list[int | None]()
    if task.values or task.deletes or context.job.table is not None:
        reason = "its rows or names may not be all those of the table" if not task.values else "it lacks columns"
        logger.info("%s is converted although passthrough is on: %s", task.objects[0].url, reason)
        return None
    for info in task.read_objects:
        try:
            found, reason = _rows_or_reason(context, info)
        except (ArchivedError, EmptyObjectError, ObjectChangedError):  # reading it reports that
            return None
        if reason:
            logger.info("%s is converted although passthrough is on: %s", info.url, reason)
            return None
        rows.append(found)
    return rows or None


def _rows_or_reason(context: TaskContext, info: ObjectInfo) -> tuple[int | None, str]:
    """Return the rows of an object that can go as it is, if known, or else the reason why it cannot."""
    job = context.job
    if job.metadata_columns:
        return None, "metadata_columns adds columns"
    if job.partitions.hive or job.partitions.paths:
        return None, "keys give columns"
    if job.columns.entries or job.made:
        return None, "the setting columns is an object, or stream_maps changes columns"
    if job.options.excluded_members:
        return None, "the catalog does not select all of it"
    if job.options.on_bad_row != "fail" or RESCUED in job.schema.names:
        return None, "on_bad_row and on_drift want each row looked at"
    if info.size == 0:
        raise EmptyObjectError
    kind = format_of(job.format, info.url)
    if kind != job.passthrough:
        return None, f"it is {kind}, and batch files are {job.passthrough}"
    storage, is_archive = CountedStorage(context.storage, context.progress, context.stop), archive_of(info.url.name)
    reader = ObjectReader(storage, info.url, info=info, budget=context.budget)

    # Parquet: columns and types are those of SCHEMA
    if kind == "parquet":
        if is_archive:
            return None, "it is an archive"
        metadata = read_footer(reader, reader.url, fresh=True).metadata
        file = metadata.schema.to_arrow_schema()
        if sorted(file.names) != sorted(job.schema.names):
            other = sorted(set(file.names).symmetric_difference(job.schema.names))
            return None, f"its columns are not those of SCHEMA ({', '.join(other[:5]) or 'one occurs twice'})"
        for field in job.schema:
            t = file.field(field.name).type
            if t != field.type or is_json(field):
                return None, f"its column {field.name!r} is {t}, in SCHEMA {enforce.type_name(field)}"
        return int(metadata.num_rows), ""

    # JSON Lines: with gzip, and the first ones fit SCHEMA
    head = bytes(reader.head_bytes(SAMPLE_BYTES)[:16])
    is_other = job.options.compression not in ("auto", "gzip") or is_archive
    if is_other or detect(reader.url.name, head) != "gzip":
        return None, "it is not compressed by gzip"
    if read_sample(reader, SAMPLE_BYTES, compression="gzip")[0].lstrip()[:1] == b"[":
        return None, "it is a list"
    inferred = FORMATS["jsonl"].infer(reader, job.options, sample_bytes=SAMPLE_BYTES)
    shared = set(inferred.names) & set(job.schema.names)
    unfit = enforce.unknown_columns(inferred.names, job.schema, job.options)
    unfit += [n for n in shared if enforce.widened_field(job.schema.field(n), inferred.field(n)) is not None]
    return None, f"its first lines do not fit SCHEMA ({', '.join(sorted(unfit)[:5])})" if unfit else ""


# One task -> batch files. Depends on its arguments alone, so it may run anywhere, and twice.

logger = logging.getLogger("tap-s3-files")
_LONGEST_NAME = 63 + 1 + 1024  # bytes, of a bucket and a key
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


def convert_task(context: TaskContext, pending: PendingTask) -> Iterator[Step]:
    """Write a task's rows as batch files; yield a step for each, once the file is durable.

    A task ends early where its object is replaced or deleted while it is read; the context's progress counts it.

    The same task gives batches with the same ids on every run, whatever the settings are: an object that was cut into
    files is cut at the same places again. Files that earlier runs made, and that are still there, are sent again, not
    made again. The size of a file that is aimed at is `target_bytes` of the task's segment; an object whose format or
    archive cannot be resumed becomes one file, and a bundle too, however large: if it were cut, an object that is gone
    on a later run would move the cuts, and rows would be lost or sent twice.

    A DataError is one that `read` raises, and the steps before it are good. A SupersededError means that another run
    cuts the object elsewhere at the same time.
    """
    job, task, cuts, at = context.job, pending.task, pending.cuts, pending.start
    files = _TaskFiles(job, pending)
    with cuts.lock if cuts is not None else nullcontext():
        known = cuts.known() if cuts is not None else []
        # With the place where a reading can begin there, if that is known
        at = next((c.after for c in known if c.after and c.after.rows == at.rows), at)

        # Objects that go as they are: the batch that they would make, under its id
        if job.passthrough and task.range is None and not at.rows and all(c.after is None for c in known):
            passed = passthrough_rows(context, task)
            if passed is not None:
                if cuts is not None and not known:
                    cuts.add(Cut(str(task.objects[0].url), 0, -1, task.bytes, None))
                count, found = len(passed), sum(rows or 0 for rows in passed) if None not in passed else 0
                counts = Counts(objects=count, rows_read=found, rows_written=found, batch_files=count)
                yield Step(files.passed(None if None in passed else found), None, counts)
                return

        # Files that earlier runs made; made again if they are gone, or would differ
        for cut in known:
            if cut.first_row == at.rows:
                if not cut.bad_rows and cut.url == str(files.url(cut.first_row, cut.rows)) and _is_whole(context, cut):
                    ended = len(task.ended_objects) if cut.after is None else 0
                    counts = Counts(objects=ended, batch_files=1, rows_read=cut.rows, rows_written=cut.rows)
                    message = files.message(cut, cut.first_row, FINAL if cut.after is None else cut.rows)
                    yield Step(message, cut.after, counts)
                else:
                    yield from _write_rows(context, pending, files, at, cut)
                if cut.after is None:
                    return
                at = cut.after

        yield from _write_rows(context, pending, files, at)


def _is_whole(context: TaskContext, cut: Cut) -> bool:
    """Return whether a file is there in full; on a disk it may have been cut off since."""
    try:
        return context.storage.head(Url.parse(cut.url)).size == cut.bytes
    except NotFoundError:
        return False


def _write_rows(
    context: TaskContext, pending: PendingTask, files: _TaskFiles, start: Position, remade_cut: Cut | None = None
) -> Iterator[Step]:
    """Yield the steps of the rows from a position on; of `remade_cut` alone, the file that is made again."""
    job, task, cuts = context.job, pending.task, pending.cuts
    assert job.batch is not None
    may_be_cut = task.may_be_cut and remade_cut is None
    end = remade_cut.after.place if remade_cut is not None and remade_cut.after is not None else None
    at, counts, bad_rows = start, Counts(), 0  # where the reading is, and what it has found up to there
    by_object = Counter[int]()
    bad = BadRows(job.max_bad_rows, messages=3)  # one file is uploaded, one is encoded, one is begun

    def take(piece: Piece) -> tuple[pa.RecordBatch | None, tuple[Position, Counts, int]]:
        """Count a piece once it is read; return its batch, and what is found up to its end."""
        nonlocal at, counts, bad_rows
        at, counts, bad_rows = piece.after, counts + piece.counts, bad_rows + len(piece.rejected)
        bad.add(piece.rejected)
        if piece.batch is None:
            return None, (at, counts, bad_rows)
        by_object[at.object] += piece.batch.num_rows
        return piece.batch if job.made is None else job.mapped(piece.batch), (at, counts, bad_rows)

    counted, sent, began = Counts(), 0, perf_counter()
    with closing(read(context, task, start, end, starts=pending.starts)) as pieces:
        written = write_batch_files(
            pieces,
            files.schema,
            storage=context.storage,
            url_of=files.url,
            format=job.batch.format,
            compression=job.batch.compression,
            target_bytes=pending.segment.target_bytes if may_be_cut else sys.maxsize,
            first_row=start.rows,
            take=take,
            can_end=lambda mark: mark[0].place is not None,  # only where a reading can begin
            held_bytes=job.held_bytes,
            parallel=context.budget.encoded,
        )
        try:
            for file in written:
                context.progress.spend("write", perf_counter() - began)
                # A batch of the next file is read already, where there is one; its mark has what was read before that
                reached, found, bad_found = (at, counts, bad_rows) if file.is_last else file.mark
                rejected = bad.take(None if file.is_last else bad_found - sent)
                more = found - counted + Counts(batch_files=1, rows_written=file.rows)
                counted, sent = found, sent + len(rejected)
                if remade_cut is not None:
                    count = remade_cut.rows if remade_cut.after is not None else FINAL
                    yield Step(files.message(file, file.first_row, count, rejected=rejected), remade_cut.after, more)
                    return
                after = reached if may_be_cut and not file.is_last else None
                if cuts is not None:
                    cuts.add(Cut(str(file.url), file.first_row, file.rows, file.bytes, after, len(rejected)))
                count = file.rows if after is not None else FINAL
                yield Step(files.message(file, file.first_row, count, by_object, rejected), after, more)
                began = perf_counter()
        except ObjectChangedError as error:
            if len(task.objects) > 1:  # the bundle's other rows would be lost; the next try leaves the object out
                raise
            # What is durable of its old version is sent: what a batch's id identifies is never more or less than it
            # holds.
            (info,) = task.objects
            context.progress.skip(info, f"{error}; the rest of its old version is left out; {NEW_VERSION}")
            if remade_cut is not None:
                yield Step(None, None, Counts())
            return
        except DataError as error:  # also of a value that cannot be written
            url = task.objects[min(at.object, len(task.objects) - 1)].url
            raise error if error.url is not None else error.at(url) from None
    # What was read behind the last file: counts and bad rows
    after = remade_cut.after if remade_cut is not None else None
    count = remade_cut.rows if remade_cut is not None and after is not None else FINAL
    yield Step(files.message(None, start.rows, count, rejected=bad.take()), after, counts - counted)


class _TaskFiles:
    """URLs of a task's batch files, and their messages."""

    def __init__(self, job: StreamJob, pending: PendingTask) -> None:
        assert job.batch is not None
        assert pending.reading
        self._job, self._batch, self._task, self._reading = job, job.batch, pending.task, pending.reading
        self._name = task_name(job.stream, pending.task)
        self.schema = job.schema if job.made is None else job.sent
        columns = [[f.name, str(f.type), bool(f.metadata)] for f in self.schema]
        later = sorted(pending.task.sent_later)
        self._content = identity(self._name, columns, job.settings, job.batch.compression, *([later] if later else []))

    def url(self, first_row: int, rows: int) -> Url:
        """Return the URL of a batch file; it depends on all that decides what is in the file."""
        name = f"{folder_name(self._job.stream)}--{self._content}-{first_row}-{rows}.{self._batch.suffix}"
        return self._batch.root.join(f"{self._batch.prefix}{name}")

    def message(
        self,
        file: BatchFile | Cut | None,
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
        if file is None and not rejected:
            return None
        job, objects = self._job, self._task.objects
        range_number = self._task.range.number if self._task.range else 0
        counts = {} if file is None else {0: file.rows} if len(objects) == 1 else by_object or {}
        ranks = tuple(
            (count, rank(objects[n], job.version, self._reading, range_number, first_row))
            for n, count in counts.items()
        )
        return Batch(
            job.stream,
            format=self._batch.format,
            compression=self._batch.message_compression,
            manifest=(str(file.url),) if file is not None else (),
            version=job.version,
            batch_id=_batch_id(job, self._name, first_row, rows),
            row_count=file.rows if file is not None else 0,
            byte_count=file.bytes if file is not None else 0,
            ranks=(ranks,) if file is not None else (),
            rejected=rejected,
        )

    def passed(self, rows: int | None) -> Batch:
        """Return the message for objects that go as they are, with their rows if these are known."""
        job, objects = self._job, self._task.read_objects
        return Batch(
            job.stream,
            format=job.passthrough,
            compression="gzip" if job.passthrough == "jsonl" else None,
            manifest=tuple(str(o.url) for o in objects),
            version=job.version,
            batch_id=_batch_id(job, self._name, 0, FINAL),
            row_count=rows,
            byte_count=sum(o.size for o in objects),
            passthrough=True,
            ranks=tuple(((None, rank(o, job.version, self._reading)),) for o in objects),
        )


def rank(info: ObjectInfo, version: int | None, reading: str, range_number: int = 0, first_row: int = 0) -> str:
    """Return the rank of rows of an object, see `singer_arrow.batch.message`: by time of last change, name, and place.

    Rows of a newer `version` of the table replace those of an older one, whatever their objects are. `reading` is that
    of `PendingTask.reading`; `range_number` is the range of the object that they are in, and `first_row` the row of it
    at which their batch file began when it was first made.
    """
    kind = "object" if version is None else f"version {version:020d}"
    place = f"{range_number:05d}.{first_row:012d}"
    # Local names may be no Unicode, and longer than those of objects.
    full = f"{info.url.bucket}/{info.url.key}".encode(errors="backslashreplace")
    name = full[:_LONGEST_NAME].decode(errors="ignore")
    return f"{kind} {info.modified.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} {name}  {reading} {place}"


def _batch_id(job: StreamJob, *content: object) -> str:
    """Return the id of a batch: by what is in it, the version of the table, and the run if that has ids of its own."""
    version, run = [job.version] if job.version is not None else [], [job.run] if job.run else []
    return identity(*content, *version, *run)


def batch_of_bad_rows(job: StreamJob, task: Task, number: int, rows: tuple[Skipped, ...]) -> Batch:
    """Return the message for the bad rows of an object of a task, where rows are sent as RECORD messages.

    Its id depends on the object alone, not on those that it is read with.
    """
    again = tuple((0, count) for place, count in task.again if place == number)
    name = task_name(job.stream, Task((task.objects[number],), task.range, again))
    return Batch(job.stream, "jsonl", (), batch_id=_batch_id(job, name, "rejected"), row_count=0, rejected=rows)
