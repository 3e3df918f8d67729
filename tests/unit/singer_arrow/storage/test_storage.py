"""Storage on local disk; S3 and its errors are in tests/integration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from singer_arrow.errors import ConfigError, DataError, EmptyObjectError, NotFoundError, ObjectChangedError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url


@pytest.fixture
def root(tmp_path: Path) -> Url:
    return Url.parse(str(tmp_path))


def test_put_get_list_delete(root: Url) -> None:
    storage, url = Storage(), root.join("a", "x y.txt")
    assert storage.put(url, b"hello")
    assert not storage.put(url, b"other", if_absent=True)
    assert bytes(storage.get(url).data) == b"hello"
    assert bytes(storage.get(url, start=1, end=3).data) == b"el"
    assert (storage.get(url, suffix=2).start, bytes(storage.get(url, suffix=2).data)) == (3, b"lo")
    assert bytes(storage.get(url, start=2).data) == b"llo"
    assert [i.url for i in storage.list(root)] == [url]
    assert [i.url for i in storage.list(root.join("a", "x"))] == [url]
    assert list(storage.list(root.join("a", "z"))) == []
    storage.delete([url, root.join("never")])
    with pytest.raises(NotFoundError):
        storage.head(url)


def test_a_place_that_takes_no_folder_is_an_error(root: Url) -> None:
    Storage().put(root.join("file"), b"")
    with pytest.raises(ConfigError, match=r"x\.txt cannot be written: folder .*file: .*; name another place"):
        Storage().put(root.join("file", "x.txt"), b"")


def test_a_pinned_read_never_mixes_versions(root: Url) -> None:
    storage, url = Storage(), root.join("x")
    storage.put(url, b"first")
    pinned = storage.head(url)
    assert bytes(storage.get(url, start=0, end=2, version_of=pinned).data) == b"fi"
    storage.put(url, b"second")
    with pytest.raises(ObjectChangedError, match="was replaced or deleted"):
        storage.get(url, start=2, end=4, version_of=pinned)
    storage.delete([url])
    with pytest.raises(ObjectChangedError):
        storage.get(url, version_of=pinned)


def test_put_file_moves_and_download_copies(root: Url, tmp_path: Path) -> None:
    data, source = os.urandom(3 << 20), tmp_path / "source"
    source.write_bytes(data)
    url = root.join("deep", "er", "file.bin")
    assert Storage().put_file(url, source) == len(data)
    assert not source.exists()
    assert Storage().download(url, tmp_path / "copy") == len(data)
    assert (tmp_path / "copy").read_bytes() == data


def test_missing_and_empty(root: Url) -> None:
    storage = Storage()
    with pytest.raises(NotFoundError, match=r"nope does not exist"):
        storage.get(root.join("nope"))
    storage.put(root.join("empty"), b"")
    with pytest.raises(EmptyObjectError, match="empty"):
        storage.get(root.join("empty"), start=0, end=10)


def test_a_scheme_that_cannot_be_listed() -> None:
    with pytest.raises(ConfigError, match="one object at a time"):
        list(Storage().list(Url.parse("ftp://host/x")))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"regoin": "x"}, "no 'regoin'"),
        ({"access_key_id": "x"}, "belong together"),
        ({"external_id": "x"}, "aws.external_id is for a role"),
        ({"role_session_name": "x"}, "aws.role_session_name is for a role"),
        ({"sse_customer_key": "x"}, "the base64 text of 32 bytes"),
        ({"role_arn": "reader"}, "aws.role_arn is 'reader'; a role reads arn:aws:iam"),
    ],
)
def test_aws_settings(config: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        AwsOptions.from_config(config)


def test_no_secret_is_printed() -> None:
    options = AwsOptions.from_config(
        {
            "access_key_id": "AKIAX",
            "secret_access_key": "s3cr3t",
            "session_token": "t0k3n",
            "sse_customer_key": "k3y" + "a" * 40 + "=",
        }
    )
    assert not [word for word in ("AKIAX", "s3cr3t", "t0k3n", "k3y") if word in repr(options)]


def test_an_error_is_one_line_whatever_a_key_holds(root: Url) -> None:
    with pytest.raises(NotFoundError, match=r"line\\nbreak does not exist$"):
        raise NotFoundError(f"{root.join('line')}\nbreak does not exist")


@pytest.mark.parametrize("key", ["a//b", "a/./b", "a/../b", "a/\tb"])
def test_a_key_that_only_s3_has(key: str, root: Url) -> None:
    with pytest.raises(DataError, match="which only S3 is read with"):
        Storage().head(Url(root.scheme, "", key))
