"""upsert replaces whole rows: the same files give one table, in one load or in several."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from singer_lines import Batches, schema, state
from warehouses import Warehouse

WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("inside", pa.struct([("a", pa.int64())])),
    ]
)
OLD = [{"id": n, "name": "old", "tags": ["x"], "inside": {"a": n}} for n in (1, 2)]


def narrow(*names: str) -> pa.Schema:
    return pa.schema([WIDE.field(name) for name in ("id", *names)])


@pytest.mark.parametrize("loads", ["one", "several"])
def test_a_column_that_newer_files_lack_becomes_null(warehouse: Warehouse, batch: Batches, loads: str) -> None:
    """In one load the SCHEMA has all columns; in several, only those of its files."""
    files = [(OLD, WIDE), ([{"id": 1, "name": "new"}], narrow("name")), ([{"id": 2, "tags": ["y"]}], narrow("tags"))]
    for content, columns in files:
        message = schema(columns=WIDE if loads == "one" else columns)
        warehouse.load([message, batch(content, columns=columns), state(1)], load_method="upsert")
    tags: Any = [] if warehouse.name == "bigquery" else None
    assert warehouse.table() == [
        {"id": 1, "name": "new", "tags": tags, "inside": None},
        {"id": 2, "name": None, "tags": ["y"], "inside": None},
    ]


def test_rows_that_do_not_come_keep_all_their_values(warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema(columns=WIDE), batch(OLD, columns=WIDE), state(1)], load_method="upsert")
    few = narrow("name")
    warehouse.load([schema(columns=few), batch([{"id": 2, "name": "new"}], columns=few)], load_method="upsert")
    assert warehouse.table()[0] == OLD[0]


@pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)
def test_columns_with_defaults_stay(warehouse: Warehouse, batch: Batches) -> None:
    """Redshift takes no null for an identity, nor for a column that is NOT NULL."""
    few = narrow("name")
    warehouse.load([schema(columns=few), batch([{"id": 1, "name": "old"}], columns=few)], load_method="upsert")
    warehouse.query("ALTER TABLE {rows} ADD COLUMN mine VARCHAR(9) DEFAULT 'mine'")
    warehouse.load([schema(columns=few), batch([{"id": 1, "name": "new"}], columns=few)], load_method="upsert")
    assert warehouse.table() == [{"id": 1, "name": "new", "mine": "mine"}]
