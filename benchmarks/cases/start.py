"""How long a connector takes to answer at all: `--version`, which every orchestrator calls, in a new process.

Beside it Python alone, and Python with the Singer SDK imported, which no connector built on it can be faster than
unless it puts the import off.
"""

import sys
from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench


def build(bench: Workbench) -> Case:
    """Five processes; no data."""
    python = [sys.executable, "-c"]
    connectors = [bench.executable(name) for name in ("tap-s3-files", "target-bigquery", "target-redshift")]
    return Case(
        name="start",
        about=__doc__,
        contenders=[
            _contender("python", "`python -c pass`", [*python, "pass"]),
            _contender("singer-sdk", "`python -c 'import singer_sdk'`", [*python, "import singer_sdk"]),
            *(_contender(path.name, f"`{path.name} --version`", [path, "--version"]) for path in connectors),
        ],
        goals=[Goal(f"{path.name} --version, seconds", "wall_s", path.name, at_most=1.0) for path in connectors],
        rounds=9,
    )


def _contender(name: str, settings: str, argv: list[str | Path]) -> Contender:
    def facts(_: Path, __: Measured) -> Facts:
        return {}

    return Contender(name, settings, lambda _: [Command(argv)], facts)
