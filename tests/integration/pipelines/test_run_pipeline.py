"""`singer-arrow run`: both processes of a pipeline in a file, with STATE that one run at a time has."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from killed_pipeline import put_objects
from running import family_of, running
from waiting import wait_until
from warehouses import Warehouse

import singer_arrow
from local_cloud import Cloud
from local_cloud.programs import Programs
from singer_arrow import errors
from singer_arrow.load.convert import RANK

Write = Callable[..., Path]


@pytest.fixture
def write(s3: Any, warehouse: Warehouse, tmp_path: Path) -> Write:
    """Writes a pipeline of small CSV files and one large Parquet file, ids 0 to 999, and returns its path."""
    source = put_objects(s3, 5, 20, range(100, 1000))

    def make(**more: Any) -> Path:
        batches = {
            "encoding": {"format": "parquet"},
            "storage": {"root": "s3://${STAGE}/batches"},
            "target_file_mb": 0.01,
        }
        streams = [
            {"name": "rows", "path": "s3://${SOURCE:-none}/in/*.csv", "key_properties": ["id"]},
            {"name": "large", "path": ["s3://${SOURCE}/in/*.parquet"], "key_properties": ["id"]},
        ]
        described = {
            "tap": {"name": "tap-s3-files", "config": {"streams": streams, "batch_config": batches}},
            "target": {"name": f"target-{warehouse.name}", "config": warehouse.config | {"max_batch_age_seconds": 0.3}},
            "state": f"s3://{source}/state.json",
        }
        path = tmp_path / "pipeline.yml"
        path.write_text(yaml.safe_dump(described | more))
        (tmp_path / ".env").write_text(f"SOURCE={source}\nSTAGE={source}\n")
        return path

    return make


@pytest.fixture
def programs(cloud: Cloud, tmp_path: Path) -> Programs:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    return Programs(env, tmp_path)


def start(programs: Programs, path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = programs.command("singer-arrow", "run", str(path), *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=programs.env, cwd=path.parent)


def run(programs: Programs, path: Path, *arguments: str, code: int = 0) -> str:
    with start(programs, path, *arguments) as process:
        out, log = process.communicate(timeout=120)
    assert process.returncode == code, log.decode()
    return (out + log).decode()


def check_once(warehouse: Warehouse) -> None:
    counts = [Counter(row["id"] for row in warehouse.table(table)) for table in ("rows", "large")]
    assert counts == [Counter(range(100)), Counter(range(100, 1000))]


def state_of(s3: Any, path: Path) -> dict[str, Any]:
    bucket, _, key = str(yaml.safe_load(path.read_text())["state"]).removeprefix("s3://").partition("/")
    found: dict[str, Any] = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    return found


def test_a_pipeline_runs_from_its_state(programs: Programs, s3: Any, warehouse: Warehouse, write: Write) -> None:
    path = write()
    plan = run(programs, path, "--dry-run")
    assert "target-" in plan
    assert [line.split()[:2] for line in plan.splitlines() if line.startswith(("rows", "large"))][:2] == [
        ["rows", "5"],
        ["large", "1"],
    ]
    log = run(programs, path)
    assert sorted(log.splitlines()[-2:]) == ["large: 900 rows", "rows: 100 rows"]
    check_once(warehouse)
    state = state_of(s3, path)
    assert (set(state), set(state["bookmarks"])) == ({"bookmarks"}, {"rows", "large"})
    assert "rows: 0 rows" in run(programs, path)
    assert state_of(s3, path) == state
    check_once(warehouse)


def test_one_stream_alone_keeps_the_state_of_the_others(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write()
    for name, value in programs.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(path.parent)
    first = singer_arrow.run(path, only=["rows"])
    assert {name: counts["rows_written"] for name, counts in first.streams.items()} == {"rows": 100}
    second = singer_arrow.run(path, only=["l*"])
    assert {name: counts["rows_written"] for name, counts in second.streams.items()} == {"large": 900}
    assert set(state_of(s3, path)["bookmarks"]) == set(second.state["bookmarks"]) == {"rows", "large"}
    assert {name: counts["rows_written"] for name, counts in singer_arrow.run(path).streams.items()} in (
        {"rows": 0, "large": 0},
        {},
    )
    check_once(warehouse)
    with pytest.raises(errors.ConfigError, match=r"No stream of 'tap\.config' is one of rosw"):
        singer_arrow.run(path, only=["rosw"])


def test_one_stream_alone_has_all_settings_that_the_target_has_for_it(
    programs: Programs, warehouse: Warehouse, write: Write
) -> None:
    """By its alias, or by a pattern unlike that of the command; and what is named for other streams is no error."""
    for number, streams in enumerate(
        ({"all": {"load_method": "upsert"}, "large": {}}, {"?ll": {"load_method": "upsert"}})
    ):
        config = warehouse.config | {"streams": streams, "stream_maps": {"rows": {"__alias__": "all"}}}
        path = write(target={"name": f"target-{warehouse.name}", "config": config}, state=f"state{number}.json")
        run(programs, path, "--only", "r*", "--full-refresh")
    log = run(programs, path, "--only", "rows", "--full-refresh")
    assert len(warehouse.table("all")) == 100, log
    assert warehouse.query("SELECT * FROM {all} LIMIT 1")[0].get(RANK), log


def test_the_error_of_a_side_is_the_error_of_the_run(
    programs: Programs, warehouse: Warehouse, write: Write, monkeypatch: pytest.MonkeyPatch, s3: Any
) -> None:
    path = write(target={"name": f"target-{warehouse.name}", "config": {**warehouse.config, "load_method": "x"}})
    assert "Setting 'load_method' is 'x'" in run(programs, path, code=1)
    path = write()
    described = yaml.safe_load(path.read_text())
    described["tap"]["config"]["streams"][0]["schema"] = {"name": "integer"}
    for name, value in programs.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(path.parent)
    with pytest.raises(singer_arrow.errors.SingerArrowError, match=r"00000\.csv.*name") as caught:
        singer_arrow.run(described)
    assert caught.value.code == "bad-row"
    assert [row["id"] for row in warehouse.table("large")] == list(range(100, 1000))  # the other stream is loaded
    assert set(state_of(s3, path)["bookmarks"]) == {"large"}
    run(programs, path)
    check_once(warehouse)


@pytest.mark.parametrize("place", ["s3", "local"])
def test_two_runs_at_once_do_not_have_one_state(
    programs: Programs, warehouse: Warehouse, write: Write, place: str
) -> None:
    path = write(**({} if place == "s3" else {"state": "deep/state.json"}))
    with start(programs, path) as first:
        time.sleep(1)
        with start(programs, path) as second:
            logs = [process.communicate(timeout=120)[1].decode() for process in (first, second)]
    codes = [process.returncode for process in (first, second)]
    assert sorted(codes) == [0, 1], logs
    assert "Another run has " in logs[codes.index(1)]
    check_once(warehouse)


@pytest.mark.parametrize("place", ["s3", "local"])
@pytest.mark.parametrize("seconds", [1.5, 3.0])
def test_a_run_that_is_killed_is_followed_by_one_that_continues(
    programs: Programs, warehouse: Warehouse, write: Write, place: str, seconds: float
) -> None:
    path = write(**({} if place == "s3" else {"state": "state.json"}))
    with start(programs, path) as process:
        time.sleep(seconds)
        family = family_of(process.pid)
        process.kill()
        process.communicate()
    assert wait_until(lambda: not family & set(running()), seconds=60), "tap and target end with the run"
    run(programs, path)
    check_once(warehouse)


def test_sigterm_ends_a_run_after_what_is_under_way(programs: Programs, warehouse: Warehouse, write: Write) -> None:
    path = write()
    with start(programs, path, "--every", "1s", "--health", str(path.parent / "health.json")) as process:
        health = path.parent / "health.json"
        assert wait_until(health.exists, seconds=60)
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode in (0, 143)
    found = json.loads(health.read_text())
    assert (found["exit_code"], found["failures"], found["error"]) == (0, 0, None)
    run(programs, path)
    check_once(warehouse)


def test_a_description_that_is_wrong_is_one_line(programs: Programs, write: Write) -> None:
    path = write()
    good = yaml.safe_load(path.read_text())
    for change, line in (
        ({"tapp": good["tap"]}, "Setting 'tapp' does not exist; did you mean 'tap'?"),
        ({"tap": {"name": "tap-s3-files", "streams": []}}, "Setting 'tap.streams' does not exist"),
        ({"tap": {"name": "tap-nowhere"}}, "Setting 'tap.name' is 'tap-nowhere', which is no executable here"),
        ({"state": "s3://${NOWHERE}/state.json"}, "needs variable NOWHERE, which is not set"),
    ):
        path.write_text(yaml.safe_dump(good | change))
        (found,) = run(programs, path, code=1).splitlines()
        assert line in found
