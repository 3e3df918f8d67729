"""Tables of Delta Lake as streams: what is new since the STATE, and what ends a run before anything is sent."""

from __future__ import annotations

import base64
import io
import json
import struct
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_tables import DeltaBucket, Lake, forget, stream_of
from pyroaring import BitMap
from tap_source import ids_of, state_of

from local_cloud import Cloud
from local_cloud.programs import Programs


@pytest.fixture
def table(cloud: Cloud, bucket: str) -> DeltaBucket:
    return DeltaBucket(cloud, bucket)


@pytest.fixture
def lake(s3: Any, bucket: str, tap: Programs) -> Lake:
    return Lake(s3, bucket, tap)


def test_what_was_appended_since_the_state_is_sent(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(3))
    table.add(range(3, 5))
    first = lake.sync(table)
    assert lake.ids(first) == [0, 1, 2, 3, 4]
    assert state_of(first)["bookmarks"]["rows"]["key"].split(":")[2] == f"{1:020d}"
    assert lake.ids(lake.sync(table, first)) == []
    table.add(range(5, 7))
    table.add([7])
    second = lake.sync(table, first)
    assert lake.ids(second) == [5, 6, 7]
    # Without STATE the log is followed: the same batches
    again = lake.sync(table)
    assert ids_of(again) == ids_of(first) + ids_of(second)
    assert lake.ids(again) == [*range(8)]


def test_records_are_sent_from_state_to_state(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(3))
    first = lake.sync(table, batches=False)
    assert lake.ids(first) == [0, 1, 2]
    table.add(range(3, 5))
    second = lake.sync(table, first, batches=False)
    assert lake.ids(second) == [3, 4]
    assert lake.ids(lake.sync(table, second, batches=False)) == []


def test_files_that_are_written_anew_without_a_change_send_nothing(lake: Lake, table: DeltaBucket) -> None:
    for n in range(4):
        table.add([n])
    first = lake.sync(table)
    table.compact()
    table.vacuum()
    second = lake.sync(table, first)
    assert lake.ids(second) == []
    # The STATE has passed these versions, whose log may be gone
    version = table.table.version()
    assert state_of(second)["bookmarks"]["rows"]["key"].split(":")[2] == f"{version:020d}"
    table.table.create_checkpoint()
    forget(lake.s3, lake.bucket, [f"lake/orders/_delta_log/{n:020d}.json" for n in range(version)])
    lake.refused(lake.sync(table, first), "version 4 is not in its log any more")
    table.add([9])
    assert lake.ids(lake.sync(table, second)) == [9]
    # Without STATE, the files that the log names are gone
    lost = lake.sync(table)
    assert lost.code == 1
    assert "was planned, and is gone: a vacuum" in lost.stderr


def test_rows_that_are_removed_end_the_run_before_anything_is_sent(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(4))
    first = lake.sync(table)
    table.add([4])
    table.table.delete("id = 1")
    lake.refused(lake.sync(table, first), "version 2 (DELETE) removes rows")
    kept = lake.sync(table, first, ignore_deletes=True)
    assert lake.ids(kept) == [4]
    assert "version 2 (DELETE) removes rows, which stay in the target's table" in kept.stderr
    table.table.update(predicate="id = 2", updates={"name": "'new'"})
    lake.refused(lake.sync(table, kept, ignore_deletes=True), "the stream has no key properties")
    merged = lake.sync(table, kept, ignore_deletes=True, key_properties=["id"]).check()
    assert {row["id"]: row["name"] for row in lake.rows(merged)}[2] == "new"
    assert "only a target with load_method upsert has them once" in merged.stderr
    table.add(range(20, 22), "overwrite")
    lake.refused(lake.sync(table, merged), "(WRITE) removes rows")
    assert lake.ids(lake.sync(table, replication_method="FULL_TABLE")) == [20, 21]


