"""The plan log of a stream: which object versions make which tasks. Segments are only ever appended.

<plan_root>/_plans/<stream>/log-000000.json          identifies the log, see `storage.log_head`
<plan_root>/_plans/<stream>/000017.json              segment 17
<plan_root>/_plans/<stream>/checkpoint-000000-000015-20260501T101500000000.parquet
                                                     segments 0 to 15; the newest object in them is of that time
<plan_root>/_plans/<stream>/after-load-...           which objects may be gone: `after_load.Mark`
<plan_root>/_plans/<stream>/cuts-000017.json         large objects of segments up to this one were cut
<plan_root>/_plans/<stream>.cuts/                    where large objects were cut: `Cuts` and `RangeStarts`
<plan_root>/_plans/<stream>.cuts/left-<log>-000017-3-<hash>.json
                                                     objects of task 3 of segment 17 that a run did not load

A segment is durable before its first batch is sent, and is never changed or removed, only its file, when some are
compacted into a checkpoint: a run that reads the log again finds the same tasks, and so sends the same batches. A
number is given once. A run that finds its number taken has planned from an old state of the log, and ends.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import sys
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any

import pyarrow as pa

from singer_arrow.batch.message import ContinuedLog
from singer_arrow.errors import DataError, IdentityError, NotFoundError, SupersededError
from singer_arrow.naming import folder_name
from singer_arrow.storage.log_head import (
    CompactableFile,
    LogHead,
    compactions,
    foreign_entry,
    head_name,
    head_numbers,
    newest_cover,
    read_head,
    write_head,
)
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.after_load import Mark, marks_in
from tap_s3_files.plan_model import SEGMENT_OBJECTS, Cuts, ObjectRange, RangeStarts, Segment, Task
from tap_s3_files.settings import Watermark

# The files of a plan log, as bytes. Pure.

VERSION = 2
ROWS_AT_ONCE = 8192
"""Objects of a row group, about: segments are not divided."""
KNOWN_AT_ONCE = 200 * SEGMENT_OBJECTS
"""Object versions of a file that holds what was read before a log began."""
_ENTRY = re.compile(r"(\d{6,})\.json")
_CHECKPOINT = re.compile(r"checkpoint-(\d{6,})-(\d{6,})-(\d{8}T\d{12})\.parquet")
_CUT_MARK = re.compile(r"cuts-(\d{6,})\.json")
_CUT = re.compile(r"[0-9a-f]{32}-\d+\.json")
_TIME = "%Y%m%dT%H%M%S%f"
_COLUMNS = pa.schema(
    [
        ("number", pa.int32()),  # of the segment
        ("segment", pa.string()),  # all of it but its tasks, as JSON
        ("task", pa.int32()),
        ("url", pa.string()),
        ("etag", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("us", "UTC")),
        ("table", pa.string()),  # partition columns and deleted rows of a table's file, as JSON; else null
    ]
)
_OF_OBJECTS = _COLUMNS.names[3:7]
_TIMES = pa.schema([_COLUMNS.field("url"), _COLUMNS.field("modified")])


@dataclass(frozen=True, slots=True)
class LogFile(CompactableFile):
    """A file of the log: its segments, its name, and the time of the newest object in a checkpoint."""

    name: str
    newest: datetime | None = None


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Some segments that follow each other, and the times of their oldest and newest objects."""

    first: int
    last: int
    oldest: datetime
    newest: datetime


def entry_name(number: int) -> str:
    """Return the name of the file of one segment."""
    return f"{number:06d}.json"


def checkpoint_name(first: int, last: int, newest: datetime) -> str:
    """Return the name of a checkpoint of segments `first` to `last`, whose newest object is of that time."""
    return f"checkpoint-{first:06d}-{last:06d}-{newest.astimezone(UTC).strftime(_TIME)}.parquet"


