"""on_bad_row: dead_letter of the tap: bad rows leave the stream, and arrive once in the table `_sdc_rejected`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import parquet
from tap_source import Source, moment, state_of
from warehouses import Warehouse

from local_cloud.programs import Programs, Ran

TYPES = {"id": "integer", "n": "integer"}
GOOD = [1, 4, 5, 7, 8]
BAD = [
    ("in/a.csv", 3, "n", {"id": "2", "n": "two"}),
    ("in/a.csv", 4, None, {"_raw": "3"}),
    ("in/b.jsonl", 2, "n", {"id": 6, "n": "six"}),
    ("in/b.jsonl", 3, None, {"_raw": '{"id": 6,'}),
    ("in/c.parquet", 2, "n", {"id": 9, "n": "nine"}),
    ("in/d.csv", 2, "n", {"id": "10", "n": "ten"}),
]
"""Key, position, column and record of the bad rows; nothing else is in the last object."""


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


@pytest.fixture
def objects(source: Source) -> Source:
    source.put("in/a.csv", "id,n\n1,10\n2,two\n3\n4,40\n", at=moment(1))
    source.put("in/b.jsonl", '{"id": 5, "n": 50}\n{"id": 6, "n": "six"}\n{"id": 6,\n{"id": 7}\n', at=moment(2))
    table = pa.table({"id": [8, 9], "n": ["80", "nine"]})
    source.put("in/c.parquet", parquet(table), at=moment(3))
    source.put("in/d.csv", "id,n\n10,ten\n", at=moment(4))
    return source


def config(source: Source, *, batches: bool = True, on_bad_row: str = "dead_letter", **stream: Any) -> dict[str, Any]:
    made = {"path": f"s3://{source.bucket}/in/*", "schema": TYPES, "on_bad_row": on_bad_row, "key_properties": ["id"]}
    root = {"batch_config": source.batches()} if batches else {}
    return source.config(stream={**made, **stream}, metadata_columns=False, **root)


def rejected(warehouse: Warehouse, source: Source) -> list[tuple[str, int, str | None, dict[str, Any]]]:
    found = warehouse.table("_sdc_rejected", "file, position") if "_sdc_rejected" in warehouse.tables() else []
    assert all(row["stream"] == "rows" and row["reason"] and row["batch_id"] for row in found)
    prefix = f"s3://{source.bucket}/"
    return [
        (row["file"].removeprefix(prefix), row["position"], row["column_name"], json.loads(row["record"]))
        for row in found
    ]


def ids(warehouse: Warehouse) -> list[int]:
    return [row["id"] for row in warehouse.table()]


def without_end(ran: Ran) -> list[dict[str, Any]]:
    """Return the messages of a run whose pipe broke after its rows and before any STATE of them."""
    return [m for m in ran.messages if m["type"] != "STATE" or "rejected_batch" in m]


@pytest.mark.parametrize(
    ("batches", "method", "settings"),
    [
        (True, "append-only", {}),
        (True, "upsert", {}),
        (True, "overwrite", {"on_bad_row": "dead_letter"}),
        (False, "upsert", {}),
        (False, "overwrite", {}),
    ],
)
def test_each_bad_row_arrives_once_also_over_broken_runs(
    batches: bool, method: str, settings: dict[str, Any], objects: Source, warehouse: Warehouse
) -> None:
    tap = config(objects, batches=batches)
    first = objects.run(tap)
    assert "Read rows: 5 rows" in first.stderr
    assert "6 rows rejected" in first.stderr
    assert "A row is rejected: line 3 of s3://" in first.stderr
    assert sum(m["row_count"] for m in first.of_type("BATCH")) == (len(GOOD) if batches else 0)
    if method != "overwrite":  # which loads nothing of a stream without its end
        warehouse.load(without_end(first), load_method=method, **settings)
        assert rejected(warehouse, objects) == BAD
    for _ in range(2):
        target = warehouse.load(objects.run(tap).messages, load_method=method, **settings)
        assert (ids(warehouse), rejected(warehouse, objects)) == (GOOD, BAD)
    assert target.run.tallies.of("rows").counts().get("rejected", 0) == (
        0 if (batches, method) == (True, "append-only") else 6
    )
    objects.put("in/e.csv", "id,n\n11,110\n12,x\n", at=moment(5))
    if method != "overwrite":
        warehouse.load(objects.run(tap, state=state_of(first)).messages, load_method=method, **settings)
        assert ids(warehouse) == [*GOOD, 11]
        assert rejected(warehouse, objects) == [*BAD, ("in/e.csv", 3, "n", {"id": "12", "n": "x"})]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("rescue", "dead_letter"),
        ("dead_letter", "rescue"),
        ("skip", "dead_letter"),
        ("dead_letter", "fail"),
    ],
)
def test_a_batch_that_is_loaded_brings_no_row_again_when_on_bad_row_changes(
    first: str, second: str, objects: Source, warehouse: Warehouse
) -> None:
    """Without STATE all batches are sent again, under their ids; one of them has no other rows."""

    def run(on_bad_row: str, **options: Any) -> Ran:
        tap = config(objects, on_bad_row=on_bad_row, key_properties=[])
        ran = objects.tap("tap-s3-files", config=tap, **options)
        warehouse.load(ran.messages)
        return ran

    def there() -> tuple[int, list[Any]]:
        return warehouse.one("SELECT COUNT(*) FROM {rows}")[0], rejected(warehouse, objects)

    ran = run(first)
    objects.put("in/e.csv", "id,n\n11,x\n", at=moment(5))
    run(first, state=state_of(ran))
    aside = [*BAD, ("in/e.csv", 2, "n", {"id": "11", "n": "x"})]
    expected = {"skip": (5, []), "rescue": (12, []), "dead_letter": (5, aside)}[first]
    assert there() == expected
    run(second)
    assert there() == ((5, aside[-1:]) if first == "skip" else expected)  # that object made no batch


def test_bad_rows_of_large_objects_are_sent_with_their_batch_files(source: Source) -> None:
    """A run from the middle, and one without STATE that finds batch files, send the bad rows with the same ids."""
    lines = [f"{n},{n if n % 50_000 else 'bad'},{'x' * 60}\n" for n in range(300_000)]
    source.put("in/large.csv", "id,n,text\n" + "".join(lines), at=moment(1))
    tap = config(source) | {"batch_config": source.batches(file_mb=2)}
    first = source.run(tap)
    sent = [(m["batch_id"], [row["position"] for row in m.get("rejected", ())]) for m in first.of_type("BATCH")]
    assert len(sent) > 2
    assert [at for _, rows in sent for at in rows] == [n + 2 for n in range(0, 300_000, 50_000)]
    again = source.run(tap)
    assert [(m["batch_id"], [row["position"] for row in m.get("rejected", ())]) for m in again.of_type("BATCH")] == sent
    messages = first.messages
    middle = next(m["value"] for m in messages if m["type"] == "STATE")
    before = [m["batch_id"] for m in messages[: messages.index({"type": "STATE", "value": middle})] if "batch_id" in m]
    rest = source.run(tap, state=middle)
    found = [(m["batch_id"], [row["position"] for row in m.get("rejected", ())]) for m in rest.of_type("BATCH")]
    assert found == [one for one in sent if one[0] not in before]


def test_a_row_that_is_sent_only_in_part_is_named_without_its_text(objects: Source) -> None:
    for stream in ({"columns": ["id", "n"]}, {}):
        maps = {} if stream else {"stream_maps": {"rows": {"n": None}}}
        ran = objects.run(config(objects, **stream) | maps)
        batches = [*ran.of_type("BATCH"), *(m.get("rejected_batch", {}) for m in ran.of_type("STATE"))]
        rows = [row for m in batches for row in m.get("rejected", ())]
        assert [(row["position"], row["record"]) for row in rows] == [(position, "{}") for _, position, *_ in BAD]


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.smoke
def test_one_bad_row_more_than_max_bad_rows_ends_the_run(batches: bool, objects: Source) -> None:
    most = 6 if batches else 2
    objects.run(config(objects, batches=batches, max_bad_rows=most))
    ran = objects.tap("tap-s3-files", config=config(objects, batches=batches, max_bad_rows=most - 1))
    assert ran.code == 1
    assert "more rows are rejected than max_bad_rows allows" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize("encoding", [{"format": "jsonl", "compression": "gzip"}, None], ids=str)
def test_other_targets_load_the_other_rows(
    encoding: dict[str, str] | None, objects: Source, run: Programs, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    tap = config(objects, batches=False)
    if encoding:
        tap["batch_config"] = {"encoding": encoding, "storage": {"root": (tmp_path / "stage").as_uri()}}
    ran = objects.run(tap)
    sent = [*ran.of_type("BATCH"), *(m.get("rejected_batch", {}) for m in ran.of_type("STATE"))]
    assert sum(len(m.get("rejected", ())) for m in sent) == len(BAD)
    run("target-csv", stdin=ran.stdout, config={"output_path": str(tmp_path / "out")}).check()
    (found,) = (tmp_path / "out").rglob("rows*.csv")
    with found.open() as file:
        assert sorted(int(row["id"]) for row in csv.DictReader(file)) == GOOD


@pytest.mark.parametrize("settings", [{}, {"on_bad_row": "dead_letter"}], ids=str)
def test_bad_rows_arrive_once_where_stream_maps_of_the_target_change_the_others(
    settings: dict[str, Any], objects: Source, warehouse: Warehouse
) -> None:
    maps = {"stream_maps": {"rows": {"text": "str(id)"}}}
    for _ in range(2):
        warehouse.load(objects.run(config(objects)).messages, load_method="upsert", **maps, **settings)
    assert [(row["id"], row["text"]) for row in warehouse.table()] == [(n, str(n)) for n in GOOD]
    assert rejected(warehouse, objects) == BAD
