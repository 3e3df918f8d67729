"""Find where the ranges of a divided object begin, and where the reading of one begins and ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from singer_arrow.compression.codecs import detect
from singer_arrow.errors import DataError, ObjectChangedError, SkippableError
from singer_arrow.formats import DIVISIBLE
from singer_arrow.formats.base import DivisibleFormat
from singer_arrow.formats.range_scan import SCAN_BYTES, RangeScan, divide, range_bounds, undivided
from singer_arrow.read_progress import ResumePoint
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered
from singer_arrow.reading.range_planner import Span
from singer_arrow.reading.text_blocks import codec_name
from singer_arrow.storage.storage import Storage
from tap_s3_files.plan.model import Position, Task
from tap_s3_files.plan.range_starts import RangeStarts, Syntax
from tap_s3_files.plan.stream_plan import StreamPlan
from tap_s3_files.stream_job import StreamJob, format_of

logger = logging.getLogger("tap-s3-files")


UNREADABLE = (ObjectChangedError, DataError, SkippableError)
"""Errors that each task that reads the object raises too."""


@dataclass(frozen=True, slots=True)
class Section:
    """What is read of an object.

    Attributes:
        start: Where the reading begins.
        end: Where it ends; None: at the end of the object.
        surplus: Rows after `start` that an earlier run has sent.
        rows_before: Rows of the object before those of the task.
    """

    start: ResumePoint
    end: ResumePoint | None
    surplus: int = 0
    rows_before: int = 0


def section_of(
    job: StreamJob,
    task: Task,
    position: Position,
    end: ResumePoint | None,
    *,
    starts: RangeStarts | None,
    storage: Storage,
    budget: Budget,
) -> Section | None:
    """Return what is read of an object from a position of its task on; None if its range has no row.

    Args:
        job: Of the stream.
        task: Of the object, or of a range of it.
        position: Where the reading begins.
        end: Where it ends, if not with the task.
        starts: Where the ranges of the object begin; they are found if no run has done it.
        storage: Where the object is.
        budget: Memory for finding the ranges.

    Raises:
        ObjectChangedError: The object was replaced or deleted while the ranges were searched.
        DataError: Its header or footer cannot be read, or the ranges were found with other settings.
    """
    first, last, rows_before = ResumePoint(), None, 0
    if task.range is not None:
        assert starts is not None, "a range of an object is planned in a log"
        known = starts.get(syntax_of(job, task), partial(find_row_starts, job, task, storage, budget))
        found = range_bounds(known, task.range.number)
        if found is None:
            return None
        first, last = found
        rows_before = first.rows
    if position.place is not None and position.place != ResumePoint():
        first = position.place
    surplus = position.rows if position.place is None else 0
    return Section(first, end or last, surplus, rows_before)


def find_ranges(job: StreamJob, plan: StreamPlan, tasks: Iterable[Task], storage: Storage, budget: Budget) -> None:
    """Make durable where the ranges of the divided objects of some tasks begin; log which objects cannot be read."""
    for task in tasks:
        if task.range is not None and task.range.number == 0 and (starts := plan.range_starts(task)) is not None:
            try:
                starts.get(syntax_of(job, task), partial(find_row_starts, job, task, storage, budget))
            except UNREADABLE as error:
                logger.warning("%s; its tasks are planned", error)


def find_row_starts(job: StreamJob, task: Task, storage: Storage, budget: Budget) -> Sequence[ResumePoint]:
    """Return where the ranges of a divided object begin; scans them in parallel."""
    spans = scanned_spans(task)
    logger.info("%s: finding where its %d ranges begin", task.objects[0].url, len(spans) + 1)
    scan = partial(scan_range, job, task, storage=storage, budget=budget)
    scans = list(map_ordered(iter(spans), scan, budget.decoded, cost=lambda _: SCAN_BYTES))
    return row_starts(job, task, scans, storage, budget)


def syntax_of(job: StreamJob, task: Task) -> Syntax:
    """Return the settings that decide where the rows of the object of a task begin.

    Raises:
        DataError: The name of the object implies no format.
    """
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
    return divide(task.objects[0].size, task.range.count)[:-1]


def scan_range(job: StreamJob, task: Task, span: Span, *, storage: Storage, budget: Budget) -> RangeScan:
    """Scan a range of the object of a task, whatever comes before it."""
    kind = _format(job, task)
    return kind.scan(_reader(task, storage, budget), job.options, span) if kind is not None else RangeScan(span)


def row_starts(
    job: StreamJob, task: Task, scans: Sequence[RangeScan], storage: Storage, budget: Budget
) -> Sequence[ResumePoint]:
    """Return where the ranges of the object of a task begin, from the scans of `scanned_spans`."""
    kind = _format(job, task)
    if kind is None:
        return undivided(len(scans) + 1)
    return kind.row_starts(_reader(task, storage, budget), job.options, scans)


def _format(job: StreamJob, task: Task) -> DivisibleFormat | None:
    """Return the format of an object; None if it cannot be read from its middle with the settings of today."""
    name = format_of(job.format, task.objects[0].url)
    return DIVISIBLE.get(name)


def _reader(task: Task, storage: Storage, budget: Budget) -> ObjectReader:
    (info,) = task.objects
    return ObjectReader(storage, info.url, info=info, budget=budget)
