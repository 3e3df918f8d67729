"""Values of Parquet files that a warehouse or its JSON cannot hold are bad rows: named, or put aside."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from singer_lines import Batches
from warehouses import Warehouse

from singer_arrow.errors import DataError

MAP = pa.map_(pa.string(), pa.int64())
COLUMNS = {
    "map": (MAP, {"type": "object", "additionalProperties": {"type": "integer"}}, [("k", 1)], [("k", 1), ("k", 2)]),
    "list": (pa.list_(pa.int64()), {"type": "array", "items": {"type": "integer"}}, [1], [1, None]),
    "date": (
        pa.timestamp("us", "UTC"),
        {"type": "string", "format": "date-time"},
        1_700_000_000_000_000,
        253_402_300_800_000_001,
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_row_is_named_or_put_aside(name: str, warehouse: Warehouse, batch: Batches) -> None:
    if name != "map" and warehouse.name != "bigquery":
        pytest.skip("Redshift has a place for it")
    t, part, good, bad = COLUMNS[name]
    columns: Any = pa.schema([("id", pa.int64()), ("v", t)])
    rows = [{"id": 1, "v": good}, {"id": 2, "v": bad}, {"id": 3, "v": None}]
    schema = {"properties": {"id": {"type": "integer"}, "v": part}}
    run = [
        {"type": "SCHEMA", "stream": "rows", "schema": schema, "key_properties": ["id"]},
        batch(rows, columns=columns, file_format="parquet", batch_id="a"),
    ]
    with pytest.raises(DataError, match=r"\.parquet.*row 2, column 'v': "):
        warehouse.load(run)
    warehouse.load(run, on_bad_row="dead_letter")
    assert [row["id"] for row in warehouse.table()] == [1, 3]
    assert [row["position"] for row in warehouse.table("_sdc_rejected", "stream")] == [2]
