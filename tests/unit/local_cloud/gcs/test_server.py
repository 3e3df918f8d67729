"""The local Google Cloud Storage, and our storage layer as its client."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from local_cloud.gcs import server
from local_cloud.gcs.objects import Objects
from singer_arrow.errors import NotFoundError, ObjectChangedError
from singer_arrow.load.staging import PARTS, StagingFolder
from singer_arrow.storage import store as storages
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Lifetime, Url


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    held = Objects(tmp_path / "gcs")
    held.create_bucket("b")
    serving = server.start(held)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"127.0.0.1:{serving.server_port}")
    yield held
    serving.shutdown()
    serving.server_close()


@pytest.fixture
def storage(objects: Objects) -> Storage:
    return Storage()


def url(key: str) -> Url:
    return Url("gs", "b", key)


def test_objects_are_files_and_come_back(objects: Objects, storage: Storage, tmp_path: Path) -> None:
    assert storage.put(url("a/b c%41.txt"), b"hello")
    assert (objects.folder / "b" / "a" / "b c%41.txt").read_bytes() == b"hello"
    info = storage.head(url("a/b c%41.txt"))
    assert info.size == 5
    assert abs((datetime.now(UTC) - info.modified).total_seconds()) < 60
    assert bytes(storage.get(url("a/b c%41.txt"), start=1, end=3, version_of=info).data) == b"el"
    assert bytes(storage.get(url("a/b c%41.txt"), suffix=2).data) == b"lo"
    assert storage.download(url("a/b c%41.txt"), tmp_path / "x") == 5
    storage.put(url("a/b c%41.txt"), b"other")
    with pytest.raises(ObjectChangedError):
        storage.get(url("a/b c%41.txt"), version_of=info)
    assert not storage.put(url("a/b c%41.txt"), b"third", if_absent=True)
    assert storage.put(url("new"), b"third", if_absent=True)


def test_what_is_in_the_folder_is_there(objects: Objects, storage: Storage) -> None:
    path = objects.folder / "b" / "x" / "y"
    path.parent.mkdir()
    path.write_bytes(b"12")
    assert [(o.url.key, o.size) for o in storage.list(url("x/"))] == [("x/y", 2)]
    assert bytes(storage.get(url("x/y")).data) == b"12"


def test_lists_are_in_order_and_in_pages(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_PAGE", 3)
    keys = sorted(["p/a", "p/b/c", "p/\u00e4", "p/Z", *(f"p/n{n}" for n in range(5))], key=str.encode)
    for key in [*keys, "q"]:
        storage.put(url(key), b"x")
    assert [o.url.key for o in storage.list(url("p/"))] == keys
    assert [o.url.key for o in storage.list(url("p/"), after=keys[3])] == keys[4:]


def test_large_objects_come_in_parts(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storages, "_PART", 5 << 20)
    content = bytes(range(256)) * (44 << 10)
    (tmp_path / "large").write_bytes(content)
    storage.put(url("large"), tmp_path / "large")
    assert bytes(storage.get(url("large")).data) == content
    assert (tmp_path / "large").exists()
    assert storage.put_file(url("large"), tmp_path / "large") == len(content)
    assert not (tmp_path / "large").exists()


def test_a_stage_holds_few_parts_in_memory(
    objects: Objects, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most, put_part = set[int](), list[int](), Objects.put_part

    def slow(self: Objects, upload: str, number: int, path: Path) -> str:
        under_way.add(number)
        time.sleep(0.05)
        most.append(len(under_way))
        under_way.discard(number)
        return put_part(self, upload, number, path)

    monkeypatch.setattr(Objects, "put_part", slow)
    monkeypatch.setattr(storages, "_PART", 5 << 20)
    (tmp_path / "large").write_bytes(bytes(40 << 20))
    stage = StagingFolder(storage, url("stage"), logging.getLogger("x"))
    assert stage.put(stage.name("large"), tmp_path / "large") == 40 << 20
    assert len(most) == 8
    assert max(most) <= PARTS


def test_an_object_with_a_lifetime_has_its_date(objects: Objects, storage: Storage) -> None:
    storage.put(url("staged"), b"x", lifetime=Lifetime(3))
    storage.put(url("plain"), b"x")
    stored, file = objects.get("b", "staged")
    file.close()
    assert stored.headers["x-goog-custom-time"] == f"{datetime.now(UTC):%Y-%m-%dT00:00:00Z}"
    stored, file = objects.get("b", "plain")
    file.close()
    assert "x-goog-custom-time" not in stored.headers


def test_what_is_gone_is_no_error_and_a_missing_bucket_is_one(storage: Storage) -> None:
    for key in ("a", "c"):
        storage.put(url(key), b"x")
    storage.delete([url("a"), url("b"), url("c")])
    assert list(storage.list(url(""))) == []
    missing = Url("gs", "nowhere", "x")
    with pytest.raises(NotFoundError, match="gs://nowhere does not exist; check the bucket"):
        storage.delete([missing])
    with pytest.raises(NotFoundError, match="gs://nowhere does not exist"):
        storage.put(missing, b"")
    with pytest.raises(NotFoundError, match="gs://b/x does not exist"):
        storage.get(url("x"))
