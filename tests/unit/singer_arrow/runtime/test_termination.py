"""Signals end a run with their exit code and one line, also while a log line is written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import signal_while_logging

CONNECTORS = {
    "tap-s3-files": ("Beginning sync", "Interrupted ({}); the next run continues from the last STATE"),
    "target-bigquery": ("completed processing", "Interrupted ({})"),
    "target-redshift": ("completed processing", "Interrupted ({})"),
}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, dict[str, object]]:
    (tmp_path / "a.csv").write_text("id\n1\n")
    redshift = {"host": "localhost", "user": "u", "password": "p", "dbname": "d", "default_target_schema": "s"}
    return {
        "tap-s3-files": {"streams": [{"name": "s", "path": f"{tmp_path}/*.csv"}]},
        "target-bigquery": {"project": "p", "dataset": "d"},
        "target-redshift": {**redshift, "s3_stage": "s3://stage/x"},
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", CONNECTORS)
@pytest.mark.full
def test_a_signal_while_a_line_is_logged(
    tmp_path: Path, settings: dict[str, dict[str, object]], name: str, number: signal.Signals
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(settings[name]))
    text, line = CONNECTORS[name]
    program = [sys.executable, signal_while_logging.__file__, number.name, text, name, "--config", str(config)]
    ran = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert ran.returncode == 128 + number, ran.stderr
    lines = ran.stderr.splitlines()
    (at,) = [i for i, found in enumerate(lines) if text in found]
    assert [found.rpartition(" | ")[2] for found in lines[at + 1 :]] == [line.format(number.name)]
