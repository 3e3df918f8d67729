"""Objects -> tasks -> segments; ranges of large objects and where they are cut."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import datetime
from typing import Any

from singer_arrow.compression import detect
from singer_arrow.errors import DataError, EmptyObjectError, IdentityError, NotFoundError, SupersededError
from singer_arrow.formats import DIVISIBLE, detect_format
from singer_arrow.read_options import ReadOptions, ResumePoint
from singer_arrow.reading.chunks import PLAIN_ENCODINGS, codec_name
from singer_arrow.storage.store import SCHEMES, Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.settings import Bookmark, Watermark, latest
from tap_s3_files.shards import Shard, shard_of

# Which objects are divided into ranges, and into how many. Pure.

_LEAST_RANGES = 1.5  # how many times as large as a range an object must be to be divided


@dataclass(frozen=True, slots=True)
class Division:
    """Division of the objects of a stream into ranges of about `range_bytes`.

    Objects of the format `passed` are not read, as they go into manifests as they are.
    """

    range_bytes: int
    format: str = "auto"
    read: ReadOptions = field(default_factory=ReadOptions)
    passed: str = ""

    def ranges_of(self, info: ObjectInfo) -> int:
        """Return into how many ranges an object is divided; 1 if it is too small, or cannot be read from its middle."""
        name, read = info.url.name, self.read
        kind = detect_format(name) if self.format == "auto" else self.format
        is_plain = read.compression == "none" or (read.compression == "auto" and detect(name) == "none")
        is_simple = not (read.escape or read.comment) and codec_name(read.encoding) in PLAIN_ENCODINGS
        is_divisible = is_plain and kind in DIVISIBLE and (kind != "csv" or is_simple)
        if info.size < _LEAST_RANGES * self.range_bytes or not is_divisible or kind == self.passed:
            return 1
        return max(2, round(info.size / self.range_bytes)) if info.url.scheme in SCHEMES else 1


# Where a large object was cut into batch files: a part of the plan log, written once a batch file is durable, before it
# is sent.
#
# <plan_root>/_plans/<stream>.cuts/<hash of the task>-<first row>.json
#
# A later run cuts the object at the same places, whatever its settings, so that its batches keep their ids.


_CUT_NAME = re.compile(r"-(\d+)\.json$")


@dataclass(frozen=True, slots=True)
class Position:
    """Between two rows of a task: after `rows` rows of its object number `object`, or of its range of that.

    `place` is where a reading of the object can begin there; without one it is read from its start, and its first
    `rows` rows are dropped.
    """

    object: int = 0
    rows: int = 0
    place: ResumePoint | None = field(default_factory=ResumePoint)


@dataclass(frozen=True, slots=True)
class Cut:
    """A durable batch file of an object, whose rows begin at `first_row`, from 0, as when it was first written.

    The object's reading continues at `after`; None: it is the object's last file. With it `bad_rows` rows were
    rejected, which are found again by reading alone.
    """

    url: str
    first_row: int
    rows: int
    bytes: int
    after: Position | None
    bad_rows: int = 0

    @classmethod
    def from_json(cls, value: Any) -> Cut:
        """Decode a cut; KeyError, TypeError or ValueError: it is something else."""
        after = None
        if (found := value["after"]) is not None:
            place = ResumePoint(**found["place"]) if found["place"] else None
            after = Position(found["object"], found["rows"], place)
        return cls(value["url"], value["first_row"], value["rows"], value["bytes"], after, value.get("bad_rows", 0))


class Cuts:
    """The cuts of one task, an object or a range, which `name` identifies; `is_new`: no earlier run has begun it.

    `mark` is a file outside the folder which says that cuts were made, so that it is noticed if the folder is removed.
    """

    def __init__(
        self, storage: Storage, folder: Url, name: str, mark: Url | None = None, *, is_new: bool = False
    ) -> None:
        self._storage, self._folder, self._name, self._mark = storage, folder, name, mark
        self._known: list[Cut] | None = [] if is_new else None
        self.place = folder, name, mark  # with which another process finds them; any may have been made meanwhile
        self.lock = threading.Lock()  # for one reading of the object at a time

    def known(self) -> list[Cut]:
        """Return the cuts, in order; an IdentityError: files of some were removed, as others behind them are there."""
        if self._known is None:
            listed = self._storage.list(self._folder.join(f"{self._name}-"))
            rows = {int(name[1]) for o in listed if (name := _CUT_NAME.search(o.url.name))}
            found: list[Cut] = []
            at: int | None = 0
            while at is not None and rows and (cut := self._get(at)) is not None:
                rows.discard(at)  # another run may have written it since they were listed
                found.append(cut)
                at = cut.after.rows if cut.after is not None else None
            if rows and at is not None:
                raise IdentityError(
                    f"{self._url(at)} is missing, which says where a part of an object ended that was sent; rows "
                    "would be lost or sent twice, so nothing more was sent. Restore it; or begin a new plan log with "
                    "--new-plan-log, and with an empty table"
                )
            self._known = found
        return self._known

    def add(self, cut: Cut) -> None:
        """Make a cut durable; a SupersededError means that another run has cut the object elsewhere meanwhile."""
        url = self._url(cut.first_row)
        if not self._storage.put(url, json.dumps(asdict(cut)).encode(), if_absent=True):
            theirs = self._get(cut.first_row)
            if theirs is None or theirs.after != cut.after:
                msg = f"{url} was written by another run of the stream at the same time; run again to follow it"
                raise SupersededError(msg)
        if self._mark is not None:
            self._storage.put(self._mark, b"{}")
            self._mark = None
        self.known().append(cut)

    def _get(self, first_row: int) -> Cut | None:
        url = self._url(first_row)
        try:
            return Cut.from_json(json.loads(bytes(self._storage.get(url).data)))
        except (NotFoundError, EmptyObjectError):
            return None
        except (AttributeError, KeyError, TypeError, ValueError):
            msg = "it does not describe where an object was cut into batch files"
            hint = "Restore it, or use the version of the tap that wrote it"
            raise DataError(msg, url=url, hint=hint) from None

    def _url(self, first_row: int) -> Url:
        return self._folder.join(f"{self._name}-{first_row}.json")


# Where the ranges of a divided object begin: a part of the plan log, written before the first of its rows is sent.
#
# <plan_root>/_plans/<stream>.cuts/<object>-<number of ranges>-ranges.json
#
# A later run, and each of several runs, reads the ranges from the same rows on. Settings that decide where rows begin
# must not change in between: a row would be lost, or read twice.

Syntax = Mapping[str, str]
"""The settings that decide where the rows of an object begin."""


class RangeStarts:
    """A record, in the file `url`, of where the ranges of one object begin, which may not be written yet."""

    def __init__(self, storage: Storage, url: Url) -> None:
        self._storage, self.url = storage, url
        self._lock = threading.Lock()
        self._known: tuple[Syntax, Sequence[ResumePoint]] | None = None

    def known(self, syntax: Syntax) -> Sequence[ResumePoint] | None:
        """Return where the ranges begin; None if no run has found it yet, an error if it did with other settings."""
        if self._known is None:
            try:
                found = json.loads(bytes(self._storage.get(self.url).data))
                self._known = dict(found["syntax"]), [ResumePoint(*point) for point in found["starts"]]
            except NotFoundError:
                return None
            except (KeyError, TypeError, ValueError):
                msg = "it does not describe where the ranges of an object begin"
                raise DataError(msg, url=self.url, hint="Restore it, or remove it if no row was sent yet") from None
        old = self._known[0]
        if name := next((name for name in (*syntax, *old) if old.get(name) != syntax.get(name)), None):
            then, now = old.get(name), syntax.get(name)
            msg = f"the object was divided with {name} {then!r}, which is {now!r} now"
            hint = "Read it as the earlier run did, or remove this file if no row of the object was sent yet"
            raise DataError(msg, url=self.url, hint=hint)
        return self._known[1]

    def get(self, syntax: Syntax, find: Callable[[], Sequence[ResumePoint]]) -> Sequence[ResumePoint]:
        """Return where the ranges begin; `find` is called, by one thread at a time, if no run has found it yet."""
        with self._lock:
            return self.known(syntax) or self.save(syntax, find())

    def save(self, syntax: Syntax, starts: Sequence[ResumePoint]) -> Sequence[ResumePoint]:
        """Make durable where the ranges begin; return it, as another run may have saved it before."""
        data = json.dumps({"syntax": syntax, "starts": [astuple(point) for point in starts]}).encode()
        if self._storage.put(self.url, data, if_absent=True):
            self._known = syntax, starts
        found = self.known(syntax)
        assert found is not None
        return found


# Objects -> segments of tasks. Pure.

SMALL_OBJECT = 8 << 20  # bytes: a larger object is a task of its own
BUNDLE_BYTES = 32 << 20
BUNDLE_OBJECTS = 200
SEGMENT_BYTES = 4 << 30
SEGMENT_OBJECTS = 2000

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
    among the objects, and the count. `sent_later` are the places of objects that are not read, as a later task of the
    run has the same version; they are part of its identity nevertheless. `log` is the id of its plan log if that begins
    at a STATE, as such a log does not know how often. Where objects are files of a table, `values` are those of its
    partition columns for each of them, and `deletes` the version, by its key, whose deleted rows are left out of one,
    or "".
    """

    objects: tuple[ObjectInfo, ...]
    range: ObjectRange | None = None
    again: tuple[tuple[int, int], ...] = ()
    values: tuple[Mapping[str, str | None], ...] = field(default=(), hash=False)
    deletes: tuple[str, ...] = ()
    log: str = field(default="", compare=False)
    sent_later: frozenset[int] = field(default=frozenset(), compare=False)

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
    def read_objects(self) -> tuple[ObjectInfo, ...]:
        """The objects that are read, in this order."""
        return tuple(o for n, o in enumerate(self.objects) if n not in self.sent_later)

    @property
    def may_be_cut(self) -> bool:
        """Whether its rows may become several batch files: a bundle, also of one small object, is one file."""
        is_large = self.bytes > SMALL_OBJECT or self.range is not None
        return len(self.objects) == 1 and is_large and not self.deletes  # of which rows are known by their numbers


