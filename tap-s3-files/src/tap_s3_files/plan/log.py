"""The plan log of a stream: which object versions make which tasks. It is only ever appended to.

<plan_root>/_plans/<stream>/000017.json              segment 17
<plan_root>/_plans/<stream>/checkpoint-....parquet   older segments, compacted
<plan_root>/_plans/<stream>.cuts/                    where large objects were cut, see `cuts` and `range_starts`

A segment is durable before its first batch is sent, and is never changed or removed: a run that reads the log
again finds the same tasks, and so sends the same batches. A number is given once. A run that finds its number taken has
planned from an old state of the log, and ends.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from singer_arrow.errors import DataError, EmptyObjectError, NotFoundError, SupersededError
from singer_arrow.naming import folder_name
from singer_arrow.storage.log_compaction import compactions, newest_cover
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.plan import legacy as legacy_plans
from tap_s3_files.plan.cuts import Cut, Cuts
from tap_s3_files.plan.log_files import (
    Checkpoint,
    LogFile,
    SegmentRange,
    checkpoint_name,
    checkpoint_to_bytes,
    entry_from_json,
    entry_name,
    entry_to_bytes,
    parse_name,
    to_table,
)
from tap_s3_files.plan.model import Segment, Task
from tap_s3_files.plan.range_starts import RangeStarts

READS_AT_ONCE = 16
MAX_OPEN = 3
"""Checkpoints in memory."""
GAP_LISTINGS = 3
"""How often a log with a gap is listed again: a listing while another run compacts may show one."""


class PlanLog:
    """The log of one stream below a plan root.

    Args:
        storage: Where it is kept.
        root: The plan root.
        stream: The stream's name.
        read_only: Append nothing: new segments are only returned.

    Raises:
        DataError: Segments are missing, or something in it is damaged.
    """

    def __init__(self, storage: Storage, root: Url, stream: str, *, read_only: bool = False) -> None:
        self._storage, self._stream, self._read_only = storage, stream, read_only
        self._folder = root.join("_plans", folder_name(stream))
        self._cuts = root.join("_plans", f"{folder_name(stream)}.cuts")
        self._checkpoints: OrderedDict[str, Checkpoint] = OrderedDict()
        self.legacy: legacy_plans.History | None = None
        """What remained of segments that an earlier version of the tap removed."""
        self._files: list[LogFile] = []
        self._recent: dict[int, Segment] = {}
        self._range_starts: dict[str, RangeStarts] = {}
        self._refresh()
        self._new_from = self.next_number

    @property
    def first_number(self) -> int:
        """The number of its first segment; that of the next one if it is empty."""
        return self._files[0].first if self._files else self.next_number

    @property
    def next_number(self) -> int:
        """The number of the next segment."""
        least = self.legacy.number if self.legacy else 0
        return max(least, self._files[-1].last + 1) if self._files else least

    def segments(self, start: int, end: int) -> Iterator[Segment]:
        """Yield the segments from number `start` on, before `end`, in order; one group of them in memory at a time."""
        while (file := next((f for f in self._files if f.last >= start), None)) is not None and start < end:
            try:
                for segment in self._segments_of(file, start, end):
                    yield segment
                    start = segment.number + 1
                start = file.last + 1
            except NotFoundError:  # another run has compacted it
                if not self._refresh():
                    raise

    def read(self, number: int) -> Segment:
        """Return one segment.

        Raises:
            NotFoundError: It is not in the log.
        """
        if (found := next(self.segments(number, number + 1), None)) is not None:
            return found
        msg = f"{self._url(entry_name(number))} is missing"
        raise NotFoundError(msg)

    def groups(self, oldest: datetime) -> list[SegmentRange]:
        """Return what is in the log, in groups of segments that follow each other.

        Args:
            oldest: Files are left out in which no object is of this time or newer.
        """
        while True:
            files = [f for f in self._files if f.newest is None or f.newest >= oldest]
            try:
                self._fetch(f.first for f in files if not f.is_checkpoint)
                return [group for file in files for group in self._groups_of(file)]
            except NotFoundError:  # another run has compacted it
                if not self._refresh():
                    raise

    def append(self, segment: Segment) -> None:
        """Make a segment durable, under the number that it has.

        Raises:
            SupersededError: Another run has taken the number.
        """
        if self._read_only:
            return
        data = entry_to_bytes(segment)
        file = LogFile(segment.number, segment.number, entry_name(segment.number), len(data))
        url, begins = self._url(file.name), self._files[0].first if self._files else segment.number
        is_ours = self._storage.put(url, data, if_absent=True)
        self._files.append(file)
        self._recent[segment.number] = segment
        if is_ours:
            self._refresh()  # the number may have been taken and compacted while this run slept
        is_there = is_ours and file in self._files and self.first_number == begins
        if not is_there and (self.first_number != begins or self._written(segment.number) != segment):
            if is_ours:
                self._storage.delete([url])
            msg = f"{url} was written by another run of the stream meanwhile; nothing is lost: run again to follow it"
            raise SupersededError(msg)
        self._compact()

    def cuts(self, segment: Segment, number: int, name: str) -> Cuts:
        """Return the cuts of a task.

        Args:
            segment: Which.
            number: Of the task.
            name: Identifies its object.
        """
        legacy: list[Cut] = []
        if segment.tasks[number].columns:
            found = self._note(legacy_plans.parts_name(segment.number, number))
            legacy = legacy_plans.cuts_of(found) if found else []
        is_new = segment.number >= self._new_from
        return Cuts(self._storage, self._cuts, name, legacy=legacy, is_new=is_new)

    def range_starts(self, task: Task) -> RangeStarts | None:
        """Return the record of where the ranges of the object of a task begin; None for tasks that are no range."""
        if task.range is None:
            return None
        name = f"{task_name(self._stream, replace(task, range=None))}-{task.range.count}-ranges.json"
        if name not in self._range_starts:
            self._range_starts[name] = RangeStarts(self._storage, self._cuts.join(name))
        return self._range_starts[name]

    def _written(self, number: int) -> Segment:
        self._recent.pop(number)
        return self.read(number)

    def _segments_of(self, file: LogFile, start: int = 0, end: int = sys.maxsize) -> Iterator[Segment]:
        if not file.is_checkpoint:
            if file.first < end:
                self._fetch([file.first])
                yield self._recent[file.first]
            return
        checkpoint = self._open(file)
        for n, group in enumerate(checkpoint.groups()):
            if group.last >= start and group.first < end:
                yield from (s for s in checkpoint.segments(n) if start <= s.number < end)

    def _groups_of(self, file: LogFile) -> list[SegmentRange]:
        if file.is_checkpoint:
            return self._open(file).groups()
        times = [o.modified for o in self._recent[file.first].objects]
        return [SegmentRange(file.first, file.first, min(times), max(times))]

    def _fetch(self, numbers: Iterable[int]) -> None:
        """Read entries at once; they stay in memory until they are compacted."""
        missing_numbers = [n for n in numbers if n not in self._recent]
        if not missing_numbers:
            return
        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            self._recent.update(zip(missing_numbers, pool.map(self._entry, missing_numbers), strict=True))

    def _open(self, file: LogFile) -> Checkpoint:
        found = self._checkpoints.pop(file.name, None)
        if found is None:
            url = self._url(file.name)
            try:
                found = Checkpoint(bytes(self._storage.get(url).data))
            except (pa.ArrowException, OSError):
                raise self._damaged(url) from None
        self._checkpoints[file.name] = found
        if len(self._checkpoints) > MAX_OPEN:
            self._checkpoints.popitem(last=False)
        return found

    def _entry(self, number: int) -> Segment:
        url = self._url(entry_name(number))
        value = self._json(url)
        try:
            if value["version"] != 1:
                return entry_from_json(value)
            changes: list[Any] = []
            while (change := self._note(legacy_plans.change_name(number, len(changes) + 1))) is not None:
                changes.append(change)
            return legacy_plans.segment_of(value, changes)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._damaged(url) from None

    def _note(self, name: str) -> Any:
        try:
            return self._json(self._url(name))
        except (NotFoundError, EmptyObjectError):
            return None

    def _json(self, url: Url) -> Any:
        try:
            return json.loads(bytes(self._storage.get(url).data))
        except ValueError:
            raise self._damaged(url) from None

    def _refresh(self, attempts: int = GAP_LISTINGS) -> bool:
        """List the log again; whether it has changed."""
        prefix = Url(self._folder.scheme, self._folder.bucket, self._folder.key + "/")
        names = {o.url.name: o.size for o in self._storage.list(prefix)}
        listed = [file for name, size in names.items() if (file := parse_name(name, size))]
        if legacy_plans.HISTORY in names and self.legacy is None:
            self.legacy = self._history()
        found = newest_cover(listed)
        gap = next((n for n in range(len(found) - 1, 0, -1) if found[n - 1].last + 1 != found[n].first), 0)
        if gap and self.legacy is None:
            if attempts > 1:
                return self._refresh(attempts - 1)
            missing = found[gap - 1].last + 1
            hint = "Restore it, or set another plan_root and empty the table: all objects are then read again"
            raise DataError("the plan log lacks this segment", url=self._url(entry_name(missing)), hint=hint)
        before, self._files = self._files, found[gap:]
        return before != self._files

    def _history(self) -> legacy_plans.History:
        url = self._url(legacy_plans.HISTORY)
        try:
            return legacy_plans.history_of(self._json(url))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._damaged(url) from None

    def _compact(self) -> None:
        """Write checkpoints that are due, and remove what they replace."""
        while files := compactions(self._files):
            try:
                data, newest = checkpoint_to_bytes(self._tables(file) for file in files)
            except NotFoundError:  # another run has done it
                self._refresh()
                return
            name = checkpoint_name(files[0].first, files[-1].last, newest)
            self._storage.put(self._url(name), data)
            made = LogFile(files[0].first, files[-1].last, name, len(data), newest)
            self._files = newest_cover([*self._files, made])
            self._recent = {n: s for n, s in self._recent.items() if n > made.last}
            with suppress(NotFoundError):
                self._storage.delete([self._url(file.name) for file in files])

    def _tables(self, file: LogFile) -> Iterator[pa.Table]:
        return self._open(file).tables() if file.is_checkpoint else iter([to_table(self._segments_of(file))])

    def _url(self, name: str) -> Url:
        return self._folder.join(name)

    def _damaged(self, url: Url) -> DataError:
        msg = "it is no part of a plan log that this version of the tap can follow"
        return DataError(msg, url=url, hint="Restore it, or use the version of the tap that wrote it")


def task_name(stream: str, task: Task, columns: Any = None) -> str:
    """Identify a task by its input: the stream, its objects in their versions, and the range of one."""
    part = astuple(task.range) if task.range else ()
    objects = [[str(o.url), o.etag or [o.size, o.modified.isoformat()], *part] for o in task.objects]
    return identity(stream, objects, *([columns] if columns is not None else []))


def identity(*parts: Any) -> str:
    """Return a hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