def test_another_table_or_an_earlier_one_is_no_continuation(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(4))
    table.add([4])
    first = lake.sync(table).check()
    table.table.restore(0)
    lake.refused(lake.sync(table, first), "version 2 (RESTORE) brought an earlier version back")

    def keys(version: int) -> list[str]:
        return [f"lake/orders/_delta_log/{n:020d}.json" for n in range(version, 3)]

    forget(lake.s3, lake.bucket, keys(1))
    lake.refused(lake.sync(table, first), "was read, and its newest one is version 0")
    lake.refused(lake.sync(table), "was read, and its newest one is version 0")
    forget(lake.s3, lake.bucket, keys(0))
    table.add(range(40, 44))
    table.add(range(44, 46))
    table.add(range(46, 48))
    lake.refused(lake.sync(table, first), "is another table than the one that was read: it was made anew")
    lake.refused(lake.sync(table), "is another table than the one that was read: it was made anew")
    assert lake.ids(lake.sync(table, replication_method="FULL_TABLE")) == [*range(40, 48)]
    config = {"streams": [stream_of(table)], "batch_config": lake.batches(), "metadata_columns": False}
    lake.tap("tap-s3-files", config=config, **{"new-plan-log": True}).check()
    assert lake.ids(lake.sync(table)) == [*range(40, 48)]


def test_a_history_that_is_written_anew_ends_the_run(lake: Lake, table: DeltaBucket) -> None:
    """As by restoring the folder of a table from a backup: its id stays, and numbers of versions come again."""
    table.add(range(3))
    table.add([3])
    first = lake.sync(table)
    assert lake.ids(first) == [0, 1, 2, 3]
    forget(lake.s3, lake.bucket, [f"lake/orders/_delta_log/{1:020d}.json"])
    table.add([30])
    for more in range(2):
        for state in (first, None):
            lake.refused(lake.sync(table, state), "its log has another commit of that number")
        table.add([40 + more])


def test_a_stream_does_not_change_between_objects_and_a_table(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(4))
    first = lake.sync(table).check()
    files = {"path": f"{table.url}/*.parquet", "format": "parquet"}
    for state in (first, None):
        lake.refused(lake.sync(table, state, **files), "its STATE or plan log is of a table")
    other = lake.sync(table, name="files", **files).check()
    for state in (other, None):
        lake.refused(lake.sync(table, state, name="files"), "its STATE or plan log is of objects")


def test_the_schema_is_that_of_the_table(lake: Lake, table: DeltaBucket) -> None:
    types = {"d": pa.decimal128(10, 2), "t": pa.timestamp("us", "UTC"), "s": pa.struct([("a", pa.int32())])}
    values = {"d": [Decimal("1.20")], "t": [datetime(2024, 1, 1, tzinfo=UTC)], "s": [{"a": 1}]}
    table.write(pa.table({"id": [1], **{n: pa.array(v, types[n]) for n, v in values.items()}}))
    config = {"streams": [stream_of(table)], "metadata_columns": False}
    catalog = json.loads(lake.tap("tap-s3-files", config=config, discover=True).check().stdout)
    properties = catalog["streams"][0]["schema"]["properties"]
    assert list(properties) == ["id", "d", "t", "s"]
    assert properties["d"]["x-arrow-type"] == "decimal128(10, 2)"
    first = lake.sync(table).check()
    assert lake.rows(first) == [{"id": 1, "d": Decimal("1.20"), "t": values["t"][0], "s": {"a": 1}}]
    table.write(pa.table({"id": [2], "more": ["x"]}), schema_mode="merge")
    second = lake.sync(table, first).check()
    assert lake.rows(second) == [{"id": 2, "d": None, "t": None, "s": None, "more": "x"}]
    # With the former catalog the column is added, or the run ends
    for drift, code in (("evolve", 0), ("fail", 1)):
        config = {"streams": [stream_of(table, on_drift=drift)], "batch_config": lake.batches()}
        ran = lake.tap("tap-s3-files", config=config | {"metadata_columns": False}, catalog=catalog)
        assert ran.code == code
        assert "a new column: 'more' (string)" in ran.stderr
        assert ("more" in ran.of_type("SCHEMA")[-1]["schema"]["properties"]) == (code == 0)


