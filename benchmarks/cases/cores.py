"""One core and two: a CSV, a JSON Lines and a Parquet file of trips, each whole and as eight files, to BATCH Parquet.

All from local disk, so that no server shares the cores. CSV and JSON Lines are 1 GB, Parquet is 20 million rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.scaling import cores_text, on_cores
from benchmarks.connectors import parquet_batches, tap
from benchmarks.generators import taxi
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench

ROWS = {"csv": 9_600_000, "jsonl": 2_400_000, "parquet": 20_000_000}
NAMES = {"csv": "CSV", "jsonl": "JSON Lines", "parquet": "Parquet"}
FILES = (1, 8)
CORES = (1, 2)
FASTER = 1.8


def build(bench: Workbench) -> Case:
    """Each format and number of files on one core and on two."""
    inputs = [(kind, count) for kind in ROWS for count in FILES]
    return Case(
        name="cores",
        about=__doc__ or "",
        contenders=[_contender(bench, kind, count, cores) for kind, count in inputs for cores in CORES],
        goals=[
            Goal(
                f"{_input(kind, count)}: two cores, times as fast as one",
                "wall_s",
                _name(kind, count, 2),
                _name(kind, count, 1),
                at_least=FASTER,
                turned=True,
            )
            for kind, count in inputs
        ],
        columns=(("mb_per_s", "MB/s"),),
        rounds=3,
    )


def _contender(bench: Workbench, kind: str, count: int, cores: int) -> Contender:
    rows = bench.rows(ROWS[kind]) // count
    source = bench.made(f"cores-{kind}-{rows}-{count}", partial(write_copies, kind=kind, rows=rows, count=count))
    size = sum(path.stat().st_size for path in source.iterdir())

    def commands(folder: Path) -> Sequence[Command]:
        config = {
            "streams": [{"name": "trips", "path": f"{source.absolute().as_uri()}/*"}],
            "batch_config": {
                "encoding": {"format": "parquet"},
                "storage": {"root": (folder / "out").absolute().as_uri()},
            },
            "metadata_columns": False,
            "max_workers": 2,
        }
        run = tap(bench, folder, config)
        return [Command([*on_cores(cores), *run.argv], run.env)]

    def facts(folder: Path, measured: Measured) -> Facts:
        return parquet_batches(None, rows * count)(folder, measured) | {"mb_per_s": size / 1e6 / measured.wall}

    settings = f"{size / 1e9:.2f} GB, {rows * count:,} rows"
    return Contender(_name(kind, count, cores), settings, commands, facts)


def write_copies(folder: Path, *, kind: str, rows: int, count: int) -> None:
    """Write a file of trips to a new folder, under several names."""
    folder.mkdir()
    first = folder / f"0.{kind}"
    if kind == "parquet":
        taxi.write_parquet(first, rows, seed=7)
    else:
        taxi.write_text(first, rows, seed=7)
    for number in range(1, count):
        (folder / f"{number}.{kind}").hardlink_to(first)


def _input(kind: str, count: int) -> str:
    return f"{NAMES[kind]}, {count} file{'s' if count > 1 else ''}"


def _name(kind: str, count: int, cores: int) -> str:
    return f"{_input(kind, count)}, {cores_text(cores)}"
