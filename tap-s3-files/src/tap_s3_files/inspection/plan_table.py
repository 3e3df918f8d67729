"""What a run would read, as a table: `tap-s3-files --config C --plan`. Lists objects, reads none, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from singer_arrow.formats import detect_format
from tap_s3_files.inspection import text_table
from tap_s3_files.inspection.text_table import columns_in_words
from tap_s3_files.plan.model import PendingTask

_HEADS = ("stream", "objects", "bytes", "tasks", "batch files (about)")
_MORE_HEADS = ("format", "columns", "oldest", "newest")
_NUMBERS = range(1, len(_HEADS))
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Row:
    """What a run would read of a stream; the number of batch files is estimated from object sizes.

    `formats` are by the names of objects; `columns` is None if no catalog has them, as they then need samples; `oldest`
    and `newest` are times of last change.
    """

    stream: str
    objects: int = 0
    bytes: int = 0
    tasks: int = 0
    batch_files: int = 0
    formats: frozenset[str] = frozenset()
    columns: pa.Schema | None = None
    oldest: datetime | None = None
    newest: datetime | None = None

    @classmethod
    def of(
        cls,
        stream: str,
        tasks: Iterable[PendingTask],
        *,
        batches: bool,
        file_format: str = "auto",
        columns: pa.Schema | None = None,
    ) -> Row:
        """Count the tasks of a stream's plan; `batches`: batch files would be written."""
        objects = size = count = files = 0
        keys: dict[str, str] = {}  # one for each end of five characters: there may be millions of objects
        times = set[datetime]()
        for pending in tasks:
            task = pending.task
            if not task.objects:
                continue
            objects, size, count = objects + len(task.ended_objects), size + task.bytes, count + 1
            files += max(1, round(task.bytes / pending.segment.target_bytes)) if batches else 0
            keys |= {o.url.key[-5:]: o.url.key for o in task.objects}
            first, last = task.objects[0].modified, task.objects[-1].modified  # they are in order
            times = {min((*times, first)), max((*times, last))}
        formats = {detect_format(key) or _UNKNOWN if file_format == "auto" else file_format for key in keys.values()}
        oldest, newest = min(times, default=None), max(times, default=None)
        return cls(stream, objects, size, count, files, frozenset(formats), columns, oldest, newest)


def plan_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table, with a sum where there are several streams; then the columns that are known."""
    listed = list(rows)
    known = [(row.stream, row.columns) for row in listed if row.columns is not None]
    if len(listed) > 1:
        listed.append(_sum(listed))
    yield from text_table.lines([(*_HEADS, *_MORE_HEADS), *map(_cells, listed)], _NUMBERS)
    yield from (f"{stream}: {columns_in_words(columns)}" for stream, columns in known)


def _sum(rows: list[Row]) -> Row:
    counts = {name: sum(getattr(r, name) for r in rows) for name in ("objects", "bytes", "tasks", "batch_files")}
    oldest, newest = (r.oldest for r in rows if r.oldest), (r.newest for r in rows if r.newest)
    return Row("all", **counts, oldest=min(oldest, default=None), newest=max(newest, default=None))


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (f"{n:,}" for n in (row.objects, row.bytes, row.tasks, row.batch_files))
    columns = "" if row.stream == "all" else _UNKNOWN if row.columns is None else str(len(row.columns))
    return (row.stream, *numbers, ", ".join(sorted(row.formats)), columns, _time(row.oldest), _time(row.newest))


def _time(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at else ""
