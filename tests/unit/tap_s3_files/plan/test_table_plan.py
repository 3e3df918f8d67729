"""Runs of a table, killed at any step of the plan, with changes in between: every row is loaded once."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_runs import info

from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import IMMUTABLE, Url
from tap_s3_files import plan_model as plan
from tap_s3_files.plan_log import (
    CheckpointReader,
    checkpoint_to_bytes,
    entry_from_json,
    entry_to_bytes,
    task_name,
    to_table,
)
from tap_s3_files.plan_model import Segment, Task
from tap_s3_files.settings import Watermark
from tap_s3_files.tap import TapS3Files


class KilledError(BaseException):
    """Raised where the process is killed."""


class Killer:
    """Kills the process before or after its write number `most`, of lines and of objects."""

    def __init__(self, most: int | None, *, late: bool) -> None:
        self.left, self.late = most, late
        self.lines = list[dict[str, Any]]()

    def step(self, act: Any) -> Any:
        if self.left is None:
            return act()
        self.left -= 1
        if self.left < -1 or (self.left < 0 and not self.late):
            raise KilledError
        done = act()
        if self.left < 0:
            raise KilledError
        return done


def killed_put(killer: Killer) -> Callable[..., bool]:
    """Return a method of the storage that counts as a step."""
    put = Storage.put

    def step(storage: Storage, *args: Any, **options: Any) -> bool:
        done: bool = killer.step(lambda: put(storage, *args, **options))
        return done

    return step


class Lines(io.StringIO):
    """Passes lines to the killer's list."""

    def __init__(self, killer: Killer) -> None:
        super().__init__()
        self.killer = killer

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self.killer.step(lambda line=line: self.killer.lines.append(json.loads(line)))
        return len(text)


class Table:
    """A table of Delta Lake on disk, the tap that reads it, and a target that skips batches that it has loaded."""

    def __init__(self, path: Path) -> None:
        self.path, self.url, self.count = path, str(path / "table"), 0
        self.loaded: dict[str, list[int]] = {}
        self.append(1)

    def append(self, files: int) -> None:
        rows = pa.table({"id": [self.count + n for n in range(files)], "part": [f"p {n}" for n in range(files)]})
        deltalake.write_deltalake(self.url, rows, mode="append", partition_by=["part"])
        self.count += files

    def run(self, state: Any, most: int | None, *, late: bool) -> list[dict[str, Any]]:
        """Run the tap and load its batches; return the STATEs that came."""
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"file://{self.path}/out"}}
        stream = {"name": "rows", "path": self.url, "format": "delta"}
        config = {"streams": [stream], "batch_config": batches, "metadata_columns": False, "max_workers": 1}
        killer = Killer(most, late=late)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Storage, "put", killed_put(killer))
            with redirect_stdout(Lines(killer)), suppress(KilledError):
                TapS3Files(config=config, state=state).sync_all()
        for message in (m for m in killer.lines if m["type"] == "BATCH"):
            if message["batch_id"] not in self.loaded:
                files = (Url.parse(url).local_path() for url in message["manifest"])
                rows = [row for file in files for row in pq.read_table(file).to_pylist()]
                assert all(row["part"].startswith("p ") for row in rows)
                self.loaded[message["batch_id"]] = [row["id"] for row in rows]
        return [m["value"] for m in killer.lines if m["type"] == "STATE"]

    def check(self) -> None:
        assert Counter(n for ids in self.loaded.values() for n in ids) == Counter(range(self.count))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make segments of few files."""
    monkeypatch.setattr(plan, "SEGMENT_OBJECTS", 4)
    monkeypatch.setattr(plan, "BUNDLE_OBJECTS", 2)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.full
def test_killed_at_each_step(tmp_path: Path, late: bool) -> None:
    """The snapshot of a first run is in several segments, and the table has changed when it is continued."""
    for most in range(24):
        (tmp_path / str(most)).mkdir()
        table = Table(tmp_path / str(most))
        table.append(10)
        states = table.run(None, most, late=late)
        table.append(5)
        deltalake.DeltaTable(table.url).optimize.compact()
        table.append(2)
        for state in (states[-1] if states and most % 2 else None, None):
            more = table.run(state, None, late=late)
            table.check()
        assert table.run(more[-1], None, late=late)[-1] == more[-1]


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(st.integers(0, 2**32))
@pytest.mark.full
def test_every_row_is_loaded_once(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    chance, table = random.Random(seed), Table(tmp_path_factory.mktemp("lake"))
    state: Any = None
    for _ in range(chance.randint(1, 6)):
        for _ in range(chance.randint(0, 3)):
            table.append(chance.choice([1, 3, 9]))
            if chance.random() < 0.3:
                deltalake.DeltaTable(table.url).optimize.compact()
        most = chance.choice([None, *[chance.randint(0, 30)] * 3])
        state = chance.choice([None, state, *table.run(state, most, late=chance.random() < 0.5)])
    last = table.run(state, None, late=False)[-1]
    table.check()
    assert table.run(last, None, late=False)[-1] == last


def test_the_log_keeps_what_the_table_has_about_files() -> None:
    objects = tuple(info(str(n), etag=IMMUTABLE) for n in range(3))
    tasks = (
        Task(objects[:2], values=({"p": "a b"}, {"p": None}), deletes=("", "delta:4711:00000000000000000007")),
        Task(objects[2:]),
    )
    key = "delta:4711:00000000000000000009"
    segment = Segment(4, "orders", 1, None, Watermark(objects[-1].modified, key), tasks, table_version=key)
    assert entry_from_json(json.loads(entry_to_bytes(segment))) == segment
    data, _ = checkpoint_to_bytes([[to_table([segment])]])
    assert list(CheckpointReader(data).segments(0)) == [segment]
    assert task_name("orders", tasks[0]) != task_name("orders", replace(tasks[0], deletes=()))
