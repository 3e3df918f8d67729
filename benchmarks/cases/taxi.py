"""Files of taxi trips on an S3 that is 30 ms away, to files for a warehouse: tap-s3-files beside its peers.

The trips have the shape of New York's yellow-taxi records of July 2022: 3,174,394 rows of 19 columns a file, 47 MB of
zstd Parquet. Whole processes are measured, from their start to their end. Ours is the tap's executable: it lists,
infers the schema, and writes BATCH Parquet to S3; so do plain pyarrow, polars and DuckDB, the floor, and dlt, by its
filesystem source and destination. Airbyte and the Singer taps write a JSON record for each row, here into a file on
local disk, which spares them the writing of Parquet.

Contenders with "few" in their name are too slow for the whole file: they run once, on {few:,} rows of the same shape in
one file; ours runs on that file too, where its start weighs most. Rows per CPU second is what can be compared over
files of both sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases import floors, taxi_peers
from benchmarks.cases.taxi_files import Files, files, written
from benchmarks.connectors import parquet_batches, tap
from benchmarks.generators import taxi
from benchmarks.harness import Command, Measured
from benchmarks.s3 import COLUMNS, counted
from benchmarks.workbench import Workbench

FEW = 200_000
LARGE = 60_000_000
OURS, OURS_FEW, NATIVE = "tap-s3-files", "tap-s3-files, few", "tap-s3-files[native]"


def build_parquet(bench: Workbench) -> Case:
    """One Parquet file."""
    return _build(bench, "taxi-parquet", "parquet")


def build_parquet_5(bench: Workbench) -> Case:
    """Five Parquet files, beside the slow ones Airbyte alone."""
    return _build(bench, "taxi-parquet-5", "parquet", count=5, slow=taxi_peers.airbyte, rounds=3)


def build_csv(bench: Workbench) -> Case:
    """One CSV file."""
    return _build(bench, "taxi-csv", "csv", rounds=3)


def build_csv_gz(bench: Workbench) -> Case:
    """One CSV file under gzip."""
    return _build(bench, "taxi-csv-gz", "csv.gz", rounds=3)


def build_jsonl_gz(bench: Workbench) -> Case:
    """One file of JSON Lines under gzip."""
    return _build(bench, "taxi-jsonl-gz", "jsonl.gz", rounds=3)


def build_60m(bench: Workbench) -> Case:
    """One Parquet file of 60 million rows, about 1 GB."""
    return _build(bench, "taxi-60m", "parquet", rows=LARGE, slow=None, rounds=1)


def _build(
    bench: Workbench,
    name: str,
    kind: str,
    *,
    rows: int = taxi.ROWS,
    count: int = 1,
    slow: Callable[[Workbench, Files], list[Contender]] | None = taxi_peers.all_of,
    rounds: int = 5,
) -> Case:
    s3 = bench.s3()
    whole = files(bench, kind, bench.rows(rows), count)
    scripts = ["pyarrow", *floors.present(bench)]
    contenders = [ours(bench, OURS, whole)]
    if kind == "jsonl.gz" and (native := bench.native_env):
        contenders.append(ours(bench, NATIVE, whole, native))
    contenders += [_floor(bench, who, whole) for who in scripts]
    one = "1 file" if count == 1 else f"{count} files"
    work = f"{'Parquet' if kind == 'parquet' else kind.upper()} -> BATCH Parquet, {one}"
    goals = floors.goals(work, OURS, _bounds(kind, scripts))
    if kind == "parquet":
        text = f"{work}: CPU against plain pyarrow read + write"
        goals.append(Goal(text, "cpu_s", OURS, "pyarrow", at_most=1.1))
    about = (__doc__ or "").format(few=bench.rows(FEW))
    if rows < LARGE and kind != "jsonl.gz":
        contenders += taxi_peers.dlt(bench, whole, "arrow", "dlt, use_pyarrow", rounds=1)
    if slow:
        few = files(bench, kind, bench.rows(FEW))
        peers = slow(bench, few)
        contenders += [ours(bench, OURS_FEW, few), *peers]
        goals += _slow_goals(kind, work, {each.name for each in peers})
        missing = taxi_peers.missing(bench, kind) if slow == taxi_peers.all_of else []
        about += f"\nLeft out, for it could not be installed here: {', '.join(missing)}.\n" if missing else ""
    return Case(
        name=name,
        about=f"{about}\nHere {one} of {kind}, {whole.rows:,} rows, {whole.bytes / 1e6:,.1f} MB. S3 is {s3.kind}.",
        # Of one round there is none to warm up.
        contenders=[counted(s3, replace(each, rounds=1) if rounds == 1 else each) for each in contenders],
        goals=goals,
        columns=(*COLUMNS, ("files", "files")),
        rounds=rounds,
    )


def _bounds(kind: str, scripts: Sequence[str]) -> list[tuple[str, str | Sequence[str], float]]:
    """The goals over DuckDB and polars: metric, whose, bound."""
    if kind == "jsonl.gz":
        best = [who for who in scripts if who != "pyarrow"]
        return [("wall_s", best, 1.0), ("cpu_s", best, 1.0)]
    most = 0.9 if kind == "parquet" else 0.8
    polars = [("wall_s", floors.POLARS, 1.2)] if kind == "parquet" else []
    duckdb = [("wall_s", floors.DUCKDB, most), ("cpu_s", floors.DUCKDB, most)] if floors.DUCKDB in scripts else []
    return [*duckdb, *polars]


def _slow_goals(kind: str, work: str, there: set[str]) -> list[Goal]:
    if kind == "parquet" and taxi_peers.AIRBYTE in there:
        text = f"{work}: rows per CPU second over Airbyte's"
        return [Goal(text, "rows_per_cpu_s", OURS, taxi_peers.AIRBYTE, at_least=200)]
    others = sorted(there & {taxi_peers.AIRBYTE, taxi_peers.PIPELINEWISE, taxi_peers.TAP_FILE})
    if kind == "csv" and others:
        text = f"{work}: rows per CPU second over the fastest of Airbyte, pipelinewise, tap-file"
        return [Goal(text, "rows_per_cpu_s", OURS, others, at_least=25)]
    return []


def ours(bench: Workbench, name: str, source: Files, env: Mapping[str, str] | None = None) -> Contender:
    """The tap's executable, to BATCH Parquet on S3; `env` is laid over the environment."""
    s3 = bench.s3()

    def commands(folder: Path) -> list[Command]:
        config: dict[str, Any] = {
            "streams": [{"name": "trips", "path": s3.url(f"{source.prefix}/*")}],
            "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": s3.url(folder.name)}},
            "metadata_columns": False,
        }
        command = tap(bench, folder, config)
        return [Command(command.argv, bench.env | s3.env | dict(env or {}))]

    count = parquet_batches(s3.filesystem(), source.rows)

    def facts(folder: Path, measured: Measured) -> Facts:
        try:
            return count(folder, measured)
        finally:
            s3.remove(folder.name)

    settings = "`tap-s3-files`, BATCH Parquet (zstd) on S3, `metadata_columns: false`, all else by default"
    if source.kind == "jsonl.gz":
        settings += "; JSON by the native parser" if env else "; installed without extras"
    return Contender(name, settings, commands, facts)


def _floor(bench: Workbench, who: str, source: Files) -> Contender:
    s3 = bench.s3()

    def commands(folder: Path) -> list[Command]:
        argv = floors.argv(bench, who, source.kind, s3.url(folder.name), source.urls)
        return [Command(argv, bench.env | s3.env)]

    settings = floors.settings(bench, who, source.kind, from_s3=True)
    return Contender(who, settings, commands, written(s3, source.rows))
