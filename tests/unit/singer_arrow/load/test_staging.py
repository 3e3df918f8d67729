"""Staged files: named by their purpose, written atomically, and removed when no longer needed."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from singer_arrow.errors import CredentialsError, ServiceError
from singer_arrow.load import staging as stages
from singer_arrow.load.staging import FOLDER, LEFTOVER, LIFETIME, Remover, StagingFolder
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

logger = logging.getLogger("target-x")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


@pytest.fixture
def stage(folder: Path) -> StagingFolder:
    return StagingFolder(Storage(), Url.parse(folder.as_uri()), logger)


def objects(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def test_names_hold_stream_and_batch_and_are_used_once(stage: StagingFolder, folder: Path) -> None:
    urls = [stage.name("a b/../c", "batch-1", suffix=".parquet") for _ in range(3)]
    assert len(set(urls)) == 3
    root = Url.parse(folder.as_uri()).join(FOLDER)
    for number, url in enumerate(urls):
        assert url.key.startswith(f"{root.key}/20")
        assert url.name == f"a_b_.._c-batch-1-{number:05d}.parquet"
    others = StagingFolder(Storage(), Url.parse(folder.as_uri()), logger)
    assert others.name("a b/../c", "batch-1", suffix=".parquet") not in urls


def test_bytes_and_files_are_put_and_files_stay(stage: StagingFolder, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"content")
    for data in (path, b"content"):
        url = stage.name("x")
        assert stage.put(url, data) == 7
        assert url.local_path().read_bytes() == b"content"
    assert path.exists()
    stage.remove([url, url])
    assert not url.local_path().exists()


def test_leftovers_of_other_runs_go_but_nothing_else(stage: StagingFolder, folder: Path) -> None:
    fresh = stage.name("fresh")
    stage.put(fresh, b"x")
    limit = LEFTOVER.total_seconds()
    ages = {"20200101T000000Z_ab/x": limit + 60, "20200101T000000Z_ab/y": limit - 60, "../data/x": 10 * limit}
    for name, age in ages.items():
        path = folder / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age,) * 2)
    stage.remove_leftovers()
    kept = [folder / FOLDER / "20200101T000000Z_ab" / "y", folder / "data" / "x", fresh.local_path()]
    assert objects(folder) == sorted(kept)


class Refusing(Storage):
    """A storage that refuses tags, or is busy for a while."""

    def __init__(self, *, tags: bool = False, busy: int = 0) -> None:
        super().__init__()
        self.tags, self.busy, self.asked = tags, busy, list[Any]()

    def put(self, url: Url, data: bytes | Path, *, lifetime: Any = None, **more: Any) -> bool:
        self.asked.append(lifetime)
        if len(self.asked) <= self.busy:
            msg = "busy"
            raise ServiceError(msg)
        if lifetime is not None and not self.tags:
            msg = f"{url}: access is denied (AccessDenied: s3:PutObjectTagging)"
            raise CredentialsError(msg)
        return True


def test_without_the_right_to_tag_files_are_staged_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    storage = Refusing()
    stage = StagingFolder(storage, Url.parse("s3://b/p"), logger)
    for _ in range(3):
        stage.put(stage.name("x"), b"x")
    assert storage.asked == [LIFETIME, None, None, None]
    assert [m for m in caplog.messages if "s3:PutObjectTagging; leftovers are for a rule by prefix" in m] != []
    assert len(caplog.messages) == 1
    elsewhere = StagingFolder(
        Refusing(), Url.parse("gs://b/p"), logger
    )  # which has no tags: the denial has another cause
    with pytest.raises(CredentialsError):
        elsewhere.put(elsewhere.name("x"), b"x")


def test_a_busy_storage_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages.Waiting, "before_again", lambda *_: None)
    storage = Refusing(tags=True, busy=3)
    stage = StagingFolder(storage, Url.parse("s3://b/p"), logger)
    assert stage.put(stage.name("x"), b"abc") == 3
    assert len(storage.asked) == 4
    monkeypatch.setattr(stages, "DEADLINE_SECONDS", 0)
    with pytest.raises(ServiceError, match="busy"):
        StagingFolder(Refusing(busy=9), Url.parse("s3://b/p"), logger).put(Url.parse("s3://b/x"), b"")


class Noting(Storage):
    """A storage that records removals, once they are allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.removed = threading.Event(), list[list[str]]()
        self.fails: dict[str, Exception] = {}

    def delete(self, urls: Iterable[Url]) -> None:
        self.gate.wait(60)
        found = list(urls)
        for url in found:
            if url.bucket in self.fails:
                raise self.fails[url.bucket]
        self.removed.append(sorted(url.key for url in found))


def test_a_remover_removes_many_at_once_in_the_background(caplog: pytest.LogCaptureFixture) -> None:
    storage = Noting()
    remover = Remover(lambda: storage, logger)
    for n in range(4):
        remover.remove([Url("s3", "b", str(n))])
    remover.close(0.01)
    assert storage.removed == []
    storage.gate.set()
    remover.close(60)
    assert sorted(key for some in storage.removed for key in some) == ["0", "1", "2", "3"]
    assert len(storage.removed) <= 2
    assert caplog.messages == ["Files that are not needed any more are still being removed; some may stay"]
    remover.remove([])
    remover.close(60)


def test_a_bucket_that_refuses_keeps_no_other_files_from_being_removed(caplog: pytest.LogCaptureFixture) -> None:
    storage = Noting()
    storage.gate.set()
    storage.fails = {"batches": CredentialsError("access is denied"), "odd": RuntimeError("new\nline")}
    remover = Remover(lambda: storage, logger)
    for _ in range(2):  # also the second time: the errors ended nothing
        remover.remove([Url("s3", bucket, key) for bucket in ("stage", "batches", "odd") for key in ("1", "2")])
        remover.close(60)
    assert storage.removed == [["1", "2"]] * 2
    lines = [f"Of 2 files some could not be removed, and stay: {why}" for why in ("access is denied", "new\\nline")]
    assert caplog.messages == lines * 2
