"""The scripts that cases compare with convert every row, and goals name only those that are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import programs
from benchmarks.case import Goal
from benchmarks.cases import floors
from benchmarks.cases.taxi_files import parquet_files
from benchmarks.generators import taxi
from benchmarks.harness import BenchmarkError
from pyarrow import fs

ROWS = 1_000


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "jsonl.gz"])
@pytest.mark.parametrize("who", [floors.POLARS, floors.DUCKDB])
def test_scripts_convert_local_files(tmp_path: Path, who: str, kind: str) -> None:
    source, target = tmp_path / f"trips.{kind}", tmp_path / "out"
    if kind == "parquet":
        taxi.write_parquet(source, ROWS, seed=1, compression="zstd")
    else:
        taxi.write_text(source, ROWS, seed=1)
    target.mkdir()
    folder = Path(programs.__file__).parent
    script = [str(folder / "duckdb_files.py"), "copy"] if who == floors.DUCKDB else [str(folder / "copy_floor.py"), who]
    subprocess.run([sys.executable, *script, kind, str(target), str(source)], check=True)

    found = parquet_files(fs.LocalFileSystem(), str(target), ROWS)
    assert (found["rows"], found["files"]) == (ROWS, 1)
    with pytest.raises(BenchmarkError, match=r"1,000 rows came out where 1,001 went in"):
        parquet_files(fs.LocalFileSystem(), str(target), ROWS + 1)


def test_goals_are_over_one_script_or_the_best() -> None:
    best = [floors.POLARS, floors.DUCKDB]
    found = floors.goals("CSV", "ours", [("wall_s", floors.DUCKDB, 0.8), ("cpu_s", best, 1.0)])

    assert found == [
        Goal("CSV: seconds over DuckDB's", "wall_s", "ours", "duckdb", at_most=0.8),
        Goal("CSV: CPU seconds over the least of polars' and DuckDB's", "cpu_s", "ours", best, at_most=1.0),
    ]
