"""Objects -> segments of tasks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from singer_arrow.storage.object_info import ObjectInfo
from tap_s3_files.bookmark import Bookmark, Watermark, latest
from tap_s3_files.plan.cuts import Cuts, Position
from tap_s3_files.plan.range_starts import RangeStarts
from tap_s3_files.shard import Shard

SMALL_OBJECT = 8 << 20  # bytes: a larger object is a task of its own
BUNDLE_BYTES = 32 << 20
BUNDLE_OBJECTS = 200
SEGMENT_BYTES = 4 << 30
SEGMENT_OBJECTS = 2000
_LONGEST_NAME = 63 + 1 + 1024  # bytes, of a bucket and a key

Version = tuple[str, str]
"""One version of an object: its URL, and its ETag or what replaces it."""


@dataclass(frozen=True, slots=True)
class ObjectRange:
    """One of `count` ranges of about one size into which an object is divided; `number` counts from 0."""

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class Task:
    """Objects that are read by one worker, in this order, or a range of one object.

    `again` counts, for an object that got a former content back, how often the log had that version before: its place
    among the objects, and the count. `log` is the id of its plan log if that begins at a STATE, as such a log does not
    know how often.
    """

    objects: tuple[ObjectInfo, ...]
    range: ObjectRange | None = None
    again: tuple[tuple[int, int], ...] = ()
    log: str = field(default="", compare=False)

    @property
    def bytes(self) -> int:
        """Bytes of all objects, or of the range."""
        size = sum(o.size for o in self.objects)
        if (part := self.range) is None:
            return size
        return size * (part.number + 1) // part.count - size * part.number // part.count

    @property
    def ended_objects(self) -> tuple[ObjectInfo, ...]:
        """The objects whose last row it has: so each object counts once."""
        return self.objects if self.range is None or self.range.number + 1 == self.range.count else ()

    @property
    def may_be_cut(self) -> bool:
        """Whether its rows may become several batch files: a bundle is one file, as its objects may go."""
        return len(self.objects) == 1 and (self.bytes > SMALL_OBJECT or self.range is not None)


@dataclass(frozen=True, slots=True)
class Segment:
    """Tasks that are written to the plan log, under a number, before the first of them is sent, in their order.

    `before` and `after` are the watermarks of the stream before and after it, which never goes back. If it is
    `from_queue`, only the log knows of its objects. `settings` identifies the settings of rows at the time, see
    `settings.rows_identity`; `paths` is a digest of the paths of which the log holds all objects up to `after`, "" if
    that is not known; `log` is the id of its plan log, "" if it is in none, or was written before logs had ids.
    """

    number: int
    stream: str
    target_bytes: int
    before: Watermark | None
    after: Watermark | None
    tasks: tuple[Task, ...]
    from_queue: bool = False
    settings: str = ""
    paths: str = ""
    log: str = field(default="", compare=False)

    @property
    def objects(self) -> Iterator[ObjectInfo]:
        """All objects, in order."""
        return (o for t in self.tasks for o in t.objects)


@dataclass(frozen=True, slots=True)
class PendingTask:
    """A task that is still to be sent, from a position on, with its segment and its number in it.

    A task without objects sends nothing; `passes`: whether STATE may pass it. `cuts` has where earlier runs cut its
    object, and `starts` where the ranges of that begin. `reading` identifies the log, or without one the run: within it
    an object is cut in the same places.
    """

    segment: Segment
    number: int
    task: Task
    start: Position = field(default_factory=Position)
    passes: bool = True
    cuts: Cuts | None = None
    starts: RangeStarts | None = None
    reading: str = ""


def position(info: ObjectInfo) -> Watermark:
    """Return an object's place in the order of objects."""
    return Watermark(info.modified, str(info.url))


def version_of(info: ObjectInfo) -> Version:
    """Identify one version of an object."""
    return str(info.url), info.etag or f"{info.size}@{info.modified.isoformat()}"


def rank(info: ObjectInfo, version: int | None, reading: str, part: int = 0, first_row: int = 0) -> str:
    """Return the rank of rows of an object, see `singer_arrow.batch.message`: by time of last change, name, and place.

    Rows of a newer `version` of the table replace those of an older one, whatever their objects are. `reading` is that
    of `StreamPlan.reading`; `part` is the range of the object that they are in, and `first_row` the row of it at which
    their batch file began when it was first made.
    """
    kind = "object" if version is None else f"version {version:020d}"
    place = f"{part:05d}.{first_row:012d}"
    # Local names may be no Unicode, and longer than those of objects.
    full = f"{info.url.bucket}/{info.url.key}".encode(errors="backslashreplace")
    name = full[:_LONGEST_NAME].decode(errors="ignore")
    return f"{kind} {info.modified.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} {name}  {reading} {place}"


