"""Archived objects: a run fails and lists them, or skips and counts them; schema discovery ignores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedPrograms

from local_cloud import Cloud
from local_cloud.programs import Ran


class Source:
    """A bucket whose objects may be archived, and the tap that reads it."""

    def __init__(self, cloud: Cloud, s3: Any, bucket: str, folder: Path) -> None:
        self.s3, self.bucket = s3, bucket
        self._tap = ForkedPrograms(cloud.environ(), folder)

    def put(self, key: str, body: bytes, kind: str = "STANDARD") -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, StorageClass=kind)

    def run(self, **stream: Any) -> Ran:
        given = {"name": "rows", "path": f"s3://{self.bucket}/in/*.csv", **stream}
        config = {"streams": [given], "plan_root": f"s3://{self.bucket}/plans", "metadata_columns": False}
        return self._tap("tap-s3-files", config=config)


@pytest.fixture
def source(cloud: Cloud, s3: Any, bucket: str, tmp_path: Path) -> Source:
    made = Source(cloud, s3, bucket, tmp_path)
    made.put("in/a.csv", b"id\n1\n")
    made.put("in/b.csv", b"id,other\n2,3\n", "DEEP_ARCHIVE")
    made.put("in/c.csv", b"id\n4\n")
    return made


def test_an_archived_object_ends_a_run(source: Source) -> None:
    ran = source.run()
    assert ran.code == 1
    assert "Traceback" not in ran.stderr
    assert f"s3://{source.bucket}/in/b.csv is archived" in ran.stderr
    assert ran.stderr.endswith("restore it from its storage class, or set the stream's 'archived' to skip [archived]\n")


def test_archived_objects_are_skipped_and_counted(source: Source) -> None:
    ran = source.run(archived="skip").check()
    assert [m["record"] for m in ran.of_type("RECORD")] == [{"id": 1}, {"id": 4}]
    assert f"s3://{source.bucket}/in/b.csv is archived; it is no sample" in ran.stderr
    assert f"s3://{source.bucket}/in/b.csv is archived and was skipped" in ran.stderr
    assert "; 1 object skipped" in ran.stderr


@pytest.mark.parametrize("archived", ["fail", "skip"])
def test_a_stream_of_which_all_is_archived(archived: str, source: Source) -> None:
    ran = source.run(path=f"s3://{source.bucket}/in/b.csv", archived=archived)
    assert ran.code == (1 if archived == "fail" else 0)
    why = "Stream 'rows' is left out of this run: its samples are archived, so its columns are unknown"
    assert (why in ran.stderr) == (archived == "skip")
    assert ran.of_type("RECORD") == []
