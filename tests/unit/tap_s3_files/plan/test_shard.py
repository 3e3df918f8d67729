"""Shards: each task of a plan log is sent by one of them, under the ids of a run without shards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def _tap(folder: Path, *args: str, **config: Any) -> tuple[list[dict[str, Any]], str, int]:
    given = {
        "streams": [{"name": "orders", "path": f"{folder}/in/*.csv"}],
        "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": f"file://{folder}/out"}},
        **config,
    }
    (folder / "config.json").write_text(json.dumps(given))
    command = [sys.executable, "-m", "tap_s3_files", "--config", f"{folder}/config.json", *args]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    messages = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"')]
    return messages, ran.stdout + ran.stderr, ran.returncode


def _ids(messages: list[dict[str, Any]]) -> list[str]:
    return [m["batch_id"] for m in messages if m["type"] == "BATCH"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for n in range(450):
        (tmp_path / f"in/{n}.csv").write_text(f"id\n{n}\n")
    _, found, code = _tap(tmp_path, "--discover")
    assert code == 0, found
    (tmp_path / "catalog.json").write_text(found[found.index("{\n") : found.rindex("}") + 1])
    return tmp_path


def test_shards_of_any_count_divide_the_tasks_of_one_plan(folder: Path) -> None:
    catalog = ("--catalog", f"{folder}/catalog.json")
    _, words, code = _tap(folder, *catalog, shard="0/2")
    assert code != 0
    assert "run --write-plan first" in words
    _, words, code = _tap(folder, *catalog, "--write-plan")
    assert code == 0, words
    (folder / "in/late.csv").write_text("id\n9999\n")
    runs = [_tap(folder, *catalog, shard=f"{n}/2")[0] for n in range(2)]
    three = [_tap(folder, *catalog, shard={"index": n, "count": 3})[0] for n in range(3)]
    shared = [i for run in runs for i in _ids(run)]
    assert len(shared) == 3
    assert all(_ids(run) for run in runs)
    assert sorted(shared) == sorted(i for run in three for i in _ids(run))
    whole, _, _ = _tap(folder, *catalog)
    assert set(_ids(whole)) > set(shared)
    assert len(_ids(whole)) == 4  # the object that came after the plan
    state = runs[0][-1]["value"]
    (folder / "state.json").write_text(json.dumps(state))
    again = ("--state", f"{folder}/state.json")
    for other in ({"shard": "1/2"}, {}):
        _, words, code = _tap(folder, *catalog, *again, **other)
        assert code != 0
        assert "is of shard 0/2" in words


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"shard": "2/2"}, "must be like 0/4"),
        ({"shard": "0/2", "batch_config": None}, "set batch_config"),
        ({"shard": "0/2"}, "needs --catalog"),
    ],
)
def test_a_shard_that_could_lose_or_repeat_rows_is_refused(folder: Path, config: dict[str, Any], text: str) -> None:
    _, words, code = _tap(folder, **config)
    assert code != 0
    assert text in words
