"""Objects that change during a run: it reads their new versions, holds STATE back, or fails."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from plan_runs import log_in
from small_aws import BUCKET, CHANGED, SmallAws

from singer_arrow.errors import ObjectChangedError
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Fetched, Url
from tap_s3_files import plan_model as plan
from tap_s3_files.paths import ObjectFilter
from tap_s3_files.plan import MAX_TRIES, StreamPlan
from tap_s3_files.settings import StreamSettings
from tap_s3_files.tap import TapS3Files

TIME = 1_700_000_000
ROWS = 24_000
"""Rows of a large object: 24 MB, so that rows are sent before its last request."""
MODES = ["batch", "record", "record with a plan"]


class Restless(Storage):
    """Files of which one changes at the third request for its bytes; a given number of times."""

    def __init__(self, change: Callable[[], None], times: int) -> None:
        super().__init__()
        self.change, self.times, self.asked = change, times, 0

    def get(self, url: Url, **options: Any) -> Fetched:
        if url.name == "a.csv":
            self.asked += 1
            if self.asked == 3 and self.times:
                self.asked, self.times = 0, self.times - 1
                self.change()
        return super().get(url, **options)


class Source:
    """A folder with objects `b` and `c` after `a`, which changes; its versions are never the newest."""

    def __init__(self, path: Path, mode: str) -> None:
        self.path, self.mode, self.version, self.target_mb = path, mode, 0, 0.01
        (path / "in").mkdir()

    def write(self, name: str, version: str, rows: int, time: int) -> None:
        new = self.path / "new"
        new.write_text("v,text\n" + "".join(f"{version},{'x' * 1000}\n" for _ in range(rows)))
        os.utime(new, (TIME + time,) * 2)
        new.replace(self.path / "in" / name)

    def change(self, rows: int) -> None:
        """Write a new version of `a`, older than `c`."""
        self.version += 1
        self.write("a.csv", f"a{self.version}", rows, self.version)

    def tap(self, state: dict[str, Any] | None = None, **replication: Any) -> TapS3Files:
        root = f"file://{self.path}/out"
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": root}, "target_file_mb": self.target_mb}
        config = {
            "streams": [{"name": "rows", "path": str(self.path / "in" / "*")}],
            "replication": replication,
            "metadata_columns": False,
            "memory_limit_mb": 64,
            "max_workers": 1,
            **({"batch_config": batches} if self.mode == "batch" else {}),
            **({"plan_root": root} if self.mode == "record with a plan" else {}),
        }
        made = TapS3Files(config=config, state=state)
        made.shared.budget = Budget(1 << 20)  # so that little is read ahead
        return made

    def changing(self, times: int = 1, **replication: Any) -> TapS3Files:
        """Return a tap during whose run `a` changes a given number of times; the last version is small."""
        made = self.tap(**replication)
        assert made.streams
        made.shared.storage = Restless(lambda: self.change(ROWS if storage.times else 5), times)
        storage = made.shared.storage
        return made


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches small, so that rows are sent in many steps."""
    read = StreamSettings.__dataclass_fields__["read"]
    monkeypatch.setattr(read, "default", replace(read.default, block_bytes=1 << 20))


@pytest.fixture(params=MODES)
def source(tmp_path: Path, request: pytest.FixtureRequest) -> Source:
    return Source(tmp_path, request.param)


def sync(tap: TapS3Files) -> list[dict[str, Any]]:
    text = io.StringIO()
    with redirect_stdout(text):
        tap.sync_all()
    return [json.loads(line) for line in text.getvalue().splitlines()]


def sent(messages: list[dict[str, Any]]) -> Counter[str]:
    """Return the number of rows of each version."""
    found = Counter(m["record"]["v"] for m in messages if m["type"] == "RECORD")
    for message in messages:
        for url in message.get("manifest", ()):
            found.update(pq.read_table(Url.parse(url).local_path()).column("v").to_pylist())
    return found


