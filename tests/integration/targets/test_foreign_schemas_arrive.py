"""SCHEMAs of other taps, as RECORD messages and as BATCH files of any tap, in both warehouses."""

from __future__ import annotations

from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from singer_lines import Batches, batch_of, record, state
from warehouses import Warehouse

from singer_arrow.errors import DataError

NUMERIC = {
    "type": ["null", "number"],
    "maximum": 1e28,
    "exclusiveMaximum": True,
    "minimum": -1e28,
    "exclusiveMinimum": True,
    "multipleOf": 1e-10,
}
"""numeric(38,10), in draft 4."""
CENTS = {"type": ["null", "number"], "maximum": 1e10, "exclusiveMaximum": True, "minimum": -1e10, "multipleOf": 0.01}
WHOLE = {"type": ["null", "number"], "multipleOf": 1, "x-arrow-type": "uint64"}
CLOCK = {"type": ["null", "string"], "format": "time"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "price": NUMERIC, "cents": CENTS, "whole": WHOLE, "clock": CLOCK},
}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "price": 1234.0000000001, "cents": -0.01, "whole": 2**64 - 1, "clock": "13:14:15+02:00"},
    {"id": 2, "price": -1e-10, "cents": 1, "whole": 0, "clock": "00:30:00.000001+02:00"},
    {"id": 3, "price": None, "cents": None, "whole": None, "clock": "23:59:59Z"},
    {"id": 4, "price": 0, "cents": 9999999.99, "whole": 1, "clock": "13:14:15"},
    {"id": 5, "clock": None},
]
EXPECTED: dict[str, list[Any]] = {
    "price": [Decimal("1234.0000000001"), Decimal("-1E-10"), None, Decimal(0), None],
    "cents": [Decimal("-0.01"), Decimal(1), None, Decimal("9999999.99"), None],
    "whole": [2**64 - 1, 0, None, 1, None],
    "clock": [time(11, 14, 15), time(22, 30, 0, 1), time(23, 59, 59), time(13, 14, 15), None],
}
KINDS = {
    "bigquery": {"price": "BIGNUMERIC", "cents": "NUMERIC", "whole": "NUMERIC", "clock": "TIME"},
    "redshift": {
        **{"price": "decimal(38,10)", "cents": "decimal(31,2)", "whole": "decimal(20,0)"},
        "clock": "time without time zone",
    },
}


def as_parquet_of_texts(folder: Path) -> dict[str, Any]:
    """Return a BATCH with numbers as floats and times as text, as the SDK's taps write them."""
    table = pa.Table.from_pylist([{**row, "whole": None} for row in ROWS])
    table = table.set_column(3, "whole", pa.array([row.get("whole") for row in ROWS], pa.uint64()))
    pq.write_table(table, folder / "a.parquet")
    return batch_of((folder / "a.parquet").as_uri(), "parquet")


@pytest.mark.parametrize("mode", ["records", "unchecked", "jsonl", "parquet"])
def test_the_values_arrive_exactly(mode: str, warehouse: Warehouse, batch: Batches, tmp_path: Path) -> None:
    opening = {"type": "SCHEMA", "stream": "rows", "schema": SCHEMA, "key_properties": ["id"]}
    if mode == "jsonl":
        messages = [batch(ROWS, columns=SCHEMA, file_format="jsonl")]
    else:
        messages = [as_parquet_of_texts(tmp_path)] if mode == "parquet" else [record(**row) for row in ROWS]
    warehouse.load([opening, *messages, state(1)], validate_records=mode != "unchecked")
    kinds = warehouse.columns("rows")
    assert {name: kinds[name] for name in EXPECTED} == KINDS[warehouse.name]
    rows = warehouse.table("rows")
    assert {name: [row[name] for row in rows] for name in EXPECTED} == EXPECTED


def test_bounds_are_kept(warehouse: Warehouse) -> None:
    opening = {"type": "SCHEMA", "stream": "rows", "schema": SCHEMA, "key_properties": ["id"]}
    with pytest.raises(DataError, match=r"Line 2 of the input.*column 'cents'.*greater than or equal to the maximum"):
        warehouse.load([opening, record(id=1, cents=10**10), state(1)])