def parse_name(name: str, size: int) -> LogFile | None:
    """Return the file of a log with this name; None if no file of a log is named so."""
    if found := _ENTRY.fullmatch(name):
        return LogFile(int(found[1]), int(found[1]), size, name)
    if found := _CHECKPOINT.fullmatch(name):
        newest = datetime.strptime(found[3], _TIME).replace(tzinfo=UTC)
        return LogFile(int(found[1]), int(found[2]), size, name, newest)
    return None


def entry_to_bytes(segment: Segment) -> bytes:
    """Encode the file of one segment."""
    tasks = [
        {
            "objects": [
                {"url": str(o.url), "etag": o.etag, "size": o.size, "modified": o.modified.isoformat()}
                for o in t.objects
            ],
            **({"range": astuple(t.range)} if t.range else {}),
            **({"again": t.again} if t.again else {}),
            **({"values": t.values} if t.values else {}),
            **({"deletes": t.deletes} if t.deletes else {}),
        }
        for t in segment.tasks
    ]
    return json.dumps({"version": VERSION, **_head(segment), "tasks": tasks}).encode()


def entry_from_json(value: Any) -> Segment:
    """Decode the file of one segment; AttributeError, KeyError, TypeError or ValueError: it is something else."""
    if value["version"] != VERSION:
        raise ValueError
    tasks = (
        Task(
            tuple(_object(**o) for o in t["objects"]),
            ObjectRange(*t["range"]) if t.get("range") else None,
            _again(t.get("again", ())),
            tuple(t.get("values", ())),
            tuple(t.get("deletes", ())),
        )
        for t in value["tasks"]
    )
    return _segment(value, tuple(tasks))


def to_table(segments: Iterable[Segment]) -> pa.Table:
    """Return the objects of each task of segments, a row for each, as they are in a checkpoint."""
    rows: list[tuple[Any, ...]] = []
    for segment in segments:
        # Only first task and count, as the ranges of an object follow each other: each row repeats the head.
        ranges = {str(n): t.range.count for n, t in enumerate(segment.tasks) if t.range and not t.range.number}
        again = {str(n): t.again for n, t in enumerate(segment.tasks) if t.again}
        more = {"ranges": ranges, "again": again}
        head = json.dumps(_head(segment) | {name: value for name, value in more.items() if value})
        rows += (
            (segment.number, head, number, str(o.url), o.etag, o.size, o.modified, _of_table(task, place))
            for number, task in enumerate(segment.tasks)
            for place, o in enumerate(task.objects)
        )
    return pa.table([pa.array([row[n] for row in rows], f.type) for n, f in enumerate(_COLUMNS)], _COLUMNS)


