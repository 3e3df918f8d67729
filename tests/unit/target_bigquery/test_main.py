"""The executable answers simple options without imports, and reports errors without a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def run(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from target_bigquery.__main__ import main; sys.argv[0] = 'target-bigquery'; main()"
    command = [sys.executable, "-X", "importtime", "-c", code, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60, env=env)


def log_lines(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in ran.stderr.splitlines() if not line.startswith("import time:")]


@pytest.mark.full
def test_version_needs_no_library() -> None:
    ran = run("--version")
    assert ran.returncode == 0
    assert ran.stdout.startswith("target-bigquery v")
    imported = {line.split("|")[-1].strip().split(".")[0] for line in ran.stderr.splitlines()}
    assert not imported & {"singer_sdk", "google", "pyarrow", "polars", "boto3", "jsonschema"}


@pytest.mark.full
def test_about_lists_every_setting_and_capability() -> None:
    about = json.loads(run("--about", "--format=json").stdout)
    assert {"batch", "activate-version", "hard-delete", "target-schema", "stream-maps"} <= set(about["capabilities"])
    assert {"project", "load_method", "replay", "gcs_stage"} <= set(about["settings"]["properties"])
    secret = about["settings"]["properties"]["credentials_json"]
    assert secret["writeOnly"]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"project": "p", "dataset": "d", "projct": 1}, "Setting 'projct' does not exist; did you mean 'project'?"),
        ({"project": "p", "dataset": "d", "gcs_stage": "gs:/b"}, "Setting 'gcs_stage' is 'gs:/b'; it reads gs://"),
        ({"project": "p"}, "Setting 'dataset' is missing"),
        ("not json", "is not valid JSON"),
        ("[1]", "must hold a JSON object"),
        (None, "cannot be read: No such file or directory"),
    ],
    ids=str,
)
@pytest.mark.full
def test_wrong_settings_are_one_line(config: Any, line: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if config is not None:
        path.write_text(config if isinstance(config, str) else json.dumps(config))
    ran = run("--config", str(path))
    assert ran.returncode == 1
    assert ran.stdout == ""
    lines = log_lines(ran)
    assert "Traceback" not in ran.stderr
    assert sum(line in found for found in lines) == 1
    assert [found for found in lines if "INFO" not in found and line not in found] == []


@pytest.mark.full
def test_what_no_target_understands_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"project": "p", "dataset": "d"}))
    for stdin in ('{"type": "RECORD"}\n', '{"stream": "x"}\n', "not json\n", '{"type": "NONE"}\n', "[]\n", "\n"):
        ran = run("--config", str(path), stdin=stdin)
        assert ran.returncode == 1, stdin
        assert "Traceback" not in ran.stderr, (stdin, ran.stderr)
        assert "ERROR" in log_lines(ran)[-1], stdin


@pytest.mark.full
def test_debug_shows_where(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"project": "p"}))
    assert "Traceback" in run("--config", str(path), LOG_LEVEL="debug").stderr
