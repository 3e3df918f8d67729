"""Reading S3 into Arrow, 30 ms away: singer_arrow's reader beside pyarrow, polars, boto3, smart_open and DuckDB.

Yellow-taxi records of a month (3,174,394 rows of 19 columns). Each reading is a process of its own; its seconds are
those of the reading alone, without imports and with a connection open. Requests and bytes are what the proxy counted
(one request of each process is that first one). The types of text are given to all. "limit" is no reader: it waits for
as many answers of S3 as must come one after the other, and decodes bytes that it had before.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases import floors
from benchmarks.connectors import expect
from benchmarks.generators import taxi
from benchmarks.harness import Command, Measured
from benchmarks.programs.read_s3 import COLUMNS, READERS
from benchmarks.s3 import LATENCY_MS, counted
from benchmarks.workbench import Workbench, program

SEED = 2022
OURS, NATIVE, LIMIT = "singer_arrow", "singer_arrow[native]", "limit"
ALL = [name for name in READERS if name != LIMIT]
_NEAR_LIMIT = Goal("seconds over those of the limit", "read_s", OURS, LIMIT, at_most=1.1)
PYARROW = ("pyarrow", "pyarrow.dataset")
TEXT = ("pyarrow", "polars", "boto3", "smart_open")
S3_MB_S = 90
"""Million bytes a second of one connection to S3, about."""
SMALL = 2000
"""Small objects, of some 10 KB."""
READS = 40
_COLUMNS = (
    ("read_s", "s, reading"),
    ("read_cpu_s", "CPU s, reading"),
    ("s3_cpu_s", "CPU s of S3"),
    ("gets", "GETs"),
    ("heads", "HEADs"),
    ("mb_down", "MB from S3"),
)


def build_columns(bench: Workbench) -> Case:
    """Three of nineteen columns of a Parquet file in sixteen row groups."""
    path = _parquet(bench, 16)
    needed = _chunk_bytes(path, COLUMNS) / 1e6
    about = f"Three of nineteen columns, sixteen row groups; the chunks that are needed have {needed:.2f} MB."
    goals = [
        Goal("times as fast as pyarrow's best", "read_s", OURS, PYARROW, at_least=2.5, turned=True),
        _NEAR_LIMIT,
        Goal("bytes over those of the chunks that are needed", "over_needed", OURS, at_most=1.03),
    ]
    return _case(bench, "s3-columns", "columns", path, about, READERS, goals, needed_mb=needed)


def build_parquet(bench: Workbench) -> Case:
    """A whole Parquet file."""
    path = _parquet(bench, 4)
    goals = [Goal("times as fast as pyarrow's best", "read_s", OURS, PYARROW, at_least=1, turned=True), _NEAR_LIMIT]
    return _case(bench, "s3-parquet", "parquet", path, "All columns, four row groups.", READERS, goals)


def build_schema(bench: Workbench) -> Case:
    """The schema of a Parquet file."""
    path = _parquet(bench, 16)
    goals = [Goal("times as fast as pyarrow's best", "read_s", OURS, PYARROW, at_least=1, turned=True)]
    return _case(bench, "s3-schema", "schema", path, "The schema alone; rows are its columns.", ALL, goals)


def build_csv(bench: Workbench) -> Case:
    """A CSV file, at 90 MB/s a connection, which is about what S3 gives."""
    path = _csv(bench)
    goals = [Goal("times as fast as the best other", "read_s", OURS, TEXT, at_least=1.8, turned=True), _NEAR_LIMIT]
    about = f"CSV of {path.stat().st_size / 1e6:,.0f} MB; {S3_MB_S} MB/s on each connection, about what S3 gives."
    return _case(bench, "s3-csv", "csv", path, about, (OURS, *TEXT, LIMIT), goals, rate_mb_s=S3_MB_S)


def build_csv_unlimited(bench: Workbench) -> Case:
    """A CSV file, at any rate: what counts is the work."""
    path = _csv(bench)
    goals = [Goal("seconds, against CPU seconds / cores", "over_cpu", OURS, at_most=1.15)]
    about = f"CSV of {path.stat().st_size / 1e6:,.0f} MB; connections are as fast as this machine makes them."
    return _case(bench, "s3-csv-unlimited", "csv", path, about, (OURS, *TEXT), goals)


def _csv(bench: Workbench) -> Path:
    rows = bench.rows(taxi.ROWS)
    return bench.made(f"s3-taxi-{rows}.csv", lambda to: _write_csv(to, rows))


def build_jsonl_gz(bench: Workbench) -> Case:
    """A file of JSON Lines, compressed by gzip, at 90 MB/s a connection."""
    rows = bench.rows(taxi.ROWS)
    path = bench.made(f"s3-taxi-{rows}.jsonl.gz", lambda to: _write_jsonl_gz(to, rows))
    goals = [Goal("times as fast as pyarrow's best", "read_s", OURS, "pyarrow", at_least=1.6, turned=True)]
    about = f"gzip JSON Lines of {path.stat().st_size / 1e6:,.0f} MB; {S3_MB_S} MB/s on each connection."
    return _case(bench, "s3-jsonl-gz", "jsonl-gz", path, about, (OURS, *TEXT), goals, rate_mb_s=S3_MB_S)


def build_small(bench: Workbench) -> Case:
    """Two thousand small objects."""
    folder = bench.made(f"s3-taxi-small-{SMALL}", _write_small)
    goals = [
        Goal(f"times as fast as {name}", "read_s", OURS, name, at_least=4.5, turned=True)
        for name in ("pyarrow", "boto3")
    ]
    about = f"{SMALL:,} objects of JSON Lines, {sum(p.stat().st_size for p in folder.iterdir()) / SMALL / 1e3:.1f} KB."
    return _case(bench, "s3-small", "small", folder, about, (OURS, *TEXT), goals)


def build_torn(bench: Workbench) -> Case:
    """An object that is overwritten while it is read."""
    s3 = bench.s3()

    def contender(name: str) -> Contender:
        def commands(_: Path) -> Sequence[Command]:
            command = [*program("torn_s3"), name, s3.url("torn"), s3.direct, str(READS)]
            return [Command(command, bench.env | s3.env)]

        def facts(_: Path, measured: Measured) -> Facts:
            printed: dict[str, float] = json.loads(measured.stdout.read_text())
            return printed

        return counted(s3, Contender(name, f"`benchmarks.programs.torn_s3`: {name}", commands, facts))

    return Case(
        name="s3-torn",
        about=f"{READS} readings each of an object of 24 MiB that is overwritten every 150 ms or so, 30 ms away. Torn: "
        "bytes of two versions, without an error. Raised: the reading ended with an error.",
        contenders=[contender(name) for name in (OURS, "pyarrow", "boto3", "smart_open")],
        goals=[Goal("torn readings", "torn", OURS, at_most=0)],
        columns=(("whole", "whole"), ("raised", "raised"), ("torn", "torn")),
        rounds=1,
    )


def _case(
    bench: Workbench,
    name: str,
    shape: str,
    path: Path,
    about: str,
    readers: Iterable[str],
    goals: Sequence[Goal],
    *,
    needed_mb: float = 0.0,
    rate_mb_s: float | None = None,
) -> Case:
    s3, cores = bench.s3(), machine_cores()
    if path.is_dir():
        client = s3.client()
        for file in sorted(path.iterdir()):
            client.upload_file(str(file), s3.bucket, f"{name}/{file.name}")
        url, rows = s3.url(f"{name}/"), SMALL * _ROWS_OF_SMALL
    else:
        url, rows = s3.upload(path, f"{name}{''.join(path.suffixes)}"), bench.rows(taxi.ROWS)
    if shape == "schema":
        rows = len(taxi.trips(1, 0).schema)

    def contender(
        reader: str, argv: Sequence[str | Path], settings: str, env: Mapping[str, str] | None = None
    ) -> Contender:
        def commands(_: Path) -> Sequence[Command]:
            return [Command(argv, bench.env | s3.env | dict(env or {}))]

        def facts(_: Path, measured: Measured) -> Facts:
            printed: dict[str, float] = json.loads(measured.stdout.read_text())
            found = {"rows": expect(rows, int(printed["rows"])), "read_s": printed["read_s"]}
            more = {
                "read_cpu_s": printed["read_cpu_s"],
                "over_cpu": printed["read_s"] / (printed["read_cpu_s"] / cores),
            }
            if needed_mb:
                more["over_needed"] = s3.counters().bytes_down / 1e6 / needed_mb
            return found | more

        slow = (shape, reader) in _SLOW
        made = Contender(reader, settings, commands, facts, rounds=1 if slow else None)
        return counted(s3, made, latency_ms=LATENCY_MS, rate_mb_s=rate_mb_s)

    contenders = [
        contender(r, [*program("read_s3"), r, shape, url], (READERS[r].__doc__ or "").strip().rstrip("."))
        for r in readers
    ]
    if shape == "jsonl-gz" and (native := bench.native_env):
        settings = f"{contenders[0].settings}; JSON by the native parser"
        contenders.insert(1, contender(NATIVE, [*program("read_s3"), OURS, shape, url], settings, native))
    if peer := bench.peer(floors.DUCKDB):
        argv = [*floors.duckdb_program(bench), "read", shape, url, _sql_types(shape)]
        settings = f"{peer.title}: a query into Arrow, its own threads; S3 by its extension httpfs"
        contenders.append(contender(floors.DUCKDB, argv, settings))
    columns = (*_COLUMNS, ("over_needed", "bytes over needed")) if needed_mb else _COLUMNS
    return Case(name, f"{__doc__}\n{about}", contenders, goals, columns, rounds=3)


def _sql_types(shape: str) -> str:
    """The columns to read as JSON: DuckDB's types by name."""
    names = {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "timestamp[us]": "TIMESTAMP"}
    schema = taxi.trips(1, 0).schema
    return json.dumps({f.name: names[str(f.type)] for f in schema if shape != "columns" or f.name in COLUMNS})


