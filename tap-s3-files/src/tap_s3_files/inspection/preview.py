"""The first rows of streams and their types, as tables: `tap-s3-files --preview`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import one_line
from singer_arrow.naming import counted
from singer_arrow.schema.type_names import setting_type
from tap_s3_files.catalog import METADATA
from tap_s3_files.inspection import text_table
from tap_s3_files.inspection.sample_rows import first_rows
from tap_s3_files.run import TapRun
from tap_s3_files.settings import StreamSettings
from tap_s3_files.stream_job import StreamJob

OBJECTS = 5
"""The newest objects of a stream, of which the first ones that hold enough rows are read."""
_WIDEST = 40


def preview_lines(run: TapRun, stream: StreamSettings, job: StreamJob, count: int) -> Iterator[str]:
    """Yield the lines that show a stream: its newest objects, its columns with their types, and `count` rows."""
    listing = run.listing(stream)
    newest = listing.newest(OBJECTS, *run.settings.window(stream))
    rows, used = first_rows(run, job, newest, count)
    shown = rows.select([name for name in rows.column_names if name not in METADATA.names])
    source = f", of {used[0].url}{f' and {len(used) - 1} more' if len(used) > 1 else ''}" if used else ""
    counts = f"{counted(len(listing), 'object')}, {counted(rows.num_rows, 'row')} shown"
    yield one_line(f"{stream.name}: {counts}{source}")
    if shown.num_columns:
        limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        kinds = (pt.is_integer, pt.is_floating, pt.is_decimal)
        numbers = {n for n, f in enumerate(shown.schema) if any(is_of(f.type) for is_of in kinds)}
        yield from text_table.lines(_cells(shown), numbers, limit=limit)
    if shown.num_columns < rows.num_columns:
        yield f"(and {rows.num_columns - shown.num_columns} columns about the object: _sdc_source_...)"


def _cells(rows: pa.Table) -> list[list[str]]:
    """Return the names, the types and the rows of a table as text."""
    columns = [
        [field.name, setting_type(field), *(t if len(t) <= _WIDEST else f"{t[: _WIDEST - 1]}…" for t in _texts(column))]
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    names, types, *values = ([one_line(column[n]) for column in columns] for n in range(rows.num_rows + 2))
    return [names, types, ["-" * max(map(text_table.width, pair)) for pair in zip(names, types, strict=True)], *values]


def _texts(column: pa.ChunkedArray) -> list[str]:
    t = column.type
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_nested(t) or pt.is_binary(t) or pt.is_large_binary(t):
        values = column.to_pylist()
    else:
        values = column.cast(pa.string()).to_pylist()
    texts = json.JSONEncoder(default=lambda v: v.hex() if isinstance(v, bytes) else str(v))
    return ["null" if v is None else v if isinstance(v, str) else texts.encode(v) for v in values]
