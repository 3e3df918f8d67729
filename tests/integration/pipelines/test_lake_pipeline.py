"""Tables of a lake into both warehouses: once each, over kills, lost STATE and changes of the table."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from killed_pipeline import Pipeline
from lake_tables import DeltaBucket, IcebergBucket, stream_of
from pyiceberg.manifest import FileFormat
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs

pytestmark = pytest.mark.warehouses("redshift")  # it is about what is before the warehouse


@pytest.fixture
def table(cloud: Cloud, bucket: str) -> DeltaBucket:
    return DeltaBucket(cloud, bucket)


@pytest.fixture(params=["delta", "iceberg-folder", "iceberg-catalog"])
def lake(request: pytest.FixtureRequest, cloud: Cloud, bucket: str, programs: Programs, tmp_path: Path) -> Any:
    """Return a table of each kind."""
    if request.param == "delta":
        return DeltaBucket(cloud, bucket)
    table = IcebergBucket(cloud, bucket, tmp_path)
    if request.param == "iceberg-catalog":
        programs.env.update(table.by_catalog())
    return table


@pytest.fixture
def programs(cloud: Cloud, tmp_path: Path) -> Programs:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    return Programs(env, tmp_path)


def pipeline(
    programs: Programs, warehouse: Warehouse, table: Any, folder: Path, load_method: str, **stream: Any
) -> Pipeline:
    target = warehouse.config | {"load_method": load_method}
    return Pipeline(
        programs,
        warehouse.program,
        [stream_of(table, **stream)],
        table.bucket,
        folder,
        file_mb=1,
        target=target,
        metadata_columns=False,
    )


def loaded(warehouse: Warehouse) -> list[int]:
    return [row["id"] for row in warehouse.table()]


def test_each_row_is_loaded_once(
    programs: Programs, warehouse: Warehouse, lake: DeltaBucket | IcebergBucket, tmp_path: Path
) -> None:
    pipe = pipeline(programs, warehouse, lake, tmp_path, "append-only")
    lake.add(range(50))
    lake.add(range(50, 60))
    for delay in (0.8, 1.6):  # killed at some step
        tap, target = pipe.start(state=True)
        time.sleep(delay)
        (tap if delay < 1 else target).kill()
        pipe.end(tap, target)
    pipe.run_to_the_end(state=True)
    assert loaded(warehouse) == [*range(60)]
    lake.add(range(60, 70))
    lake.compact()
    tap, target = pipe.start(state=False)
    lake.add(range(70, 75))  # while it runs
    pipe.end(tap, target)
    assert (tap.returncode, target.returncode) == (0, 0)
    pipe.run_to_the_end(state=True)
    assert loaded(warehouse) == [*range(75)]
    # Rows that were deleted in the table
    lake.delete("id < 10")
    tap, target = pipe.start(state=True)
    log, _ = pipe.end(tap, target)
    assert tap.returncode == 1
    assert re.search(r"\((DELETE|overwrite)\) removes rows", log)
    assert loaded(warehouse) == [*range(75)]


def test_the_newest_row_of_a_key_stays(
    programs: Programs, warehouse: Warehouse, table: DeltaBucket, tmp_path: Path
) -> None:
    pipe = pipeline(programs, warehouse, table, tmp_path, "upsert", key_properties=["id"], ignore_deletes=True)
    table.add(range(6))
    pipe.run_to_the_end(state=True)
    for n in range(3):  # several versions of a key in one run
        table.table.update(predicate="id < 3", updates={"name": f"'version {n}'"})
    table.add([7])
    pipe.run_to_the_end(state=True)
    names = {row["id"]: row["name"] for row in warehouse.table()}
    assert names == {n: "version 2" if n < 3 else f"name {n}" for n in (*range(6), 7)}
    pipe.run_to_the_end(state=False)
    assert {row["id"]: row["name"] for row in warehouse.table()} == names


def test_a_table_is_replaced_whole(
    programs: Programs, warehouse: Warehouse, lake: DeltaBucket | IcebergBucket, tmp_path: Path
) -> None:
    pipe = pipeline(programs, warehouse, lake, tmp_path, "overwrite", replication_method="FULL_TABLE")
    lake.add(range(6))
    pipe.run_to_the_end(state=True)
    lake.delete("id = 3")
    lake.add([9])
    pipe.run_to_the_end(state=True)
    assert loaded(warehouse) == [0, 1, 2, 4, 5, 9]
    lake.delete("id >= 0")  # all rows
    pipe.run_to_the_end(state=True)
    assert loaded(warehouse) == []


def test_a_change_feed_updates_and_deletes(
    programs: Programs, warehouse: Warehouse, table: DeltaBucket, tmp_path: Path
) -> None:
    """Recorded changes, files that are removed as a whole, an overwrite, and a key that is deleted and comes back."""
    pipe = pipeline(programs, warehouse, table, tmp_path, "upsert", key_properties=["id"], change_feed=True)
    pipe.target["hard_delete"] = True

    def check(expected: dict[int, str]) -> None:
        for state in (True, True, False):
            pipe.run_to_the_end(state=state)
            assert {row["id"]: row["name"] for row in warehouse.table()} == expected

    names = {n: f"name {n}" for n in range(8)}
    table.add(range(6), configuration={"delta.enableChangeDataFeed": "true"})
    table.add([6, 7])
    check(names)
    table.table.update(predicate="id < 2", updates={"name": "'new'"})
    table.table.delete("id = 3")
    table.table.delete("id >= 6")  # all rows of a file
    check({**dict.fromkeys((0, 1), "new"), **{n: names[n] for n in (2, 4, 5)}})
    table.add([3])
    source = pa.table({"id": [2, 9], "name": ["merged", "merged"]})
    merge = table.table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    check({0: "new", 1: "new", 2: "merged", 3: "name 3", 4: "name 4", 5: "name 5", 9: "merged"})
    table.add([5, 20], "overwrite")
    check({5: "name 5", 20: "name 20"})
    # Without the setting, deleted rows are not sent as others
    tap, target = pipeline(programs, warehouse, table, tmp_path, "upsert", key_properties=["id"]).start(state=False)
    log, _ = pipe.end(tap, target)
    assert tap.returncode == 1
    assert "it has deleted rows, and was planned with change_feed" in log


@pytest.mark.timeout(900)  # ten runs of the pipeline, one of them killed
def test_a_change_feed_of_iceberg_updates_and_deletes(
    programs: Programs, warehouse: Warehouse, cloud: Cloud, bucket: str, tmp_path: Path
) -> None:
    """Position deletes, deletion vectors, equality deletes, files that are removed, and a key that comes back."""
    table = IcebergBucket(cloud, bucket, tmp_path)
    pipe = pipeline(programs, warehouse, table, tmp_path, "upsert", key_properties=["id"], change_feed=True)
    pipe.target["hard_delete"] = True
    table.add(range(6))
    table.mark_deleted({5})  # before the first run
    table.add([6, 7])
    names = {n: f"name {n}" for n in (0, 1, 2, 3, 4, 6, 7)}

    def check(*, states: tuple[bool, ...] = (True, True, False)) -> None:
        for state in states:
            pipe.run_to_the_end(state=state)
            assert {row["id"]: row["name"] for row in warehouse.table()} == names

    check()
    # Several snapshots in one run: the rows of one file are marked twice, in both forms
    table.mark_deleted({1})
    table.mark_deleted({2, 7}, FileFormat.PUFFIN)
    table.add([8, 7])
    del names[1], names[2]
    names |= {7: "name 7", 8: "name 8"}
    check()
    table.delete("id = 3")  # writes the other rows of its file again
    table.delete("id >= 7 and id <= 8")  # all rows of a file
    del names[3], names[7], names[8]
    check()
    table.compact()
    table.add([3])
    names[3] = "name 3"
    check()
    # Rows that are replaced by their keys, over a kill
    for n in range(3):
        rows = pa.table({"id": pa.array([0, 20 + n], pa.int64()), "name": [f"version {n}"] * 2})
        table.replace_keys(rows, [0, 4])
    del names[4]
    names |= {0: "version 2", 20: "version 0", 21: "version 1", 22: "version 2"}
    tap, target = pipe.start(state=True)
    time.sleep(1.2)
    target.kill()
    pipe.end(tap, target)
    check()