def machine_cores() -> int:
    """Cores that a reading may use."""
    import os

    return len(os.sched_getaffinity(0))


_ROWS_OF_SMALL = 30
_SLOW = {("jsonl-gz", "polars"), ("small", "smart_open"), ("small", "pyarrow")}
"""Readings that take so long that one of each must do."""


def _parquet(bench: Workbench, groups: int) -> Path:
    import pyarrow.parquet as pq

    rows = bench.rows(taxi.ROWS)

    def write(path: Path) -> None:
        table = _table(rows)
        pq.write_table(table, path, row_group_size=-(-rows // groups), compression="snappy")

    return bench.made(f"s3-taxi-{rows}-in-{groups}.parquet", write)


def _table(rows: int) -> Any:
    import pyarrow as pa

    return pa.concat_tables(taxi.chunks(rows, SEED))


def _chunk_bytes(path: Path, columns: Sequence[str]) -> int:
    """Bytes of the chunks of some columns."""
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    groups = (found.row_group(g) for g in range(found.num_row_groups))
    chunks = (group.column(i) for group in groups for i in range(group.num_columns))
    return sum(c.total_compressed_size for c in chunks if c.path_in_schema in columns)


def _write_csv(path: Path, rows: int) -> None:
    import pyarrow.csv as pc

    pc.write_csv(_table(rows), path)


def _lines(table: Any) -> bytes:
    import io

    import polars as pl

    text = io.BytesIO()
    frame: Any = pl.from_arrow(table)
    frame.write_ndjson(text)
    return text.getvalue()


def _write_jsonl_gz(path: Path, rows: int) -> None:
    from isal import igzip

    table = _table(rows)
    with igzip.open(path, "wb", compresslevel=1) as file:
        for start in range(0, rows, 200_000):
            file.write(_lines(table.slice(start, 200_000)))


def _write_small(path: Path) -> None:
    table = _table(SMALL * _ROWS_OF_SMALL)
    path.mkdir()
    for number in range(SMALL):
        lines = _lines(table.slice(number * _ROWS_OF_SMALL, _ROWS_OF_SMALL))
        (path / f"{number:05}.jsonl").write_bytes(lines)
