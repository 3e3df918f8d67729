"""What one stream reads in one run: segments of earlier runs, then new ones; which objects the log knows."""

from __future__ import annotations

import logging
import secrets
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from singer_arrow.batch.message import ContinuedLog, PlanLogId, place_in_log
from singer_arrow.errors import IdentityError, NotFoundError, ObjectChangedError
from singer_arrow.naming import digest
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.listing import Listing
from tap_s3_files.paths import ObjectFilter, has_date, last_date
from tap_s3_files.plan_log import GUIDE, PlanLog, SegmentRange
from tap_s3_files.plan_model import (
    Cuts,
    Division,
    PendingTask,
    Segment,
    Task,
    Version,
    in_order,
    in_window,
    make_segments,
    make_tasks,
    place_in_order,
    unsent,
    version_of,
    watermark_after,
)
from tap_s3_files.settings import Bookmark, Watermark, latest
from tap_s3_files.shards import Shard

# Which object versions a plan log held when a run began; only those of the times asked for are in memory.

_MAX_GROUPS = 32  # groups of segments whose versions are kept in memory at least: of some thousand objects each
PRECISION = timedelta(seconds=1)
"""Of times: a listing may give fractions of a second where other answers give none."""
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class KnownVersions:
    """The object versions of a log, looked up by the times of the objects; objects in order of time are fast.

    None that is older than `since` is looked up.
    """

    def __init__(self, log: PlanLog, since: datetime | None = None) -> None:
        self._log = log
        oldest = since - PRECISION if since is not None else _FIRST
        groups = log.groups(oldest)
        self._groups = [
            replace(group, oldest=group.oldest - PRECISION, newest=group.newest + PRECISION)
            for group in groups
            if group.newest + PRECISION >= oldest
        ]
        self._near: list[SegmentRange] = []
        self._edges = sorted(t for g in self._groups for t in (g.oldest, g.newest + timedelta(microseconds=1)))
        self._from, self._to = _LAST, _FIRST
        self._versions: OrderedDict[SegmentRange, frozenset[Version]] = OrderedDict()

    def __contains__(self, info: ObjectInfo) -> bool:
        if not self._groups:
            return False
        version = version_of(info)
        if not self._from <= info.modified < self._to:
            self._near = [g for g in self._groups if g.oldest <= info.modified <= g.newest]
            number = bisect_right(self._edges, info.modified)
            self._from = self._edges[number - 1] if number else _FIRST
            self._to = self._edges[number] if number < len(self._edges) else _LAST
        return any(version in self._versions_of(group) for group in self._near)

    def last_key(self, since: datetime) -> Url | None:
        """Return the last key among the objects that are older than a time; None if there are none."""
        older = (g for g in self._groups if g.oldest + PRECISION < since)
        nearest = max(older, key=lambda g: g.oldest, default=None)
        objects = (o for o in self._objects(nearest) if o.modified < since) if nearest else ()
        last = max(objects, key=place_in_order, default=None)
        return last.url if last else None

    def latest(self, since: datetime) -> dict[str, tuple[datetime, Version]]:
        """Return the latest version, and its time, of each object that the log holds since a time; by URL."""
        found: dict[str, tuple[datetime, Version]] = {}
        for group in (g for g in self._groups if g.newest >= since):
            for info in self._objects(group):
                url = str(info.url)
                if url not in found or info.modified >= found[url][0]:
                    found[url] = (info.modified, version_of(info))
        return found

    @property
    def newest(self) -> datetime | None:
        """The time of the newest object, about; None if there are none."""
        return max((g.newest for g in self._groups), default=None)

    def _objects(self, group: SegmentRange) -> Iterator[ObjectInfo]:
        return (o for s in self._log.segments(group.first, group.last + 1) for o in s.objects)

    def _versions_of(self, group: SegmentRange) -> frozenset[Version]:
        found = self._versions.pop(group, None)
        if found is None:
            found = frozenset(map(version_of, self._objects(group)))
        self._versions[group] = found
        while len(self._versions) > max(_MAX_GROUPS, len(self._near)):
            self._versions.popitem(last=False)
        return found