def checkpoint_to_bytes(files: Iterable[Iterable[pa.Table]]) -> tuple[bytes, datetime]:
    """Encode the tables of each of some log files as one checkpoint; return it, and the time of its newest object.

    A segment is never divided between two tables.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    buffer, newest = io.BytesIO(), datetime.min.replace(tzinfo=UTC)
    options: dict[str, Any] = {
        "compression": "zstd",
        "use_dictionary": ["number", "segment", "table"],
        "column_encoding": {"url": "DELTA_BYTE_ARRAY", "modified": "DELTA_BINARY_PACKED"},
    }
    with pq.ParquetWriter(buffer, _COLUMNS, **options) as writer:
        group: list[pa.Table] = []
        for table in (t for tables in files for t in tables):
            newest = max(newest, pc.max(table["modified"]).as_py())
            if group and sum(t.num_rows for t in (*group, table)) > ROWS_AT_ONCE:
                writer.write_table(pa.concat_tables(group))
                group = []
            group.append(table)
        writer.write_table(pa.concat_tables(group))
    return buffer.getvalue(), newest


def known_files(like: Segment, first: int, known: Iterable[ObjectInfo]) -> tuple[int, dict[str, bytes]]:
    """Return the files, by name, of a log that begins at number `first` with object versions which were read before.

    They are in segments like this one, whose number is returned too.
    """
    count, files, objects = 0, dict[str, bytes](), iter(known)
    while some := list(islice(objects, KNOWN_AT_ONCE)):
        parts = [some[n : n + SEGMENT_OBJECTS] for n in range(0, len(some), SEGMENT_OBJECTS)]
        numbers = range(first + count, first + count + len(parts))
        made = [replace(like, number=n, tasks=(Task(tuple(part)),)) for n, part in zip(numbers, parts, strict=True)]
        count += len(made)
        if len(made) == 1:
            files[entry_name(numbers[0])] = entry_to_bytes(made[0])
        else:
            data, newest = checkpoint_to_bytes([[to_table([segment]) for segment in made]])
            files[checkpoint_name(numbers[0], numbers[-1], newest)] = data
    return count, files


class CheckpointReader:
    """A checkpoint in memory, whose row groups are decoded one at a time.

    Data that is no Parquet file raises pyarrow.ArrowException.
    """

    def __init__(self, data: bytes) -> None:
        import pyarrow.parquet as pq

        self._file = pq.ParquetFile(pa.BufferReader(data))
        self._groups = range(self._file.num_row_groups)

    def groups(self) -> list[SegmentRange]:
        """Return the segments of each row group."""
        columns = [_COLUMNS.get_field_index(name) for name in ("number", "modified")]
        groups = (self._file.metadata.row_group(n) for n in self._groups)
        found = ([group.column(column).statistics for column in columns] for group in groups)
        return [SegmentRange(number.min, number.max, modified.min, modified.max) for number, modified in found]

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each row group."""
        return map(self._table, self._groups)

    def _table(self, group: int) -> pa.Table:
        return self._file.read_row_group(group).select(_COLUMNS.names)

    def times(self) -> pa.Table:
        """Return the URLs of all objects, and when these were last changed, in the order of the log."""
        return self._file.read(["url", "modified"])

    def objects_of(self, urls: pa.Array) -> Iterator[ObjectInfo]:
        """Yield the objects of these URLs, in the order of the log, each as often as it is in it."""
        import pyarrow.compute as pc

        for group in self._groups:
            found = pc.is_in(self._file.read_row_group(group, ["url"])["url"], urls)
            if pc.any(found).as_py():
                rows = self._file.read_row_group(group, _OF_OBJECTS).filter(found)
                yield from (_object(*row) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True))

    def has_again(self, group: int) -> bool:
        """Return whether an object of a row group got a former content back."""
        heads = self._file.read_row_group(group, ["segment"])["segment"].unique().to_pylist()
        return any("again" in json.loads(head) for head in heads)

    def segments(self, group: int) -> Iterator[Segment]:
        """Yield the segments of a row group, in order."""
        columns = [c.to_pylist() for c in self._table(group).columns]
        for head, rows in groupby(zip(*columns, strict=True), key=lambda row: row[1]):
            value = json.loads(head)
            ranges = {
                int(first) + number: ObjectRange(number, count)
                for first, count in value.get("ranges", {}).items()
                for number in range(count)
            }
            again, tasks = value.get("again", {}), list[Task]()
            for number, some in groupby(rows, key=lambda row: row[2]):
                found = list(some)
                values, deletes = zip(*(json.loads(row[7]) if row[7] else ({}, "") for row in found), strict=True)
                more = values if any(values) else (), deletes if any(deletes) else ()
                objects = tuple(_object(*row[3:7]) for row in found)
                tasks.append(Task(objects, ranges.get(number), _again(again.get(str(number), ())), *more))
            yield _segment(value, tuple(tasks))


def _of_table(task: Task, place: int) -> str | None:
    some = task.values[place] if task.values else {}, task.deletes[place] if task.deletes else ""
    return json.dumps(some) if any(some) else None


def _head(segment: Segment) -> dict[str, Any]:
    return {
        "stream": segment.stream,
        "number": segment.number,
        "target_bytes": segment.target_bytes,
        "before": segment.before.to_json() if segment.before else None,
        "after": segment.after.to_json() if segment.after else None,
        "from_queue": segment.from_queue,
        "settings": segment.settings,
        "paths": segment.paths,
        "log": segment.log,
        **({"table_version": segment.table_version} if segment.table_version else {}),
        **({"as_records": True} if segment.as_records else {}),
        **({"path_settings": segment.path_settings} if segment.path_settings else {}),
    }