def check_states(source: Source, messages: list[dict[str, Any]], new: Counter[str], **replication: Any) -> None:
    """Check every STATE: the rows before it and those of a run that starts from it are complete."""
    for end in [n for n, m in enumerate(messages) if m["type"] == "STATE"]:
        rest = sent(sync(source.tap(messages[end]["value"], **replication)))
        assert (sent(messages[:end]) | rest) >= new
    assert sent(sync(source.tap(messages[-1]["value"], **replication))) == Counter()


@pytest.mark.parametrize("keys_ascend", [False, True])
def test_since_it_was_listed(source: Source, keys_ascend: bool) -> None:
    source.write("a.csv", "a0", 3, 0)
    source.write("b.csv", "b", 3, 50)
    source.write("c.csv", "c", 3, 60)
    tap = source.tap(keys_ascend=keys_ascend)
    assert tap.streams
    source.change(5)
    messages = sync(tap)
    assert sent(messages) == {"a1": 5, "b": 3, "c": 3}
    check_states(source, messages, Counter(a1=5, b=3, c=3), keys_ascend=keys_ascend)


@pytest.mark.parametrize("keys_ascend", [False, True])
def test_while_it_is_read(source: Source, keys_ascend: bool, caplog: pytest.LogCaptureFixture) -> None:
    source.write("a.csv", "a0", ROWS, 0)
    source.write("b.csv", "b", 3, 50)
    source.write("c.csv", "c", 3, 60)
    messages = sync(source.changing(keys_ascend=keys_ascend))
    found = sent(messages)
    assert (source.mode != "batch") <= found.pop("a0", 0) < ROWS
    assert found == {"a1": 5, "b": 3, "c": 3}
    assert "a.csv has changed during this run, which reads its new version now" in caplog.text
    check_states(source, messages, Counter(a1=5, b=3, c=3), keys_ascend=keys_ascend)


def test_that_is_gone(source: Source) -> None:
    source.write("a.csv", "a0", 3, 0)
    source.write("b.csv", "b", 3, 50)
    tap = source.tap()
    assert tap.streams
    (source.path / "in" / "a.csv").unlink()
    messages = sync(tap)
    assert sent(messages) == {"b": 3}
    assert sent(sync(source.tap(messages[-1]["value"]))) == Counter()


