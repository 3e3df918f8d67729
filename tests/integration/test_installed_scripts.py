"""Each executable starts as the installed script, from a cold process.

A load and a kill -9 of such processes are in pipelines/test_pipeline.py and faults/test_kill.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from local_cloud.programs import Programs


@pytest.mark.smoke
@pytest.mark.parametrize("program", ["tap-s3-files", "tap-flight-sql", "target-bigquery", "target-redshift"])
def test_a_connector_prints_its_version(program: str, tmp_path: Path) -> None:
    shown = Programs(os.environ, tmp_path)(program, "--version").check().stdout
    assert shown.startswith(f"{program} v")


@pytest.mark.smoke
@pytest.mark.parametrize("program", ["singer-arrow", "local-cloud"])
def test_a_command_prints_its_subcommands(program: str, tmp_path: Path) -> None:
    shown = Programs(os.environ, tmp_path)(program, "--help").check().stdout
    assert "run" in shown
