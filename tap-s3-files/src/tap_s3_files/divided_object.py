"""Find where the ranges of a divided object begin."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from singer_arrow.compression.codecs import detect
from singer_arrow.errors import DataError, ObjectChangedError, SkippableError
from singer_arrow.formats import DIVISIBLE
from singer_arrow.formats.range_scan import SCAN_BYTES, RangeScan, divide, undivided
from singer_arrow.read_progress import ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered
from singer_arrow.reading.range_planner import Span
from singer_arrow.reading.text_blocks import codec_name
from tap_s3_files.plan.log import PlanLog
from tap_s3_files.plan.model import Task
from tap_s3_files.plan.range_starts import Syntax
from tap_s3_files.stream_job import StreamJob, Worker, format_of

logger = logging.getLogger("tap-s3-files")
UNREADABLE = (ObjectChangedError, DataError, SkippableError)
"""Errors that each task that reads the object raises too."""


def find_ranges(worker: Worker, log: PlanLog, tasks: Iterable[Task]) -> None:
    """Make durable where the ranges of the divided objects of some tasks begin; log which objects cannot be read."""
    for task in tasks:
        if task.range is not None and task.range.number == 0 and (starts := log.range_starts(task)) is not None:
            try:
                starts.get(syntax_of(worker.job, task), partial(find_row_starts, worker, task))
            except UNREADABLE as error:
                logger.warning("%s; its tasks are planned", error)


def find_row_starts(worker: Worker, task: Task) -> Sequence[ResumePoint]:
    """Return where the ranges of a divided object begin; scans them in parallel."""
    spans = scanned_spans(task)
    scan = partial(scan_range, worker, task)
    return row_starts(
        worker, task, list(map_ordered(iter(spans), scan, worker.budget.decoded, cost=lambda _: SCAN_BYTES))
    )


def syntax_of(job: StreamJob, task: Task) -> Syntax:
    """Return the settings that decide where the rows of the object of a task begin."""
    url, options = task.objects[0].url, job.options
    kind = format_of(job.format, url)
    compression = detect(url.name) if options.compression == "auto" else options.compression
    found = {"format": kind, "compression": compression}
    if kind == "csv":
        found |= {name: getattr(options, name) or "" for name in ("delimiter", "quote", "escape", "comment")}
        found["encoding"] = codec_name(options.encoding)
    return found


def scanned_spans(task: Task) -> Sequence[Span]:
    """Return the ranges that must be scanned to know where all ranges of the object of a task begin."""
    assert task.range is not None
    spans = divide(task.objects[0].size, task.range.count)[:-1]
    logger.info("%s: finding where its %d ranges begin", task.objects[0].url, len(spans) + 1)
    return spans


def scan_range(worker: Worker, task: Task, span: Span) -> RangeScan:
    """Scan a range of the object of a task, whatever comes before it."""
    kind = DIVISIBLE.get(format_of(worker.job.format, task.objects[0].url))
    return kind.scan(_reader(worker, task), worker.job.options, span) if kind is not None else RangeScan(span)


def row_starts(worker: Worker, task: Task, scans: Sequence[RangeScan]) -> Sequence[ResumePoint]:
    """Return where the ranges of the object of a task begin, from the scans of `scanned_spans`.

    With the settings of today its format may be one that cannot be read from the middle: the first range then has all.
    """
    kind = DIVISIBLE.get(format_of(worker.job.format, task.objects[0].url))
    if kind is None:
        return undivided(len(scans) + 1)
    return kind.row_starts(_reader(worker, task), worker.job.options, scans)


def _reader(worker: Worker, task: Task) -> ObjectReader:
    (info,) = task.objects
    return ObjectReader(worker.storage, info.url, info=info, budget=worker.budget)