def _segment(head: dict[str, Any], tasks: tuple[Task, ...]) -> Segment:
    before, after = (Watermark.from_json(head[name]) if head[name] else None for name in ("before", "after"))
    return Segment(
        number=int(head["number"]),
        stream=head["stream"],
        target_bytes=int(head["target_bytes"]),
        before=before,
        after=after,
        tasks=tasks,
        from_queue=bool(head["from_queue"]),
        settings=str(head["settings"]),
        paths=str(head.get("paths", "")),
        log=str(head.get("log", "")),
        table_version=str(head.get("table_version", "")),
        as_records=bool(head.get("as_records")),
        path_settings=tuple(head.get("path_settings", ())),
    )


def _again(value: Any) -> tuple[tuple[int, int], ...]:
    return tuple((int(place), int(count)) for place, count in value)


def _object(url: str, etag: str | None, size: int, modified: datetime | str) -> ObjectInfo:
    at = datetime.fromisoformat(modified) if isinstance(modified, str) else modified
    return ObjectInfo(Url.parse(url), int(size), etag, at)


# The log of a stream: read, identified, appended to and compacted.

READS_AT_ONCE = 16
NEWEST_FILES, NEWEST_BYTES = 32, 4 << 20
"""Of how many files of the log, and how many bytes of them, the newest objects are looked at."""
MAX_OPEN = 3
"""Checkpoints in memory."""
GUIDE = "docs/exactly-once.md#plan-logs-and-state"
_ANEW = f"Restore it, or begin a new log on purpose with --new-plan-log ({GUIDE})"
GAP_LISTINGS = 3
"""How often a log with a gap is listed again: a listing while another run compacts may show one."""