class PlannedVersions:
    """The versions of some objects in a log, from all that it holds of them; `counts`: how often it holds each."""

    def __init__(self, planned: Iterable[ObjectInfo]) -> None:
        self.counts = Counter[Version]()
        self._newest: dict[str, ObjectInfo] = {}  # a run that listed earlier may plan an older one behind it
        for info in planned:
            self.counts[version_of(info)] += 1
            held = self._newest.get(str(info.url))
            if held is None or _second(info) >= _second(held):
                self._newest[str(info.url)] = info

    def newest(self, info: ObjectInfo) -> datetime:
        """Return the time of the newest version of an object that the log has."""
        return self._newest[str(info.url)].modified

    def __contains__(self, info: ObjectInfo) -> bool:
        """Return whether a version is known: it is the newest one, or older than that and in the log."""
        held = self._newest.get(str(info.url))
        if held is None or not self.counts[version_of(info)]:
            return False
        return version_of(held) == version_of(info) or _second(info) < _second(held)


def _second(info: ObjectInfo) -> datetime:
    return info.modified.replace(microsecond=0)  # see `PRECISION`


# What one stream reads in one run: the segments of its plan log that its STATE has not passed, then new ones.


_DATES_FROM = "dates from "
"""What an entry of `Bookmark.left_out` begins with if it says from which date on places were not listed."""


def _digest_of(urls: Iterable[Url]) -> str:
    return digest("\n".join(sorted(map(str, urls))), 16)


class PlannedPaths(NamedTuple):
    """Of which paths, a digest, a log has all objects: those with dates before `end`, if there is one.

    Without an end_date that is what was listed: places of later dates may hold objects already. An `inventory` may lack
    those of its last hours.
    """

    paths: str
    end: str = ""
    source: str = ""

    @classmethod
    def of(cls, object_filter: ObjectFilter, *, is_inventory: bool) -> PlannedPaths:
        """Return those of a run that lists, or reads an inventory."""
        start, end = object_filter.dates if any(map(has_date, object_filter.paths)) else (None, None)
        if start is not None and end is None and not is_inventory:
            end = last_date(object_filter.now)
        paths = _digest_of(object_filter.paths)
        return cls(paths, end.astimezone(UTC).isoformat() if end else "", "inventory" if is_inventory else "")

    def __str__(self) -> str:
        return " ".join(self).rstrip()

    def has_all_of(self, other: PlannedPaths) -> bool:
        is_longer = not self.end or "" < other.end <= self.end
        return self.paths == other.paths and is_longer and self.source in ("", other.source)

    def ends_before(self, other: PlannedPaths) -> bool:
        """Return whether the other one has more, but only in places of later dates."""
        is_alike = (self.paths, self.source) == (other.paths, other.source)
        return is_alike and "" < self.end < other.end


logger = logging.getLogger("tap-s3-files")
_LOOKED_UP = 100_000  # objects that are looked up in the log at once
_OTHER_SETTINGS = (
    "Stream %r: settings that decide about rows have changed since earlier objects were read. %s as it is; to load it "
    "again with these settings, empty the table first, and run without STATE"
)
_MOST_SETTINGS = 20  # `path` settings that a log knows
MAX_TRIES = 3
"""How often new versions of an object are planned in one run."""


