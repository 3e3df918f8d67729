"""Shards: each task of a plan log is sent by one of them, under the ids of a run without shards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_runs import info, segment

from singer_arrow.errors import ConfigError
from tap_s3_files.plan_model import SMALL_OBJECT, Task, unsent
from tap_s3_files.settings import Bookmark
from tap_s3_files.shards import Shard, check_state, shard_of


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


def _rows(messages: list[dict[str, Any]]) -> list[int]:
    files = [url for m in messages if m["type"] == "BATCH" for url in m["manifest"]]
    return sorted(n for url in files for n in pq.read_table(url.removeprefix("file://"))["id"].to_pylist())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for n in range(450):
        (tmp_path / f"in/{n}.csv").write_text(f"id\n{n}\n")
    _, found, code = _tap(tmp_path, "--discover")
    assert code == 0, found
    (tmp_path / "catalog.json").write_text(found[found.index("{\n") : found.rindex("}") + 1])
    return tmp_path


@pytest.mark.full
def test_shards_of_any_count_divide_the_tasks_of_one_plan(folder: Path) -> None:
    catalog = ("--catalog", f"{folder}/catalog.json")
    _, words, code = _tap(folder, *catalog, shard="0/2")
    assert code != 0
    assert "run --write-plan first" in words
    _, words, code = _tap(folder, *catalog, "--write-plan")
    assert code == 0, words
    (folder / "in/late.csv").write_text("id\n9999\n")
    runs = [_tap(folder, *catalog, shard=f"{n}/2")[0] for n in range(2)]
    three = [_tap(folder, *catalog, shard=f"{n}/3")[0] for n in range(3)]
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
        ({"shard": "0/2", "batch_config": None}, "needs 'batch_config'"),
        ({"shard": "0/2"}, "needs --catalog"),
    ],
)
@pytest.mark.full
def test_a_shard_that_could_lose_or_repeat_rows_is_refused(folder: Path, config: dict[str, Any], text: str) -> None:
    _, words, code = _tap(folder, **config)
    assert code != 0
    assert text in words


@pytest.mark.full
def test_a_shard_sends_a_state_after_each_of_its_own_tasks_and_at_the_end(folder: Path) -> None:
    catalog = ("--catalog", f"{folder}/catalog.json")
    _tap(folder, *catalog, "--write-plan")
    messages, _, _ = _tap(folder, *catalog, shard="1/3")
    states = [m["value"]["bookmarks"]["orders"] for m in messages if m["type"] == "STATE"]
    assert [(s["segment"], s["done"], s["shard"]) for s in states] == [
        (0, 2, "1/3"),
        *[(1, 0, "1/3")] * (len(states) - 1),
    ]
    assert len(states) <= 3
    assert _ids(messages)


@pytest.mark.full
def test_a_test_of_the_settings_of_a_shard_needs_no_plan(folder: Path) -> None:
    _, words, code = _tap(folder, "--test", shard="0/2")
    assert code == 0, words


@pytest.mark.full
def test_an_object_that_changes_after_the_plan_is_read_by_the_shard_of_the_next_plan(folder: Path) -> None:
    catalog = ("--catalog", f"{folder}/catalog.json")
    _tap(folder, *catalog, "--write-plan")
    (folder / "in/7.csv").write_text("id\n7000\n")
    (folder / "in/8.csv").unlink()
    rows: list[int] = []
    warned = 0
    for n in range(2):
        messages, words, code = _tap(folder, *catalog, shard=f"{n}/2")
        assert code == 0, words
        warned += "--write-plan must run again for the new versions of" in words
        rows += _rows(messages)
        (folder / f"state-{n}.json").write_text(json.dumps(messages[-1]["value"]))
    assert warned
    assert sorted(rows) == [n for n in range(450) if n not in (7, 8)]
    assert "1 segments are new" in _tap(folder, *catalog, "--write-plan")[1]
    for n in range(2):
        messages, words, code = _tap(folder, *catalog, "--state", f"{folder}/state-{n}.json", shard=f"{n}/2")
        assert code == 0, words
        rows += _rows(messages)
    assert sorted(rows) == [*(n for n in range(450) if n not in (7, 8)), 7000]


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), count=st.integers(1, 7))
def test_each_task_is_of_one_shard(sizes: list[int], count: int) -> None:
    segments = [
        segment(n, *(info(f"{n}-{task}", size=SMALL_OBJECT + 1) for task in range(size)))
        for n, size in enumerate(sizes)
    ]
    sent = Counter(
        (pending.segment.number, pending.number, index)
        for index in range(count)
        for pending in unsent(Bookmark(), segments, shard=Shard(index, count))
        if pending.task != Task(())
    )
    tasks = Counter((number, task) for number, task, _ in sent)
    assert tasks == Counter((n, task) for n, size in enumerate(sizes) for task in range(size))


@given(size=st.integers(1, 30), rounds=st.integers(1, 3), count=st.integers(1, 12))
def test_segments_alike_give_all_shards_the_same_number_of_tasks(size: int, rounds: int, count: int) -> None:
    tasks = [(segment, task) for segment in range(rounds * count) for task in range(size)]
    assert Counter(shard_of(*place, count) for place in tasks) == dict.fromkeys(range(count), rounds * size)


@pytest.mark.parametrize("ours", [None, Shard(1, 2), Shard(0, 3)])
def test_the_state_of_another_shard_is_refused(ours: Shard | None) -> None:
    with pytest.raises(ConfigError, match=r"'s' is of shard 0/2 and this run is"):
        check_state({"shard": "0/2"}, "s", ours)


@pytest.mark.parametrize("given", [{}, {"segment": 3}, {"shard": "0/2"}])
def test_a_shard_continues_at_its_own_state_and_at_one_without_shards(given: dict[str, Any]) -> None:
    check_state(given, "s", Shard(0, 2))


@pytest.mark.full
def test_the_plan_shows_each_shard(folder: Path) -> None:
    _, words, code = _tap(folder, "--plan", "--shard-count", "2")
    assert code == 0, words
    table = [line.split() for line in words.splitlines() if line.startswith("orders ")]
    assert [(row[1], int(row[2]), int(row[4])) for row in table if "/" in row[1]] == [("0/2", 250, 2), ("1/2", 200, 1)]
    assert "orders: the largest shard reads 1." in words
    assert "leave out setting 'shard'" in _tap(folder, "--plan", "--shard-count", "2", shard="0/2")[1]