class PlanLog:
    """The log of one stream below a plan root; with `read_only`, nothing is appended: new segments are only returned.

    `url` is its folder; `head` identifies it: None if it is empty, or lacks it.
    """

    def __init__(self, storage: Storage, root: Url, stream: str, *, read_only: bool = False) -> None:
        self._storage, self._stream, self.is_read_only = storage, stream, read_only
        self.url = root.join("_plans", folder_name(stream))
        self._cuts = root.join("_plans", f"{folder_name(stream)}.cuts")
        self._checkpoints: OrderedDict[str, CheckpointReader] = OrderedDict()
        self.head: LogHead | None = None
        self.marks: list[Mark] = []
        self._cut_marks: list[int] = []
        self._files: list[LogFile] = []
        self._recent: dict[int, Segment] = {}
        self._range_starts: dict[str, RangeStarts] = {}
        self._refresh()
        self._new_from = self.next_number

    @property
    def first_number(self) -> int:
        """The number of its first segment, or of the one that will be."""
        return self.head.first if self.head else self._files[0].first if self._files else 0

    @property
    def begin(self) -> int:
        """The number of the first segment that is sent: those before it hold what was read before the log began."""
        return self.first_number + (self.head.known or 0 if self.head else 0)

    @property
    def knows_before(self) -> bool:
        """Whether it begins with the object versions that were read before."""
        return self.head is not None and self.head.known is not None

    @property
    def next_number(self) -> int:
        """The number of the next segment."""
        return self._files[-1].last + 1 if self._files else self.first_number

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written to it."""
        return self.head is None and not self._files

    @property
    def before(self) -> Watermark | None:
        """Where the stream was before the first segment; None: all that was ever sent is in the log."""
        if self.head is not None:
            return Watermark.from_json(self.head.before) if self.head.before else None
        return self.read(self.first_number).before if self._files else None

    def _identify(self, begin: Segment) -> str:
        """Return the id of the log, which gets one if it has none; `begin` is its first segment, if it is empty."""
        if self.head is None:
            mark, first = (self.before, self.first_number) if self._files else (begin.before, begin.number)
            ours = LogHead.new(self._stream, first, mark.to_json() if mark else None)
            self.head = write_head(self._storage, self.url, ours)
            if self.head.before != ours.before:
                raise self._superseded(self.url.join(head_name(ours.first)))
        return self.head.log

    @staticmethod
    def begin_anew(
        storage: Storage,
        root: Url,
        stream: str,
        before: Watermark | None,
        follows: Mapping[str, Any] | None,
        *,
        continues: ContinuedLog | None = None,
        known: Iterable[ObjectInfo] | None = None,
        like: Segment | None = None,
    ) -> Url:
        """Begin a new log on purpose, in place of what is there, which is not read any more; return its head's URL.

        The stream is at `before`; with the STATE `follows` a run begins at the first segment of the new log, which
        `continues` another one. The log begins with the `known` object versions, which were read before, in segments
        `like` this one.
        """
        folder = root.join("_plans", folder_name(stream))
        names = [o.url.name for o in storage.list(Url(folder.scheme, folder.bucket, folder.key + "/"))]
        used = [file.last for name in names if (file := parse_name(name, 0))]
        gone = [mark.gone for mark in marks_in(names)]
        first = max([*gone, *(n + 1 for n in (*used, *head_numbers(names)))], default=0)
        head = LogHead.new(stream, first, before.to_json() if before else None, follows=follows)
        like = replace(like or Segment(0, stream, 1, None, None, ()), before=before, after=before, log=head.log)
        count, files = known_files(like, first, known) if known is not None else (None, {})
        head = replace(head, known=count, continues=continues._asdict() if continues else None)
        if write_head(storage, folder, head) != head:
            raise SupersededError(f"{folder} was begun anew by another run at the same time; run again")
        for name, data in files.items():
            storage.put(folder.join(name), data)
        return folder.join(head_name(first))

    def segments(self, start: int, end: int, *, with_again: bool = False) -> Iterator[Segment]:
        """Yield the segments from number `start` on, before `end`, in order; one group of them in memory at a time.

        `with_again`: only those in which an object got a former content back.
        """
        while (file := next((f for f in self._files if f.last >= start), None)) is not None and start < end:
            try:
                for segment in self._segments_of(file, start, end, with_again=with_again):
                    yield segment
                    start = segment.number + 1
                start = file.last + 1
            except NotFoundError:  # another run has compacted it
                if not self._refresh():
                    raise

    def read(self, number: int) -> Segment:
        if (found := next(self.segments(number, number + 1), None)) is not None:
            return found
        raise NotFoundError(f"{self.url.join(entry_name(number))} is missing")

    def objects_of(self, urls: Collection[str], end: int | None = None) -> Iterator[ObjectInfo]:
        """Yield the objects of these URLs, in the order of the log, each as often as it is in it.

        Files that begin at the segment `end`, or behind it, are left out.
        """
        named, start = pa.array(sorted(urls), pa.string()), 0
        while (file := next((f for f in self._files if f.last >= start), None)) is not None:
            if end is not None and file.first >= end:
                return
            try:
                if file.is_checkpoint:
                    found = list(self._open(file).objects_of(named))
                else:
                    self._fetch(f.first for f in self._files if not f.is_checkpoint)
                    found = [o for o in self._recent[file.first].objects if str(o.url) in urls]
            except NotFoundError:  # another run has compacted it
                if not self._refresh():
                    raise
                continue
            yield from found
            start = file.last + 1

    def newest_times(self) -> pa.Table:
        """Return the URLs of the objects that the log got last, and when these were last changed; the newest first."""
        while True:
            sizes = itertools.accumulate(file.bytes for file in reversed(self._files))
            files = [f for f, size in zip(reversed(self._files), sizes, strict=True) if size <= NEWEST_BYTES]
            try:
                with ThreadPoolExecutor(READS_AT_ONCE) as pool:
                    tables = list(pool.map(self._times_in, files[:NEWEST_FILES]))
            except NotFoundError:  # another run has compacted it
                if not self._refresh():
                    raise
                continue
            return pa.concat_tables([_TIMES.empty_table(), *tables])

    def _times_in(self, file: LogFile) -> pa.Table:
        """Return the URLs and times of a file of the log, in reverse order."""
        if file.is_checkpoint:
            found = self._read_checkpoint(file).times()
        else:
            objects = list((self._recent.get(file.first) or self._entry(file.first)).objects)
            columns = [str(o.url) for o in objects], [o.modified for o in objects]
            found = pa.table([pa.array(c, f.type) for c, f in zip(columns, _TIMES, strict=True)], _TIMES)
        return found.take(pa.array(range(found.num_rows - 1, -1, -1), pa.int64()))

    def groups(self, oldest: datetime) -> list[SegmentRange]:
        """Return what is in the log, in groups of segments that follow each other.

        Files in which no object is of the time `oldest` or newer are left out.
        """
        while True:
            files = [f for f in self._files if f.newest is None or f.newest >= oldest]
            try:
                self._fetch(f.first for f in files if not f.is_checkpoint)
                found: list[SegmentRange] = []
                for file in files:
                    if file.is_checkpoint:
                        found += self._open(file).groups()
                        continue
                    times = [o.modified for o in self._recent[file.first].objects]
                    found.append(SegmentRange(file.first, file.first, min(times), max(times)))
                return found
            except NotFoundError:  # another run has compacted it
                if not self._refresh():
                    raise

    def append(self, segment: Segment) -> Segment:
        """Make a segment durable, under the number that it has; return it with the id of the log."""
        if self.is_read_only:
            return segment
        segment = self._with_ids(replace(segment, log=self._identify(segment)))
        data = entry_to_bytes(segment)
        file = LogFile(segment.number, segment.number, len(data), entry_name(segment.number))
        url = self.url.join(file.name)
        is_ours = self._storage.put(url, data, if_absent=True)
        self._files.append(file)
        self._recent[segment.number] = segment
        if is_ours:  # while this run slept, the number may have been taken and compacted, or another log begun
            self.head = None
            self._refresh()
        is_followed = self.head is not None and self.head.log == segment.log  # no other log was begun meanwhile
        is_there = is_ours and file in self._files
        if is_followed and not is_there:
            del self._recent[segment.number]
            is_there = self.read(segment.number) == segment
        if not (is_followed and is_there):
            if is_ours:
                self._storage.delete([url])
            raise self._superseded(url)
        self._compact()
        return segment

    def cuts(self, segment: Segment, task: Task) -> Cuts:
        """Return the cuts of a task of a segment."""
        name, is_marked = task_name(self._stream, task), segment.number <= max(self._cut_marks, default=-1)
        mark = None if is_marked else self.url.join(f"cuts-{segment.number:06d}.json")
        return Cuts(self._storage, self._cuts, name, mark, is_new=segment.number >= self._new_from)

    def check_cuts(self, start: int) -> None:
        """Raise IdentityError if objects of segments from a number on were cut, and no one knows any more where."""
        if start > max(self._cut_marks, default=-1) or any(
            _CUT.fullmatch(o.url.name) for o in self._storage.list(self._cuts._replace(key=f"{self._cuts.key}/"))
        ):
            return
        raise IdentityError(
            f"Stream {self._stream!r}: large objects were sent in parts, and the files below {self._cuts}, which say "
            "where they were cut, were removed; rows would be lost or sent twice, so nothing was read. Restore them; "
            "or begin a new plan log with --new-plan-log, and with an empty table"
        )

    def range_starts(self, task: Task) -> RangeStarts | None:
        """Return the record of where the ranges of the object of a task begin; None for tasks that are no range."""
        if task.range is None:
            return None
        name = f"{task_name(self._stream, replace(task, range=None))}-{task.range.count}-ranges.json"
        if name not in self._range_starts:
            self._range_starts[name] = RangeStarts(self._storage, self._cuts.join(name))
        return self._range_starts[name]

    def leave_out(self, segment: Segment, task: int, objects: Sequence[ObjectInfo]) -> None:
        """Make durable that STATE passes objects of a task which were not loaded, before it does."""
        data = json.dumps([str(o.url) for o in objects]).encode()
        name = f"left-{segment.log}-{segment.number:06d}-{task}-{hashlib.sha256(data).hexdigest()[:16]}.json"
        self._storage.put(self._cuts.join(name), data)

    def passed_objects(self, start: int, end: int) -> Iterator[tuple[int, ObjectInfo, str]]:
        """Yield the objects of segments, with the segment's number, and why one may not be loaded, or ""."""
        files: dict[int, list[Url]] = {}
        start, prefix = max(start, self.begin), self._cuts.join(f"left-{self.head.log if self.head else ''}-")
        for info in self._storage.list(prefix):
            files.setdefault(int(info.url.key[len(prefix.key) :].partition("-")[0]), []).append(info.url)
        for segment in self.segments(start, end):
            found = (json.loads(bytes(self._storage.get(url).data)) for url in files.get(segment.number, ()))
            left = {url for urls in found for url in urls}
            for info in (info for task in segment.tasks for info in task.ended_objects):
                yield segment.number, info, "not loaded" if str(info.url) in left else ""

    def check_gone(self, start: int, *, anew: bool = False) -> None:
        """Raise IdentityError if `after_load` may have removed objects of the segments from a number on.

        `anew`: also since the log was opened.
        """
        if anew:
            self._refresh()
        mark = max(self.marks, default=None)
        if mark is not None and start < mark.gone:
            raise IdentityError(
                f"Stream {self._stream!r}: this run begins at segment {start} of its plan log, and after_load may have "
                f"removed objects of those before {mark.gone}; a table would lack their rows. Give it the last STATE, "
                f"which {self.url.join(mark.name)} holds too; or begin a new plan log with --new-plan-log, and with an "
                "empty table, for the objects that are still there (docs/clean-up.md#sources)"
            )

    def _segments_of(
        self, file: LogFile, start: int = 0, end: int = sys.maxsize, *, with_again: bool = False
    ) -> Iterator[Segment]:
        if not file.is_checkpoint:
            if file.first < end:
                self._fetch([file.first])
                found = self._recent[file.first]
                yield from [found] if not with_again or found.has_again else []
            return
        checkpoint = self._open(file)
        for n, group in enumerate(checkpoint.groups()):
            if group.last >= start and group.first < end and (not with_again or checkpoint.has_again(n)):
                url = self.url.join(file.name)
                some = (s for s in checkpoint.segments(n) if start <= s.number < end)
                yield from (self._checked(s, url) for s in some if not with_again or s.has_again)

    def _fetch(self, numbers: Iterable[int]) -> None:
        """Read entries at once; they stay in memory until they are compacted."""
        missing_numbers = [n for n in numbers if n not in self._recent]
        if not missing_numbers:
            return
        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            self._recent.update(zip(missing_numbers, pool.map(self._entry, missing_numbers), strict=True))

    def _open(self, file: LogFile) -> CheckpointReader:
        found = self._checkpoints.pop(file.name, None) or self._read_checkpoint(file)
        self._checkpoints[file.name] = found
        if len(self._checkpoints) > MAX_OPEN:
            self._checkpoints.popitem(last=False)
        return found

    def _read_checkpoint(self, file: LogFile) -> CheckpointReader:
        url = self.url.join(file.name)
        try:
            return CheckpointReader(bytes(self._storage.get(url).data))
        except (pa.ArrowException, OSError):
            raise self._damaged(url) from None

    def _entry(self, number: int) -> Segment:
        url = self.url.join(entry_name(number))
        try:
            return self._checked(entry_from_json(json.loads(bytes(self._storage.get(url).data))), url)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._damaged(url) from None

    def _checked(self, segment: Segment, url: Url) -> Segment:
        """Return a segment, with an error if it is of another stream or log."""
        if segment.stream != self._stream:
            raise foreign_entry(url, segment.stream, self._stream)
        if segment.log and (self.head is None or segment.log != self.head.log):
            if self.head is None:
                raise self._without_beginning()
            raise DataError("it is of another plan log than the files beside it", url=url, hint=_ANEW)
        return self._with_ids(segment)

    def _with_ids(self, segment: Segment) -> Segment:
        """Return a segment whose tasks have the id of the log, if that begins at a STATE."""
        if not segment.log or self.head is None or self.head.before is None:
            return segment
        return replace(segment, tasks=tuple(replace(task, log=segment.log) for task in segment.tasks))

    def _without_beginning(self) -> DataError:
        first = self.head.first if self.head else self._files[0].first
        url = self.url.join(entry_name(first) if self.head else head_name(0))
        return DataError("the beginning of the plan log is gone", url=url, hint=_ANEW)

    def _refresh(self, attempts: int = GAP_LISTINGS) -> bool:
        """List the log again; whether it has changed."""
        prefix = Url(self.url.scheme, self.url.bucket, self.url.key + "/")
        names = {o.url.name: o.size for o in self._storage.list(prefix)}
        self.marks = marks_in(names)
        self._cut_marks = sorted(int(found[1]) for found in map(_CUT_MARK.fullmatch, names) if found)
        heads = head_numbers(names)
        if not heads or self.head is None or self.head.first != heads[-1]:
            self.head = read_head(self._storage, self.url, heads[-1], self._stream) if heads else None
        start = self.head.first if self.head else 0
        listed = [file for name, size in names.items() if (file := parse_name(name, size)) and file.first >= start]
        found = newest_cover(listed)
        gap = next((n for n in range(len(found) - 1, 0, -1) if found[n - 1].last + 1 != found[n].first), 0)
        is_whole = found[0].first == start and found[-1].last + 1 >= self.begin if found else self.begin == start
        is_begun = self.head is None or is_whole
        if (gap or not is_begun) and attempts > 1:
            return self._refresh(attempts - 1)
        if gap:
            url = self.url.join(entry_name(found[gap - 1].last + 1))
            raise DataError("the plan log lacks this segment", url=url, hint=_ANEW)
        before, self._files = self._files, found
        if not is_begun:
            raise self._without_beginning()
        return before != self._files

    def _compact(self) -> None:
        """Write checkpoints that are due, and remove what they replace."""
        while files := compactions(self._files):
            try:
                data, newest = checkpoint_to_bytes(
                    self._open(file).tables() if file.is_checkpoint else [to_table(self._segments_of(file))]
                    for file in files
                )
            except NotFoundError:  # another run has done it
                self._refresh()
                return
            name = checkpoint_name(files[0].first, files[-1].last, newest)
            self._storage.put(self.url.join(name), data)
            made = LogFile(files[0].first, files[-1].last, len(data), name, newest)
            self._files = newest_cover([*self._files, made])
            self._recent = {n: s for n, s in self._recent.items() if n > made.last}
            with suppress(NotFoundError):
                self._storage.delete([self.url.join(file.name) for file in files])
                old_marks, self._cut_marks = self._cut_marks[:-1], self._cut_marks[-1:]
                self._storage.delete([self.url.join(f"cuts-{number:06d}.json") for number in old_marks])

    def _superseded(self, url: Url) -> SupersededError:
        msg = f"{url} was written by another run of the stream meanwhile; nothing is lost: run again to follow it"
        return SupersededError(msg)

    def _damaged(self, url: Url) -> DataError:
        msg = "it is no part of a plan log that this version of the tap can follow"
        return DataError(msg, url=url, hint="Restore it, or use the version of the tap that wrote it")


def task_name(stream: str, task: Task) -> str:
    """Identify a task by its input: the stream, its objects in their versions, the range of one, and its `log`."""
    part = astuple(task.range) if task.range else ()
    objects = [[str(o.url), o.etag or [o.size, o.modified.isoformat()], *part] for o in task.objects]
    some = (task.again, task.log, task.deletes)
    return identity(stream, objects, *(part for part in some if part))


def identity(*parts: Any) -> str:
    """Return a hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
