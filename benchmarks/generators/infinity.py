"""The stream of tap-infinity: 150 columns of integers, floats, random texts and times, all of them distinct values.

Column 0 is the key `id` and column 1 the replication key `rep_key`, both the number of the row; column n is an integer
below 2e9, a float below 1, a version 4 UUID or the time, by n modulo 4. Three forms of the same rows: Parquet batch
files, gzip JSONL batch files as the tap writes them (times with a space and without zone), and RECORD messages.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.generators.randoms import Randoms

STREAM = "infinity_one"
ROWS = 100_000
COLUMNS = 150
BATCH_ROWS = 10_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
ROW_MICROSECONDS = 1_201
"""The time that tap-infinity needs for a row, about: the step between the times of rows."""


def column_name(number: int) -> str:
    """The name of a column, from its number."""
    if number < 2:
        return ("id", "rep_key")[number]
    return f"Col_{number}_{('int', 'float', 'string', 'datetime')[number % 4]}"


def rows(first: int, count: int, seed: int, *, columns: int = COLUMNS) -> pa.Table:
    """Rows `first` to `first + count`; times are in UTC."""
    at = Randoms(count, seed + first)
    number = pa.array(range(first, first + count), pa.int64())
    made = {}
    for column in range(columns):
        name = column_name(column)
        made[name] = number if column < 2 else _column(at, name, column, number)
    return pa.table(made)


def batches(total: int, seed: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """All rows, batch by batch."""
    for first in range(0, total, batch_rows):
        yield rows(first, min(batch_rows, total - first), seed)


def schema_message() -> dict[str, Any]:
    """The SCHEMA message, as tap-infinity sends it."""
    types: dict[str, dict[str, Any]] = {
        "int": {"type": ["integer", "null"]},
        "float": {"type": ["number", "null"]},
        "string": {"type": ["string", "null"]},
        "datetime": {"type": ["string", "null"], "format": "date-time"},
    }
    names = [column_name(number) for number in range(COLUMNS)]
    properties = {name: types[name.rpartition("_")[2] if name.startswith("Col") else "int"] for name in names}
    return {
        "type": "SCHEMA",
        "stream": STREAM,
        "schema": {"type": "object", "properties": properties},
        "key_properties": ["id"],
        "bookmark_properties": ["rep_key"],
    }


def write_parquet(folder: Path, total: int, *, seed: int) -> None:
    """One zstd Parquet batch file for each 10,000 rows."""
    folder.mkdir()
    for number, table in enumerate(batches(total, seed)):
        pq.write_table(table, folder / f"{number:03d}.parquet", compression="zstd", compression_level=1)


def write_jsonl(folder: Path, total: int, *, seed: int, batch_rows: int = BATCH_ROWS) -> None:
    """One gzip JSONL batch file for each 10,000 rows, or `batch_rows`."""
    folder.mkdir()
    for number, table in enumerate(batches(total, seed, batch_rows=batch_rows)):
        naive = pl.DataFrame(table).with_columns(pl.selectors.datetime().dt.replace_time_zone(None))
        (folder / f"{number:03d}.jsonl.gz").write_bytes(gzip.compress(naive.write_ndjson().encode(), 6, mtime=0))


def write_records(path: Path, total: int, *, seed: int) -> None:
    """A file of Singer messages: SCHEMA, a RECORD for each row, STATE after each 10,000 of them."""
    with path.open("wb") as file:
        file.write(json.dumps(schema_message()).encode() + b"\n")
        for table in batches(total, seed):
            frame = pl.DataFrame(table)
            frame.select(
                pl.lit("RECORD").alias("type"), pl.lit(STREAM).alias("stream"), pl.struct(pl.all()).alias("record")
            ).write_ndjson(file)
            file.write(json.dumps(_state(table["rep_key"][-1].as_py())).encode() + b"\n")


def batch_messages(urls: Sequence[str], format: str, compression: str) -> str:  # noqa: A002 - the word of the message
    """Singer messages for batch files that exist: SCHEMA, and BATCH and STATE for each file."""
    lines = [schema_message()]
    for number, url in enumerate(urls, 1):
        encoding = {"format": format, "compression": compression}
        lines.append({"type": "BATCH", "stream": STREAM, "encoding": encoding, "manifest": [url]})
        lines.append(_state(number * BATCH_ROWS - 1))
    return "".join(json.dumps(line) + "\n" for line in lines)


def _state(rep_key: int) -> dict[str, Any]:
    bookmark = {"replication_key": "rep_key", "replication_key_value": rep_key}
    return {"type": "STATE", "value": {"bookmarks": {STREAM: bookmark}}}


def _column(at: Randoms, name: str, column: int, number: pa.Array) -> pa.Array:
    kind = column % 4
    if kind == 0:
        return at.integers(name, 2_000_000_000)
    if kind == 1:
        return at.uniform(name)
    if kind == 2:
        return at.uuids(name)
    time = pc.add(pc.add(pc.multiply(number, ROW_MICROSECONDS), column * 8), pa.scalar(START, pa.int64()))
    return pc.cast(time, pa.timestamp("us", "UTC"))
