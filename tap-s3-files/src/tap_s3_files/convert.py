"""One task -> Arrow batches -> batch files. Depends on its arguments alone, so it may run anywhere, and twice."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.batch.encode import Part, write_parts
from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError, EmptyObjectError, ObjectChangedError
from singer_arrow.executors import Stopped
from singer_arrow.formats import FORMATS, ReadOptions, detect_format
from singer_arrow.reading.budget import Budget
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.storage import ObjectInfo, Storage
from singer_arrow.urls import Url
from tap_s3_files.catalog import split
from tap_s3_files.config import BatchSettings
from tap_s3_files.partitions import NO_PARTITIONS, Partitions
from tap_s3_files.plan import Task
from tap_s3_files.progress import CountedStorage, Progress
from tap_s3_files.segments import safe_name

logger = logging.getLogger("tap-s3-files")
FINAL = -1
"""Stands for the number of rows of a task's last batch file: it holds all rows that are left."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a stream have in common.

    `schema` is what SCHEMA says, in Arrow; `version` is that of ACTIVATE_VERSION, if there is one.
    """

    stream: str
    schema: pa.Schema
    metadata_columns: bool
    format: str
    options: ReadOptions
    version: int | None = None
    partitions: Partitions = NO_PARTITIONS


def format_of(wanted: str, url: Url) -> str:
    """The format of an object: the wanted one, or with `auto` what its name tells.

    Raises:
        DataError: Its name does not tell.
    """
    found = wanted if wanted != "auto" else detect_format(url.name)
    if found is None:
        hint = f"Set the stream's 'format' to {', '.join(FORMATS)}"
        reason = "its name does not tell its format"
        raise DataError(reason, url=url, hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class Worker:
    """What a task is run with: where it reads, how much memory that may take, when to stop, and what to count."""

    storage: Storage
    budget: Budget
    progress: Progress
    stop: threading.Event


def read(job: Job, task: Task, worker: Worker) -> Iterator[pa.RecordBatch]:
    """The rows of a task's objects, in order, in batches of exactly the job's schema.

    An object that is empty is left out, and so is one that was replaced or deleted since it was listed: its new version
    is newer than the watermark, so the next run lists it. Both are said.

    Raises:
        ObjectChangedError: An object was replaced after some of its rows were given.
        DataError: A file does not fit the schema; names object, line or row group, and column.
    """
    storage = CountedStorage(worker.storage, worker.progress)
    for info in task.objects:
        if info.size == 0:  # whatever its name: `_SUCCESS` and other marks have no format
            logger.warning("%s is empty and was skipped", info.url)
            worker.progress.add(skipped=1)
            continue
        rows = 0
        constants = job.partitions.values(info.url, job.schema)
        source = split(job.schema, metadata_columns=job.metadata_columns, constants=constants)
        origin = _Origin(job, info, constants)
        reader = ObjectReader(storage, info.url, info=info, budget=worker.budget)
        try:
            for batch in FORMATS[format_of(job.format, info.url)].read(reader, source, job.options):
                if worker.stop.is_set():
                    raise Stopped
                yield origin.add_to(batch)
                rows += batch.num_rows
                worker.progress.add(rows=batch.num_rows)
        except EmptyObjectError:
            logger.warning("%s is empty and was skipped", info.url)
            worker.progress.add(skipped=1)
        except ObjectChangedError:
            if rows:
                raise
            logger.warning(
                "%s was replaced or deleted since it was listed; a later run reads its new version", info.url
            )
            worker.progress.add(skipped=1)
        else:
            worker.progress.add(objects=1)


class _Origin:
    """The metadata columns and partition columns of one object's rows."""

    def __init__(self, job: Job, info: ObjectInfo, constants: Mapping[str, Any]) -> None:
        self._job = job
        self._rows = 0
        self._columns: dict[str, pa.Array] = {}
        metadata = {
            "_sdc_source_bucket": info.url.bucket,
            "_sdc_source_file": info.url.key,
            "_sdc_source_modified_at": info.modified,
            "_sdc_source_etag": info.etag,
        }
        self._values = {**(metadata if job.metadata_columns else {}), **constants}

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The next batch of the object, with its metadata and partition columns where the job's schema has them."""
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


def convert(job: Job, task: Task, worker: Worker, batch: BatchSettings, target_bytes: int) -> Iterator[Batch]:
    """Write a task's rows as batch files; a message for each, once the file is durable.

    The same task gives the same messages, with the same ids and files of the same names, on every run.

    Args:
        job: Of the stream.
        task: Which objects.
        worker: What the task is run with.
        batch: Format and place of the files.
        target_bytes: Size of a file, as the task's segment says. A bundle becomes one file, however large: if it were
            cut, an object that is gone on a later run would move the cuts, and rows would be lost or sent twice.
    """
    name = identity(job, task)
    suffix = "jsonl.gz" if (batch.format, batch.compression) == ("jsonl", "gzip") else batch.format

    def url_of(first_row: int, rows: int) -> Url:
        return batch.root.join(f"{batch.prefix}{safe_name(job.stream)}--{name}-{first_row}-{rows}.{suffix}")

    parts = write_parts(
        read(job, task, worker),
        job.schema,
        storage=worker.storage,
        url_of=url_of,
        format=batch.format,
        compression=batch.compression,
        target_bytes=target_bytes if len(task.objects) == 1 else sys.maxsize,
    )
    previous: Part | None = None
    for part in parts:
        worker.progress.add(batch_files=1)
        if previous is not None:
            yield _message(job, batch, name, previous, previous.rows)
        previous = part
    if previous is not None:
        yield _message(job, batch, name, previous, FINAL)


def identity(job: Job, task: Task) -> str:
    """Names what a task gives: its objects in their versions, and the columns and types that are made of them."""
    objects = [[str(o.url), o.etag or [o.size, o.modified.isoformat()]] for o in task.objects]
    columns = [[f.name, str(f.type), bool(f.metadata)] for f in job.schema]
    return _hash(job.stream, objects, columns)


def _message(job: Job, batch: BatchSettings, name: str, part: Part, rows: int) -> Batch:
    """The last file's id does not tell its number of rows: if an object of a bundle has gone since an earlier run sent
    the file, the rest must still be known as sent, or its rows would be loaded twice."""
    return Batch(
        stream=job.stream,
        format=batch.format,
        compression=batch.compression if batch.compression != "none" else None,
        manifest=(str(part.url),),
        batch_id=_hash(name, part.first_row, rows, *([job.version] if job.version is not None else [])),
        row_count=part.rows,
        byte_count=part.bytes,
        version=job.version,
    )


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
