"""`manifest_roots`: URLs below a root are accepted, and every way around it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.warehouse.settings import LoadSettings, Roots


def refused(roots: list[str], url: str) -> bool:
    try:
        Roots.parse(roots).check("rows", [url])
    except DataError as error:
        return "is outside of manifest_roots" in str(error)
    return False


@pytest.mark.parametrize(
    ("root", "url"),
    [
        ("s3://bucket/ab", "s3://bucket/ab/1.parquet"),
        ("s3://bucket/ab/", "s3://bucket/ab/c/1.parquet"),
        ("s3://bucket", "s3://bucket/any/1.parquet"),
        ("s3://bucket/", "s3a://bucket/1.parquet"),
        ("S3://bucket/ab", "s3://bucket/ab/day=2026%2F01/1.parquet"),  # a key of Hive, in which %2F is no slash
        ("s3://bucket/ab", "s3://bucket/ab/..b/1..parquet"),
        ("gs://bucket/ab", "gcs://bucket/ab/1.parquet"),
        ("https://host/ab", "https://host/ab/1.parquet?sig=x"),
        ("s3://bucket/1.parquet", "s3://bucket/1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab/line\nbreak\t1.parquet"),
    ],
)
def test_what_is_below_a_root(root: str, url: str) -> None:
    assert not refused([root], url)
    assert not refused(["s3://other", root], url)


@pytest.mark.parametrize(
    ("root", "url"),
    [
        ("s3://bucket/ab", "s3://bucket/abc/1.parquet"),
        ("s3://bucket/ab/", "s3://bucket/abc"),
        ("s3://bucket/ab", "s3://bucket/AB/1.parquet"),
        ("s3://bucket/ab", "s3://Bucket/ab/1.parquet"),
        ("s3://bucket", "s3://bucket2/1.parquet"),
        ("s3://bucket/ab", "s3://bucket//ab/1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab/../c/1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab/./1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab/%2e%2E/c/1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab/%252e%252e/c/1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab/..%2fc/1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab/..%5cc/1.parquet"),
        ("s3://bucket/ab", "s3://bucket/ab\\..\\c"),
        ("s3://bucket/ab", "s3://bucket/ab/" + "%25" * 3 + "25" * 1000),
        ("s3://bucket/ab", "s3://bucket/ab/.\t./c"),
        ("sftp://host/ab", "sftp://host/ab/.\t./.\r./c"),
        ("sftp://host/ab", "sftp://host/ab/\n../c"),
        ("sftp://host/ab", "sftp://host/ab/%\t2e%2e/c"),
        ("sftp://host/ab", "sftp://host/ab/.%0a./c"),
        ("s3://bucket/ab", "s3://bucket"),
        ("s3://bucket/ab", "gs://bucket/ab/1.parquet"),
        ("s3://bucket/ab", "https://bucket.s3.amazonaws.com/ab/1.parquet"),
        ("s3://bucket/ab", "/etc/passwd"),
        ("s3://bucket/ab", "file:///bucket/ab/1.parquet"),
        ("s3://bucket/ab", "s3:///ab/1.parquet"),
        ("s3://bucket/ab", " "),
        ("https://host/ab", "https://host@evil/ab/1.parquet"),
        ("https://host/ab", "https://host:81/ab/1.parquet"),
        ("https://host/ab", "http://host/ab/1.parquet"),
        ("/data", "/data\0/1.parquet"),
        ("/data", "/dat"),
        ("/data", "s3://data/1.parquet"),
    ],
)
def test_what_is_not(root: str, url: str) -> None:
    assert refused([root], url)


def test_local_files_are_where_their_links_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "in side", tmp_path / "in side-not"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "1.parquet").touch()
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "1.parquet")
    (inside / "own").symlink_to(inside / "1.parquet")
    (tmp_path / "way in").symlink_to(inside)
    monkeypatch.chdir(tmp_path)
    root = [str(inside)]
    for allowed in (
        *(f"{inside}/1.parquet", (inside / "1.parquet").as_uri(), "in side/1.parquet", "file://in%20side/1.parquet"),
        *(f"{inside}/own", f"{tmp_path}/way in/1.parquet", f"{outside}/../in side/1.parquet", f"{inside}/gone.parquet"),
    ):
        assert not refused(root, allowed), allowed
        assert not refused([str(tmp_path / "way in")], allowed), allowed
    for wrong in (
        *(f"{outside}/1.parquet", f"{inside}/../in side-not/1.parquet", f"{inside}/link/1.parquet", f"{inside}/file"),
        *((inside.as_uri() + "/%2e%2e/in%20side-not/1.parquet"), "in side-not/1.parquet", f"{inside}%2f1.parquet"),
        *(str(inside).upper(), "/"),
    ):
        assert refused(root, wrong), wrong


def test_the_first_file_outside_is_named_and_its_secrets_are_not() -> None:
    roots = Roots.parse(["s3://bucket/ab", "sftp://user:SECRET@host/x", "/data"])
    with pytest.raises(DataError) as caught:
        roots.check(
            "rows", ["s3://bucket/ab/1", "https://user:SECRET@host/x.parquet?X-Amz-Signature=SECRET", "s3://c/d"]
        )
    assert str(caught.value) == (
        "'https://host/x.parquet' in the manifest of stream 'rows' is outside of manifest_roots "
        "(s3://bucket/ab, sftp://host/x, file:///data). Add its folder there if the tap may write to it"
    )


@pytest.mark.parametrize("root", ["s3://", "s3:///x", " ", "s3://bucket/a/../b", "/da\0ta"])
def test_roots_that_name_no_place(root: str) -> None:
    with pytest.raises(ConfigError, match="Setting 'manifest_roots' has .* a root reads s3://bucket/folder"):
        Roots.parse([root])


def test_the_error_of_an_invalid_root_shows_no_password() -> None:
    with pytest.raises(ConfigError) as caught:
        Roots.parse(["sftp://user:SECRET@host/data/../x?SECRET"])
    assert "'sftp://host/data/../x'" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_local_root_with_a_percent_sign_holds_what_is_in_it(tmp_path: Path) -> None:
    assert not refused([f"{tmp_path}/a%20b"], f"{tmp_path}/a%20b/1.parquet")
    assert refused([f"{tmp_path}/a%20b"], f"file://{tmp_path}/a%20b/1.parquet")


def default_error(url: str, own: str | None = None) -> str:
    """Return why a file is refused without configured roots; empty if it is not."""
    try:
        Roots.parse([], own).check("rows", [url])
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("url", ["s3://b/k", "s3a://b/../k", "gs://b/k", "gcs://b/k", "az://b/k", "abfss://b/k"])
def test_without_roots_files_may_be_on_object_storage(url: str) -> None:
    assert not default_error(url)
    assert not default_error(url, "/data")


@pytest.mark.parametrize(
    "url", ["/etc/passwd", "file:///etc/passwd", "file:/etc/passwd", "local:///etc/passwd", "FILE:///etc/passwd"]
)
@pytest.mark.parametrize("own", [None, "", "s3://bucket/etc", "https://host/etc", "/data", "/et", "/etc/p"])
def test_without_roots_local_files_are_refused(url: str, own: str | None) -> None:
    assert "is a local file outside of the target's own batch_config.storage.root" in default_error(url, own)


def test_the_error_of_a_local_file_names_the_settings(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    url = (place / "x" / "1.parquet").as_uri()
    advice = f". If a bucket was meant, begin the tap's batch root with s3://. Else add '{place}/x' to manifest_roots"
    start = f"'{url}' in the manifest of stream 'rows' is a local file outside of the target's own "
    assert default_error(url) == f"{start}batch_config.storage.root (which is not set){advice}"
    assert default_error(url, "/data") == f"{start}batch_config.storage.root (file:///data){advice}"
    assert not default_error(url, f"{place}/x")
    assert not refused([f"{place}/x"], url)


def test_without_roots_servers_are_refused() -> None:
    for scheme in ("http", "https", "ftp", "sftp", "hdfs", "webhdfs"):
        assert default_error(f"{scheme}://user:SECRET@127.0.0.1:80/x?SECRET", "/data") == (
            f"'{scheme}://127.0.0.1:80/x' in the manifest of stream 'rows' is not on object storage (s3, gs, az). "
            f"If the tap may write there, set manifest_roots, with '{scheme}://127.0.0.1:80' in it"
        )
        assert not refused([f"{scheme}://host"], f"{scheme}://host/x")


def test_links_and_dots_do_not_lead_out_of_the_own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "own", tmp_path / "own-not"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "1.parquet").touch()
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "1.parquet")
    monkeypatch.chdir(tmp_path)
    for own in (str(inside), inside.as_uri(), "own", "file://own", f"{inside}/"):
        assert not default_error(f"{inside}/1.parquet", own)
        assert not default_error("file://own/1.parquet", own)
        for wrong in (
            *(f"{outside}/1.parquet", f"{inside}/../own-not/1.parquet", f"{inside}/link/1.parquet", f"{inside}/file"),
            *(inside.as_uri() + "/%2e%2e/own-not/1.parquet", "own-not/1.parquet", "/"),
        ):
            assert "is a local file outside of" in default_error(wrong, own), wrong


@pytest.mark.parametrize("url", ["", " ", "s3://", "file:///a\0b", "http://"])
def test_without_roots_what_names_no_place_is_refused(url: str) -> None:
    assert "in the manifest of stream 'rows' names no place" in default_error(url, "/")


def test_roots_that_are_set_are_all_there_are() -> None:
    roots = Roots.parse(["s3://bucket/ab"], "/data")
    for url in ("/data/1.parquet", "s3://other/1.parquet"):
        with pytest.raises(DataError, match="is outside of manifest_roots"):
            roots.check("rows", [url])


def test_the_root_is_that_of_the_targets_own_batch_config() -> None:
    def roots(**given: object) -> Roots:
        return LoadSettings.from_config(given).manifest_roots

    local = {"encoding": {"format": "jsonl"}, "storage": {"root": "file:///data"}}
    roots(batch_config=local).check("rows", ["/data/1"])
    for given in ({}, {"batch_config": None}, {"batch_config": {}}, {"batch_config": {"storage": None}}):
        with pytest.raises(DataError, match="which is not set"):
            roots(**given).check("rows", ["/data/1"])