@dataclass(frozen=True, slots=True)
class Segment:
    """Tasks that are written to the plan log, under a number, before the first of them is sent, in their order.

    `before` and `after` are the watermarks of the stream before and after it, which never goes back. If it is
    `from_queue`, only the log knows of its objects. `settings` identifies the settings of rows at the time, see
    `settings.rows_identity`; `paths` are the `PlannedPaths` up to `after`, "" if that is not known; `log` is the id of
    its plan log, "" if it is in none; `path_settings` identify the settings `path` by which the log was planned up to
    here, if not by the `paths` alone. Of a table, `table_version` is the key of the version up to which files are read,
    which `after` has if they are the last.
    `as_records`: the run that planned it sent RECORD messages, of which a target's ledger has nothing.
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
    table_version: str = ""
    as_records: bool = field(default=False, compare=False)
    path_settings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def objects(self) -> Iterator[ObjectInfo]:
        """All objects, in order."""
        return (o for t in self.tasks for o in t.objects)

    @property
    def has_again(self) -> bool:
        """Whether an object of it got a former content back."""
        return any(task.again for task in self.tasks)


@dataclass(frozen=True, slots=True)
class PendingTask:
    """A task that is still to be sent, from a position on, with its segment and its number in it.

    A task without objects sends nothing; `passes`: whether STATE may pass it. `cuts` has where earlier runs cut its
    object, and `starts` where the ranges of that begin. `reading` identifies the log, or without one the run: within it
    an object is cut in the same places. `left_out`: see `Bookmark`. `is_sent_later`: it has no objects because later
    tasks have the same versions of all.
    """

    segment: Segment
    number: int
    task: Task
    start: Position = field(default_factory=Position)
    passes: bool = True
    cuts: Cuts | None = None
    starts: RangeStarts | None = None
    reading: str = ""
    left_out: str = ""
    is_sent_later: bool = False


def place_in_order(info: ObjectInfo) -> Watermark:
    """Return an object's place in the order of objects."""
    return Watermark(info.modified, str(info.url))


