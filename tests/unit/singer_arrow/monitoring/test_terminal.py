"""Progress on a terminal: percentages rise to 100, log lines stay whole, colors and rows can be turned off."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pseudo_terminal import percentages, run_on_terminal

SLOW = """
import sys, time
from singer_arrow.sdk import cli
from tap_s3_files import convert as write_batches
def load():
    from tap_s3_files import stream
    from tap_s3_files.tap import TapS3Files
    convert = write_batches.convert_task
    def slowly(*args, **options):
        time.sleep(0.5)
        yield from convert(*args, **options)
    write_batches.convert_task = slowly
    return TapS3Files.cli
sys.argv[0] = "tap-s3-files"
cli.run_connector("tap-s3-files", load)
"""
"""The tap, with half a second more for each task."""


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    row = "1,some text that makes the row longer\n"
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text("id,name\n" + row * 240_000)
    storage = {"encoding": {"format": "parquet"}, "storage": {"root": str(tmp_path / "batches")}}
    stream = {"name": "rows", "path": str(tmp_path / "*.csv")}
    return {"streams": [stream], "batch_config": storage, "max_workers": 1}


def run(config: dict[str, Any], tmp_path: Path, columns: int = 120, **env: str) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-c", SLOW, "--config", str(file)]
    code, shown = run_on_terminal(command, {"PATH": "/usr/bin:/bin", **env}, columns=columns)
    assert code == 0, shown
    return shown


@pytest.mark.full
def test_percentages_rise_to_100(config: dict[str, Any], tmp_path: Path) -> None:
    shown = run(config, tmp_path)
    found = percentages(shown)
    assert found == sorted(found)
    assert found[0] < 50
    assert found[-1] == 100
    assert len(set(found)) >= 4
    assert "5/5 objects" in shown
    assert "MB/s" in shown
    assert " left" in shown
    assert shown.endswith("\r\x1b[2K")  # nothing of the row stays
    lines = [line for line in shown.replace("\r\x1b[2K", "\n").split("\n") if "Read rows: 1,200,000 rows" in line]
    assert [line[:2] for line in lines] == ["20"]
    assert "\x1b[" in shown.replace("\x1b[2K", "")


@pytest.mark.full
def test_no_color(config: dict[str, Any], tmp_path: Path) -> None:
    shown = run(config, tmp_path, NO_COLOR="1")
    assert percentages(shown)[-1] == 100
    assert not [code for code in ("\x1b[9", "\x1b[3") if code in shown]


@pytest.mark.full
def test_a_narrow_terminal_has_one_row(config: dict[str, Any], tmp_path: Path) -> None:
    shown = run(config, tmp_path, columns=50, NO_COLOR="1")
    rows = [row for row in shown.split("\r\x1b[2K") if row.count("%") == 1]
    assert rows
    plain = [row.split("\r\n")[-1].replace("\x1b[1m", "").replace("\x1b[0m", "") for row in rows]
    assert max(map(len, plain)) < 50
    ends = r"%|\d:\d\d left|\d/5 objects|B|B/s|rows"
    assert not [row for row in plain if not re.search(f"({ends})$", row)]  # no detail is cut


@pytest.mark.parametrize(("settings", "env"), [({"log_format": "json"}, {}), ({}, {"TERM": "dumb"})])
@pytest.mark.full
def test_lines_instead_of_a_row(
    config: dict[str, Any], tmp_path: Path, settings: dict[str, Any], env: dict[str, str]
) -> None:
    shown = run({**config, **settings}, tmp_path, **env)
    assert "\x1b" not in shown
    if settings:
        logged = [json.loads(line) for line in shown.splitlines()]
        gauges = {line["metric_info"]["metric"]: line["metric_info"] for line in logged if "metric_info" in line}
        assert gauges["objects_left"]["value"] == gauges["bytes_left"]["value"] == 0
        assert gauges["lag_seconds"]["tags"] == {"stream": "rows"}
