"""Configuration of the public targets, and how to read the stream `things` from their output."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import psycopg
import pyarrow.parquet as pq
from benchmarks.peers import Peer
from psycopg.rows import dict_row

from interoperation.taps import ARROW, JSONL, PARQUET, RECORD
from interoperation.things import THINGS, Row
from local_cloud.s3 import setup

Config = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Locations that a target writes to.

    Attributes:
        folder: An empty folder.
        schema: The PostgreSQL schema of this run.
        postgres: The folder with PostgreSQL's socket.
        s3: The S3 endpoint.
        bucket: An empty bucket.
        bin: The executables of the target's environment.
    """

    folder: Path
    schema: str
    postgres: str
    s3: str
    bucket: str
    bin: Path


def as_is(row: Row) -> Row:
    """Return the row itself."""
    return row


def as_float(row: Row) -> Row:
    """Return the row with its decimal as a float."""
    return row | {"amount": float(row["amount"])}


def _escaped(row: Row) -> Row:
    return as_float(row) | {"note": row["note"] and row["note"].replace("\n", "\\n")}


def _seconds(row: Row) -> Row:
    return as_float(row) | {"at": row["at"].replace(microsecond=0)}


@dataclass(frozen=True)
class Target:
    """A public target.

    Attributes:
        peer: The package to install.
        program: Its executable.
        config: Its settings.
        read: Reads the rows that it wrote.
        kinds: The kinds of messages that it accepts.
        keeps: Converts a row of the source to what the target stores.
        note: How it stores some types.
        script: A Python file that the program runs, for a target whose warehouse is not available here.
    """

    peer: Peer
    program: str
    config: Callable[[Place], Config]
    read: Callable[[Place], Iterable[Row]]
    kinds: tuple[str, ...] = (RECORD,)
    keeps: Callable[[Row], Row] = as_float
    note: str = ""
    script: Path | None = None

    def expected(self) -> list[Row]:
        """Return the rows that the target must have written."""
        return [self.keeps(row) for row in THINGS]

    def found(self, place: Place) -> list[Row]:
        """Return the rows that the target wrote, with text values parsed to their types."""
        return [_parsed(row) for row in self.read(place)]


def _day(text: str) -> date:
    return datetime.fromisoformat(text).date()


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    **{"id": int, "big": int, "amount": Decimal, "score": float},
    **{"good": lambda text: text.lower() == "true", "day": _day, "at": datetime.fromisoformat},
    "note": lambda text: text or None,
}


def _parsed(row: Row) -> Row:
    seen = {n: _PARSERS[n](v) if isinstance(v, str) and n in _PARSERS else v for n, v in row.items()}
    return seen | {"good": bool(seen["good"])} if seen.get("good") in (0, 1) else seen


def _lines(data: bytes) -> list[Row]:
    return [json.loads(line, parse_float=Decimal) for line in data.splitlines()]


def _jsonl(place: Place) -> list[Row]:
    (path,) = place.folder.glob("*.jsonl")
    return _lines(path.read_bytes())


def _csv(place: Place) -> list[Row]:
    (path,) = place.folder.glob("*.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _json_files(place: Place) -> list[Row]:
    return [json.loads(path.read_text())["record"] for path in place.folder.rglob("*.json")]


def _avro(place: Place) -> list[Row]:
    (path,) = place.folder.glob("*.avro")
    with path.open("rb") as file:
        return [dict(row) for row in fastavro.reader(file)]  # type: ignore[arg-type]


def _singer(place: Place) -> list[Row]:
    messages = [m for path in place.folder.rglob("*.singer.gz") for m in _lines(gzip.decompress(path.read_bytes()))]
    return [message["record"] for message in messages if message["type"] == "RECORD"]


def _sqlite(place: Place) -> list[Row]:
    with closing(sqlite3.connect(place.folder / "loaded.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM things")]


_READ_DUCKDB = """
import duckdb, json, sys
found = duckdb.connect(sys.argv[1]).execute("SELECT * FROM main.things")
names = [column[0] for column in found.description]
print(json.dumps([dict(zip(names, row)) for row in found.fetchall()], default=str))
"""


def _duckdb(place: Place) -> list[Row]:
    # depends on the version that wrote the file
    command = [str(place.bin / "python"), "-c", _READ_DUCKDB, str(place.folder / "loaded.db")]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def _postgres(place: Place) -> list[Row]:
    name = f"host={place.postgres} port=5432 user=rdsdb dbname=loaded"
    with psycopg.connect(name, row_factory=dict_row) as connection:
        return connection.execute(f'SELECT * FROM "{place.schema}".things').fetchall()  # type: ignore[arg-type]


def _s3(place: Place) -> list[Row]:
    client = setup.client("s3", place.s3)
    keys = [found["Key"] for found in client.list_objects_v2(Bucket=place.bucket)["Contents"]]
    return [row for key in keys for row in _lines(_inflated(client.get_object(Bucket=place.bucket, Key=key)))]


def _inflated(answer: Mapping[str, Any]) -> bytes:
    data: bytes = answer["Body"].read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


_SDK_KINDS = (RECORD, JSONL, PARQUET)
_AWS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "aws_region": "us-east-1"}