def version_of(info: ObjectInfo) -> Version:
    """Identify one version of an object."""
    return str(info.url), info.etag or f"{info.size}@{info.modified.isoformat()}"


def in_window(info: ObjectInfo, start: datetime | None, end: datetime | None) -> bool:
    """Return whether an object was last changed in [start, end)."""
    return (start is None or info.modified >= start) and (end is None or info.modified < end)


def in_order(objects: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    """Sort objects as they are read: by time of last change, then by URL."""
    return sorted(objects, key=place_in_order)


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
    last = place_in_order(tasks[-1].objects[-1]) if tasks else None
    if last is not None and listed is not None and last.last_modified > listed:
        last = Watermark(listed, "")
    return latest(before, last)


def after_task(bookmark: Bookmark, pending: PendingTask, *, durable: bool) -> Bookmark:
    """Return the bookmark after a task of a segment was sent.

    A segment that is in no log cannot be found again by its number, so the watermark itself moves with each of its
    tasks; they must then be sent in order.
    """
    segment = pending.segment
    if not durable and segment.table_version:  # a version is passed as a whole
        is_last = pending.number + 1 == len(segment.tasks)
        return replace(bookmark, watermark=segment.after) if is_last else bookmark
    if not durable:
        return replace(bookmark, watermark=watermark_after(bookmark.watermark, [segment.tasks[pending.number]], None))
    bookmark = _within(bookmark, segment).sent(pending.number)
    bookmark = replace(bookmark, left_out=(pending.left_out,) if pending.left_out else bookmark.left_out)
    if bookmark.done < len(segment.tasks):
        return bookmark
    after = latest(bookmark.watermark, segment.after)
    return replace(bookmark, watermark=after, segment=segment.number + 1, done=0, ahead=())


def after_rows(bookmark: Bookmark, pending: PendingTask, rows: int) -> Bookmark:
    """Return the bookmark after the first rows of a task of a segment in the log were sent."""
    bookmark = _within(bookmark, pending.segment)
    return replace(bookmark, rows=rows) if bookmark.done == pending.number else bookmark


def _within(bookmark: Bookmark, segment: Segment) -> Bookmark:
    log = segment.log or bookmark.log
    if bookmark.segment == segment.number:
        return replace(bookmark, log=log)
    before = latest(bookmark.watermark, segment.before)
    return replace(bookmark, watermark=before, segment=segment.number, done=0, ahead=(), rows=0, log=log)


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
            is_ours = shard is None or shard.index == shard_of(segment.number, number, shard.count)
            answer = is_ours and selects(segment, task)
            yield PendingTask(segment, number, task if answer else Task(()), at, passes=answer is not None)
