"""Tables of Apache Iceberg as streams: snapshots since the STATE, renamed columns, and what ends a run."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_tables import IcebergBucket, Lake, forget, stream_of
from pyiceberg.manifest import FileFormat
from pyiceberg.types import LongType, StringType
from tap_source import ids_of, state_of

from local_cloud import Cloud
from local_cloud.programs import Programs

CHANGES = {"key_properties": ["id"], "change_feed": True}


@pytest.fixture
def table(cloud: Cloud, bucket: str, tmp_path: Path) -> IcebergBucket:
    return IcebergBucket(cloud, bucket, tmp_path)


@pytest.fixture
def lake(s3: Any, bucket: str, tap: Programs) -> Lake:
    return Lake(s3, bucket, tap)


def test_what_was_appended_since_the_state_is_sent(lake: Lake, table: IcebergBucket) -> None:
    table.add(range(3))
    table.add(range(3, 5))
    first = lake.sync(table)
    assert lake.ids(first) == [0, 1, 2, 3, 4]
    snapshot = table.table.current_snapshot().snapshot_id
    assert state_of(first)["bookmarks"]["rows"]["key"].endswith(f":{snapshot}")
    assert lake.ids(lake.sync(table, first)) == []
    table.add(range(5, 7))
    table.add([7])
    second = lake.sync(table, first)
    assert lake.ids(second) == [5, 6, 7]
    again = lake.sync(table)
    assert ids_of(again) == ids_of(first) + ids_of(second)
    assert lake.ids(again) == [*range(8)]
    # By the catalog, and by a metadata file
    env = table.by_catalog()
    config = {"streams": [stream_of(table)], "metadata_columns": False}
    config["batch_config"] = lake.batches()
    table.add([8])
    assert lake.ids(lake.tap("tap-s3-files", config=config, state=state_of(second), env=env)) == [8]
    whole = {"replication_method": "FULL_TABLE"}
    table.place = {"path": table.table.metadata_location}
    assert lake.ids(lake.sync(table, **whole)) == [*range(9)]
    # The newest one may have any name
    key = table.table.metadata_location.removeprefix(f"s3://{lake.bucket}/")
    lake.put(
        "lake/shop/orders/metadata/final.metadata.json", lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read()
    )
    forget(lake.s3, lake.bucket, [key])
    table.place = {"path": table.url}
    assert lake.ids(lake.sync(table, **whole)) == [*range(9)]


def test_of_the_rows_of_a_key_the_last_commit_has_the_newest(lake: Lake, table: IcebergBucket) -> None:
    files = dict[str, None]()  # in the order of the commits
    for _ in range(4):
        table.add([1])
        files |= dict.fromkeys(task.file.file_path for task in table.table.scan().plan_files())
    lake.sync(table, key_properties=["id"]).check()
    entry = lake.s3.get_object(Bucket=lake.bucket, Key="stage/_plans/rows/000000.json")["Body"].read()
    times = {o["url"]: o["modified"] for task in json.loads(entry)["tasks"] for o in task["objects"]}
    assert sorted(times, key=times.__getitem__) == list(files)
    assert len({*times.values()}) == 4


def test_rows_that_are_removed_end_the_run_before_anything_is_sent(lake: Lake, table: IcebergBucket) -> None:
    table.add(range(4))
    first = lake.sync(table)
    table.add([4])
    table.table.delete("id < 2")  # writes the rest of a file again
    lake.refused(lake.sync(table, first), "(overwrite) removes rows")
    lake.refused(lake.sync(table, first, ignore_deletes=True), "the stream has no key properties")
    merged = lake.sync(table, first, ignore_deletes=True, key_properties=["id"])
    assert lake.ids(merged) == [2, 3, 4]
    table.table.delete("id = 4")  # all of a file
    lake.refused(lake.sync(table, merged), "(delete) adds nothing and removes rows")
    kept = lake.sync(table, merged, ignore_deletes=True, key_properties=["id"])
    assert lake.ids(kept) == []
    assert "(delete) adds nothing and removes rows, which stay in the target's table" in kept.stderr
    assert lake.ids(lake.sync(table, replication_method="FULL_TABLE")) == [2, 3]


def test_another_table_or_an_earlier_one_is_no_continuation(lake: Lake, table: IcebergBucket) -> None:
    table.add(range(4))
    old = table.table.current_snapshot().snapshot_id
    table.add([4])
    first = lake.sync(table).check()
    full = {"replication_method": "FULL_TABLE"}
    assert lake.ids(lake.sync(table, as_of=old, **full)) == [0, 1, 2, 3]
    lake.refused(lake.sync(table, as_of=4711, **full), "it has no snapshot 4711")
    lake.refused(lake.sync(table, as_of="2020-01-01", **full), "it has no snapshot 2020-01-01")
    table.table.manage_snapshots().rollback_to_snapshot(old).commit()
    lake.refused(lake.sync(table, first), f"was read, and its newest one is snapshot {old}")
    table.add([5])
    lake.refused(lake.sync(table, first), "it has expired, or the table was rolled back")
    lake.refused(lake.sync(table), "it has expired, or the table was rolled back")
    table.drop()  # which leaves its files
    table.add(range(40, 44))
    lake.refused(lake.sync(table, first), "its folder metadata has files of several tables")
    now = {"path": table.table.metadata_location}
    lake.refused(lake.sync(table, first, **now), "is another table than the one that was read: it was made anew")


def test_a_snapshot_that_has_expired_ends_the_run(lake: Lake, table: IcebergBucket) -> None:
    table.add([0])
    first = lake.sync(table).check()
    table.add([1])
    table.add([2])
    table.table.maintenance.expire_snapshots().by_id(table.table.snapshots()[0].snapshot_id).commit()
    lake.refused(lake.sync(table, first), "it has expired, or the table was rolled back")


def test_columns_are_known_by_their_ids(lake: Lake, table: IcebergBucket) -> None:
    at = datetime(2024, 1, 1, 1, 2, 3, 4, UTC)
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    rows = {
        "id": pa.array([1]),
        "name": pa.array(["x"]),
        "price": pa.array([Decimal("1.20")], pa.decimal128(10, 2)),
        "at": pa.array([at]),
        "day": pa.array([date(2024, 1, 2)]),
        "inner": pa.array([{"a": 1, "b": "y"}], inner),
        "list": pa.array([[{"a": 2, "b": "z"}]], pa.list_(inner)),
        "map": pa.array([[("k", {"a": 3, "b": None})]], pa.map_(pa.string(), inner)),
    }
    table.create(pa.table(rows))
    first = lake.sync(table).check()
    plain = {"id": 1, "price": Decimal("1.20"), "at": at, "day": date(2024, 1, 2)}
    nested = {"inner": {"a": 1, "b": "y"}, "list": [{"a": 2, "b": "z"}], "map": [("k", {"a": 3, "b": None})]}
    assert lake.rows(first) == [plain | {"name": "x"} | nested]
    with table.table.update_schema() as update:
        update.rename_column("name", "title")
        for path in ("inner.a", "list.a", "map.value.a"):
            update.rename_column(path, "c")
        update.update_column("inner.a", LongType())
        update.delete_column("price")
    with table.table.update_schema() as update:
        update.add_column("name", StringType())  # another column than the one that files have under this name
        update.add_column("price", StringType())
    renamed = {"inner": {"c": 1, "b": "y"}, "list": [{"c": 2, "b": "z"}], "map": [("k", {"c": 3, "b": None})]}
    whole = lake.sync(table, replication_method="FULL_TABLE", name="whole")
    own = {"id": 1, "at": at, "day": date(2024, 1, 2), "title": "x", "name": None, "price": None}
    assert lake.rows(whole.check(), "whole") == [own | renamed]
    text = lake.sync(table, replication_method="FULL_TABLE", name="text", schema={"inner": "json"})
    assert text.code == 1
    assert "it is read as JSON, and the table has renamed members of it" in text.stderr


@pytest.mark.smoke
def test_partition_columns_keep_their_values(lake: Lake, table: IcebergBucket) -> None:
    texts = ["a b", "x/y%", "é=1", None, ""]
    more = {
        "at": [datetime(2024, 1, 1, 1, 2, 3, n, UTC) for n in range(5)],
        "day": [date(1969, 12, 30 + n % 2) for n in range(5)],
        "price": [Decimal(f"{n}.50") for n in range(5)],
        "yes": [True, False, None, True, False],
        "number": pa.array([n - 1 for n in range(5)], pa.int32()),
    }
    rows = pa.table({"id": [*range(5)], "text": texts, **more})
    table.create(rows, "text", *more)
    found = sorted(lake.rows(lake.sync(table).check()), key=lambda row: row["id"])
    assert found == rows.to_pylist()


def test_files_without_ids_are_refused(lake: Lake, table: IcebergBucket) -> None:
    rows = pa.table({"id": [1], "name": ["x"]})
    table.create(rows)
    out = io.BytesIO()
    pq.write_table(rows, out)
    lake.put("lake/other.parquet", out.getvalue())
    table.table.add_files([f"s3://{lake.bucket}/lake/other.parquet"])
    lake.refused(lake.sync(table), f"set the stream's allowed_roots, with 's3://{lake.bucket}/lake' in it")
    lake.refused(
        lake.sync(table, allowed_roots=[f"s3://{lake.bucket}/lake"]),
        "it has no field ids, by which the table knows its columns",
    )


@pytest.mark.parametrize("kind", [FileFormat.PARQUET, FileFormat.PUFFIN])
def test_rows_of_delete_files_are_left_out(lake: Lake, table: IcebergBucket, kind: FileFormat) -> None:
    table.add(range(20))
    table.add(range(20, 25))
    table.add([25])
    whole = lake.sync(table)
    table.mark_deleted({0, 7, 19, 22}, kind)
    table.mark_deleted({8}, kind)
    table.add([26])
    expected = [n for n in range(27) if n not in (0, 7, 8, 19, 22)]
    first = lake.sync(table, name="new")
    assert lake.ids(first, "new") == expected
    assert lake.ids(lake.sync(table, replication_method="FULL_TABLE", name="full"), "full") == expected
    lines = lake.tap("tap-s3-files", config={"streams": [stream_of(table)]}).check().of_type("RECORD")
    numbers = {m["record"]["id"]: m["record"]["_sdc_source_lineno"] for m in lines}
    assert [numbers[n] for n in (1, 6, 9, 18, 21, 23)] == [2, 7, 10, 19, 2, 4]
    # Such a version removes rows; one without is followed, also when the run before it read deletes
    lake.refused(lake.sync(table, whole), "(delete) adds nothing and removes rows")
    table.add([27])
    table.compact()
    assert lake.ids(lake.sync(table, first, name="new"), "new") == [27]
    assert lake.ids(lake.sync(table, replication_method="FULL_TABLE", name="full"), "full") == [*expected, 27]


def test_deletes_that_are_not_read_end_the_run(lake: Lake, table: IcebergBucket) -> None:
    table.add(range(4))
    first = lake.sync(table, **CHANGES)
    table.replace_keys(pa.table({"id": [2], "name": ["new"]}), [2])
    lake.refused(lake.sync(table, name="new"), "has equality deletes, which are not read. Compact the table first")
    lake.refused(
        lake.sync(table, first, **CHANGES | {"key_properties": ["name"]}),
        "has equality deletes by id, which are not key_properties",
    )
    table.replace_files(pa.table({"id": [0, 1, 2], "name": ["x", "y", "new"]}))
    refused = "deletes rows of files, of which equality deletes may have deleted some before"
    lake.refused(lake.sync(table, first, **CHANGES), refused)


def test_defaults_of_columns_are_refused(lake: Lake, table: IcebergBucket) -> None:
    """Rows of files from before such a column have its default, and not null."""
    table.add([1])
    key = table.table.metadata_location.removeprefix(f"s3://{lake.bucket}/")
    metadata = json.loads(lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read())
    amount = {"id": 9, "name": "amount", "type": "long", "required": False, "initial-default": 7, "write-default": 7}
    metadata["schemas"][0]["fields"].append(amount)
    lake.put("lake/shop/orders/metadata/00009-a.metadata.json", json.dumps(metadata | {"last-column-id": 9}))
    lake.refused(lake.sync(table), "column 'amount': rows of older files have a default for it, which is not read")
