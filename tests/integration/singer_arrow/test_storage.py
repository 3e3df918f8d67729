"""Storage against a real S3: pinned versions, atomic writes, and errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_aws import BUCKET, SmallAws

from local_cloud import Cloud
from singer_arrow.errors import NotFoundError, ObjectChangedError, ServiceError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url


@pytest.fixture
def storage(cloud: Cloud) -> Storage:
    options = AwsOptions(
        endpoint_url=cloud.s3_url, access_key_id="test", secret_access_key="testtesttest", region="us-east-1"
    )
    return Storage(options)


@pytest.fixture
def root(bucket: str) -> Url:
    return Url("s3", bucket, "")


def test_put_get_list_delete(storage: Storage, root: Url) -> None:
    url = root.join("a", "x y+é.txt")
    assert storage.put(url, b"hello")
    assert not storage.put(url, b"other", if_absent=True)
    assert bytes(storage.get(url, start=1, end=3).data) == b"el"
    assert bytes(storage.get(url, suffix=2).data) == b"lo"
    (info,) = storage.list(root.join("a", "x"))
    assert (info.url, info.size) == (url, 5)
    assert info == storage.head(url)
    storage.delete([url, root.join("never")])
    with pytest.raises(NotFoundError):
        storage.head(url)


def test_a_bucket_that_does_not_exist(storage: Storage, tmp_path: Path) -> None:
    url = Url("s3", "no-such-bucket-at-all", "a.txt")
    (tmp_path / "a.txt").write_bytes(b"hello")
    for use in (
        lambda: storage.put(url, b"hello"),
        lambda: storage.put_file(url, tmp_path / "a.txt"),
        lambda: storage.delete([url]),
        lambda: storage.get(url),
        lambda: list(storage.list(url)),
    ):
        with pytest.raises(NotFoundError, match=r"s3://no-such-bucket-at-all does not exist"):
            use()


def test_a_listing_reads_all_pages() -> None:
    expected = {f"many/{number:04d}" for number in range(10)}
    with SmallAws(dict.fromkeys([*expected, "many.csv", "others/1"], b"x"), page=4) as server:
        small = Storage(AwsOptions(endpoint_url=server.url, anonymous=True))
        listed = list(small.list(Url("s3", BUCKET, "many/")))
        assert sorted(info.url.key for info in listed) == sorted(expected)
        assert {info.size for info in listed} == {1}
        assert len(server.requests) == 3


def test_folders_are_listed_without_what_they_hold(storage: Storage, root: Url, tmp_path: Path) -> None:
    for key in ("in/a b/x/1", "in/a+é%2F/2", "in/b/3", "in/b/4", "in/5", "inner/6"):
        storage.put(root.join(key), b"x")
        storage.put(Url.parse(str(tmp_path)).join(key), b"x")
    for place in (root, Url.parse(str(tmp_path))):
        inside = place._replace(key=f"{place.join('in').key}/")
        assert storage.folders(inside) == ["a b", "a+é%2F", "b"]
        assert storage.folders(inside._replace(key=f"{inside.key}a")) == ["a b", "a+é%2F"]
        assert storage.folders(inside._replace(key=f"{inside.key}c/")) == []
    assert storage.folders(root) == ["in", "inner"]


def test_a_pinned_read_never_mixes_versions(storage: Storage, root: Url) -> None:
    url = root.join("x")
    storage.put(url, b"first")
    pinned = storage.head(url)
    storage.put(url, b"second")
    with pytest.raises(ObjectChangedError, match="was replaced or deleted"):
        storage.get(url, start=2, end=4, version_of=pinned)
    storage.delete([url])
    with pytest.raises(ObjectChangedError):
        storage.get(url, version_of=pinned)


def test_a_large_file_goes_up_in_parts_and_comes_down(storage: Storage, root: Url, tmp_path: Path) -> None:
    data, source = os.urandom(33 << 20), tmp_path / "source"
    source.write_bytes(data)
    assert storage.put_file(root.join("big"), source) == len(data)
    assert not source.exists()
    storage.download(root.join("big"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_missing(storage: Storage, root: Url) -> None:
    with pytest.raises(NotFoundError, match=rf"s3://{root.bucket}/nope does not exist"):
        storage.get(root.join("nope"))
    with pytest.raises(NotFoundError, match="s3://no-such-bucket-here does not exist; check"):
        list(storage.list(Url.parse("s3://no-such-bucket-here/x/")))


def test_a_dead_server_is_one_line(root: Url) -> None:
    dead = AwsOptions(endpoint_url="http://127.0.0.1:9", access_key_id="a", secret_access_key="b", region="us-east-1")
    with pytest.raises(ServiceError, match="did not answer") as caught:
        Storage(dead).head(root.join("x"))
    assert "\n" not in str(caught.value)
