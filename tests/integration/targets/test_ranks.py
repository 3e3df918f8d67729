"""upsert: a row never takes the place of a newer one, in whatever order runs, objects and messages come."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forked_programs import ForkedPrograms
from singer_lines import Batches, Message, record, schema, state
from tap_source import Source, moment, state_of
from warehouses import Warehouse

from local_cloud import Cloud
from target_bigquery.load import Upsert as BigQueryUpsert
from target_redshift.load import Upsert as RedshiftUpsert

UPSERT = {"load_method": "upsert"}
DELETED = "_sdc_deleted_at"
GONE = "2024-05-02T00:00:00Z"
METHODS: Mapping[str, Any] = {"bigquery": BigQueryUpsert, "redshift": RedshiftUpsert}


@pytest.fixture
def source(cloud: Cloud, s3: Any, bucket: str, tmp_path: Path) -> Source:
    return Source(s3, bucket, ForkedPrograms(cloud.environ(), tmp_path))


def config(source: Source, *, types: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    path = f"s3://{source.bucket}/in/**"
    types = types or {"id": "integer", "v": "string", DELETED: "timestamp"}
    stream = {"name": "rows", "path": path, "key_properties": ["id"], "schema": types}
    encoding = more.pop("encoding", {"format": "parquet"})
    return {"streams": [stream], "batch_config": source.batches(**encoding), **more}


def put(source: Source, key: str, second: int, *rows: tuple[int, str], deleted: bool = False) -> None:
    lines = ({"id": n, "v": v, DELETED: GONE if deleted else None} for n, v in rows)
    source.put(f"in/{key}", "".join(json.dumps(line) + "\n" for line in lines), at=moment(second))


def found(warehouse: Warehouse) -> dict[int, str]:
    return {r["id"]: r["v"] for r in warehouse.query("SELECT id, v FROM {rows}")}


def first_batch(text: str) -> str:
    """Return the lines up to the first BATCH of a run: it was killed after it."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: next(i for i, line in enumerate(lines) if '"BATCH"' in line) + 1])


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
@pytest.mark.parametrize("metadata_columns", [True, False])
def test_objects_that_come_late_do_not_replace_newer_rows(
    metadata_columns: bool, file_format: str, source: Source, warehouse: Warehouse
) -> None:
    """By the time of last change, and in the same second by key; also where rows are deleted."""
    settings = config(source, encoding={"format": file_format}, metadata_columns=metadata_columns)
    put(source, "a b.jsonl", 1, (1, "a"), (2, "a"), (3, "a"), (4, "a"), (5, "a"))
    put(source, "c.jsonl", 50, (1, "c"), (4, "c"))
    put(source, "e.jsonl", 50, (2, "e"), (4, "e"), (4, "e again"))
    first = source.run(settings)
    warehouse.load(first.stdout, **UPSERT, hard_delete=True)
    assert found(warehouse) == {1: "c", 2: "e", 3: "a", 4: "e again", 5: "a"}
    put(source, "b.jsonl", 20, (1, "b"), (3, "b"))
    put(source, "gone.jsonl", 30, (2, "gone"), (5, "gone"), deleted=True)
    put(source, "d.jsonl", 50, (1, "d"), (2, "d"))
    second = source.run(settings, state=state_of(first))
    for _ in range(2):
        warehouse.load(second.stdout, **UPSERT, hard_delete=True)
        assert found(warehouse) == {1: "d", 2: "e", 3: "b", 4: "e again"}
    again = source.run(settings)  # all is read anew, and the run is killed after its first MERGE
    warehouse.load(first_batch(again.stdout), **UPSERT, hard_delete=True)
    assert found(warehouse) == {1: "d", 2: "e", 3: "b", 4: "e again", 5: "a"}  # see docs/upsert.md: deletions
    warehouse.load(again.stdout, **UPSERT, hard_delete=True)
    assert found(warehouse) == {1: "d", 2: "e", 3: "b", 4: "e again"}


def test_without_hard_delete_a_deletion_is_a_row_with_a_rank(source: Source, warehouse: Warehouse) -> None:
    """COPY loads these files as they are; the rank is then completed from the columns of the row's object."""
    settings = {**UPSERT, "add_record_metadata": True}
    put(source, "b c'd.jsonl", 5, (1, "gone"), deleted=True)
    first = source.run(config(source))
    warehouse.load(first.stdout, **settings)
    (sent,) = first.of_type("BATCH")
    assert warehouse.one("SELECT _sdc_rank FROM {rows}") == (sent["ranks"][0][0][1],)
    put(source, "a.jsonl", 1, (1, "late"))
    warehouse.load(source.run(config(source), state=state_of(first)).stdout, **settings)
    assert warehouse.one(f"SELECT v, {DELETED} IS NULL FROM {{rows}}") == ("gone", False)


