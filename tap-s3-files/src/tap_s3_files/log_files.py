"""The files of a plan log, as bytes. Pure.

000017.json                                        segment 17
checkpoint-000000-000015-20260501T101500000000.parquet   segments 0 to 15; the newest object in them is of that time
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pyarrow as pa

from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.plan_model import ObjectRange, Segment, Task
from tap_s3_files.settings import Watermark

VERSION = 2
ROWS_AT_ONCE = 8192
"""Objects of a row group, about: segments are not divided."""
_ENTRY = re.compile(r"(\d{6,})\.json")
_CHECKPOINT = re.compile(r"checkpoint-(\d{6,})-(\d{6,})-(\d{8}T\d{12})\.parquet")
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
    ]
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log: its segments, its name, and the time of the newest object if the name contains it."""

    first: int
    last: int
    name: str
    bytes: int
    newest: datetime | None = None

    @property
    def is_checkpoint(self) -> bool:
        """Whether it holds segments that were entries of their own before."""
        return self.newest is not None


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
        return LogFile(int(found[1]), int(found[1]), name, size)
    if found := _CHECKPOINT.fullmatch(name):
        newest = datetime.strptime(found[3], _TIME).replace(tzinfo=UTC)
        return LogFile(int(found[1]), int(found[2]), name, size, newest)
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
            (segment.number, head, number, str(o.url), o.etag, o.size, o.modified)
            for number, task in enumerate(segment.tasks)
            for o in task.objects
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
        "use_dictionary": ["number", "segment"],
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


class Checkpoint:
    """A checkpoint in memory, whose row groups are decoded one at a time.

    Data that is no Parquet file raises pyarrow.ArrowException.
    """

    def __init__(self, data: bytes) -> None:
        import pyarrow.parquet as pq

        self._file = pq.ParquetFile(pa.BufferReader(data))

    def __len__(self) -> int:
        return int(self._file.num_row_groups)

    def groups(self) -> list[SegmentRange]:
        """Return the segments of each row group."""
        return [SegmentRange(*self._range(n, "number"), *self._range(n, "modified")) for n in range(len(self))]

    def _range(self, group: int, column: str) -> tuple[Any, Any]:
        found = self._file.metadata.row_group(group).column(_COLUMNS.get_field_index(column)).statistics
        return found.min, found.max

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each row group."""
        return (self._file.read_row_group(n).select(_COLUMNS.names) for n in range(len(self)))

    def objects_of(self, urls: pa.Array) -> Iterator[ObjectInfo]:
        """Yield the objects of these URLs, in the order of the log, each as often as it is in it."""
        import pyarrow.compute as pc

        for group in range(len(self)):
            found = pc.is_in(self._file.read_row_group(group, ["url"])["url"], urls)
            if pc.any(found).as_py():
                rows = self._file.read_row_group(group, _COLUMNS.names[3:]).filter(found)
                yield from (_object(*row) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True))

    def segments(self, group: int) -> Iterator[Segment]:
        """Yield the segments of a row group, in order."""
        columns = [c.to_pylist() for c in self._file.read_row_group(group).select(_COLUMNS.names).columns]
        for head, rows in groupby(zip(*columns, strict=True), key=lambda row: row[1]):
            value = json.loads(head)
            ranges = {
                int(first) + number: ObjectRange(number, count)
                for first, count in value.get("ranges", {}).items()
                for number in range(count)
            }
            again = value.get("again", {})
            tasks = tuple(
                Task(tuple(_object(*row[3:]) for row in some), ranges.get(number), _again(again.get(str(number), ())))
                for number, some in groupby(rows, key=lambda row: row[2])
            )
            yield _segment(value, tasks)


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
    )


def _again(value: Any) -> tuple[tuple[int, int], ...]:
    return tuple((int(place), int(count)) for place, count in value)


def _object(url: str, etag: str | None, size: int, modified: datetime | str) -> ObjectInfo:
    at = datetime.fromisoformat(modified) if isinstance(modified, str) else modified
    return ObjectInfo(Url.parse(url), int(size), etag, at)
