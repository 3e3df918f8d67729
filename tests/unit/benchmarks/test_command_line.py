"""`python -m benchmarks`, as far as it goes without running a case."""

from __future__ import annotations

import importlib
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


def test_every_case_says_what_it_compares() -> None:
    assert set(CASES) >= ON_REQUEST
    for build in CASES.values():
        assert importlib.import_module(build.__module__).__doc__
