"""One task -> batch files. Depends on its arguments alone, so it may run anywhere, and twice."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from singer_arrow.batch.message import Batch
from singer_arrow.batch.settings import BatchSettings
from singer_arrow.batch.writer import BatchFile, write_batch_files
from singer_arrow.errors import DataError, NotFoundError, ObjectChangedError
from singer_arrow.naming import folder_name
from singer_arrow.read_progress import ResumePoint, Skipped
from singer_arrow.run_figures import timed
from singer_arrow.storage.urls import Url
from tap_s3_files.bad_rows import BadRows
from tap_s3_files.passthrough import PassthroughBatch, passthrough_batch
from tap_s3_files.plan.cuts import Cut, Cuts
from tap_s3_files.plan.log import identity, task_name
from tap_s3_files.plan.model import Position, Task, rank
from tap_s3_files.plan.range_starts import RangeStarts
from tap_s3_files.progress import Counts
from tap_s3_files.read_task import NEW_VERSION, Piece, Worker, read
from tap_s3_files.stream_job import StreamJob

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


def convert_task(
    job: StreamJob,
    task: Task,
    worker: Worker,
    batch: BatchSettings,
    target_bytes: int,
    *,
    start: Position | None = None,
    cuts: Cuts | None = None,
    starts: RangeStarts | None = None,
    reading: str = "0" * 8,
) -> Iterator[Step]:
    """Write a task's rows as batch files; yield a step for each, once the file is durable.

    A task ends early where its object is replaced or deleted while it is read; the worker's progress counts it.

    The same task gives batches with the same ids on every run, whatever the settings are: an object that was cut into
    files is cut at the same places again.

    Args:
        job: Of the stream.
        task: Which objects.
        worker: What the task is run with.
        batch: Format and place of the files.
        target_bytes: Size of a file, from the task's segment. A bundle becomes one file, however large: if it were
            cut, an object that is gone on a later run would move the cuts, and rows would be lost or sent twice.
        start: Where the task begins: its start, or where an earlier step of it ended.
        cuts: Where earlier runs cut the task's object. Files that are still there are sent again, not made again. New
            cuts are added to it.
        starts: For a range of an object, where all of its ranges begin.
        reading: See `StreamPlan.reading`.

    Raises:
        SupersededError: Another run cuts the object elsewhere at the same time.
        DataError: As `read` does; the steps before it are good.
    """
    maker = _BatchFiles(job, task, batch, starts, reading)
    at, kept = start or Position(), cuts if task.may_be_cut else None
    known = kept.known() if kept is not None else []
    at = kept.with_resume_point(at) if kept is not None else at
    if job.passthrough and task.range is None and not at.rows and all(c.after is None for c in known):
        passed = passthrough_batch(job, task, worker)
        if passed is not None:
            if kept is not None and not known:
                kept.add(Cut(str(passed.objects[0].url), 0, -1, task.bytes, None))
            yield Step(maker.passthrough_batch(passed), None, passed.counts)
            return
    for cut in known:
        if cut.first_row == at.rows:
            yield _resend(maker, worker, cut, at)
            if cut.after is None:
                return
            at = cut.after
    yield from _write(maker, worker, kept, at, target_bytes)


def _resend(maker: _BatchFiles, worker: Worker, cut: Cut, start: Position) -> Step:
    """Return the step of a batch file that an earlier run made; make the file again if it is gone, or would differ."""
    number = FINAL if cut.after is None else cut.rows
    if not cut.bad_rows and cut.url == str(maker.url(cut.first_row, cut.rows)) and _is_whole(worker, cut):
        ended = len(maker.task.ended_objects) if cut.after is None else 0
        counts = Counts(objects=ended, batch_files=1, rows_read=cut.rows, rows_written=cut.rows)
        return Step(maker.message(cut.as_part(), cut.first_row, number), cut.after, counts)
    end = cut.after.place if cut.after is not None else None
    pieces = _CountedPieces(maker.read(worker, start, end), worker, start, maker.job.max_bad_rows)
    try:
        part = next(
            timed(maker.write(pieces, worker, start, sys.maxsize), partial(worker.progress.spend, "write")), None
        )
    except ObjectChangedError as error:
        _skip(maker.task, worker, error)
        return Step(None, None, Counts())
    counts = pieces.now()[1] + Counts(batch_files=int(part is not None), rows_written=part.rows if part else 0)
    return Step(maker.message(part, cut.first_row, number, rejected=pieces.bad.take()), cut.after, counts)


def _write(maker: _BatchFiles, worker: Worker, cuts: Cuts | None, start: Position, target_bytes: int) -> Iterator[Step]:
    """Yield the steps of what no earlier run has made."""
    divisible = maker.task.may_be_cut
    pieces, counted, sent = (
        _CountedPieces(maker.read(worker, start), worker, start, maker.job.max_bad_rows),
        Counts(),
        0,
    )
    try:
        parts = maker.write(pieces, worker, start, target_bytes if divisible else sys.maxsize)
        for part in timed(parts, partial(worker.progress.spend, "write")):
            after, counts, bad = part.mark
            rejected = pieces.bad.take(None if part.is_last else bad - sent)
            sent += len(rejected)
            more = counts - counted + Counts(batch_files=1, rows_written=part.rows)
            counted = counts
            rest = after if divisible and not part.is_last else None
            if cuts is not None:
                cuts.add(Cut(str(part.url), part.first_row, part.rows, part.bytes, rest, len(rejected)))
            rows = FINAL if rest is None else part.rows
            message = maker.message(part, part.first_row, rows, by_object=pieces.rows, rejected=rejected)
            yield Step(message, rest, more)
    except ObjectChangedError as error:
        if len(maker.task.objects) > 1:  # the bundle's other rows would be lost; the next try leaves the object out
            raise
        # What is durable of its old version is sent: what a batch's id identifies is never more or less than it holds.
        _skip(maker.task, worker, error)
        return
    yield Step(maker.message(None, start.rows, FINAL, rejected=pieces.bad.take()), None, pieces.now()[1] - counted)


def _skip(task: Task, worker: Worker, error: ObjectChangedError) -> None:
    """Skip the rest of the object of a task."""
    (info,) = task.objects
    worker.progress.skip(info, f"{error}; the rest of its old version is left out; {NEW_VERSION}")


class _CountedPieces:
    """The batches of a reading; knows after each where it ends, and the counts up to there."""

    def __init__(self, pieces: Generator[Piece], worker: Worker, start: Position, most_bad: int) -> None:
        self._pieces = pieces
        self._spend = partial(worker.progress.spend, "read")
        self._after, self._counts = start, Counts()
        self.rows = Counter[int]()
        """The number of rows of each object."""
        self.bad, self._bad_rows = BadRows(most_bad, messages=3), 0  # one file is uploaded while others are encoded
        """The bad rows that no message has yet."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        with closing(self._pieces) as pieces:
            for piece in timed(pieces, self._spend):
                self._after, self._counts = piece.after, self._counts + piece.counts
                self._bad_rows += len(piece.rejected)
                self.bad.add(piece.rejected)
                if piece.batch is not None:
                    self.rows[piece.after.object] += piece.batch.num_rows
                    yield piece.batch

    def now(self) -> tuple[Position, Counts, int]:
        return self._after, self._counts, self._bad_rows


