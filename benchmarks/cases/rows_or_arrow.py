"""Rows in memory to one BATCH file: as dicts by the SDK's own batchers, or as Arrow by ours; gzip JSONL and Parquet.

20,000 rows of 150 columns. The CPU seconds are those of the writing alone: dicts and tables are there before it begins.
"""

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.wide import SEED
from benchmarks.connectors import expect
from benchmarks.generators import infinity
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench, program

ROWS = 20_000
SETTINGS = {
    "sdk-jsonl": "`JSONLinesBatcher` of the SDK, gzip, all rows in one batch",
    "sdk-parquet": "`ParquetBatcher` of the SDK, no `compression` (so snappy, its fastest), all rows in one batch",
    "jsonl": "batch files of tap-s3-files, gzip",
    "parquet": "batch files of tap-s3-files, zstd",
}
NAMES = {
    "sdk-jsonl": "rows, JSONL",
    "sdk-parquet": "rows, Parquet",
    "jsonl": "Arrow, JSONL",
    "parquet": "Arrow, Parquet",
}


def build(bench: Workbench) -> Case:
    """Two formats, from dicts and from Arrow."""
    rows = bench.rows(ROWS)
    made = bench.made(f"infinity-{rows}-parquet", lambda path: infinity.write_parquet(path, rows, seed=SEED))
    sources = sorted(made.iterdir())

    def commands(who: str) -> Callable[[Path], list[Command]]:
        return lambda folder: [Command([*program("rows_or_arrow"), who, folder, *sources])]

    def facts(_: Path, measured: Measured) -> Facts:
        printed: Facts = json.loads(measured.stdout.read_text())
        return printed | {"rows_per_cpu_s": expect(rows, int(printed["rows"])) / printed["convert_cpu_s"]}

    return Case(
        name="rows-or-arrow",
        about=__doc__ or "",
        contenders=[Contender(NAMES[who], SETTINGS[who], commands(who), facts) for who in NAMES],
        goals=[
            Goal(
                "rows per CPU second, Parquet out of Arrow over the SDK's default format out of dicts",
                "rows_per_cpu_s",
                NAMES["parquet"],
                NAMES["sdk-jsonl"],
                at_least=20,
            )
        ],
        columns=(("convert_cpu_s", "writing CPU s"),),
        rounds=3,
    )