@pytest.mark.parametrize("metadata_columns", [True, False])
def test_the_parts_of_a_large_object_have_an_order(
    metadata_columns: bool, source: Source, warehouse: Warehouse
) -> None:
    rows = [f"{n % 9_000},{'first' if n < 9_000 else 'last'},{n:01000d}" for n in range(10_000)]
    source.put("in/large.csv", "id,v,pad\n" + "\n".join(rows), at=moment(1))
    types = {"id": "integer", "v": "string", "pad": "string"}
    settings = config(source, types=types, encoding={"file_mb": 1}, metadata_columns=metadata_columns)
    ran = source.run(settings)
    assert len(ran.of_type("BATCH")) > 1
    values = "SELECT v, COUNT(*) AS n FROM {rows} GROUP BY v ORDER BY v"
    again = source.run(settings)  # by the same plan log
    for text in (ran.stdout, first_batch(ran.stdout), first_batch(again.stdout)):
        warehouse.load(text, **UPSERT)
        assert warehouse.query(values) == [{"v": "first", "n": 8_000}, {"v": "last", "n": 1_000}]


@pytest.mark.parametrize(
    ("more", "root", "file_mb", "metadata_columns"),
    [({}, "other", 128, True), ({"replication_method": "FULL_TABLE"}, "stage", 3, False)],
    ids=["by a new plan log", "FULL_TABLE"],
)
def test_an_object_that_is_read_again_replaces_its_rows_wherever_it_is_cut(
    more: Mapping[str, Any], root: str, file_mb: float, metadata_columns: bool, source: Source, warehouse: Warehouse
) -> None:
    """With one more column, and with batch files of another size; a batch of that reading that comes late does not."""
    rows = [f"{n % 8_000},{n},{n:01000d}" for n in range(9_000)]
    source.put("in/large.csv", "id,v,pad\n" + "\n".join(rows), at=moment(1))
    ran = []
    for types, size, place in (({"id": "integer"}, 1, "stage"), ({"id": "integer", "v": "integer"}, file_mb, root)):
        settings = config(source, types={**types, "pad": "string"}, encoding={"file_mb": size})
        settings["streams"][0] |= {**more, "columns": [*types, "pad"]}
        settings["batch_config"]["storage"]["root"] = f"s3://{source.bucket}/{place}"
        ran.append(source.run(settings | {"metadata_columns": metadata_columns}))
    counts = [len(r.of_type("BATCH")) for r in ran]
    assert counts[0] > counts[1]
    warehouse.load(ran[0].stdout, **UPSERT)
    for text in (ran[1].stdout, first_batch(ran[1].stdout)):
        warehouse.load(text, **UPSERT)
        counted = warehouse.one("SELECT COUNT(*) AS a, COUNT(v) AS b, MIN(v) AS c, MAX(v) AS d FROM {rows}")
        assert counted == (8_000, 8_000, 1_000, 8_999)


@pytest.mark.parametrize("hard_delete", [False, True])
def test_which_of_two_ranks_is_newer(hard_delete: bool, warehouse: Warehouse, batch: Batches) -> None:
    """Those of all taps, those from before readings had ids, and those of one object in two readings."""
    at, one, two, last = "2024-05-01 10:00:05.000000", "  11111111 ", "  22222222 ", "00000.000000001000"
    pairs = {
        (f"object {at} b/k{one}{last}", f"object {at} b/k{one}00000.000000000000"): "old",
        (f"object {at} b/k{one}00002.000000000000", f"object {at} b/k{one}00010.000000000000"): "new",
        (f"object {at} b/k{two}{last}", f"object {at} b/k{one}00000.000000000000"): "new",
        (f"object {at} b/k{one}{last}", f"object {at} b/k{two}00000.000000000000"): "new",
        (f"object {at} b/k {last}", f"object {at} b/k 00000.000000000000"): "old",
        (f"object {at} b/k {last}", f"object {at} b/k{one}00000.000000000000"): "new",
        (f"object {at} b/k{one}{last}", f"object {at} b/k 00000.000000000000"): "new",
        (f"object {at} b/z{one}00000.000000000000", f"object {at} b/k{two}{last}"): "old",
        (f"object {at} b/z z{one}00000.000000000000", f"object {at} b/z{two}{last}"): "old",
        (f"object {at} b/z  z{one}00000.000000000000", f"object {at} b/z{one}{last}"): "old",
        (f"object 2024-05-01 10:00:06.000000 b/k{one}00000.000000000000", f"object {at} b/k{two}{last}"): "old",
        (f"version {2:020d} {at} b/k{one}00000.000000000000", f"version {1:020d} {at} b/k{two}{last}"): "old",
        (f"received {at}", "received 2024-05-01 10:00:04.999999"): "old",
        (f"received {at}", f"object {at} b/k{one}{last}"): "new",
        ("own 2", "own 1"): "old",
        ("own 2", "other 1"): "new",
        ("own  22222222 2", "own  11111111 1"): "old",
    }
    columns = pa.schema([("id", pa.int64()), ("v", pa.string()), (DELETED, pa.timestamp("us", "UTC"))])
    for n, v in enumerate(("old", "new")):
        gone = datetime(2024, 5, 2, tzinfo=UTC) if n and hard_delete else None
        rows = [{"id": i, "v": v, DELETED: gone} for i in range(len(pairs))]
        ranks = [[[1, pair[n]] for pair in pairs]]
        lines = [schema(columns=columns), {**batch(rows, columns=columns), "ranks": ranks}, state(n)]
        warehouse.load(lines, **UPSERT, hard_delete=hard_delete)
    expected = {i: v for i, v in enumerate(pairs.values()) if not hard_delete or v == "old"}
    assert found(warehouse) == expected


