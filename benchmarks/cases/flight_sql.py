"""A table of a Flight SQL server to BATCH Parquet: by tap-flight-sql, by the driver and pyarrow alone, and by rows.

The table has the shape of ClickBench's `hits`: a million rows of 105 columns (48 smallint, 19 integer, 6 bigint, 32
text). The server is the local one: DuckDB behind four endpoints, a process each. Its CPU seconds do not count, but it
runs on the same cores. It writes the result of a query to files before the first row leaves, in the same time for all.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect, parquet_batches
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench, program

ROWS = 1_000_000
COLUMNS = (
    *(f"CAST(hash(i, {n}) % 1000 AS SMALLINT) AS s{n}" for n in range(48)),
    *(f"CAST(hash(i, {n}) % 100000000 AS INTEGER) AS i{n}" for n in range(19)),
    *(f"CAST(hash(i, {n}) // 4 AS BIGINT) AS b{n}" for n in range(6)),
    *(f"CASE WHEN hash(i, {n}) % 3 = 0 THEN '' ELSE 'text ' || hash(i, {n}) % 10000 END AS t{n}" for n in range(32)),
)


def build(bench: Workbench) -> Case:
    """The tap with one endpoint at a time and with four, the driver alone, and rows."""
    rows = bench.rows(ROWS)
    server = bench.cloud("flightsql").flightsql
    server.execute(f"CREATE OR REPLACE TABLE hits AS SELECT {', '.join(COLUMNS)} FROM range({rows}) r(i)")

    def tap(**more: Any) -> Callable[[Path], list[Command]]:
        def commands(folder: Path) -> list[Command]:
            storage = {"root": f"file://{folder}/batches"}
            batch = {"encoding": {"format": "parquet", "compression": "zstd"}, "storage": storage}
            path = folder / "tap.json"
            path.write_text(json.dumps({"streams": [{"name": "hits", "table": "hits"}], "batch_config": batch, **more}))
            return [Command([bench.executable("tap-flight-sql"), "--config=ENV", "--config", path], bench.env)]

        return commands

    def peer(what: str) -> Callable[[Path], list[Command]]:
        return lambda folder: [Command([*program("flight_rows"), what, folder], bench.env)]

    def written(folder: Path, _: Measured) -> Facts:
        file = folder / "hits.parquet"
        return {"rows": expect(rows, pq.read_metadata(file).num_rows), "bytes": file.stat().st_size}

    def records(_: Path, measured: Measured) -> Facts:
        with measured.stdout.open() as lines:
            return {"rows": expect(rows, sum('"RECORD"' in line for line in lines))}

    return Case(
        name="flight-sql",
        about=__doc__ or "",
        contenders=[
            Contender(
                "tap-flight-sql", "BATCH Parquet, zstd, 4 workers", tap(max_workers=4), parquet_batches(None, rows)
            ),
            Contender(
                "one at a time", "BATCH Parquet, zstd, 1 worker", tap(max_workers=1), parquet_batches(None, rows)
            ),
            Contender(
                "driver, pyarrow", "`fetch_record_batch`, `write_table`, zstd, one thread", peer("parquet"), written
            ),
            Contender(
                "rows, RECORD", "a tap on the SDK's defaults, rows of DB-API", peer("records"), records, rounds=1
            ),
        ],
        goals=[
            Goal("CPU over the driver and pyarrow alone", "cpu_s", "one at a time", "driver, pyarrow", at_most=1.1),
            Goal("CPU of rows over ours", "cpu_s", "tap-flight-sql", "rows, RECORD", at_least=20, turned=True),
            Goal(
                "four endpoints at once, times as fast as one",
                "wall_s",
                "tap-flight-sql",
                "one at a time",
                at_least=1.8,
                turned=True,
            ),
        ],
        rounds=3,
    )
