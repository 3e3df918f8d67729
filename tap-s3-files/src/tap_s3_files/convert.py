"""One task -> batch files. Depends on its arguments alone, so it may run anywhere, and twice."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from singer_arrow.batch.encode import Part, write_parts
from singer_arrow.batch.message import Batch
from singer_arrow.errors import NotFoundError, ObjectChangedError
from singer_arrow.urls import Url
from tap_s3_files.config import BatchSettings
from tap_s3_files.passthrough import Passed, untouched
from tap_s3_files.plan import Position, Task
from tap_s3_files.progress import Counts
from tap_s3_files.rows import NEW_VERSION, Job, Piece, Worker, read
from tap_s3_files.store import DonePart, PartsRecord, safe_name

logger = logging.getLogger("tap-s3-files")
FINAL = -1
"""Stands for the number of rows of a task's last batch file: it holds all rows that are left."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a task: a batch file, if it made one, and what is to be counted once that is sent.

    `after` is where the task can go on; None where it can't, which is after the last file and within bundles.
    """

    batch: Batch | None
    after: Position | None
    counts: Counts


def convert(
    job: Job,
    task: Task,
    worker: Worker,
    batch: BatchSettings,
    target_bytes: int,
    *,
    start: Position | None = None,
    until: int | None = None,
    record: PartsRecord | None = None,
) -> Iterator[Step]:
    """Write a task's rows as batch files; a step for each, once the file is durable.

    A task ends early where its object is replaced or deleted while it is read; the worker's progress is told of it.

    The same task gives the same messages, with the same ids and files of the same names, on every run.

    Args:
        job: Of the stream.
        task: Which objects.
        worker: What the task is run with.
        batch: Format and place of the files.
        target_bytes: Size of a file, as the task's segment says. A bundle becomes one file, however large: if it were
            cut, an object that is gone on a later run would move the cuts, and rows would be lost or sent twice.
        start: Where the task begins: its start, or where an earlier step of it ended.
        until: The row before which it ends, where another schema begins; None: its end.
        record: Which of the task's files an earlier run made: they are sent again, and not made again. What is made is
            added to it.

    Raises:
        DataError: As `read` does; the steps before it are good.
    """
    maker = _Maker(job, task, batch)
    at, divisible = start or Position(), len(task.objects) == 1
    passed = untouched(job, task, worker) if job.passthrough and not at.rows else None
    rest = passed.rest if passed else task
    if record is not None and divisible:
        for made in _made_before(record, at, maker, worker):
            counts = Counts(batch_files=1, rows_read=made.rows, rows_written=made.rows)
            yield Step(maker.message(made.as_part(), made.rows), made.after, counts)
            at = made.after
        at = record.placed(at)
    pieces = _Pieces(read(job, rest, worker, at), at, until)
    counted = Counts()
    try:
        for part in write_parts(
            pieces.batches(),
            job.schema,
            storage=worker.storage,
            url_of=maker.url,
            format=batch.format,
            compression=batch.compression,
            target_bytes=target_bytes if divisible else sys.maxsize,
            first_row=at.rows,
            mark=pieces.now,
            held_bytes=worker.held_bytes,
        ):
            after, counts = part.mark
            more = counts - counted + Counts(batch_files=1, rows_written=part.rows)
            counted = counts
            # A file that was not the last one when it was sent before stays one that is not: its id must.
            was_sent = record is not None and any(p.url == str(part.url) for p in record.known())
            goes_on = divisible and (not part.is_last or after.rows == until or was_sent)
            if goes_on and record is not None:
                record.add(DonePart(str(part.url), part.first_row, part.rows, part.bytes, after))
            message = maker.message(part, part.rows if goes_on else FINAL)
            yield Step(message, after if goes_on else None, more)
    except ObjectChangedError as error:
        if not divisible:  # the bundle's other rows would be lost; the next try leaves the object out
            raise
        # Of its old version that is sent which is durable: what a batch's id names is never more or less than it holds.
        logger.warning("%s; the rest of its old version is left out; %s", error, NEW_VERSION)
        yield Step(None, None, Counts(skipped_objects=1))
        return
    yield Step(None, None, pieces.now()[1] - counted)
    if passed and passed.objects:  # not before the rest: if that needs another schema, the whole task is done again
        yield Step(maker.untouched(passed), None, passed.counts)


def identity(job: Job, task: Task) -> str:
    """Names what a task gives: its objects in their versions, and the columns and types that are made of them."""
    objects = [[str(o.url), o.etag or [o.size, o.modified.isoformat()]] for o in task.objects]
    columns = [[f.name, str(f.type), bool(f.metadata)] for f in job.schema]
    return _hash(job.stream, objects, columns)


class _Pieces:
    """The batches of a reading, up to a row; tells after each where it ends, and what is to be counted up to there."""

    def __init__(self, pieces: Generator[Piece], start: Position, until: int | None) -> None:
        self._pieces, self._until = pieces, until
        self._after, self._counts = start, Counts()

    def batches(self) -> Iterator[pa.RecordBatch]:
        with closing(self._pieces) as pieces:
            for found in pieces:
                piece = found if self._until is None else found.up_to(self._until)
                self._after, self._counts = piece.after, self._counts + piece.counts
                if piece.batch is not None:
                    yield piece.batch
                if self._until is not None and self._after.rows >= self._until:
                    return

    def now(self) -> tuple[Position, Counts]:
        return self._after, self._counts


class _Maker:
    """Names and messages of a task's batch files."""

    def __init__(self, job: Job, task: Task, batch: BatchSettings) -> None:
        self._job, self._batch, self._name = job, batch, identity(job, task)
        is_gzip = (batch.format, batch.compression) == ("jsonl", "gzip")
        self._suffix = "jsonl.gz" if is_gzip else batch.format

    def url(self, first_row: int, rows: int) -> Url:
        name = f"{safe_name(self._job.stream)}--{self._name}-{first_row}-{rows}.{self._suffix}"
        return self._batch.root.join(f"{self._batch.prefix}{name}")

    def untouched(self, passed: Passed) -> Batch:
        """The message for objects that go as they are. As below, its id holds when one of them has gone."""
        urls = tuple(str(o.url) for o in passed.objects)
        size = sum(o.size for o in passed.objects)
        encoding = (self._job.passthrough, "gzip" if self._job.passthrough == "jsonl" else None)
        message = self._message(encoding, urls, passed.rows, size, "untouched")
        return replace(message, passthrough=True)

    def message(self, part: Part, rows: int) -> Batch:
        """The message for a batch file.

        The last file's id does not tell its number of rows: if an object of a bundle has gone since an earlier run
        sent the file, the rest must still be known as sent, or its rows would be loaded twice.
        """
        compression = self._batch.compression if self._batch.compression != "none" else None
        encoding = (self._batch.format, compression)
        return self._message(encoding, (str(part.url),), part.rows, part.bytes, part.first_row, rows)

    def _message(
        self, encoding: tuple[str, str | None], urls: tuple[str, ...], rows: int | None, size: int, *name: Any
    ) -> Batch:
        version = self._job.version
        return Batch(
            stream=self._job.stream,
            format=encoding[0],
            compression=encoding[1],
            manifest=urls,
            batch_id=_hash(self._name, *name, *([version] if version is not None else [])),
            row_count=rows,
            byte_count=size,
            version=version,
        )


def _made_before(record: PartsRecord, start: Position, maker: _Maker, worker: Worker) -> Iterator[DonePart]:
    """The files from a position on that an earlier run made as this one would, and that are there, without a gap."""
    at = start.rows
    for part in record.known():
        url = maker.url(part.first_row, part.rows)
        if part.first_row == at and part.url == str(url) and _is_whole(worker, part):
            yield part
            at += part.rows


def _is_whole(worker: Worker, part: DonePart) -> bool:
    """Whether a file is there as it was made; on a disk it may be cut off since."""
    try:
        return worker.storage.head(Url.parse(part.url)).size == part.bytes
    except NotFoundError:
        return False


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
