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
from singer_arrow.storage.object_info import ObjectInfo
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
    yield _title(stream.name, len(listing), rows.num_rows, used)
    if shown.num_columns:
        limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        numbers = {n for n, f in enumerate(shown.schema) if _is_number(f.type)}
        yield from text_table.lines(_cells(shown), numbers, limit=limit)
    if shown.num_columns < rows.num_columns:
        yield f"(and {rows.num_columns - shown.num_columns} columns about the object: _sdc_source_...)"


def _title(stream: str, objects: int, rows: int, used: list[ObjectInfo]) -> str:
    source = f", of {used[0].url}{f' and {len(used) - 1} more' if len(used) > 1 else ''}" if used else ""
    return one_line(f"{stream}: {counted(objects, 'object')}, {counted(rows, 'row')} shown{source}")


def _cells(rows: pa.Table) -> list[list[str]]:
    """Return the names, the types and the rows of a table as text."""
    columns = [
        [field.name, setting_type(field), *map(_cut, _texts(column))]
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
    return ["null" if v is None else v if isinstance(v, str) else json.dumps(v, default=_plain) for v in values]


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _is_number(t: pa.DataType) -> bool:
    return bool(pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t))