def in_window(info: ObjectInfo, start: datetime | None, end: datetime | None) -> bool:
    """Return whether an object was last changed in [start, end)."""
    return (start is None or info.modified >= start) and (end is None or info.modified < end)


def in_order(objects: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    """Sort objects as they are read: by time of last change, then by URL."""
    return sorted(objects, key=position)


def make_tasks(
    objects: Iterable[ObjectInfo],
    *,
    target_bytes: int = BUNDLE_BYTES,
    ranges_of: Callable[[ObjectInfo], int] = lambda _: 1,
) -> Iterator[Task]:
    """Make tasks: bundle small objects that follow each other into one batch file, and divide large ones into ranges.

    `ranges_of` returns into how many.
    """
    bundle: list[ObjectInfo] = []
    size, limit = 0, min(BUNDLE_BYTES, target_bytes)
    for info in objects:
        alone = info.size > SMALL_OBJECT
        if bundle and (alone or size + info.size > limit or len(bundle) == BUNDLE_OBJECTS):
            yield Task(tuple(bundle))
            bundle, size = [], 0
        if alone:
            count = ranges_of(info)
            yield from (Task((info,), range=ObjectRange(n, count) if count > 1 else None) for n in range(count))
        else:
            bundle.append(info)
            size += info.size
    if bundle:
        yield Task(tuple(bundle))


def make_segments(tasks: Iterable[Task]) -> Iterator[tuple[Task, ...]]:
    """Group tasks into the portions that are written to the log at once; all ranges of an object are in one."""
    group: list[Task] = []
    count = size = 0
    for task in tasks:
        begins = task.range is None or task.range.number == 0
        if group and begins and (count + len(task.objects) > SEGMENT_OBJECTS or size + task.bytes > SEGMENT_BYTES):
            yield tuple(group)
            group, count, size = [], 0, 0
        group.append(task)
        count += len(task.objects)
        size += task.bytes
    if group:
        yield tuple(group)


def watermark_after(before: Watermark | None, tasks: Sequence[Task], listed: datetime | None) -> Watermark | None:
    """Return the watermark after some tasks, whose objects are in order.

    It never passes the time at which the listing began: what appeared during the listing may be missing in it.
    """
    last = position(tasks[-1].objects[-1]) if tasks else None
    if last is not None and listed is not None and last.last_modified > listed:
        last = Watermark(listed, "")
    return latest(before, last)


def after_task(bookmark: Bookmark, pending: PendingTask, *, durable: bool) -> Bookmark:
    """Return the bookmark after a task of a segment was sent.

    A segment that is in no log cannot be found again by its number, so the watermark itself moves with each of its
    tasks; they must then be sent in order.
    """
    segment = pending.segment
    if not durable:
        return Bookmark(watermark_after(bookmark.watermark, [segment.tasks[pending.number]], None))
    bookmark = _within(bookmark, segment).sent(pending.number)
    return bookmark.segment_sent(segment.after) if bookmark.done == len(segment.tasks) else bookmark


def after_rows(bookmark: Bookmark, pending: PendingTask, rows: int) -> Bookmark:
    """Return the bookmark after the first rows of a task of a segment in the log were sent."""
    bookmark = _within(bookmark, pending.segment)
    return replace(bookmark, rows=rows) if bookmark.done == pending.number else bookmark


def _within(bookmark: Bookmark, segment: Segment) -> Bookmark:
    if bookmark.segment == segment.number:
        return replace(bookmark, log=segment.log or bookmark.log)
    return Bookmark(latest(bookmark.watermark, segment.before), segment.number, log=segment.log or bookmark.log)


def unsent(
    bookmark: Bookmark,
    segments: Iterable[Segment],
    selects: Callable[[Segment, Task], bool | None] = lambda *_: True,
    shard: Shard | None = None,
) -> Iterator[PendingTask]:
    """Yield the tasks that are still to be sent, of the segments from the bookmark's on.

    `selects` returns whether a task is sent; None: a later run sends it, and STATE must not pass it.
    """
    for segment in segments:
        for number, task in enumerate(segment.tasks):
            at = Position()
            if segment.number == bookmark.segment:
                if bookmark.is_sent(number):
                    continue
                if bookmark.rows and number == bookmark.done and len(task.objects) == 1:
                    at = Position(0, bookmark.rows, None)
            is_ours = shard is None or shard.takes(segment.number, number)
            answer = is_ours and selects(segment, task)
            yield PendingTask(segment, number, task if answer else Task(()), at, passes=answer is not None)