class StreamPlan:
    """The plan of a stream, which begins where earlier runs left it, its `state`.

    Without `log` it is kept nowhere. `settings` identifies the settings of rows; None: they are not compared. Objects
    that are older than the `overlap` are not looked up in the log. A `shard` appends nothing to the log. `keys_ascend`:
    no object is ever overwritten. `sends`: the run sends what the log holds, rather than only adding to it.
    """

    def __init__(
        self,
        log: PlanLog | None,
        state: Bookmark | None,
        object_filter: ObjectFilter,
        target_bytes: int,
        *,
        settings: str | None = "",
        overlap: timedelta = timedelta(0),
        from_queue: bool = False,
        shard: Shard | None = None,
        division: Division | None = None,
        keys_ascend: bool = False,
        is_inventory: bool = False,
        sends: bool = True,
    ) -> None:
        self.object_filter, self.log, self._overlap, self.shard = object_filter, log, overlap, shard
        self._target_bytes, self._settings, self._from_queue = target_bytes, settings, from_queue
        self._keys_ascend = keys_ascend
        self._ranges_of = division.ranges_of if division is not None else lambda _: 1
        self._is_rerun = state is None
        self._run = secrets.token_hex(8)
        self.bookmark = start_of(log, state, object_filter.stream, sends=sends)
        self._end = log.next_number if log is not None else 0
        self._next = self.first_new = self._end
        self._before: Watermark | None = self.bookmark.watermark
        self._warned = set[str]()
        self._warned_of_settings = False
        self.as_records = False
        """Whether this run sends RECORD messages; set before its first segment."""
        self.replaces_rows = False
        """Whether the stream's `load_method` replaces the rows of a former version; set before its first segment."""
        has_entries = log is not None and self._end > log.first_number
        self.newest = newest = log.read(self._end - 1) if log is not None and has_entries else None
        if newest is not None and self._end > self.bookmark.segment:
            self._before = latest(self._before, newest.after)
        own = PlannedPaths.of(object_filter, is_inventory=is_inventory)
        self._own, self._planned = own, PlannedPaths(*newest.paths.split(" ")) if newest is not None else own
        ends = (text.removeprefix(_DATES_FROM) for text in self.bookmark.left_out if text.startswith(_DATES_FROM))
        if newest is None and (end := max(ends, default=None)):
            self._planned = self._planned._replace(end=end)
        is_ahead = not from_queue and self._planned.ends_before(own)
        self.listed_before = datetime.fromisoformat(self._planned.end) if is_ahead and state is not None else None
        """The date up to which places were listed, if they are to be listed further; None: all that is listed is."""
        self._setting = _digest_of(object_filter.given or object_filter.paths)
        """Identifies `path` in the settings, which stays the same where it finds other folders."""
        self._path_settings: tuple[str, ...] = ()
        if newest is not None:
            self._path_settings = newest.path_settings or ((self._planned.paths,) if newest.paths else ())
        is_known = self._setting in self._path_settings and (newest is None or bool(newest.paths))
        self._has_new_setting = newest is not None and not is_known
        self._has_new_paths = not (from_queue or is_ahead) and not self._planned.has_all_of(own)
        if sends and {t for t in self.bookmark.left_out if not t.startswith(_DATES_FROM)} - {self._setting, own.paths}:
            raise IdentityError(
                f"Stream {object_filter.stream!r}: a run with another path passed over objects that were planned "
                "before, whose rows would be missing; nothing was read. Run once without STATE (singer-arrow run: "
                "--full-refresh): a target leaves out what it has loaded. Or set the path as before; or, to do without "
                f"those rows, begin a new log on purpose with --new-plan-log ({GUIDE})"
            )
        if sends and log is not None:
            log.check_cuts(self.bookmark.segment)
        since = None if from_queue else self.since
        self._known = KnownVersions(log, since) if log is not None else None
        floor = self.bookmark.watermark if log is None or log.is_new else None if log.knows_before else log.before
        self._floor = None if from_queue else floor
        """Objects up to this place count as read although no log holds them: they were read before there was one."""
        self._waiting = deque[tuple[int, Segment | None]]()
        self._waiting_versions: set[Version] = set()
        self._tries: dict[str, int] = {}
        self._queued: set[Version] = set()
        self._counts: dict[Version, int] = {}
        self._last: dict[Version, tuple[int, int]] = {}
        self._looked_through = self.bookmark.segment
        self._listed: datetime | None = None
        self._unchanged: Watermark | None = None
        self.complete_until: datetime | None = None
        """All that was there at this time is in the plan; None: that is not known, as where others plan."""

    @property
    def since(self) -> datetime | None:
        """The time from which on objects may be new; None: any may be, as where the paths have changed."""
        at = self.bookmark.watermark
        return at.last_modified - self._overlap if at is not None and not self._has_new_paths else None

    @cached_property
    def _recent(self) -> dict[str, tuple[datetime, Version]]:
        """The latest versions of the objects in the log, as far back as objects may appear late, and of queued ones."""
        if self._known is None or self._known.newest is None:
            return {}
        return self._known.latest(self.since or self._known.newest - self._overlap)

    @property
    def plans_first(self) -> bool:
        """Whether what is new is planned before segments of earlier runs are sent, of which there are some."""
        return self.log is not None and not self.log.is_read_only and self._end > self.bookmark.segment

    @property
    def is_begun(self) -> bool:
        """Whether an earlier run has planned something."""
        return self._end > (self.log.begin if self.log is not None else 0)

    def log_id(self, segment: Segment, task: int = 0, row: int = 0) -> PlanLogId | None:
        """Return what identifies the log, and a batch in it by its first row, to a target; None: there is none."""
        if self.log is None or self.log.head is None:
            return None
        own = self.object_filter
        source = [own.stream, *sorted(map(str, own.paths)), *(own.moments or map(str, (*own.dates, *own.window)))]
        head = self.log.head
        return PlanLogId(
            head.log,
            digest("\n".join(source), 16),
            has_state=not self._is_rerun,
            follows=self.bookmark.batch,
            place=place_in_log(segment.number, task, row),
            continues=ContinuedLog(**head.continues) if head.continues else None,
            objects=own.objects(),
        )

    def end(self, at: Bookmark) -> Bookmark:
        """Return the bookmark of a run that has sent all, which is `at` where its tasks end.

        It passes objects that were written again without a change, as they count as read. Without a log, it has up to
        which date places were listed.
        """
        if not (self._is_rerun or self._warned_of_settings):  # there is nothing new
            self._say_settings(logging.INFO)
        if self._unchanged is not None and self._listed is not None and self._unchanged.last_modified <= self._listed:
            at = replace(at, watermark=latest(at.watermark, self._unchanged))
        if self.log is not None or not self._own.end:
            return at
        return replace(at, left_out=(f"{_DATES_FROM}{max(self._own.end, self._planned.end)}",))

    def pending_tasks(self, segment: Segment) -> Iterator[PendingTask]:
        """Yield the tasks of a segment that are still to be sent, with what the log has about their objects."""
        log, reading = self.log, digest(segment.log if self.log is not None else self._run)
        self._look_through(segment.number + 1)
        for found in unsent(self.bookmark, [segment], self.selects, self.shard):
            pending = self._without_sent_later(found)
            task = pending.task
            cuts = log.cuts(segment, task) if log is not None and task.may_be_cut else None
            if pending.start.rows:
                self._check_rows(task, pending.start.rows, cuts)
            starts = log.range_starts(task) if log is not None else None
            any_date, planned = replace(self.object_filter, dates=(None, None)), segment.tasks[pending.number].objects
            is_left = pending.passes and not (task.objects or pending.is_sent_later)
            is_left_out = is_left and not any(any_date.matches(o.url) for o in planned)
            # With the same setting, a folder that it found is gone; where that is back, other folders are found.
            by = self._setting if self._has_new_setting else self._own.paths
            left_out = by if is_left_out else ""
            yield replace(pending, cuts=cuts, starts=starts, reading=reading, left_out=left_out)

    def _look_through(self, end: int) -> None:
        """Find the last task that sends a version which the log has again, up to the end of what is planned.

        A run that sends several tasks with one version of an object, which had another content in between, would send
        its rows as often, as they are there again: each time it is read as it is now.
        """
        end, start = max(end, self._next), self._looked_through
        if self.log is None or start >= end:
            return
        self._looked_through = end
        for segment in self.log.segments(start, end, with_again=True):
            for number, task in enumerate(segment.tasks):
                if task.again and not (task.range and task.range.number) and self.selects(segment, task):
                    places = (place for place, _ in task.again)
                    self._last.update({version_of(task.objects[place]): (segment.number, number) for place in places})

    def _without_sent_later(self, pending: PendingTask) -> PendingTask:
        """Return a task without the objects that a later task sends in the same version."""
        if not self._last:
            return pending
        objects, nowhere = pending.task.objects, (-1, -1)
        at = pending.segment.number, pending.number - (pending.task.range.number if pending.task.range else 0)
        later = frozenset(n for n, o in enumerate(objects) if self._last.get(version_of(o), nowhere) > at)
        if later and len(later) == len(objects):
            return replace(pending, task=Task(()), is_sent_later=True)
        return replace(pending, task=replace(pending.task, sent_later=later)) if later else pending

    def _check_rows(self, task: Task, rows: int, cuts: Cuts | None) -> None:
        """Raise IdentityError unless an earlier run has cut the object of a task behind so many rows, as STATE says."""
        if cuts is None or all(cut.after is None or cut.after.rows != rows for cut in cuts.known()):
            where = (
                f"{cuts.place[0]} does not have" if cuts is not None else "no batch can end there, so no run has made"
            )
            raise IdentityError(
                f"Stream {self.object_filter.stream!r}: its STATE is behind row {rows:,} of {task.objects[0].url}, and "
                f"{where} a batch that ends there; rows would be lost or sent twice, so nothing was read. Were files "
                "of that folder removed, or was the STATE mixed of two runs? Restore them, or run without STATE: a "
                f"target leaves out what it has loaded ({GUIDE})"
            )

    def unfinished_segments(self, *, with_new: bool = False) -> Iterator[Segment]:
        """Yield the segments that earlier runs planned and the STATE has not passed; `with_new`: of this run too."""
        if self.log is None:
            return
        for segment in self.log.segments(self.bookmark.segment, self._next if with_new else self._end):
            self._warn_of_settings(segment)
            if segment.as_records and not self.as_records:
                self._warn_once(
                    "Stream %r: batches are sent of objects that an earlier run sent as RECORD messages, which no "
                    "ledger has: append-only adds their rows again. To have them once, empty the table and run without "
                    "STATE, or set load_method to upsert or overwrite",
                    self.object_filter.stream,
                )
            yield segment

    def _warn_once(self, text: str, *values: object) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text, *values)

    def _warn_of_settings(self, segment: Segment) -> None:
        """Say once, with the first segment that is sent, that earlier runs read objects with other settings of rows.

        What they have loaded is known by the STATE: a warning, if it has passed such objects. Without a STATE it is not
        known whether they have loaded any.
        """
        if self._is_rerun:
            if self._has_other_settings(segment) and segment.number < self._end and not self._warned_of_settings:
                self._warned_of_settings = True
                logger.info(_OTHER_SETTINGS, self.object_filter.stream, "What the target may have loaded stays")
        elif not self._warned_of_settings:
            self._say_settings(logging.WARNING)

    def _say_settings(self, level: int) -> None:
        self._warned_of_settings = True
        at, log = self.bookmark, self.log
        passed = at.segment if at.is_begun else at.segment - 1
        if log is not None and log.first_number <= passed < self._end and self._has_other_settings(log.read(passed)):
            logger.log(level, _OTHER_SETTINGS, self.object_filter.stream, "What the target has loaded stays")

    def _has_other_settings(self, segment: Segment) -> bool:
        return self._settings is not None and segment.settings not in ("", self._settings)

    def selects(self, segment: Segment, task: Task) -> bool | None:
        """Return whether a task is sent; None: a later run sends it. Those that this run has planned are."""
        if segment.number >= self.first_new:
            return True
        start, end = self.object_filter.window if not segment.from_queue else (None, None)
        first, last = self.object_filter.dates
        endless = replace(self.object_filter, dates=(first, None))
        ours = [o for o in task.objects if endless.matches(o.url)]
        is_early = self.object_filter.matches if last is not None else lambda _: True
        earlier = [o for o in ours if in_window(o, None, end) and is_early(o.url)]
        inside = [o for o in earlier if in_window(o, start, None)]
        if segment.from_queue and not ours:  # only the log knows of them
            raise IdentityError(
                f"Stream {self.object_filter.stream!r}: its plan log has {task.objects[0].url}, which a queue "
                "announced for another path. If two pipelines share the log, set a plan_root for each; if the path was "
                "changed, name the former one in 'path' too, as a list, until a run has ended well"
            )
        if inside and len(inside) < len(task.objects):
            text = "An earlier run planned %d objects outside start_date, end_date or path with others; they are read"
            logger.warning(text, len(task.objects) - len(inside))
        return None if not inside and len(earlier) < len(ours) else bool(inside)

    def probably_new(self, found: Listing) -> tuple[int, int]:
        """Return the number and the bytes of listed objects that are newer than all that earlier runs planned."""
        known = [time for time in (self._before.last_modified if self._before else None, self.since) if time]
        newest = self._known.newest if self._known is not None else None
        return found.totals(
            *self.object_filter.window, after=max([*known, *([newest] if newest else [])], default=None)
        )

    def plan_listed(self, found: Listing, ahead: Listing | None = None) -> Iterator[Segment]:
        """Yield new segments for the listed objects that are not in the log; before each, those queued meanwhile.

        `ahead` has those of places that were not listed before, which are new however old they are.
        """
        reason = "its path was changed" if self._planned.paths else "a queue named its objects before"
        if not self._has_new_setting:
            reason = "it has other folders than before"
        if self._planned.paths != self._own.paths and self._floor is not None:
            text = "Stream %r: %s; objects from before %s, where its plan log begins, are not read"
            logger.warning(text, self.object_filter.stream, reason, self._floor.last_modified)
        start, end = self.object_filter.window
        self.complete_until = min(found.began, end or found.began)
        since = max((time for time in (start, self.since) if time is not None), default=None)

        def new_objects() -> Iterator[ObjectInfo]:
            early = list(ahead.in_order(before=since)) if ahead is not None and since is not None else []
            early = in_order([*early, *self._rolled_back(found, since)])
            urls = {str(o.url) for o in early}
            planned = PlannedVersions(self.log.objects_of(urls) if self.log is not None and urls else ())
            yield from (o for o in early if o not in planned)
            for info in found.in_order(lambda o: not self.is_known(o), since=since, before=end):
                if self._planned.paths != self._own.paths and self._has_new_setting and not self._is_rerun:
                    self._warn_once(
                        "Stream %r: %s, and %s is the first object that is read because the plan log lacks it. One "
                        "that was moved or renamed counts as new: append-only adds its rows again",
                        self.object_filter.stream,
                        reason,
                        info.url,
                    )
                if self._recent and str(info.url) in self._recent:
                    self._warn_of_overwritten(info)
                yield info

        for segment in self.plan(new_objects(), listed=found.began):
            yield from self.queued_segments(before=segment.number)
            yield segment

    def _rolled_back(self, found: Listing, since: datetime | None) -> list[ObjectInfo]:
        """Warn of listed objects that are older than in the log: a newer version was removed from the bucket.

        Returned are those from before `since`, within the window, which are not looked at otherwise: if the log lacks
        them, they are new. Only what the log got last is compared.
        """
        if self.log is None or self._keys_ascend or self._own.source:  # an inventory may be older than the log
            return []
        times = self.log.newest_times()
        seconds = times["modified"].combine_chunks().cast(pa.timestamp("s", "UTC"), safe=False)
        if not (older := in_order(found.older(times["url"].combine_chunks(), seconds))):
            return []
        newest = PlannedVersions(self.log.objects_of({str(older[0].url)})).newest(older[0])
        logger.warning(
            "%s: its version of %s was removed since it was read, and one of %s is there instead%s. A table may still "
            "have the rows of the one that was removed: delete them (see _sdc_source_modified_at), or with load_method "
            "upsert upload the object again; or empty the table, and run without STATE",
            older[0].url,
            newest,
            older[0].modified,
            f"; so it is with {len(older) - 1:,} more" if len(older) > 1 else "",
        )
        earlier = [o for o in older if since is not None and in_window(o, self.object_filter.window[0], since)]
        return [o for o in earlier if self._floor is None or place_in_order(o) > self._floor]

    def is_known(self, info: ObjectInfo) -> bool:
        """Return whether a version of an object was in the log or queued, or was read before there was a log.

        An object that is written again without a change, under the same ETag, is known. It is new if it was another one
        in between.
        """
        if self._floor is not None and place_in_order(info) <= self._floor:
            return True
        found = self._recent.get(str(info.url)) if self._recent else None
        if found is not None and (found[1] == version_of(info) or info.modified > found[0]):
            if found[1] == version_of(info) and info.modified > found[0] + PRECISION:
                self._warn_of_unchanged(info)
            return found[1] == version_of(info)
        return self._known is not None and info in self._known

    @property
    def last_key(self) -> Url | None:
        """The key behind which new objects are, if keys ascend with time; None if all may be new."""
        at = self.bookmark.watermark
        if at is None or self._known is None or self.since is None:
            return None
        return Url.parse(at.key) if at.key and not self._overlap else self._known.last_key(self.since)

    def plan(self, given: Iterable[ObjectInfo], *, listed: datetime | None = None) -> Iterator[Segment]:
        """Yield new segments for objects in order, each once it is in the log.

        `listed` is when their listing began, if they were listed; those that were queued meanwhile are left out.
        """
        self._listed = listed or self._listed
        new = self._without_unchanged(given, listed=listed is not None)
        for found in make_segments(make_tasks(new, target_bytes=self._target_bytes, ranges_of=self._ranges_of)):
            tasks: list[Task] = []
            for task in found:
                objects = task.objects
                if listed is not None and self._queued:  # those that were queued after they were listed are left out
                    objects = tuple(o for o in objects if version_of(o) not in self._queued)
                counts = ((n, self._counts.get(version_of(o), 0)) for n, o in enumerate(objects))
                if objects:
                    tasks.append(replace(task, objects=objects, again=tuple(count for count in counts if count[1])))
            if not tasks:
                continue
            after = watermark_after(self._before, tasks, self._listed if self.log is not None else None)
            if listed is not None and after != self._before:  # all that is older is planned
                self._planned = self._own
            if listed is not None:
                others = (known for known in self._path_settings if known != self._setting)
                self._path_settings = (*others, self._setting)[-_MOST_SETTINGS:]
            is_usual = self._path_settings == (self._planned.paths,) and not self._from_queue
            segment = Segment(
                number=self._next,
                stream=self.object_filter.stream,
                target_bytes=self._target_bytes,
                before=self._before,
                after=after,
                tasks=tuple(tasks),
                from_queue=self._from_queue,
                settings=self._settings or "",
                paths="" if self._from_queue else str(self._planned),
                as_records=self.as_records,
                path_settings=() if is_usual else self._path_settings,
            )
            if self.log is not None:
                segment = self.log.append(segment)
            self._warn_of_settings(segment)
            self._next, self._before = segment.number + 1, after
            yield segment

    def _without_unchanged(self, objects: Iterable[ObjectInfo], *, listed: bool) -> Iterator[ObjectInfo]:
        """Leave out objects that were written again without a change, however long ago the log got them.

        One that was another one in between counts as new, and `again` of its task how often the log had its version.
        """
        if self.log is None or self._keys_ascend:
            yield from objects
            return
        rest, end = iter(objects), self._end if listed else None  # a listing has each object once
        while some := list(islice(rest, _LOOKED_UP)):
            planned = PlannedVersions(self.log.objects_of({str(o.url) for o in some}, end))
            for info in some:
                if info in planned:
                    self._warn_of_unchanged(info)
                    continue
                if count := planned.counts[version_of(info)]:
                    self._counts[version_of(info)] = count
                yield info

    def _warn_of_overwritten(self, info: ObjectInfo) -> None:
        text = "%s was overwritten since it was read; its new version is read too"
        if self.replaces_rows:
            logger.info(text, info.url)
            return
        if text not in self._warned:
            self._warned.add(text)
            text += (
                ". With load_method append-only the rows of its former version stay in the table, so that it has both; "
                "with upsert, and key_properties, the new rows replace those with the same key"
            )
        logger.warning(text, info.url)

    def _warn_of_unchanged(self, info: ObjectInfo) -> None:
        self._unchanged = latest(self._unchanged, place_in_order(info))
        self._warn_once(
            "%s was written again without a change since it was planned (the same ETag), and is not read again; nor "
            "are others like it, which are not named. If it was gone when it was to be read, its rows may be missing: "
            "change it, or move it to another name",
            info.url,
        )

    def queue(self, objects: Iterable[ObjectInfo]) -> None:
        """Make durable that objects are to be read; `queued_segments` yields their segments."""
        for segment in self.plan(in_order(objects)):
            self._waiting.append((segment.number, segment if self.log is None else None))
            self._waiting_versions.update(map(version_of, segment.objects))
            self._recent.update((str(o.url), (o.modified, version_of(o))) for o in segment.objects)

    @property
    def has_queued(self) -> bool:
        """Whether `queued_segments` has something to yield."""
        return bool(self._waiting)

    def queued_segments(self, before: int | None = None) -> Iterator[Segment]:
        """Yield the segments that were queued, each once, in the order of the log, as STATE passes them in that order.

        `before` leaves out those of this number and later ones.
        """
        while self._waiting and (before is None or self._waiting[0][0] < before):
            number, segment = self._waiting.popleft()
            if segment is None:
                assert self.log is not None
                segment = self.log.read(number)
            self._waiting_versions.difference_update(map(version_of, segment.objects))
            yield segment

    def replan(self, storage: Storage, changed: Sequence[ObjectInfo]) -> None:
        """Queue the new versions of objects that could not be read in the version that was planned.

        The log may hold such a version already, from a queue, or because it was there before. Without a log, versions
        that are newer than all that was planned are left to a later run: STATE must not pass what was not listed. A
        shard leaves all to the next run that lists.
        """
        if self.log is not None:  # another run may have removed them
            self.log.check_gone(self.bookmark.segment, anew=True)
        if self.shard is not None:
            text = "Stream %r: --write-plan must run again for the new versions of %d objects"
            logger.warning(text, self.object_filter.stream, len(changed))
            return
        own = set(map(version_of, changed))
        planned = PlannedVersions(self.log.objects_of({str(o.url) for o in changed}) if self.log is not None else ())
        due: list[ObjectInfo] = []
        now: list[ObjectInfo] = []
        ours = (url for url in dict.fromkeys(o.url for o in changed) if self.object_filter.matches(url))
        for changed_url in ours:  # others are read in the version that was planned, as others are read with them
            with suppress(NotFoundError):  # it is gone
                now.append(storage.head(changed_url))
        for info in in_order(now):
            url, version = str(info.url), version_of(info)
            if info in planned:
                if version in own:  # gone, and back: tasks that other runs send have it
                    self._warn_of_unchanged(info)
                continue
            is_sent = self.log is None and version not in own and self.is_known(info)
            if is_sent or version in self._waiting_versions or not in_window(info, *self.object_filter.window):
                continue
            self._tries[url] = self._tries.get(url, 0) + 1
            if self._tries[url] > MAX_TRIES:
                msg = f"{url} was replaced again and again while it was read; STATE does not pass it: run again"
                raise ObjectChangedError(msg)
            is_late = self.log is None and self._before is not None and place_in_order(info) > self._before
            when = "; a later run reads its new version" if is_late else ", which reads its new version now"
            logger.warning("%s has changed during this run%s", url, when)
            due += [] if is_late else [info]
        self._queued.update(map(version_of, due))
        self.queue(due)


