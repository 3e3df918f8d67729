"""Digits beyond microseconds, which no column of a warehouse holds: a warning, or a bad row where a key has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from singer_lines import Batches, record, schema, state
from warehouses import Warehouse

from singer_arrow.errors import DataError

FIRST = 1709168523456789000  # 2024-02-29T01:02:03.456789Z
MOMENT = pa.timestamp("ns", "UTC")
KEYED = pa.schema([("at", MOMENT), ("name", pa.string())])
AT = datetime(2024, 2, 29, 1, 2, 3, 456789, UTC)
CUT = "digits beyond microseconds are cut off, first those of"


def rows(*nanoseconds: int) -> list[dict[str, Any]]:
    moments = pa.array([FIRST + n for n in nanoseconds], pa.int64()).cast(MOMENT)
    return [{"at": at, "name": f"{n}"} for at, n in zip(moments, nanoseconds, strict=True)]


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_appended_moments_lose_digits_with_one_warning(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture, file_format: str
) -> None:
    content: list[dict[str, Any]] = rows(1, 2)
    if file_format == "jsonl":
        content = [{**row, "at": f"2024-02-29T01:02:03.45678900{row['name']}Z"} for row in content]
    message = schema(columns=KEYED, keys=())
    files = [batch(content, columns=KEYED, file_format=file_format, batch_id=f"{n}") for n in range(2)]
    warehouse.load([message, *files, state(1)])
    assert [row["at"] for row in warehouse.table(order="name")] == [AT] * 4
    assert caplog.text.count(CUT) == 1
    assert "Stream 'rows', column 'at': " in caplog.text


def test_moments_without_such_digits_are_not_named(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """Also as keys of an upsert."""
    message = schema(columns=KEYED, keys=("at",))
    for load_method in ("append-only", "upsert"):
        file = batch(rows(0, 1000), columns=KEYED, batch_id=load_method)
        warehouse.load([message, file, state(1)], load_method=load_method)
    assert [row["at"].microsecond for row in warehouse.table(order="name, at")] == [456789, 456790]
    assert CUT not in caplog.text


def test_a_key_that_loses_digits_is_a_bad_row(warehouse: Warehouse, batch: Batches) -> None:
    """It would become the key of another row, which would be lost."""
    messages = [schema(columns=KEYED, keys=("at",)), batch(rows(0, 1, 2), columns=KEYED, batch_id="1"), state(1)]
    words = r"row 2, column 'at': the key '2024-02-29.01:02:03.456789001Z' has digits beyond microseconds"
    with pytest.raises(DataError, match=words):
        warehouse.load(messages, load_method="upsert")
    warehouse.load(messages, load_method="upsert", on_bad_row="dead_letter")
    assert [(row["at"], row["name"]) for row in warehouse.table(order="name")] == [(AT, "0")]
    assert warehouse.one("SELECT COUNT(*) AS n, MAX(position) AS p FROM {_sdc_rejected}") == (2, 3)


def test_a_key_of_another_tap_that_loses_digits_is_a_bad_row(warehouse: Warehouse, batch: Batches) -> None:
    """Its SCHEMA has no unit, and its file is finer."""
    plain = pa.schema([("at", pa.timestamp("us", "UTC")), ("name", pa.string())])
    messages = [schema(columns=plain, keys=("at",)), batch(rows(1, 2), columns=KEYED), state(1)]
    with pytest.raises(DataError, match="row 1, column 'at': .*456789001.* of whole microseconds"):
        warehouse.load(messages, load_method="upsert")


@pytest.mark.parametrize(("unit", "reason"), [("ns", "has digits beyond"), ("us", "expected .* of whole")])
def test_keys_of_records_that_lose_digits_are_bad_rows(warehouse: Warehouse, unit: Any, reason: str) -> None:
    columns = pa.schema([("at", pa.timestamp(unit, "UTC")), ("name", pa.string())])
    content = [record(at=f"2024-02-29T01:02:03.45678900{n}Z", name=f"{n}") for n in range(3)]
    messages = [schema(columns=columns, keys=("at",)), *content, state(1)]
    with pytest.raises(DataError, match=f"column 'at': .*{reason} microseconds"):
        warehouse.load(messages, load_method="upsert")
    warehouse.load(messages)
    assert {row["at"] for row in warehouse.table(order="name")} == {AT}


def test_nested_moments_and_times_lose_digits_with_a_warning(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """In a column of JSON they keep them."""
    inner = pa.struct([("at", MOMENT), ("all", pa.list_(pa.time64("ns")))])
    columns = pa.schema([("id", pa.int64()), ("inside", inner)])
    inside = pa.StructArray.from_arrays(
        [pa.array([FIRST + 1], pa.int64()).cast(MOMENT), pa.array([[1001]], pa.list_(pa.int64())).cast(inner[1].type)],
        fields=list(inner),
    )
    table = pa.table({"id": [1], "inside": inside})
    message = batch([], columns=columns)
    pq.write_table(table, message["manifest"][0].removeprefix("file://"))
    warehouse.load([schema(columns=columns), message, state(1)])
    (row,) = warehouse.table()
    if warehouse.name == "bigquery":
        assert row["inside"]["at"] == AT
        assert "Stream 'rows', column 'inside': " + CUT in caplog.text
    else:
        assert row["inside"]["at"].startswith("2024-02-29T01:02:03.456789001")
        assert CUT not in caplog.text
