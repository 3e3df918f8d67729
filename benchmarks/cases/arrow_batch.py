"""Arrow batch files: CSV to a batch file in the tap, and a batch file to the Parquet that the targets upload.

100,000 rows of 150 columns in one file on local disk. The CPU seconds are those of the step alone, without the start of
a process, messages and the upload.
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

SETTINGS = {
    "plain": "pyarrow: `ipc.open_file`, `pq.write_table`, zstd level 1",
    "target": "as target-bigquery and target-redshift read Arrow batch files and write Parquet, zstd level 1",
    "parquet": "as tap-s3-files reads CSV and writes Parquet, zstd",
    "arrow": "as tap-s3-files reads CSV and writes Arrow, `compression: none`",
}
NAMES = {
    "plain": "Arrow to Parquet, pyarrow",
    "target": "Arrow to Parquet, target",
    "parquet": "CSV to Parquet, tap",
    "arrow": "CSV to Arrow, tap",
}


def build(bench: Workbench) -> Case:
    """Two ways to Parquet, and two formats out of CSV."""
    rows = bench.rows(infinity.ROWS)
    made = bench.made(f"infinity-{rows}-parquet", lambda path: infinity.write_parquet(path, rows, seed=SEED))
    sources = sorted(made.iterdir())

    def commands(who: str) -> Callable[[Path], list[Command]]:
        return lambda folder: [Command([*program("arrow_batch"), who, folder, *sources])]

    def facts(_: Path, measured: Measured) -> Facts:
        printed: Facts = json.loads(measured.stdout.read_text())
        return printed | {"rows_per_cpu_s": expect(rows, int(printed["rows"])) / printed["convert_cpu_s"]}

    step = "convert_cpu_s"
    return Case(
        name="arrow-batch",
        about=__doc__ or "",
        contenders=[Contender(NAMES[who], SETTINGS[who], commands(who), facts) for who in NAMES],
        goals=[
            Goal("CPU of a target's step over pyarrow's", step, NAMES["target"], NAMES["plain"], at_most=1.05),
            Goal("CPU of CSV to Arrow over CSV to Parquet", step, NAMES["arrow"], NAMES["parquet"], at_most=0.75),
        ],
        columns=((step, "CPU s of the step"),),
        rounds=3,
    )
