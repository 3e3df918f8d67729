"""`manifest_roots`: what is below a root, and every way around it that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from singer_arrow.batch.roots import Roots
from singer_arrow.errors import ConfigError, DataError


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
    assert not refused([], url)


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


def test_a_root_that_names_no_place_is_told_without_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        Roots.parse(["sftp://user:SECRET@host/data/../x?SECRET"])
    assert "'sftp://host/data/../x'" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_local_root_with_a_percent_sign_holds_what_is_in_it(tmp_path: Path) -> None:
    assert not refused([f"{tmp_path}/a%20b"], f"{tmp_path}/a%20b/1.parquet")
    assert refused([f"{tmp_path}/a%20b"], f"file://{tmp_path}/a%20b/1.parquet")
