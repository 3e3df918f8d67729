"""A versioned bucket in which the newest version of an object is removed, so that the one before it is there again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tap_source import Source, moment, state_of
from warehouses import Warehouse

from local_cloud.programs import Programs


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Iterator[Source]:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    yield Source(s3, bucket, tap)
    found = s3.list_object_versions(Bucket=bucket)
    for version in [*found.get("Versions", ()), *found.get("DeleteMarkers", ())]:
        s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])


def test_a_warning_says_which_rows_are_of_a_version_that_was_removed(source: Source, warehouse: Warehouse) -> None:
    source.csv("in/a.csv", 0, 2, at=moment(0))
    source.csv("in/b.csv", 50, 1, at=moment(0))
    first = source.run()
    warehouse.load(first.stdout)
    source.csv("in/a.csv", 10, 2, at=moment(60))
    second = source.run(state=state_of(first))
    warehouse.load(second.stdout)
    assert [row["id"] for row in warehouse.table()] == [0, 1, 10, 11, 50]
    versions = source.s3.list_object_versions(Bucket=source.bucket, Prefix="in/a.csv")["Versions"]
    (newest,) = [v["VersionId"] for v in versions if v["IsLatest"]]
    source.s3.delete_object(Bucket=source.bucket, Key="in/a.csv", VersionId=newest)

    third = source.run(state=state_of(second))
    found = re.search(r"in/a.csv: its version of (\S+ \S+) was removed since it was read", third.stderr)
    assert found, third.stderr
    warehouse.load(third.stdout)
    warehouse.query(f"DELETE FROM {{rows}} WHERE _sdc_source_modified_at = '{found[1]}'")
    assert [row["id"] for row in warehouse.table()] == [0, 1, 50]
    warehouse.load(source.run().stdout)  # without STATE
    assert [row["id"] for row in warehouse.table()] == [0, 1, 50]