class _BatchFiles:
    """Rows, names and messages of a task's batch files."""

    def __init__(
        self, job: StreamJob, task: Task, batch: BatchSettings, starts: RangeStarts | None, reading: str
    ) -> None:
        self.job, self.task, self._batch, self._starts, self._reading = job, task, batch, starts, reading
        columns = [[f.name, str(f.type), bool(f.metadata)] for f in job.schema]
        self._content = identity(task_name(job.stream, task), columns, job.settings, batch.compression)

    def read(self, worker: Worker, start: Position, end: ResumePoint | None = None) -> Generator[Piece]:
        """Return the rows of the task between two places."""
        return read(self.job, self.task, worker, start, end, starts=self._starts)

    def url(self, first_row: int, rows: int) -> Url:
        """Return the URL of a batch file; it depends on all that decides what is in the file."""
        name = f"{folder_name(self.job.stream)}--{self._content}-{first_row}-{rows}.{self._batch.suffix}"
        return self._batch.root.join(f"{self._batch.prefix}{name}")

    def write(self, pieces: _CountedPieces, worker: Worker, start: Position, target_bytes: int) -> Iterator[BatchFile]:
        """Write what is read as batch files of some size, which end only where a reading can begin.

        Raises:
            DataError: A value cannot be written; names the object.
        """
        try:
            yield from write_batch_files(
                pieces.batches(),
                self.job.schema,
                storage=worker.storage,
                url_of=self.url,
                format=self._batch.format,
                compression=self._batch.compression,
                target_bytes=target_bytes,
                first_row=start.rows,
                mark=pieces.now,
                can_end=lambda mark: mark[0].place is not None,
                held_bytes=worker.held_bytes,
                parallel=worker.budget.encoded,
            )
        except DataError as error:
            at = min(pieces.now()[0].object, len(self.task.objects) - 1)
            raise error if error.url is not None else error.at(self.task.objects[at].url) from None

    def passthrough_batch(self, passed: PassthroughBatch) -> Batch:
        """Return the message for objects that go as they are: the batch that they would make, under its id."""
        urls = tuple(str(o.url) for o in passed.objects)
        size = sum(o.size for o in passed.objects)
        encoding = (self.job.passthrough, "gzip" if self.job.passthrough == "jsonl" else None)
        ranks = tuple(((None, rank(info, self.job.version, self._reading)),) for info in passed.objects)
        return replace(self._message(encoding, urls, passed.rows, size, 0, FINAL), passthrough=True, ranks=ranks)

    def message(
        self,
        part: BatchFile | None,
        first_row: int,
        rows: int,
        by_object: Mapping[int, int] | None = None,
        rejected: tuple[Skipped, ...] = (),
    ) -> Batch | None:
        """Return the message for a batch file, or for bad rows alone; None if there is nothing to send.

        Args:
            part: The file.
            first_row: The row at which it began when it was first made.
            rows: Its rows at that time. The id of the last file does not depend on them: if an object of a bundle has
                gone since an earlier run sent the file, the rest must still be recognized, or it would be loaded twice.
            by_object: Rows of the file's objects, in order, if the task has several.
            rejected: The bad rows among those that it was made of.
        """
        BadRows(self.job.max_bad_rows).add(rejected)
        encoding = (self._batch.format, self._batch.message_compression)
        if part is None:
            made = self._message(encoding, (), 0, 0, first_row, rows)
            return replace(made, rejected=rejected) if rejected else None
        objects, part_of = self.task.objects, self.task.range.number if self.task.range else 0
        counts = [
            (objects[n], count) for n, count in ({0: part.rows} if len(objects) == 1 else by_object or {}).items()
        ]
        ranks = tuple(
            (count, rank(info, self.job.version, self._reading, part_of, first_row)) for info, count in counts
        )
        message = self._message(encoding, (str(part.url),), part.rows, part.bytes, first_row, rows)
        return replace(message, ranks=(ranks,), rejected=rejected)

    def _message(
        self, encoding: tuple[str, str | None], urls: tuple[str, ...], rows: int | None, size: int, *name: int
    ) -> Batch:
        return Batch(
            stream=self.job.stream,
            format=encoding[0],
            compression=encoding[1],
            manifest=urls,
            batch_id=identity(task_name(self.job.stream, self.task), *name, *self.job.own_ids),
            row_count=rows,
            byte_count=size,
            version=self.job.version,
        )


def _is_whole(worker: Worker, cut: Cut) -> bool:
    """Return whether a file is there in full; on a disk it may have been cut off since."""
    try:
        return worker.storage.head(Url.parse(cut.url)).size == cut.bytes
    except NotFoundError:
        return False