def test_objects_that_go_as_they_are_have_ranks(source: Source, warehouse: Warehouse) -> None:
    settings = config(source, types={"id": "integer", "v": "string"}, metadata_columns=False, passthrough=True)

    def put_parquet(key: str, second: int, **values: list[Any]) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table(values), sink)
        source.put(f"in/{key}.parquet", sink.getvalue(), at=moment(second))

    put_parquet("b", 1, id=[1, 2], v=["b", "b"])
    put_parquet("a", 9, id=[1, 3], v=["a", "a"])
    first = source.run(settings)
    assert [len(m["manifest"]) for m in first.of_type("BATCH") if m["passthrough"]] == [2]
    warehouse.load(first.stdout, **UPSERT)
    put_parquet("c", 5, id=[1, 2, 3, 4], v=["c"] * 4)
    warehouse.load(source.run(settings, state=state_of(first)).stdout, **UPSERT)
    assert found(warehouse) == {1: "a", 2: "c", 3: "a", 4: "c"}


@pytest.mark.parametrize("how", ["batch", "batch of jsonl", "records"])
def test_a_run_that_slept_does_not_replace_what_another_one_has_merged(
    how: str, warehouse: Warehouse, batch: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of taps without ranks count by the time of their arrival."""

    def sent(name: str, *numbers: int) -> list[Message]:
        rows = [{"id": n, "name": name} for n in numbers]
        if how == "records":
            return [record(**r) for r in rows]
        return [batch(rows, file_format="jsonl" if "jsonl" in how else "parquet")]

    warehouse.load([schema(), *sent("first", 1, 2), *sent("second", 1), state(0)], **UPSERT)
    names = "SELECT name FROM {rows} ORDER BY id"
    assert [r["name"] for r in warehouse.query(names)] == ["second", "first"]
    publish, others = METHODS[warehouse.name].publish, [[schema(), *sent("while it slept", 1), state(1)]]

    def woken(self: Any, staged: Any) -> None:
        if others:
            warehouse.load(others.pop(), **UPSERT)
        publish(self, staged)

    monkeypatch.setattr(METHODS[warehouse.name], "publish", woken)
    warehouse.load([schema(), *sent("before it slept", 1, 2), state(2)], **UPSERT)
    assert [r["name"] for r in warehouse.query(names)] == ["while it slept", "before it slept"]
    warehouse.load([schema(), *sent("later", 1, 2), state(3)], **UPSERT)
    assert [r["name"] for r in warehouse.query(names)] == ["later", "later"]


def test_rows_whose_ranks_cannot_be_compared_count_in_the_order_of_their_arrival(
    source: Source, warehouse: Warehouse, batch: Batches
) -> None:
    """A table of an earlier version, or of append-only, has none; RECORD messages and objects have others."""
    columns = pa.schema([("id", pa.int64()), ("v", pa.string())])

    def by_records(v: str) -> list[Message]:
        return [schema(columns=columns), record(id=1, v=v), record(id=2, v=v)]

    warehouse.load([schema(columns=columns), batch([{"id": 1, "v": "0"}], columns=columns)])
    assert "_sdc_rank" not in warehouse.columns("rows")
    put(source, "b.jsonl", 5, (1, "object"))
    ran = source.run(config(source, types={"id": "integer", "v": "string"}, metadata_columns=False))
    warehouse.load(ran.stdout, **UPSERT)
    assert found(warehouse) == {1: "object"}
    ((rank, *_),) = [warehouse.one("SELECT _sdc_rank FROM {rows}")]
    name = f"object 2024-05-01 10:00:05.000000 {source.bucket}/in/b.jsonl"
    assert re.fullmatch(f"{name}  [0-9a-f]{{8}} 00000.0{{12}}", rank)
    for v in ("records", "records again"):
        warehouse.load(by_records(v), **UPSERT)
        assert found(warehouse) == {1: v, 2: v}
    warehouse.load(ran.stdout, **UPSERT)
    assert found(warehouse) == {1: "object", 2: "records again"}


def test_a_rank_is_no_text_that_settings_shorten(source: Source, warehouse: Warehouse) -> None:
    """Whatever `varchar_max` is, and however long the key."""
    put(source, f"{'long/' * 190}a.jsonl", 1, (1, "a"))
    settings = {**UPSERT, **({"varchar_max": 16} if warehouse.name == "redshift" else {})}
    ran = source.run(config(source, types={"id": "integer", "v": "string"}, metadata_columns=False))
    warehouse.load(ran.stdout, **settings)
    (rank,) = warehouse.one("SELECT _sdc_rank FROM {rows}")
    assert re.search("long/a.jsonl  [0-9a-f]{8} 00000.0{12}$", rank)