def start_of(log: PlanLog | None, state: Bookmark | None, stream: str, *, sends: bool = True) -> Bookmark:
    """Return where a run begins: at its STATE, or, without one, at the beginning of its log.

    `sends`: the run sends what the log holds; without STATE the log must then hold all that was ever sent, and the
    objects must be there. An IdentityError means that STATE and log are not of each other, or that `after_load` has
    removed objects: rows would be lost, or sent twice.
    """
    if log is None:
        return Bookmark(state.watermark, left_out=state.left_out) if state is not None else Bookmark()
    head, start, end, before = log.head, log.begin, log.next_number, log.before
    own = head.log if head is not None else ""
    begin = Bookmark(before, start, log=own)
    if state is None:
        problem = ""
        if sends and before is not None:
            problem = f"the plan log {log.url} begins at {before.last_modified}, and a run without STATE sends all"
        elif sends and head is None and start:
            problem = f"the plan log {log.url} lacks its segments before {start}, and a run without STATE sends all"
        at = begin
    elif head is not None and head.follows is not None and state == Bookmark.from_state(head.follows, stream):
        problem, at = "", replace(begin, batch=state.batch)
    else:
        is_at_start = (state.watermark, state.segment, state.is_begun) == (before, start, False)
        within = start <= state.segment <= end - state.is_begun
        if state.log and state.log != own:
            what = f"another plan log than {log.url}" if own else f"a plan log that is not there: {log.url} has none"
            problem = f"its STATE is of {what}"
        elif not state.log and log.is_new:
            is_of_none = not state.segment and not state.is_begun
            problem = "" if is_of_none else f"its STATE is of a plan log that is not there: {log.url} has none"
        elif not (state.log or is_at_start) and head is not None:
            problem = (
                "its STATE was written without a plan log, as by replication_method FULL_TABLE, or by a run of another "
                f"one than {log.url}"
            )
        elif not within:
            problem = f"its STATE is at segment {state.segment}, and the plan log {log.url} has {start} to {end - 1}"
        else:
            problem = ""
        at = replace(state, log=own)
    if problem:
        raise IdentityError(
            f"Stream {stream!r}: {problem}; rows would be lost or sent twice, so nothing was read. Was plan_root, or "
            f"the root of the batch storage, changed, or files of the log removed? Restore them, or begin a new log on "
            f"purpose with --new-plan-log ({GUIDE})"
        )
    if sends:
        log.check_gone(at.segment)
    return at
