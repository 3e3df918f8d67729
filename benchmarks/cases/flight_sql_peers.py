"""Contenders of the case `flight-sql` that read rows from PostgreSQL."""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.case import Contender, Facts
from benchmarks.connectors import expect
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.services.postgres import conninfo, load, sqlalchemy_url
from benchmarks.workbench import Workbench, program

MELTANO = "meltanolabs-tap-postgres"
RECORD, BATCH, PSYCOPG, SQLALCHEMY = f"{MELTANO}, RECORD", f"{MELTANO}, BATCH", "psycopg", "SQLAlchemy"


def contenders(bench: Workbench, table: Callable[[], pa.Table], rows: int) -> list[Contender]:
    """Return what reads the rows of a table from PostgreSQL; nothing if there is no server, with a line in the log.

    Args:
        table: Returns the rows.
        rows: Their number.
    """
    try:
        postgres = bench.postgres()
    except BenchmarkError as error:
        bench.log(f"left out: all that reads from PostgreSQL: {error}")
        return []
    load(postgres, "hits", table())

    def reads(driver: str, address: str) -> Callable[[Path], list[Command]]:
        return lambda folder: [
            Command([*program("postgres_rows"), driver, address, folder / "hits.parquet"], bench.env)
        ]

    fetched = "rows of PostgreSQL, 10,000 at a time, columns by `zip`, `write_table`, zstd"
    found = [
        Contender(PSYCOPG, f"psycopg in C, binary: {fetched}", reads("psycopg", conninfo(postgres)), parquet(rows), 1),
        Contender(
            SQLALCHEMY,
            f"SQLAlchemy on psycopg: {fetched}",
            reads("sqlalchemy", sqlalchemy_url(postgres, "psycopg")),
            parquet(rows),
            rounds=1,
        ),
    ]
    if not (peer := bench.peer(MELTANO)):
        return found

    config = {"sqlalchemy_url": sqlalchemy_url(postgres, "psycopg2"), "filter_schemas": ["public"]}
    tap, catalog = peer.bin / "tap-postgres", _catalog(peer.bin / "tap-postgres", config)

    def taps(*, batches: bool) -> Callable[[Path], list[Command]]:
        def commands(folder: Path) -> list[Command]:
            encoding = {"format": "jsonl", "compression": "gzip"}
            batch = {"encoding": encoding, "storage": {"root": f"file://{folder}", "prefix": "hits-"}}
            path, selected = folder / "tap.json", folder / "catalog.json"
            path.write_text(json.dumps(config | ({"batch_config": batch} if batches else {})))
            selected.write_text(json.dumps(catalog))
            return [Command([tap, "--config", path, "--catalog", selected], bench.env)]

        return commands

    return [
        *found,
        Contender(
            RECORD,
            f"{peer.title}, catalog discovered before, all else by default",
            taps(batches=False),
            records(rows),
            1,
        ),
        Contender(BATCH, f"{peer.title}, the same, gzip JSON Lines", taps(batches=True), _json_batches(rows), 1),
    ]


def _catalog(tap: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the catalog that the tap discovers, with all selected."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder, "tap.json")).write_text(json.dumps(config))
        ran = subprocess.run([tap, "--config", path, "--discover"], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise BenchmarkError(f"{MELTANO} --discover failed: {ran.stderr[-300:]}")
    catalog: dict[str, Any] = json.loads(ran.stdout)
    for stream in catalog["streams"]:
        for entry in stream["metadata"]:
            entry["metadata"]["selected"] = True
    return catalog


def parquet(rows: int) -> Callable[[Path, Measured], Facts]:
    """Counts the rows of the file `hits.parquet`."""

    def facts(folder: Path, _: Measured) -> Facts:
        file = folder / "hits.parquet"
        return {"rows": expect(rows, pq.read_metadata(file).num_rows), "bytes": file.stat().st_size}

    return facts


def records(rows: int) -> Callable[[Path, Measured], Facts]:
    """Counts the RECORD messages."""

    def facts(_: Path, measured: Measured) -> Facts:
        with measured.stdout.open() as lines:
            return {"rows": expect(rows, sum('"RECORD"' in line[:30] for line in lines))}

    return facts


def _json_batches(rows: int) -> Callable[[Path, Measured], Facts]:
    def facts(_: Path, measured: Measured) -> Facts:
        found = size = 0
        for line in measured.stdout.read_text().splitlines():
            message = json.loads(line)
            for url in message["manifest"] if message["type"] == "BATCH" else ():
                path = Path(unquote(urlsplit(url).path))
                size += path.stat().st_size
                with gzip.open(path) as file:
                    found += sum(1 for _ in file)
        return {"rows": expect(rows, found), "bytes": size}

    return facts
