"""The ledger knows which table it is about: one that was made anew, with rows, is for the user to decide."""

from __future__ import annotations

import pytest
from singer_lines import Batches, record, rows, schema, some_batches, state
from warehouses import REBUILT, Warehouse

from singer_arrow.errors import LoadError

EMPTY = {
    "bigquery": ["CREATE OR REPLACE TABLE {rows} (id INT64, name STRING)"],
    "redshift": ["DROP TABLE {rows}", "CREATE TABLE {rows} (id BIGINT, name VARCHAR(256))"],
}
ONCE = [*range(8)]
OTHER = "not the one into which the batches of stream 'rows' were loaded"


def ids(warehouse: Warehouse) -> list[int]:
    return [row["id"] for row in warehouse.table()]


def forget_tables(warehouse: Warehouse) -> None:
    """Remove what the ledger knows of tables, as a ledger of an earlier version lacks it."""
    warehouse.query("DELETE FROM {_sdc_batches} WHERE batch_id = '' OR batch_id LIKE '%_table_%'")


@pytest.mark.parametrize("ledger", ["new", "old"])
@pytest.mark.parametrize("replay", ["skip", "load"])
def test_what_becomes_of_a_table_that_was_rebuilt_is_for_the_user(
    ledger: str, replay: str, warehouse: Warehouse, batch: Batches
) -> None:
    run = some_batches(batch, 4)
    warehouse.load(run)
    if ledger == "old":
        forget_tables(warehouse)
    warehouse.do(REBUILT)
    more = [schema(), batch(rows(100, 1), batch_id="more"), record(id=200, name="x"), state(9)]
    for again in (run, [*run, *more[1:]], more):
        with pytest.raises(LoadError, match=OTHER):
            warehouse.load(again)
        assert ids(warehouse) == ONCE
    warehouse.load(run, replay=replay)
    expected = ONCE if replay == "skip" else sorted([*ONCE, *ONCE])
    for again in (run, [*run, *more[1:]]):
        warehouse.load(again)
        assert ids(warehouse) == (expected if again is run else [*expected, 100, 200])


@pytest.mark.parametrize("first", ["record", "batch"])
def test_an_empty_table_is_new(first: str, warehouse: Warehouse, batch: Batches) -> None:
    run = some_batches(batch, 4)
    warehouse.load(run)
    warehouse.do(EMPTY)
    if first == "record":
        warehouse.load([schema(), record(id=100, name="x")])
    for _ in range(2):
        warehouse.load(run)
        assert ids(warehouse) == [*ONCE, *([100] if first == "record" else [])]
    warehouse.do(REBUILT)
    with pytest.raises(LoadError, match=OTHER):
        warehouse.load(run)


@pytest.mark.parametrize("ledger", ["new", "old"])
def test_the_same_table_stays_known(ledger: str, warehouse: Warehouse, batch: Batches) -> None:
    run = some_batches(batch, 4)
    warehouse.load(run[:5])
    if ledger == "old":
        forget_tables(warehouse)
    warehouse.load(run, ledger_keep_days=3)
    warehouse.load(run)
    assert ids(warehouse) == ONCE


def test_an_overwritten_table_is_the_ledgers_own(warehouse: Warehouse, batch: Batches) -> None:
    run = some_batches(batch, 4)
    warehouse.load(run)
    warehouse.load([schema(), batch(rows(50, 2), batch_id="whole")], load_method="overwrite")
    for _ in range(2):
        warehouse.load(run)
        assert ids(warehouse) == [*ONCE, 50, 51]
    warehouse.do(REBUILT)
    with pytest.raises(LoadError, match=OTHER):
        warehouse.load(run)
    warehouse.load([schema(), batch(rows(60, 1), batch_id="whole")], load_method="overwrite")
    warehouse.load(run)
    assert ids(warehouse) == [*ONCE, 60]


def test_an_upsert_merges_into_a_rebuilt_table(warehouse: Warehouse, batch: Batches) -> None:
    run = some_batches(batch, 4)
    warehouse.load(run, load_method="upsert")
    warehouse.do(REBUILT)
    warehouse.load([*run, batch([{"id": 3, "name": "new"}], batch_id="new")], load_method="upsert")
    assert [(r["id"], r["name"]) for r in warehouse.table()][2:4] == [(2, "name 2"), (3, "new")]
    assert ids(warehouse) == ONCE
