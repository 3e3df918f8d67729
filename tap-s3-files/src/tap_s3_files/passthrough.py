"""Objects that a target can load as they are: they go into the manifest, and none of their rows is read.

Of a Parquet file the footer is read, of JSON Lines the beginning. What a reading would add, change or look for makes an
object one to be converted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from singer_arrow.compression.codecs import archive_of, detect
from singer_arrow.enforcement import schema_drift as drift
from singer_arrow.errors import ArchivedError, EmptyObjectError, ObjectChangedError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.parquet.parquet_format import read_footer
from singer_arrow.read_options import RESCUED
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.text_blocks import read_sample
from singer_arrow.schema.arrow_schema import is_json
from singer_arrow.storage.object_info import ObjectInfo
from tap_s3_files.plan.model import Task
from tap_s3_files.progress import CountedStorage
from tap_s3_files.stream_job import StreamJob, Worker, format_of

logger = logging.getLogger("tap-s3-files")
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
