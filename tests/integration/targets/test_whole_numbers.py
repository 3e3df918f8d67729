"""Whole numbers for a property of type `number`, in every kind of message: none becomes another number in a table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from singer_lines import Batches, record
from warehouses import Warehouse

from singer_arrow.errors import DataError

NUMBERS = [{"type": ["null", "number"]}, {"anyOf": [{"type": "integer"}, {"type": ["number", "null"]}]}]
BAD = 2**54 + 1
GOOD: list[dict[str, Any]] = [{"id": 1, "n": 0.5}, {"id": 2, "n": 2**60}, {"id": 4, "n": None}]


def _schema(number: dict[str, Any]) -> dict[str, Any]:
    properties = {"id": {"type": "integer"}, "n": number}
    return {"type": "SCHEMA", "stream": "rows", "schema": {"properties": properties}, "key_properties": ["id"]}


def _rows(kind: str, batch: Batches) -> list[dict[str, Any]]:
    content = [*GOOD[:2], {"id": 3, "n": BAD}, *GOOD[2:]]
    if kind == "record":
        return [record(**row) for row in content]
    n = pa.decimal128(38, 2)
    exact = [{**row, "n": None if row["n"] is None else Decimal(row["n"])} for row in content]
    columns = pa.schema([("id", pa.int64()), ("n", n)])
    return [batch(content if kind == "jsonl" else exact, columns=columns, file_format=kind, batch_id=kind)]


@pytest.mark.parametrize("number", NUMBERS, ids=["number", "anyOf"])
@pytest.mark.parametrize("kind", ["record", "jsonl", "parquet", "arrow"])
@pytest.mark.smoke("bigquery-jsonl-number", "redshift-parquet-number")
def test_a_row_whose_number_would_change_is_bad(
    kind: str, number: dict[str, Any], warehouse: Warehouse, batch: Batches
) -> None:
    with pytest.raises(DataError, match=rf"(line|Line|row) \d.*column 'n'.*{BAD}"):
        warehouse.load([_schema(number), *_rows(kind, batch)], load_method="upsert")
    warehouse.load([_schema(number), *_rows(kind, batch)], load_method="upsert", on_bad_row="dead_letter")
    assert warehouse.table() == GOOD
    assert [str(BAD) in row["record"] for row in warehouse.table("_sdc_rejected", "stream")] == [True]
