"""Staged files and batch files are removed after the STATE that covers them is written, not before."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from singer_lines import Batches, Message, lines, rows, schema, state, states
from waiting import wait_until
from warehouses import Warehouse

from local_cloud.programs import Programs
from singer_arrow.errors import SingerArrowError
from singer_arrow.load.run import StateOutput
from singer_arrow.load.staging import FOLDER
from singer_arrow.storage.store import Storage
from singer_arrow.warehouse import run


class Staged:
    """A stage for this test only.

    Attributes:
        settings: Settings with which a target uses it.
        objects: Names of its objects.
    """

    def __init__(self, settings: dict[str, Any], objects: Callable[[], list[str]]) -> None:
        self.settings, self.objects = settings, objects


@pytest.fixture
def stage(warehouse: Warehouse, request: pytest.FixtureRequest) -> Staged:
    """Create an empty stage for each warehouse, with the settings for it."""
    if warehouse.name == "bigquery":
        folder: Path = request.getfixturevalue("gcs_bucket")
        found = lambda: sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())  # noqa: E731
        return Staged({"gcs_stage": f"gs://{folder.name}/stage"}, found)
    s3, bucket = request.getfixturevalue("s3"), request.getfixturevalue("bucket")
    listed = lambda: sorted(o["Key"] for o in s3.list_objects_v2(Bucket=bucket).get("Contents", []))  # noqa: E731
    return Staged({"s3_stage": f"s3://{bucket}/stage"}, listed)


def odd(batch: Batches, first: int, count: int, **more: Any) -> Message:
    """Return a batch that must be staged, because its file is on local disk."""
    return batch(rows(first, count), **more)


def test_what_was_staged_goes_after_its_state(
    warehouse: Warehouse, stage: Staged, batch: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    emit, delete = StateOutput.write, Storage.delete
    monkeypatch.setattr(StateOutput, "write", lambda self, s: (emit(self, s), seen.append(s["n"])))
    monkeypatch.setattr(Storage, "delete", lambda self, urls: (seen.extend(u.name for u in urls), delete(self, urls)))
    monkeypatch.setattr(run, "Limits", partial(run.Limits, items=1))
    messages = [schema()]
    for n in range(4):
        messages += [odd(batch, 2 * n, 2, batch_id=f"b{n}"), state(n)]
    warehouse.load([*messages, odd(batch, 8, 2, batch_id="b4")], **stage.settings)
    assert warehouse.one("SELECT COUNT(*) AS n FROM {rows}") == (10,)
    for n in range(4):
        files = [i for i, name in enumerate(seen) if str(name).startswith(f"rows-b{n}-")]
        assert files
        assert any(s >= n for s in seen[: files[0]] if isinstance(s, int)), seen
    left = stage.objects()  # no STATE came after the last one
    assert left
    assert all(f"/{FOLDER}/" in f"/{key}" and "rows-b4-" in key for key in left)


def test_without_any_state_it_goes_at_the_end(warehouse: Warehouse, stage: Staged, batch: Batches) -> None:
    warehouse.load([schema(), odd(batch, 0, 2)], **stage.settings)
    assert stage.objects() == []


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
def test_what_was_staged_stays_if_the_load_fails(
    method: str, warehouse: Warehouse, stage: Staged, batch: Batches, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if warehouse.name == "bigquery":
        request.getfixturevalue("fail_jobs")({"job": "load", "match": warehouse.schema, "reason": "invalid"})
    else:
        refused = {"match": "^COPY ", "action": "error", "code": "XX000", "message": "no such thing"}
        request.getfixturevalue("redshift_faults")(refused)
    message = odd(batch, 0, 2, batch_id="b0")
    cleaning = {"clean_up_batch_files": True, "manifest_roots": [str(tmp_path)]}
    with pytest.raises(SingerArrowError):
        warehouse.load([schema(), message, state(1)], load_method=method, **stage.settings, **cleaning)
    assert any("rows-b0-" in key for key in stage.objects())
    if warehouse.name == "redshift":
        s3, bucket = request.getfixturevalue("s3"), request.getfixturevalue("bucket")
        tags = [s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"] for key in stage.objects()]
        assert tags == [[{"Key": "sdc-expires", "Value": "3d"}]] * len(tags)
    assert Path(message["manifest"][0].removeprefix("file://")).exists()


class Fed:
    """A target as a process that receives messages one by one."""

    def __init__(self, command: list[str], env: dict[str, str], out: Path) -> None:
        self._out = out
        with out.open("wb") as stdout:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE, env=env
            )

    def send(self, *messages: Message) -> None:
        assert self.process.stdin
        self.process.stdin.write(lines(messages).encode())
        self.process.stdin.flush()

    def states(self) -> list[int]:
        return states(self._out.read_text())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=60)


@pytest.fixture
def fed(warehouse: Warehouse, stage: Staged, cold: Programs, tmp_path: Path) -> Iterator[Callable[..., Fed]]:
    started: list[Fed] = []

    def start(**settings: Any) -> Fed:
        config = warehouse.config | stage.settings | settings
        started.append(Fed(cold.command(warehouse.program, config=config), cold.env, tmp_path / "states"))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


def test_killed_before_its_state_nothing_is_removed_and_nothing_is_lost(
    warehouse: Warehouse, stage: Staged, batch: Batches, fed: Callable[..., Fed], tmp_path: Path
) -> None:
    """The files exist until STATE is written, even if the run is killed; those of the dead run are kept."""
    (tmp_path / "batches").mkdir()
    made = Batches(tmp_path / "batches")
    cleaning = {"clean_up_batch_files": True, "manifest_roots": [str(tmp_path / "batches")]}
    run = [schema(), odd(made, 0, 2, batch_id="b0")]
    files = [tmp_path / "batches" / "1.parquet"]
    target = fed(max_batch_age_seconds=0.1, **cleaning)
    target.send(*run)
    wait_until(stage.objects)
    wait_until(lambda: warehouse.one("SELECT COUNT(*) AS n FROM {rows}") == (2,))
    assert stage.objects()
    assert files[0].exists()
    target.kill()
    assert target.states() == []
    left = stage.objects()
    assert left
    assert files[0].exists()

    target = fed(max_batch_age_seconds=0.1, **cleaning)
    target.send(*run, odd(made, 2, 2, batch_id="b1"), state(1))
    files.append(tmp_path / "batches" / "2.parquet")
    wait_until(lambda: not files[1].exists())
    assert target.states() == [1]
    wait_until(lambda: stage.objects() == left)
    wait_until(lambda: not files[0].exists())  # it was loaded before and is skipped; now a STATE covers it
    target.kill()
    assert warehouse.one("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM {rows}") == (4, 4)
