"""A table of a Flight SQL server to BATCH Parquet: by tap-flight-sql, by the driver and pyarrow alone, and by rows.

The table has the shape of ClickBench's `hits`, as in Apache Doris' article on Arrow Flight SQL: a million rows of 105
columns (48 smallint, 19 integer, 6 bigint, 32 text). The article reads it into memory in 3.5 s, which is the contender
`Arrow in memory` here. Not as in the article: the values, which are made up, in 540 MB instead of 784; the server,
which is the local one, DuckDB behind four endpoints, a process each, and not Doris; and its place, which is this
machine: it runs on the same cores, and its CPU seconds do not count. It writes the result of a query to files before
the first row leaves, in the same time for all. `read s` is the time from then until all rows are read, and in batch
files if there are any; for `Arrow in memory` it has the query too, as in the article.

Four endpoints are compared with one twice: at full speed, where client and server share the cores, and reading one
endpoint at a time keeps 1.1 cores busy already; and with endpoints that send 25 MB/s each, as backends behind a network
do. What goes through rows has a tenth of the rows: the figure to
compare is rows per CPU second. PostgreSQL's has the same values, on a Unix socket.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases import flight_sql_peers as peers
from benchmarks.connectors import expect, parquet_batches
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.workbench import Workbench, program

ROWS = 1_000_000
MB_PER_S = 25
COLUMNS = (
    *(f"CAST(hash(i, {n}) % 1000 AS SMALLINT) AS s{n}" for n in range(48)),
    *(f"CAST(hash(i, {n}) % 100000000 AS INTEGER) AS i{n}" for n in range(19)),
    *(f"CAST(hash(i, {n}) // 4 AS BIGINT) AS b{n}" for n in range(6)),
    *(f"CASE WHEN hash(i, {n}) % 3 = 0 THEN '' ELSE 'text ' || hash(i, {n}) % 10000 END AS t{n}" for n in range(32)),
)
TAP, ONE, PLAIN, MEMORY = "tap-flight-sql", "one at a time", "driver, pyarrow", "Arrow in memory"
TAP_SLOW, ONE_SLOW, RECORDS = "four of 25 MB/s", "one of 25 MB/s at a time", "rows, RECORD"
_SECONDS = re.compile(r"batch files, after ([0-9.]+) seconds")


def build(bench: Workbench) -> Case:
    """The tap with one endpoint at a time and with four, the driver alone, and rows."""
    rows, some = bench.rows(ROWS), bench.rows(ROWS // 10)
    server = bench.cloud("flightsql").flightsql
    server.execute(f"CREATE OR REPLACE TABLE hits AS SELECT {', '.join(COLUMNS)} FROM range({rows}) r(i)")
    server.execute(f"CREATE OR REPLACE TABLE some_hits AS SELECT * FROM hits LIMIT {some}")
    server.execute("CREATE OR REPLACE VIEW slow_hits AS SELECT * FROM hits")
    server.fail({"match": "slow_hits", "action": "slow", "mb_per_s": MB_PER_S})
    by_rows = peers.contenders(bench, lambda: server.execute("SELECT * FROM some_hits"), some)

    def tap(name: str, workers: int, text: str, table: str = "hits") -> Contender:
        def commands(folder: Path) -> list[Command]:
            storage = {"root": f"file://{folder}/batches"}
            batch = {"encoding": {"format": "parquet", "compression": "zstd"}, "storage": storage}
            config = {"streams": [{"name": "hits", "table": table}], "batch_config": batch, "max_workers": workers}
            path = folder / "tap.json"
            path.write_text(json.dumps(config))
            return [Command([bench.executable("tap-flight-sql"), "--config=ENV", "--config", path], bench.env)]

        return Contender(name, f"BATCH Parquet, zstd, {text}", commands, _tap_facts(rows))

    def peer(what: str) -> Callable[[Path], list[Command]]:
        return lambda folder: [Command([*program("flight_rows"), what, folder], bench.env)]

    row_taps = [RECORDS, *(c.name for c in by_rows if c.name == peers.RECORD)]
    row_fetches = [c.name for c in by_rows if c.name != peers.RECORD]
    return Case(
        name="flight-sql",
        about=__doc__ or "",
        contenders=[
            tap(TAP, 4, "4 workers"),
            tap(ONE, 1, "1 worker"),
            Contender(
                PLAIN, "`fetch_record_batch`, `write_table`, zstd, one thread", peer("parquet"), peers.parquet(rows)
            ),
            Contender(MEMORY, "`execute`, `fetch_arrow_table`, as in the article", peer("memory"), _memory_facts(rows)),
            tap(TAP_SLOW, 4, "4 workers, endpoints of 25 MB/s", "slow_hits"),
            tap(ONE_SLOW, 1, "1 worker, endpoints of 25 MB/s", "slow_hits"),
            Contender(
                RECORDS, "a tap on the SDK's defaults, rows of DB-API", peer("records"), peers.records(some), rounds=1
            ),
            *by_rows,
        ],
        goals=[
            Goal("CPU over the driver and pyarrow alone", "cpu_s", ONE, PLAIN, at_most=1.1),
            Goal("rows per CPU second over taps of rows, RECORD", "rows_per_cpu_s", TAP, row_taps, at_least=20),
            *(
                [Goal("rows per CPU second over rows to files", "rows_per_cpu_s", TAP, row_fetches, at_least=10)]
                if row_fetches
                else []
            ),
            _times_as_fast("four endpoints at once, times as fast as one: reading", TAP, ONE),
            _times_as_fast("the same, endpoints of 25 MB/s", TAP_SLOW, ONE_SLOW),
        ],
        columns=(("read_s", "read s"),),
        rounds=3,
    )


def _times_as_fast(text: str, of: str, against: str) -> Goal:
    return Goal(text, "read_s", of, against, at_least=1.8, turned=True)


def _tap_facts(rows: int) -> Callable[[Path, Measured], Facts]:
    batches = parquet_batches(None, rows)

    def facts(folder: Path, measured: Measured) -> Facts:
        found = _SECONDS.findall(measured.stdout.with_name("stderr-0").read_text())
        if len(found) != 1:
            raise BenchmarkError("the tap's log has no line with the seconds of one window")
        return {**batches(folder, measured), "read_s": float(found[0])}

    return facts


def _memory_facts(rows: int) -> Callable[[Path, Measured], Facts]:
    def facts(_: Path, measured: Measured) -> Facts:
        found: dict[str, Any] = json.loads(measured.stdout.read_text())
        return {"rows": expect(rows, found["rows"]), "bytes": found["bytes"], "read_s": found["read_s"]}

    return facts
