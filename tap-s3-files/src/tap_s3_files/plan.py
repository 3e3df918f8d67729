"""Objects -> segments of tasks. Pure: the same objects give the same plan, whatever order they come in."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from singer_arrow.formats import Place
from singer_arrow.object_info import ObjectInfo
from tap_s3_files.bookmarks import Bookmark, Watermark, latest

SMALL_OBJECT = 8 << 20  # bytes: a larger object is a task of its own
BUNDLE_BYTES = 32 << 20
BUNDLE_OBJECTS = 200
SEGMENT_BYTES = 4 << 30
SEGMENT_OBJECTS = 2000


Window = tuple[datetime | None, datetime | None]
"""The settings `start_date` and `end_date`."""


@dataclass(frozen=True, slots=True)
class Task:
    """Objects that are read by one worker, in this order."""

    objects: tuple[ObjectInfo, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all objects."""
        return sum(o.size for o in self.objects)


@dataclass(frozen=True, slots=True)
class Form:
    """What rows are made to be.

    Attributes:
        schema: Their JSON Schema.
        shape: Stands for the settings that decide where columns come from.
        on_bad_row: As the setting, when it was decided.
        on_drift: As the setting, when it was decided.
        passthrough: The format of objects that go into manifests as they are, if some do.
    """

    schema: Mapping[str, Any]
    shape: str = ""
    on_bad_row: str = "fail"
    on_drift: str = "evolve"
    passthrough: str = ""

    @classmethod
    def from_json(cls, value: Any) -> Form:
        """Read what `dataclasses.asdict` gave.

        Raises:
            TypeError: It is something else.
        """
        form = cls(**value)
        if not isinstance(form.schema.get("properties"), Mapping):
            raise TypeError
        return form


@dataclass(frozen=True, slots=True)
class Segment:
    """Tasks that are written down before the first of them is sent.

    `before` is the stream's watermark before the segment, `target_bytes` how large its batch files are; `fingerprint`
    tells whether the stream still is the one that the segment was planned for. `form` is what its rows were planned to
    be; None: that was not written down.
    """

    number: int
    stream: str
    fingerprint: str
    target_bytes: int
    before: Watermark | None
    tasks: tuple[Task, ...]
    form: Form | None = None

    @property
    def after(self) -> Watermark | None:
        """The stream's watermark after the segment: never before `before`."""
        return latest(self.before, max((position(o) for t in self.tasks for o in t.objects), default=None))

    @property
    def objects(self) -> Iterator[ObjectInfo]:
        """All objects, in order."""
        return (o for t in self.tasks for o in t.objects)


@dataclass(frozen=True, slots=True)
class Position:
    """Between two rows of a task: after `rows` rows of its object number `object`.

    `place` is where a reading of the object can begin there; without one it is read from its start, and the rows are
    left out.
    """

    object: int = 0
    rows: int = 0
    place: Place | None = field(default_factory=Place)


@dataclass(frozen=True, slots=True)
class Todo:
    """A task that is still to be sent, from a position on, with its segment and its number in it."""

    segment: Segment
    number: int
    task: Task
    start: Position = field(default_factory=Position)


def position(info: ObjectInfo) -> Watermark:
    """Where an object stands in the order of objects."""
    return Watermark(info.modified, str(info.url))


def fingerprint(paths: Iterable[str]) -> str:
    """Names a stream's set of paths."""
    return hashlib.sha256(json.dumps(sorted(paths)).encode()).hexdigest()[:16]


def in_window(info: ObjectInfo, start: datetime | None, end: datetime | None) -> bool:
    """Whether an object was last changed in [start, end)."""
    return (start is None or info.modified >= start) and (end is None or info.modified < end)


def in_order(objects: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    """The objects in the order in which they are read: by time of last change, then by URL."""
    return sorted(objects, key=position)


def make_tasks(
    objects: Iterable[ObjectInfo], ends: Sequence[Watermark] = (), *, target_bytes: int = BUNDLE_BYTES
) -> Iterator[Task]:
    """Small objects that follow each other are bundled, so that thousands of them become a few batch files.

    Args:
        objects: In order.
        ends: Places, in order, that no bundle spans.
        target_bytes: Wanted size of a batch file; a bundle becomes one.
    """
    bundle: list[ObjectInfo] = []
    size = stretch = 0
    limit = min(BUNDLE_BYTES, target_bytes)
    for info in objects:
        alone = info.size > SMALL_OBJECT
        before, stretch = stretch, bisect_left(ends, position(info)) if ends else 0
        full = size + info.size > limit or len(bundle) == BUNDLE_OBJECTS
        if bundle and (alone or full or stretch != before):
            yield Task(tuple(bundle))
            bundle, size = [], 0
        if alone:
            yield Task((info,))
        else:
            bundle.append(info)
            size += info.size
    if bundle:
        yield Task(tuple(bundle))


def make_segments(
    objects: Iterable[ObjectInfo],
    *,
    stream: str,
    fingerprint: str,
    number: int,
    before: Watermark | None,
    target_bytes: int,
    ends: Sequence[Watermark] = (),
) -> Iterator[Segment]:
    """Cut the tasks of objects in order into segments, numbered from `number`, each beginning where the last ends."""
    tasks: list[Task] = []
    count = size = 0

    def segment() -> Segment:
        return Segment(number, stream, fingerprint, target_bytes, before, tuple(tasks))

    for task in make_tasks(objects, ends, target_bytes=target_bytes):
        if tasks and (count + len(task.objects) > SEGMENT_OBJECTS or size + task.bytes > SEGMENT_BYTES):
            full = segment()
            yield full
            tasks, count, size = [], 0, 0
            number, before = number + 1, full.after
        tasks.append(task)
        count += len(task.objects)
        size += task.bytes
    if tasks:
        yield segment()


def after_task(bookmark: Bookmark, segment: Segment, task: int, *, durable: bool) -> Bookmark:
    """The bookmark after a task of a segment was sent.

    A segment that was not written down cannot be found again by its number, so the watermark itself moves with each of
    its tasks; they must then be sent in order.
    """
    if not durable:
        end = max(position(o) for o in segment.tasks[task].objects)
        return Bookmark(latest(bookmark.watermark, end), bookmark.segment)
    bookmark = _within(bookmark, segment).sent(task)
    return bookmark.segment_sent(segment.after) if bookmark.done == len(segment.tasks) else bookmark


def after_rows(bookmark: Bookmark, segment: Segment, task: int, rows: int) -> Bookmark:
    """The bookmark after the first rows of a task of a durable segment were sent."""
    bookmark = _within(bookmark, segment)
    return replace(bookmark, rows=rows) if bookmark.done == task else bookmark


def _within(bookmark: Bookmark, segment: Segment) -> Bookmark:
    return bookmark if bookmark.segment == segment.number else Bookmark(segment.before, segment.number)


def unsent(bookmark: Bookmark, segments: Iterator[Segment]) -> Iterator[Todo]:
    """The tasks that are still to be sent."""
    for segment in segments:
        for number, task in enumerate(segment.tasks):
            if segment.number != bookmark.segment:
                yield Todo(segment, number, task)
            elif not bookmark.is_sent(number):
                rows = bookmark.rows if number == bookmark.done and len(task.objects) == 1 else 0
                yield Todo(segment, number, task, Position(0, rows, None) if rows else Position())
