"""on_bad_row: dead_letter in both warehouses: good rows are loaded, bad ones go to `_sdc_rejected`, each once.

Interruptions are in `test_dead_letters_once.py`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from singer_lines import COLUMNS, Batches, Message, record, rows, schema, state, states
from warehouses import Warehouse

from singer_arrow.errors import DataError, LoadError, SingerArrowError
from singer_arrow.load.dead_letters import TooManyRejectedError

DEAD = {"on_bad_row": "dead_letter"}
TEXTS = pa.schema([("id", pa.string()), ("name", pa.string())])
METHODS = pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
FORMATS = pytest.mark.parametrize("file_format", ["parquet", "jsonl", "arrow"])


def rejected(warehouse: Warehouse) -> list[dict[str, Any]]:
    """Return the rows of `_sdc_rejected` without their time, which is checked."""
    found = warehouse.table("_sdc_rejected", "stream, batch_id, file, position, part")
    for row in found:
        assert row.pop("rejected_at") is not None
        row["record"] = json.loads(row["record"])
    return found


def places(warehouse: Warehouse) -> list[tuple[str | None, int]]:
    return [(row["batch_id"], row["position"]) for row in rejected(warehouse)]


def mixed(batch: Batches, file_format: str, first: int, bad: set[int], count: int, **options: Any) -> Message:
    """Return a batch in which the rows at some positions, from 1, have an invalid id."""
    content: list[dict[str, Any]] = rows(first, count)
    for position in bad:
        content[position - 1]["id"] = f"no number {position}"
    if file_format != "jsonl":
        content = [{**row, "id": str(row["id"])} for row in content]
    return batch(content, columns=TEXTS, file_format=file_format, **options)


@pytest.mark.parametrize(
    ("method", "file_format"),
    [
        ("append-only", "parquet"),
        ("append-only", "jsonl"),
        ("upsert", "parquet"),
        ("overwrite", "jsonl"),
        ("append-only", "arrow"),
    ],
)
@pytest.mark.smoke("bigquery-upsert-parquet", "redshift-append-only-jsonl")
def test_good_rows_are_loaded_and_bad_ones_put_aside_once(
    method: str,
    file_format: str,
    batch: Batches,
    warehouse: Warehouse,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    chance = random.Random(f"{method} {file_format}")
    run, good, expected = [schema()], list[int](), list[tuple[str, int]]()
    for number in range(4):
        bad = set(chance.sample(range(1, 31), 3)) if number % 2 == 0 else set()
        run += [mixed(batch, file_format, 30 * number, bad, 30, batch_id=f"b-{number}"), state(number)]
        good += [30 * number + at - 1 for at in range(1, 31) if at not in bad]
        expected += [(f"b-{number}", at) for at in sorted(bad)]
    target = warehouse.load(run, load_method=method, **DEAD)
    assert [row["id"] for row in warehouse.table()] == good
    assert places(warehouse) == expected
    first = rejected(warehouse)[0]
    position = expected[0][1]
    assert first == {
        "stream": "rows",
        "batch_id": "b-0",
        "file": run[1]["manifest"][0],
        "position": position,
        "column_name": "id",
        "reason": first["reason"],
        "record": {"id": f"no number {position}", "name": f"name {position - 1}"},
        "part": 1,
    }
    assert f"no number {position}" in first["reason"]
    counts = target.run.tallies.of("rows").counts()
    assert (counts["rows"], counts["rejected"]) == (len(good), 6)
    assert states(capsys.readouterr().out)[-1] == 3
    assert re.search(rf"Stream 'rows': (row|line) {position} of {run[1]['manifest'][0]}, column 'id'", caplog.text)
    assert "Stream 'rows': rejected 6 rows; see table _sdc_rejected" in caplog.text
    warehouse.load(run, load_method=method, **DEAD)
    assert [row["id"] for row in warehouse.table()] == good
    assert places(warehouse) == expected
    if method == "append-only":
        warehouse.load(run, load_method=method, replay="load", **DEAD)
        assert places(warehouse) == expected


def test_bad_records_have_the_line_numbers_of_their_messages(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = COLUMNS.append(pa.field("day", pa.date32()))
    run = [
        schema(columns=columns),
        record(id=1, name="a"),
        record(id="x", name="b"),
        record(name="no key"),
        schema("others", columns=columns),
        record("others", id=1.5),
        record(id=2, name="c", day="2026-02-30"),
        record(id=3, name="d"),
        state(1),
        record("others", id=7, name="e"),
    ]
    target = warehouse.load(run, **DEAD)
    assert [row["id"] for row in warehouse.table()] == [1, 3]
    assert [row["id"] for row in warehouse.table("others")] == [7]
    found = [(r["stream"], r["batch_id"], r["file"], r["position"], r["column_name"]) for r in rejected(warehouse)]
    assert sorted(found, key=str) == [
        ("others", None, None, 6, "id"),
        ("rows", None, None, 3, "id"),
        ("rows", None, None, 4, "id"),
        ("rows", None, None, 7, "day"),
    ]
    assert {"name": "no key"} in [r["record"] for r in rejected(warehouse)]
    assert (target.run.tallies.of("rows").counts()["rejected"], target.run.tallies.of("rows").counts()["rows"]) == (
        3,
        2,
    )
    assert states(capsys.readouterr().out) == [1]


def test_records_that_are_changed_by_stream_maps(warehouse: Warehouse, batch: Batches) -> None:
    run = [
        schema(),
        record(id=1, name="a"),
        record(id="x", name="b"),
        mixed(batch, "jsonl", 10, {2}, 3, batch_id="b"),
        record(name="no key"),
    ]
    warehouse.load(run, stream_maps={"rows": {"more": "name"}}, **DEAD)
    assert [(row["id"], row["more"]) for row in warehouse.table()] == [(1, "a"), (10, "name 10"), (12, "name 12")]
    found = [(r["file"], r["position"]) for r in rejected(warehouse)]
    assert sorted(found, key=str) == sorted([(None, 3), (None, 5), (run[3]["manifest"][0], 2)], key=str)


def test_all_rows_may_be_bad(warehouse: Warehouse, batch: Batches, capsys: pytest.CaptureFixture[str]) -> None:
    run = [schema(), mixed(batch, "jsonl", 0, {1, 2}, 2, batch_id="a"), record(id="x", name="b"), state(1)]
    for _ in range(2):
        warehouse.load(run[:2], **DEAD)
    assert places(warehouse) == [("a", 1), ("a", 2)]
    warehouse.load(run, **DEAD)
    assert warehouse.table() == []
    assert len(rejected(warehouse)) == 3
    assert states(capsys.readouterr().out) == [1]


def test_without_bad_rows_there_is_no_such_table(warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema(), batch(rows(0, 3), batch_id="a"), record(id=3, name="name 3")], **DEAD)
    assert warehouse.table() == rows(0, 4)
    assert "_sdc_rejected" not in warehouse.tables()


@pytest.mark.smoke("bigquery", "redshift")
def test_one_bad_row_more_than_may_be_ends_the_run(
    warehouse: Warehouse, batch: Batches, capsys: pytest.CaptureFixture[str]
) -> None:
    run = [schema(), mixed(batch, "parquet", 0, {1, 4, 7}, 9, batch_id="a"), state(1)]
    with pytest.raises(TooManyRejectedError, match=r"more rows are rejected than .* \(2\).*1 of \S+, column 'id'"):
        warehouse.load(run, max_bad_rows=2, **DEAD)
    assert warehouse.table() == []
    assert "_sdc_rejected" not in warehouse.tables()
    assert states(capsys.readouterr().out) == []
    warehouse.load(run, max_bad_rows=3, **DEAD)
    assert places(warehouse) == [("a", 1), ("a", 4), ("a", 7)]


@FORMATS
def test_by_default_the_first_bad_row_ends_the_run_and_is_named(
    file_format: str, warehouse: Warehouse, batch: Batches
) -> None:
    run = [schema(), mixed(batch, file_format, 0, {2, 3}, 4, batch_id="a")]
    with pytest.raises(DataError, match=r"(line|row group 0, row|arrow, row) 2, column 'id'.*on_bad_row: dead_letter"):
        warehouse.load(run)
    with pytest.raises(DataError, match=r"Line 2 of the input.*column 'id'.*on_bad_row: dead_letter"):
        warehouse.load([schema(), record(id="x")])


def test_a_broken_file_is_no_bad_row(warehouse: Warehouse, batch: Batches, tmp_path: Any) -> None:
    message = batch(rows(0, 3), batch_id="a")
    path = tmp_path / "1.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SingerArrowError, match=r"1\.parquet.*not a Parquet file"):
        warehouse.load([schema(), message], **DEAD)
    assert "_sdc_rejected" not in warehouse.tables()


def test_drift_is_no_bad_row(warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema(), batch(rows(0, 1), batch_id="a")], **DEAD)
    text = schema(columns=pa.schema([("id", pa.int64()), ("name", pa.int64())]))
    wide = pa.schema([("id", pa.int64()), ("name", pa.int64())])
    warehouse.load([text, batch([{"id": 1, "name": 5}], columns=wide, batch_id="b")], **DEAD)
    assert "name__integer" in warehouse.columns("rows")
    assert "_sdc_rejected" not in warehouse.tables()


def test_a_column_that_must_not_be_null(warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema("first"), record("first", id=1)])  # creates the schema
    kinds = {"bigquery": "id INT64, name STRING NOT NULL", "redshift": "id BIGINT, name VARCHAR(256) NOT NULL"}
    warehouse.query(f"CREATE TABLE {{rows}} ({kinds[warehouse.name]})")
    content = rows(0, 5)
    content[3]["name"] = None
    warehouse.load([schema(), batch(content, batch_id="a"), record(id=9)], on_drift="fail", **DEAD)
    assert [row["id"] for row in warehouse.table()] == [0, 1, 2, 4]
    assert sorted(places(warehouse), key=str) == [("a", 4), (None, 3)]
    assert all("must not be" in row["reason"] for row in rejected(warehouse))


@METHODS
@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_rows_that_bigquery_refuses_for_reasons_of_its_own(
    method: str, warehouse: Warehouse, batch: Batches, fail_jobs: Callable[..., Any]
) -> None:
    fail_jobs({"job": "load", "holds": "name 13", "reason": "invalid", "message": "row of ill luck"})
    run = [schema(), batch(rows(0, 10), batch_id="a"), batch(rows(10, 10), batch_id="b"), state(1)]
    for _ in range(2):
        warehouse.load(run, load_method=method, **DEAD)
        assert [row["id"] for row in warehouse.table()] == [n for n in range(20) if n != 13]
        assert places(warehouse) == [("b", 4)]
    (row,) = rejected(warehouse)
    assert "row of ill luck" in row["reason"]
    assert row["record"] == {"id": 13, "name": "name 13"}
    assert [name for name in warehouse.tables() if name.startswith("_sdc_staging_")] == []


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
@pytest.mark.parametrize("load_format", ["parquet", "avro", "jsonl"])
def test_records_that_bigquery_refuses(load_format: str, warehouse: Warehouse, fail_jobs: Callable[..., Any]) -> None:
    fail_jobs({"job": "load", "holds": "name 3", "reason": "invalid", "message": "row of ill luck"})
    run = [schema(), *(record(**row) for row in rows(0, 6)), record(id="x"), record(id=9)]
    warehouse.load(run, load_format=load_format, **DEAD)
    assert [row["id"] for row in warehouse.table()] == [0, 1, 2, 4, 5, 9]
    assert sorted(row["position"] for row in rejected(warehouse)) == [5, 8]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_dates_that_bigquery_has_no_place_for(warehouse: Warehouse, tmp_path: Any) -> None:
    moments = pa.array([0, 253_402_300_800_000_000, 1], pa.timestamp("us", "UTC"))
    table = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "at": moments})
    path = tmp_path / "late.parquet"
    pq.write_table(table, path)
    message = {"type": "BATCH", "stream": "rows", "encoding": {"format": "parquet"}, "manifest": [path.as_uri()]}
    run = [schema(columns=table.schema), message | {"batch_id": "a", "row_count": 3, "byte_count": 1}]
    with pytest.raises(DataError, match="outside the years 1 to 9999"):
        warehouse.load(run)
    warehouse.load(run, **DEAD)
    assert [row["id"] for row in warehouse.table()] == [1, 3]
    (row,) = rejected(warehouse)
    assert (row["position"], row["column_name"]) == (2, "at")
    assert "10000" in row["record"]["at"]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_what_is_not_for_a_row_is_an_error(warehouse: Warehouse, batch: Batches, fail_jobs: Callable[..., Any]) -> None:
    fail_jobs({"job": "load", "match": "rows$", "reason": "invalid", "message": "no"})
    with pytest.raises(LoadError, match="invalid: no"):
        warehouse.load([schema(), batch(rows(0, 8), batch_id="a")], **DEAD)
    assert "_sdc_rejected" not in warehouse.tables()
    fail_jobs({"job": "load", "reason": "invalid", "message": "no"})
    with pytest.raises(LoadError, match="refuses more than 20 rows of one load"):
        warehouse.load([schema(), batch(rows(0, 30), batch_id="a")], **DEAD)
    for few in (1, 3):
        with pytest.raises(LoadError, match="invalid: no"):
            warehouse.load([schema(), batch(rows(0, few), batch_id="a")], **DEAD)
    fail_jobs({"job": "load", "reason": "stopped", "message": "cancelled", "times": 1})
    with pytest.raises(LoadError, match="stopped: cancelled"):
        warehouse.load([schema(), record(id=1)], **DEAD)
    assert "_sdc_rejected" not in warehouse.tables()