@pytest.mark.smoke
def test_partition_columns_keep_their_values(lake: Lake, table: DeltaBucket) -> None:
    texts = ["a b", "x/y%", "é=1", "__HIVE_DEFAULT_PARTITION__", " ", "2024-01-01", None, "a\\b", "#?&+"]
    at = [datetime(2024, 1, 1, 1, 2, 3, n, tzinfo=UTC) for n in range(len(texts))]
    more = {
        "at": at,
        "day": [date(1999, 12, 31) + timedelta(n) for n in range(len(texts))],
        "price": [Decimal(f"{n}.50") for n in range(len(texts))],
        "yes": [n % 2 == 0 if n else None for n in range(len(texts))],
        "number": pa.array([n - 1 for n in range(len(texts))], pa.int16()),
    }
    rows = pa.table({"id": [*range(len(texts))], "text": texts, **more})
    for _ in range(2):  # of a snapshot, and of a commit
        table.write(rows, partition_by=["text", *more])
        first = lake.sync(table, locals().get("first")).check()
        found = sorted(lake.rows(first), key=lambda row: row["id"])
        assert found == rows.to_pylist()


def test_one_version_is_read_as_it_was(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(2))
    time.sleep(1.1)  # times of change on S3 are in whole seconds
    before = datetime.now(UTC)
    time.sleep(1.1)
    table.add(range(2, 4))
    full = {"replication_method": "FULL_TABLE"}
    assert lake.ids(lake.sync(table, **full)) == [0, 1, 2, 3]
    assert lake.ids(lake.sync(table, as_of=0, **full)) == [0, 1]
    assert lake.ids(lake.sync(table, as_of=before.isoformat(), **full)) == [0, 1]
    lake.refused(lake.sync(table, as_of=7, **full), "version 7 cannot be read")
    lake.refused(lake.sync(table, as_of=0), "set replication_method to FULL_TABLE")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"path": "s3://{bucket}/lake/*"}, "must be the folder of one table"),
        ({"path": "s3://{bucket}/nothing"}, "is no table of Delta Lake"),
        ({"after_load": {"delete": True}}, "'streams[0].after_load' is not for tables"),
        ({"on_bad_row": "rescue"}, "'streams[0].on_bad_row' is not for tables"),
        ({"on_drift": "rescue"}, "the columns of a table are known"),
        ({"change_feed": True}, "needs key_properties"),
        ({"change_feed": True, "key_properties": ["id"], "ignore_deletes": True}, "is no ignore_deletes"),
        ({"format": "parquet", "ignore_deletes": True}, "'streams[0].ignore_deletes' is for tables"),
    ],
)
def test_what_is_not_for_tables_is_refused(lake: Lake, table: DeltaBucket, more: Any, text: str) -> None:
    table.add(range(2))
    more = {n: v.format(bucket=lake.bucket) if isinstance(v, str) else v for n, v in more.items()}
    lake.refused(lake.sync(table, **more), text)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_are_mapped(lake: Lake, table: DeltaBucket, mode: str) -> None:
    """Files name columns as they were first, or know them by ids alone; the log names them as they are now."""
    names = {"name": ("c1", "c2", "c3", "c4"), "id": ("x", "y", "z", "w")}[mode]

    def field(number: int, name: str) -> pa.Field:
        return pa.field(name, pa.int64(), metadata={b"PARQUET:field_id": str(number).encode()})

    inner = pa.struct([field(4, names[3])])
    ids = pa.schema([field(1, names[0]), field(3, names[2]).with_type(inner)])
    rows = pa.table({names[0]: pa.array([1, 2]), names[2]: pa.array([{names[3]: 3}, None], inner)}, schema=ids)
    out = io.BytesIO()
    pq.write_table(rows, out)

    def column(number: int, name: str, kind: Any) -> dict[str, Any]:
        about = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
        return {"name": name, "type": kind, "nullable": True, "metadata": about}

    def commit(version: int, *actions: dict[str, Any]) -> None:
        text = "\n".join(map(json.dumps, actions))
        lake.put(f"lake/orders/_delta_log/{version:020d}.json", text)

    def meta(*columns: dict[str, Any]) -> dict[str, Any]:
        schema = {"type": "struct", "fields": columns}
        about = {"id": "4711", "format": {"provider": "parquet", "options": {}}, "partitionColumns": ["part"]}
        mapping = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}
        return {"metaData": about | {"schemaString": json.dumps(schema), "configuration": mapping, "createdTime": 0}}

    def add(name: str, part: str) -> dict[str, Any]:
        lake.put(f"lake/orders/{name}", out.getvalue())
        about = {"path": name, "partitionValues": {"c2": part}, "size": len(out.getvalue()), "modificationTime": 1}
        return {"add": about | {"dataChange": True}}

    whole = {"type": "struct", "fields": [column(4, "n", "long")]}
    columns = [column(1, "id", "long"), column(2, "part", "string"), column(3, "s", whole)]
    commit(0, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, meta(*columns), add("a.parquet", "p"))
    first = lake.sync(table).check()
    expected = [{"id": 1, "part": "p", "s": {"n": 3}}, {"id": 2, "part": "p", "s": None}]
    assert lake.rows(first) == expected
    # Renamed, and another column under a former name
    whole = {"type": "struct", "fields": [column(4, "m", "long")]}
    columns = [column(1, "number", "long"), column(2, "part", "string"), column(3, "s", whole), column(5, "id", "long")]
    commit(1, meta(*columns), add("b.parquet", "q"))
    second = lake.sync(table, first).check()
    assert lake.rows(second) == [
        {"number": 1, "part": "q", "s": {"m": 3}, "id": None},
        {"number": 2, "part": "q", "s": None, "id": None},
    ]