TARGETS: Mapping[str, Target] = {
    "meltanolabs-target-csv": Target(
        Peer("meltanolabs-target-csv", "3.11"),
        "target-csv",
        lambda p: {"output_path": str(p.folder)},
        _csv,
        kinds=_SDK_KINDS,
    ),
    "meltanolabs-target-postgres": Target(
        Peer("meltanolabs-target-postgres", "3.11"),
        "target-postgres",
        lambda p: {
            "sqlalchemy_url": f"postgresql+psycopg://rdsdb:none@localhost/loaded?host={p.postgres}",
            "default_target_schema": p.schema,
        },
        _postgres,
        kinds=_SDK_KINDS,
        keeps=as_is,
    ),
    "meltanolabs-target-snowflake": Target(
        Peer("meltanolabs-target-snowflake", "3.11"),
        "python",
        lambda p: {"folder": str(p.folder)},
        lambda p: pq.read_table(p.folder).to_pylist(),
        kinds=(ARROW,),
        keeps=as_is,
        note="without Snowflake: the Parquet files that it would upload",
        script=Path(__file__).with_name("snowflake_target.py"),
    ),
    "pipelinewise-target-postgres": Target(
        Peer("pipelinewise-target-postgres", "3.9"),
        "target-postgres",
        lambda p: {
            **{"host": p.postgres, "port": 5432, "user": "rdsdb", "password": "none", "dbname": "loaded"},
            "default_target_schema": p.schema,
        },
        _postgres,
        keeps=_escaped,
        note="numbers are `double precision`, dates are texts; makes `\\n` of a line break",
    ),
    "plinxore-target-s3": Target(
        Peer("plinxore-target-s3", "3.11"),
        "target-s3",
        lambda p: {
            "format": {"format_type": "jsonl"},
            "cloud_provider": {
                "cloud_provider_type": "aws",
                "aws": {**_AWS, "aws_bucket": p.bucket, "aws_endpoint_override": p.s3},
            },
        },
        _s3,
    ),
    "target-avro": Target(
        Peer("target-avro", "3.9"),
        "target-avro",
        lambda p: {"prefix": str(p.folder / "out"), "disable_collection": True},
        _avro,
        keeps=_seconds,
        note="cuts times to seconds",
    ),
    "target-csv": Target(
        Peer("target-csv", "3.9"),
        "target-csv",
        lambda p: {"destination_path": str(p.folder), "disable_collection": True},
        _csv,
    ),
    "target-duckdb": Target(
        Peer("target-duckdb", "3.11"),
        "target-duckdb",
        lambda p: {"filepath": str(p.folder / "loaded.db"), "default_target_schema": "main"},
        _duckdb,
        note="numbers are `DOUBLE`, dates are texts; with DuckDB 1.1, as newer ones take the first row for a header",
    ),
    "target-jsonl": Target(
        Peer("target-jsonl", "3.11"),
        "target-jsonl",
        lambda p: {"destination_path": str(p.folder), "disable_collection": True},
        _jsonl,
        keeps=as_is,
    ),
    "target-localjson": Target(
        Peer("target-localjson", "3.9"),
        "target-localjson",
        lambda p: {"dest_dir": str(p.folder)},
        _json_files,
    ),
    "target-singer-jsonl": Target(
        Peer("target-singer-jsonl", "3.11"),
        "target-singer-jsonl",
        lambda p: {"destination": "local", "local": {"folder": str(p.folder)}},
        _singer,
    ),
    "target-sqlite": Target(
        Peer("target-sqlite", "3.8"),
        "target-sqlite",
        lambda p: {"database": str(p.folder / "loaded.db")},
        _sqlite,
        note="numbers are `FLOAT`, dates and times are texts",
    ),
}
