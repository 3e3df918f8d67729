"""`--plan`, `--preview` and shards as tables of text."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from unicodedata import east_asian_width

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import one_line
from singer_arrow.formats import detect_format
from singer_arrow.naming import counted
from singer_arrow.reading.parallel import Budget
from singer_arrow.schema.arrow_schema import setting_type
from singer_arrow.storage.urls import ObjectInfo
from tap_s3_files.discover import METADATA, first_row_in_words
from tap_s3_files.plan_model import PendingTask, Task
from tap_s3_files.progress import Progress
from tap_s3_files.read import read
from tap_s3_files.run import StreamJob, TapRun, TaskContext
from tap_s3_files.settings import StreamSettings
from tap_s3_files.shards import shard_of
from tap_s3_files.table_plan import with_table_parts

# The first rows of some objects; requests little more than holds them.

_AHEAD = 1 << 20  # bytes that are requested ahead of what is parsed, about


def first_rows(run: TapRun, job: StreamJob, tasks: Iterable[Task], count: int) -> tuple[pa.Table, list[ObjectInfo]]:
    """Return up to `count` rows of some tasks of one object, in order, with the objects that gave them."""
    context = TaskContext(job, run.storage, Budget(_AHEAD), Progress(job.stream))
    batches, used, left = list[pa.RecordBatch](), list[ObjectInfo](), count
    for task in tasks:
        (info,) = task.objects
        with closing(read(context, task)) as pieces:
            for piece in pieces:
                if piece.batch is not None and piece.batch.num_rows:
                    batches.append(piece.batch.slice(0, left))
                    left -= batches[-1].num_rows
                    used = used if info in used else [*used, info]
                if left <= 0:
                    return pa.Table.from_batches(batches, job.schema), used
    return pa.Table.from_batches(batches, job.schema), used


# Cells in aligned columns, and lists of columns. Pure.

_GAP = "  "
_MOST_COLUMNS = 30


def columns_in_words(fields: Iterable[pa.Field]) -> str:
    """Return the names of columns with their types, as the setting `schema` has them; shortened if there are many."""
    names = [f"{f.name} {setting_type(f)}" for f in fields]
    more = [f"and {len(names) - _MOST_COLUMNS} more"] if len(names) > _MOST_COLUMNS else []
    return one_line(", ".join([*names[:_MOST_COLUMNS], *more]))


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), *, limit: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, some columns of which are aligned to the right.

    `limit` is the width of a line: columns that exceed it follow below, after an empty line.
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    first = 0
    while first < len(widths):
        end, taken = first + 1, widths[first]
        while end < len(widths) and (limit is None or taken + len(_GAP) + widths[end] <= limit):
            taken += len(_GAP) + widths[end]
            end += 1
        if first:
            yield ""
        for row in rows:
            spaces = {n: " " * (widths[n] - width(row[n])) for n in range(first, end)}
            cells = (space + row[n] if n in right else row[n] + space for n, space in spaces.items())
            yield _GAP.join(cells).rstrip()
        first = end


# What a run would read, as a table: `tap-s3-files --config C --plan`. Lists objects, reads none, changes nothing.

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
        counts = {name: sum(getattr(r, name) for r in listed) for name in ("objects", "bytes", "tasks", "batch_files")}
        oldest, newest = (r.oldest for r in listed if r.oldest), (r.newest for r in listed if r.newest)
        listed.append(Row("all", **counts, oldest=min(oldest, default=None), newest=max(newest, default=None)))
    yield from lines([(*_HEADS, *_MORE_HEADS), *map(_cells, listed)], _NUMBERS)
    yield from (f"{stream}: {columns_in_words(columns)}" for stream, columns in known)


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (f"{n:,}" for n in (row.objects, row.bytes, row.tasks, row.batch_files))
    columns = "" if row.stream == "all" else _UNKNOWN if row.columns is None else str(len(row.columns))
    return (row.stream, *numbers, ", ".join(sorted(row.formats)), columns, _time(row.oldest), _time(row.newest))


def _time(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at else ""


# The first rows of streams and their types, as tables: `tap-s3-files --preview`.

OBJECTS = 5
"""The newest objects of a stream, of which the first ones that hold enough rows are read."""
_WIDEST = 40


def preview_lines(run: TapRun, stream: StreamSettings, job: StreamJob, count: int) -> Iterator[str]:
    """Yield the lines that show a stream: its newest objects, its columns with their types, and `count` rows."""
    if stream.is_table:
        table = run.table(stream)
        files = list(table.files(None, table.version, ()))
        tasks, objects = [with_table_parts(Task((f.info,)), [f]) for f in files[: -OBJECTS - 1 : -1]], len(files)
    else:
        listing = run.listing(stream)
        newest = listing.newest(OBJECTS, *run.settings.window(stream))
        tasks, objects = [Task((info,)) for info in newest], len(listing)
    rows, used = first_rows(run, job, tasks, count)
    shown = rows.select([name for name in rows.column_names if name not in METADATA.names])
    source = f", of {used[0].url}{f' and {len(used) - 1} more' if len(used) > 1 else ''}" if used else ""
    counts = f"{counted(objects, 'object')}, {counted(rows.num_rows, 'row')} shown"
    yield one_line(f"{stream.name}: {counts}{source}")
    if stream.name in run.first_rows:
        words = first_row_in_words(run.first_rows[stream.name])
        yield f"{words[:1].upper()}{words[1:]}"
    if shown.num_columns:
        limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        kinds = (pt.is_integer, pt.is_floating, pt.is_decimal)
        numbers = {n for n, f in enumerate(shown.schema) if any(is_of(f.type) for is_of in kinds)}
        yield from lines(_sample_cells(shown), numbers, limit=limit)
    if shown.num_columns < rows.num_columns:
        yield f"(and {rows.num_columns - shown.num_columns} columns about the object: _sdc_source_...)"


def _sample_cells(rows: pa.Table) -> list[list[str]]:
    """Return the names, the types and the rows of a table as text."""
    columns = [
        [field.name, setting_type(field), *(t if len(t) <= _WIDEST else f"{t[: _WIDEST - 1]}…" for t in _texts(column))]
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    names, types, *values = ([one_line(column[n]) for column in columns] for n in range(rows.num_rows + 2))
    return [names, types, ["-" * max(map(width, pair)) for pair in zip(names, types, strict=True)], *values]


def _texts(column: pa.ChunkedArray) -> list[str]:
    t = column.type
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_nested(t) or pt.is_binary(t) or pt.is_large_binary(t):
        values = column.to_pylist()
    else:
        values = column.cast(pa.string()).to_pylist()
    texts = json.JSONEncoder(default=lambda v: v.hex() if isinstance(v, bytes) else str(v))
    return ["null" if v is None else v if isinstance(v, str) else texts.encode(v) for v in values]


# How even the shards of a plan are: `tap-s3-files --plan --shard-count 8`. Pure.

_SHARD_HEADS = ("stream", "shard", "objects", "bytes", "tasks")
_SHARD_NUMBERS = range(1, len(_SHARD_HEADS))


class ShardShares:
    """What each of `count` shards of a stream would read."""

    def __init__(self, stream: str, count: int) -> None:
        self.stream, self.count = stream, count
        self._shares = [(0, 0, 0)] * count  # objects, bytes and tasks

    def counted(self, tasks: Iterable[PendingTask]) -> Iterator[PendingTask]:
        """Yield the tasks, each counted for its shard."""
        for pending in tasks:
            task = pending.task
            if task.objects:
                index = shard_of(pending.segment.number, pending.number, self.count)
                objects, size, count = self._shares[index]
                self._shares[index] = objects + len(task.ended_objects), size + task.bytes, count + 1
            yield pending

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield a line of the table for each shard."""
        for index, share in enumerate(self._shares):
            yield (self.stream, f"{index}/{self.count}", *(f"{n:,}" for n in share))

    def summary(self) -> str:
        """Return how much more the largest shard reads than the mean."""
        sizes = [size for _, size, _ in self._shares]
        if not any(sizes):
            return f"{self.stream}: there is nothing to read"
        ratio = max(sizes) * self.count / sum(sizes)
        return f"{self.stream}: the largest shard reads {ratio:.2f} times the bytes of the mean"