def test_rows_of_deletion_vectors_are_left_out(lake: Lake, table: DeltaBucket) -> None:
    """The table has files with deleted rows, which its log has by their numbers."""
    table.add(range(10))
    table.add(range(10, 14))
    version = table.table.version()

    def actions(number: int) -> list[dict[str, Any]]:
        body = lake.s3.get_object(Bucket=lake.bucket, Key=f"lake/orders/_delta_log/{number:020d}.json")["Body"].read()
        return [json.loads(line) for line in body.splitlines()]

    def delete(number: int, add: dict[str, Any], rows: list[int]) -> dict[str, Any]:
        """Commit that rows of a file are deleted."""
        bits = struct.pack("<iqI", 1681511377, 1, 0) + BitMap(rows).serialize()
        text = base64.z85encode(bits + bytes(-len(bits) % 4)).decode()
        vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bits), "cardinality": len(rows)}
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        new = add | {"deletionVector": vector}
        old = {name: add[name] for name in ("path", "deletionVector") if name in add}
        commit = [
            {"commitInfo": {"timestamp": 1, "operation": "DELETE"}},
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features},
            {"remove": old | {"dataChange": True, "deletionTimestamp": 1}},
            {"add": new},
        ]
        lake.put(f"lake/orders/_delta_log/{number:020d}.json", "\n".join(map(json.dumps, commit)))
        return new

    before = lake.sync(table, name="before").check()
    (add,) = [a["add"] for a in actions(0) if "add" in a]
    add = delete(version + 1, add, [1, 3])
    lake.refused(lake.sync(table, before, name="before"), "version 2 (DELETE) removes rows")
    first = lake.sync(table)
    rest = [0, 2, *range(4, 14)]
    assert lake.ids(first) == rest
    delete(version + 2, add, [1, 3, 4])
    assert lake.ids(lake.sync(table, replication_method="FULL_TABLE")) == [0, 2, *range(5, 14)]
    # What was planned is sent as it was then
    again = lake.sync(table, ignore_deletes=True)
    assert (ids_of(again), lake.ids(again)) == (ids_of(first), rest)
    config = {"streams": [stream_of(table, replication_method="FULL_TABLE")]}
    records = lake.rows(lake.tap("tap-s3-files", config=config).check())
    assert {r["id"]: r["_sdc_source_lineno"] for r in records} == {n: n % 10 + 1 for n in (0, 2, *range(5, 14))}