def test_the_others_of_a_bundle_are_sent(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch file of several objects has no part that was sent, so the next run writes it again."""
    monkeypatch.setattr(plan, "SMALL_OBJECT", 1 << 30)
    monkeypatch.setattr(plan, "BUNDLE_BYTES", 1 << 30)
    source.write("a.csv", "a0", ROWS, 0)
    source.write("b.csv", "b", 3, 50)
    source.write("c.csv", "c", 3, 60)
    source.target_mb = 128
    tap = source.changing()
    if source.mode == "batch":
        with pytest.raises(ObjectChangedError, match="replaced or deleted while it was being read"):
            sync(tap)
        assert sent(sync(source.tap())) == {"a1": 5, "b": 3, "c": 3}
        return
    found = sent(sync(tap))
    assert 0 < found.pop("a0") < ROWS
    assert found == {"a1": 5, "b": 3, "c": 3}


@pytest.mark.full("batch")
def test_again_and_again_is_an_error_that_state_stays_before(source: Source) -> None:
    source.write("a.csv", "a0", ROWS, 0)
    source.write("c.csv", "c", 3, 60)
    text = io.StringIO()
    with redirect_stdout(text), pytest.raises(ObjectChangedError, match=r"a\.csv was replaced again and again"):
        source.changing(MAX_TRIES + 1).sync_all()
    states = [m["value"] for line in text.getvalue().splitlines() if (m := json.loads(line))["type"] == "STATE"]
    for state in states or [None]:
        assert sent(sync(source.tap(state)))[f"a{MAX_TRIES + 1}"] == 5


@pytest.mark.parametrize("is_older", [True, False])
@pytest.mark.full
def test_objects_that_changed_since_an_inventory(
    tmp_path: Path, is_older: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Objects older than the watermark are read at once; newer ones are left to a later inventory."""
    manifest = f"s3://{BUCKET}/list/manifest.json"
    with SmallAws({"in/a.csv": b"v\na0\n", "in/b.csv": b"v\nb\n"}) as server:
        server.changed["in/b.csv"] = CHANGED + timedelta(seconds=60)

        def write_inventory() -> None:
            columns = "Bucket, Key, Size, LastModifiedDate, ETag"
            rows = [
                f'"{BUCKET}","{key}","{len(body)}",'
                f'"{server.changed.get(key, CHANGED):%Y-%m-%dT%H:%M:%S.000Z}","{md5(body).hexdigest()}"\n'
                for key, body in server.objects.items()
                if key.startswith("in/")
            ]
            server.objects["list/1.csv.gz"] = gzip.compress("".join(rows).encode())
            listed = {"fileFormat": "CSV", "fileSchema": columns, "files": [{"key": "list/1.csv.gz"}]}
            text = json.dumps({"destinationBucket": f"arn:aws:s3:::{BUCKET}", **listed})
            server.objects["list/manifest.json"] = text.encode()

        def tap(state: dict[str, Any] | None = None) -> TapS3Files:
            config = {
                "streams": [{"name": "rows", "path": f"s3://{BUCKET}/in/*.csv", "schema": {"v": "string"}}],
                "replication": {"method": "inventory", "manifest_url": manifest},
                "aws": {
                    "endpoint_url": server.url,
                    "region": "eu-west-1",
                    "access_key_id": "a",
                    "secret_access_key": "b",
                },
                "metadata_columns": False,
            }
            return TapS3Files(config=config, state=state)

        write_inventory()
        running = tap()
        assert running.streams
        server.objects["in/a.csv"] = b"v\na1\n"
        server.changed["in/a.csv"] = CHANGED + timedelta(seconds=30 if is_older else 90)
        messages = sync(running)
        assert sent(messages) == ({"b": 1, "a1": 1} if is_older else {"b": 1})
        assert ("a later run reads its new version" in caplog.text) == (not is_older)
        write_inventory()
        assert sent(sync(tap(messages[-1]["value"]))) == ({} if is_older else {"a1": 1})


class QueuedStream:
    """A stream whose objects a queue announces."""

    def __init__(self, path: Path) -> None:
        self.source, self.storage = Source(path, "batch"), Storage()
        self.plan = StreamPlan(
            log_in(path), None, ObjectFilter("orders", (Url.parse(str(path / "in" / "*")),)), 1 << 20
        )
        self.source.write("a.csv", "a0", 3, 0)
        self.first = self.storage.head(Url.parse(str(path / "in" / "a.csv")))
        self.plan.queue([self.first])

    def planned(self) -> list[Any]:
        return [o for s in self.plan.queued_segments() for o in s.objects]


@pytest.fixture
def queued(tmp_path: Path) -> QueuedStream:
    return QueuedStream(tmp_path)


def test_a_changed_object_of_an_event_is_planned_again_once(queued: QueuedStream) -> None:
    assert queued.planned() == [queued.first]
    queued.source.change(5)
    queued.plan.replan(queued.storage, [queued.first])
    (again,) = queued.planned()
    assert (again.url, again.etag != queued.first.etag) == (queued.first.url, True)
    log = log_in(queued.source.path)
    assert [o for s in log.segments(0, log.next_number) for o in s.objects] == [queued.first, again]
    queued.plan.replan(queued.storage, [queued.first])  # the queue has announced the new version too
    assert not queued.plan.has_queued


def test_a_deleted_object_of_an_event_is_not_planned(queued: QueuedStream) -> None:
    assert queued.planned() == [queued.first]
    (queued.source.path / "in" / "a.csv").unlink()
    queued.plan.replan(queued.storage, [queued.first])
    assert not queued.plan.has_queued


def test_an_object_of_an_event_that_keeps_changing_is_an_error(queued: QueuedStream) -> None:
    for _ in range(MAX_TRIES):
        (last,) = queued.planned()
        queued.source.change(5)
        queued.plan.replan(queued.storage, [last])
    (last,) = queued.planned()
    queued.source.change(5)
    with pytest.raises(ObjectChangedError, match="again and again"):
        queued.plan.replan(queued.storage, [last])