def shard_lines(streams: Iterable[ShardShares]) -> Iterator[str]:
    """Yield the lines of the table of all streams, and for each how even its shards are."""
    listed = list(streams)
    yield from lines([_SHARD_HEADS, *(cells for shares in listed for cells in shares.cells())], _SHARD_NUMBERS)
    yield from (shares.summary() for shares in listed)


# What a target needs to load what a plan reads: `tap-s3-files --plan --target bigquery`. Pure.

MAX_BATCH_BYTES = 512 << 20
"""Default of the targets' setting `max_batch_mb`: a load takes no more."""
DAILY_LOADS = 1500
"""Load jobs that BigQuery allows per table and day."""


_TARGETS: dict[str, tuple[str, int | None, str]] = {
    "bigquery": (
        "load jobs",
        DAILY_LOADS,
        "Load jobs are free; append-only bills about 20 MB of queries of the ledger for each, upsert a MERGE.",
    ),
    "redshift": ("COPYs", None, "A COPY is one transaction and costs time of the cluster alone."),
}
"""What a load is called, how many there may be a day, and what one costs."""


def cost_lines(target: str, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines that show what a target needs for the default `max_batch_mb`."""
    load, quota, note = _TARGETS[target]
    cells = [("table", f"{load} (at least)", "bytes", *((f"of {quota:,} a day",) if quota else ()))]
    for row in rows:
        loads = -(-row.bytes // MAX_BATCH_BYTES)
        share = (f"{loads / quota:.1%}",) if quota else ()
        cells.append((row.stream, f"{loads:,}", f"{row.bytes:,}", *share))
    yield f"target-{target}:"
    yield from lines(cells, range(1, len(cells[0])))
    yield f"A load ends after max_batch_age_seconds (60) too, so a run of ten minutes has up to ten. {note}"