def test_a_log_with_what_other_writers_have_in_it(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(3))
    key = "lake/orders/_delta_log/00000000000000000000.json"
    body = lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read()
    actions = [json.loads(line) for line in body.splitlines()]

    def write(path: str, features: list[str], stats: str) -> None:
        for action in actions:
            if "protocol" in action:
                action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7}
                action["protocol"] |= {"readerFeatures": features, "writerFeatures": features}
            if "add" in action:
                action["add"] |= {"path": path, "stats": stats}
        lake.put(key, "\n".join(map(json.dumps, actions)))

    (name,) = [a["add"]["path"] for a in actions if "add" in a]
    stats = '{"numRecords": 3}'
    write(f"/lake/orders/{name}", ["typeWidening-preview"], stats)
    assert lake.ids(lake.sync(table)) == [0, 1, 2]
    write(name, ["variantType"], stats)
    assert lake.ids(lake.sync(table, name="variant"), "variant") == [0, 1, 2]
    write(name, ["newerThanUs"], stats)
    lake.refused(lake.sync(table, name="feature"), "newerThanUs")
    vector = {"storageType": "p", "pathOrInlineDv": f"{table.url}/gone.bin", "offset": 1, "sizeInBytes": 40}
    actions[-1]["add"] |= {"deletionVector": vector | {"cardinality": 1}}
    write(name, ["deletionVectors"], stats)
    lake.refused(lake.sync(table, name="vector"), "gone.bin")


def test_files_of_a_table_that_are_read_by_a_glob_are_named_once(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(3))
    table.add(range(3, 5), "overwrite")
    lake.put("lake/other/a.csv", "id\n1\n")
    globs = {"lake/**/*.parquet": 1, "lake/orders/*.parquet": 1, "lake/other/*.csv": 0, "lake/**/*.csv": 0}
    for number, (path, count) in enumerate(globs.items()):
        stream = {"name": f"files{number}", "path": f"s3://{lake.bucket}/{path}"}
        ran = lake.tap("tap-s3-files", config={"streams": [stream]}).check()
        line = f"{table.url} is a table, which may have removed some of these files; set format: delta"
        assert ran.stderr.count(line) == count, ran.stderr


def test_a_size_in_the_log_that_is_not_the_size_of_the_file_ends_the_run(lake: Lake, table: DeltaBucket) -> None:
    table.add(range(3))
    key = f"lake/orders/_delta_log/{0:020d}.json"
    text = lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read().decode()
    (size,) = (json.loads(line)["add"]["size"] for line in text.splitlines() if '"add"' in line)
    for wrong in (0, 1, size - 1, size + 1, 1 << 40):
        lake.put(key, text.replace(f'"size":{size}', f'"size":{wrong}'))
        ran = lake.sync(table, name=f"s{wrong}")
        assert (ran.code, ran.of_type("BATCH")) == (1, [])
        assert f"the log of its table says that it has {wrong:,} bytes, and it has {size:,}" in ran.stderr
    lake.put(key, text.replace(f'"size":{size}', f'"size":{-1}'))
    lake.refused(lake.sync(table, name="negative"), "has -1 bytes. Restore the log")


def test_files_of_another_bucket_are_read_only_below_an_allowed_root(
    cloud: Cloud, lake: Lake, table: DeltaBucket
) -> None:
    other = DeltaBucket(cloud, lake.bucket, "private/data")
    other.add(range(2))
    table.add(range(2))
    ((address, size),) = [(a["path"], a["size_bytes"]) for a in pa.table(other.table.get_add_actions()).to_pylist()]
    added = {"path": f"{other.url}/{address}", "size": size, "partitionValues": {}, "dataChange": True}
    lake.put(f"lake/orders/_delta_log/{1:020d}.json", json.dumps({"add": {**added, "modificationTime": 1}}))
    words = f"If its files may be there, set the stream's allowed_roots, with {other.url!r} in it"
    lake.refused(lake.sync(table), words)
    assert lake.ids(lake.sync(table, allowed_roots=[other.url])) == [0, 0, 1, 1]
