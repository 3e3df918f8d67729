"""The command line of `python -m benchmarks`, without running a case."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.cases import CASES, ON_REQUEST

ROOT = Path(__file__).parents[3]


def test_an_unknown_case_is_named_with_those_there_are() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "parquet", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert ran.stderr.startswith("unknown case nothing; there are ")
    assert "Traceback" not in ran.stderr


def test_a_case_runs_and_leaves_its_result(tmp_path: Path) -> None:
    data, results = tmp_path / "data", tmp_path / "results"
    options = ["--scale=0.001", "--rounds=1", f"--data-dir={data}", f"--results-dir={results}"]
    command = [sys.executable, "-m", "benchmarks", *options, "memory"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads((results / "memory.local.json").read_text())
    pyarrow, tap = (each["median"] for each in found["contenders"])
    assert pyarrow["rows"] == tap["rows"] > 5000
    assert "| tap |" in ran.stdout
    assert [path.name for path in data.iterdir()] == ["trips-1000000.csv"]


def test_every_case_has_a_description() -> None:
    assert set(CASES) >= ON_REQUEST
    for build in CASES.values():
        assert importlib.import_module(build.__module__).__doc__
