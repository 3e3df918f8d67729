"""Nested data, stream maps and flattening: the same table from batch files and from RECORD messages."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from singer_sdk.singerlib.json import serialize_json
from warehouses import Warehouse

from singer_arrow.formats import WRITABLE
from singer_arrow.records.validation import to_records
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.schema.json_schema import to_json_schema

INNER = pa.struct(
    [("n", pa.decimal128(38, 9)), ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary()), ("f", pa.float64())]
)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("place", pa.struct([("lat", pa.float64()), ("inner", INNER), ("tags", pa.list_(pa.string()))])),
        pa.field("stops", pa.list_(INNER)),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
        pa.field("big", pa.uint64()),
        json_field("free"),
    ]
)
DEEP = {
    "n": Decimal("-1.000000001"),
    "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "raw": b"\0\xff",
    "f": 1e22,
}
HOLLOW: dict[str, Any] = {"n": None, "at": None, "raw": None, "f": None}
ROWS: list[dict[str, Any]] = [
    {
        **{"id": 1, "name": 'é "q"\n', "day": date(2024, 2, 29), "counts": [("b", 2**63 - 1), ("a", -1)]},
        **{"place": {"lat": 0.1, "inner": DEEP, "tags": ["x", ""]}, "stops": [DEEP, HOLLOW], "big": 2**64 - 1},
        "free": '{"b": [1, 1.50, null], "a": {}}',
    },
    {
        **{"id": 2, "name": "", "place": {"lat": None, "inner": None, "tags": []}, "stops": [], "counts": []},
        "free": "[]",
    },
    {"id": 3, "place": {"lat": -0.0, "inner": HOLLOW, "tags": None}},
    {"id": 4},
]
STATE = '{"type": "STATE", "value": {"n": 1}}'
KINDS = ("parquet", "jsonl", "record")
MAPS: dict[str, Any] = {
    "*_chosen": {"__alias__": "__stream_name__ + '_other'", "name": None, "place": "__NULL__", "big": None},
    "*_keys": {"__else__": None, "__key_properties__": ["name"], "name": "name", "place": "place"},
    "*_values": {"__filter__": "id != 2", "twice": "int(id * 2)", "name": "name or 'none'", "stops": None},
}
TABLES = {"_plain": "", "_chosen": "_other", "_keys": "", "_values": ""}
NOT_BY_COLUMN = "_values"


@pytest.fixture
def messages(tmp_path: Path) -> Callable[[str], list[str]]:
    """Return the messages of a stream of `ROWS`; the prefix of its name selects their kind."""
    table = pa.Table.from_pylist(ROWS, COLUMNS)

    def make(stream: str) -> list[str]:
        kind = stream.partition("_")[0]
        found = {"type": "SCHEMA", "stream": stream, "schema": to_json_schema(COLUMNS, keys=["id"])}
        found["key_properties"] = ["id"]
        if kind == "record":
            records = [r for b in table.to_batches() for r in to_records(b)]
            return [
                serialize_json(found),
                *(serialize_json({"type": "RECORD", "stream": stream, "record": r}) for r in records),
            ]
        path = tmp_path / f"{stream}.{kind}"
        WRITABLE[kind].write(table.to_batches(), COLUMNS, path)
        encoding = {"format": kind, **({"compression": "gzip"} if kind == "jsonl" else {})}
        batch = {"type": "BATCH", "stream": stream, "encoding": encoding, "manifest": [path.as_uri()]}
        return [serialize_json(found), serialize_json(batch)]

    return make


def load(warehouse: Warehouse, lines: list[str], **settings: Any) -> None:
    """Run the target in this process on unparsed lines, whose numbers have more digits than floats."""
    running = warehouse.target(config=warehouse.config | settings)
    try:
        running.listen(io.StringIO("".join(f"{line}\n" for line in lines)))
    finally:
        running.run.close()


def contents(warehouse: Warehouse, name: str) -> tuple[dict[str, str], list[str]]:
    """Return columns and rows of a table."""
    order = "id" if "id" in (columns := warehouse.columns(name)) else "name"
    return columns, [repr(row) for row in warehouse.table(name, order=order)]


def test_maps_do_the_same_to_batches_and_records(
    warehouse: Warehouse, messages: Callable[[str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    lines = [*(m for end in TABLES for kind in KINDS for m in messages(f"{kind}{end}")), STATE]
    load(warehouse, lines, stream_maps=MAPS)
    for end, renamed in TABLES.items():
        parquet, jsonl, record = (contents(warehouse, f"{kind}{end}{renamed}") for kind in KINDS)
        assert parquet == record, end
        assert jsonl == record, end
        assert len(record[1]) == (3 if end == NOT_BY_COLUMN else 4)
    warnings = [r.getMessage() for r in caplog.records if "row by row" in r.getMessage()]
    assert sorted(warnings) == [
        f"Stream maps or flattening change values: batches of '{kind}_values' go row by row, as RECORD messages do"
        for kind in ("jsonl", "parquet")
    ]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_nested_values_as_json(warehouse: Warehouse, messages: Callable[[str], list[str]]) -> None:
    """In Redshift they are SUPER, whatever the settings."""
    load(warehouse, [*(m for kind in KINDS for m in messages(f"{kind}_json")), STATE], nested="json")
    parquet, jsonl, record = (contents(warehouse, f"{kind}_json") for kind in KINDS)
    assert parquet == record
    assert jsonl == record
    assert record[0]["place"] == record[0]["stops"] == "JSON"


@pytest.mark.parametrize("depth", [1, 5])
def test_flattening_does_the_same_to_batches_and_records(
    depth: int, warehouse: Warehouse, messages: Callable[[str], list[str]]
) -> None:
    lines = [*(m for kind in KINDS for m in messages(f"{kind}_flat")), STATE]
    load(warehouse, lines, flattening_enabled=True, flattening_max_depth=depth)
    parquet, jsonl, record = (contents(warehouse, f"{kind}_flat") for kind in KINDS)
    assert parquet == record
    assert jsonl == record
    assert len(record[1]) == 4
    assert ("place__inner__n" in record[0]) == (depth > 1)
