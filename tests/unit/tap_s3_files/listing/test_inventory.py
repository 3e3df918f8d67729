"""The files of an S3 Inventory become columns of a listing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from singer_arrow.errors import DataError
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.listing import Listing, read_inventory

TIME = datetime(2024, 5, 1, 10, tzinfo=UTC)
ROW = '"{bucket}","{key}","{latest}","{marker}","{size}","2024-05-01T10:00:00.000Z","{etag}"'
DIGEST, PARTS = "0a" * 16, f"{'0b' * 16}-3"


def row(
    key: str, bucket: str = "b", latest: str = "true", marker: str = "false", size: str = "1", etag: str = DIGEST
) -> str:
    return ROW.format(bucket=bucket, key=quote_plus(key), latest=latest, marker=marker, size=size, etag=etag)


def listed(folder: Path, *rows: str) -> dict[str, ObjectInfo]:
    """Return the objects of an inventory of one file by URL."""
    (folder / "rows.csv").write_text("\n".join(rows) + "\n")
    schema = "Bucket, Key, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
    files = [{"key": str(folder / "rows.csv").lstrip("/")}]
    manifest = {"destinationBucket": "arn:aws:s3:::", "fileFormat": "CSV", "fileSchema": schema, "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    listing = Listing()
    for bucket, found in read_inventory(Storage(), Url.parse(str(folder / "manifest.json")), Budget()):
        listing.add_rows(bucket, found)
    return {str(info.url): info for info in listing}


@pytest.mark.parametrize(
    "keys", [["day=1/t=10:00/a.csv"], ["a b+c%3D%20.csv", "é\U0001f600.csv", "d=1"], ["a\nb", "c=d"]]
)
def test_keys_are_decoded(tmp_path: Path, keys: list[str]) -> None:
    assert set(listed(tmp_path, *map(row, keys))) == {f"s3://b/{key}" for key in keys}


def test_rows_of_older_versions_markers_and_folders_are_left_out(tmp_path: Path) -> None:
    old, marker, folder = row("old", latest="false"), row("gone", marker="true", size="", etag=""), row("folder/")
    found = listed(tmp_path, old, row("a"), marker, row("b", bucket="c"), folder, row("d", latest="", marker=""))
    assert set(found) == {"s3://b/a", "s3://c/b", "s3://b/d"}


def test_etags_are_as_in_answers_of_s3(tmp_path: Path) -> None:
    rows = (row("digest"), row("parts", etag=PARTS), row("none", etag=""), row("quoted", etag=f'""{DIGEST}""'))
    found = listed(tmp_path, *rows)
    assert {url.rpartition("/")[2]: info.etag for url, info in found.items()} == {
        "digest": f'"{DIGEST}"',
        "parts": f'"{PARTS}"',
        "none": None,
        "quoted": f'"{DIGEST}"',
    }
    assert found["s3://b/digest"] == ObjectInfo(Url("s3", "b", "digest"), 1, f'"{DIGEST}"', TIME)


@pytest.mark.parametrize(
    ("bad", "words"),
    [(row("a", size=""), "'a' has no size or no time"), (row("").replace('""', ""), "a row of it names no object")],
)
def test_a_row_that_is_not_complete_is_an_error(tmp_path: Path, bad: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        listed(tmp_path, row("b"), bad)
    assert "rows.csv" in str(caught.value)


@pytest.mark.parametrize(("bucket", "key"), [("other", "a.csv"), ("", "a\0.csv"), ("", 5)])
def test_files_outside_of_the_own_bucket_of_a_manifest_are_refused(tmp_path: Path, bucket: str, key: object) -> None:
    files = {"fileFormat": "Parquet", "fileSchema": "", "files": [{"key": key}]}
    (tmp_path / "manifest.json").write_text(json.dumps({"destinationBucket": f"arn:aws:s3:::{bucket}", **files}))
    manifest = Url("file", "", str(tmp_path / "manifest.json").lstrip("/"))
    with pytest.raises(DataError, match="it names files outside of its own bucket"):
        list(read_inventory(Storage(), manifest, Budget()))
