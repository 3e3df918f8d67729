"""Ledger entries that both targets read and remove, and the error when the ledger is missing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from singer_lines import Batches, record, rows, schema, some_batches
from warehouses import Warehouse

from singer_arrow.errors import LoadError, ServiceError
from singer_arrow.load.method import NO_LOG, BatchLookup, LoadMethod
from target_redshift.ledger import MARK, StreamLedger

OLDER = {
    "bigquery": "UPDATE {_sdc_batches} SET started_at = TIMESTAMP_SUB(started_at, INTERVAL 10 DAY) WHERE ",
    "redshift": "UPDATE {_sdc_batches} SET loaded_at = loaded_at - INTERVAL '10 days' WHERE ",
}


def ids(warehouse: Warehouse, table: str = "rows") -> list[int]:
    return [row["id"] for row in warehouse.table(table)]


def entered(warehouse: Warehouse) -> list[str]:
    """Return the batches in the ledger, in order; a batch in several tables occurs once for each."""
    found = warehouse.query("SELECT batch_id FROM {_sdc_batches} WHERE batch_id != '' ORDER BY batch_id")
    return [row["batch_id"] for row in found if not row["batch_id"].startswith((MARK, NO_LOG))]


@pytest.fixture
def old_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tables as old as any entry, because entries older than a table are void."""
    monkeypatch.setattr(StreamLedger, "_is_void", lambda *_: False)


@pytest.mark.parametrize("settings", [{}, {"load_via": "storage_write"}])
def test_batches_that_are_found_when_their_group_is_loaded_are_left_out(
    warehouse: Warehouse,
    settings: dict[str, Any],
    batch: Batches,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After new batches, batches are looked up by groups; those that are sent again have been read by then."""
    settings = settings if warehouse.name == "bigquery" else {}
    run = some_batches(batch, 6)
    warehouse.load(run, **settings)
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(BatchLookup, "early", lambda *_: None)
    again = [run[0], batch(rows(100, 2), batch_id="new"), *run[1:], batch(rows(200, 2), batch_id="newer")]
    tally = warehouse.load(again, **settings).run.tallies.of("rows").counts()
    assert ids(warehouse) == [*range(12), 100, 101, 200, 201]
    assert (tally["skipped"], tally["rows"], tally["files"]) == (6, 4, 8)
    assert "batch batch-5 was loaded at 20" in caplog.text
    assert "just now by another run" not in caplog.text


@pytest.mark.usefixtures("old_tables")
@pytest.mark.smoke("redshift")
def test_entries_older_than_ledger_keep_days_are_removed(warehouse: Warehouse, batch: Batches) -> None:
    run = some_batches(batch, 4)
    warehouse.load([*run, schema("others"), batch(rows(50, 1), stream="others", batch_id="other")])
    warehouse.query(OLDER[warehouse.name] + "batch_id != 'batch-3'")
    again = [schema(), record(id=900, name="x")]
    warehouse.load(again)
    assert entered(warehouse) == ["batch-0", "batch-1", "batch-2", "batch-3", "other"]
    warehouse.load(again, ledger_keep_days=11)
    assert len(entered(warehouse)) == 5
    warehouse.load(again, ledger_keep_days=9)
    assert entered(warehouse) == ["batch-3", "other"]  # the other stream is not part of the run
    warehouse.load(run, ledger_keep_days=9)
    assert ids(warehouse) == sorted([*range(8), *range(6), 900, 900, 900])


@pytest.mark.usefixtures("old_tables")
def test_entries_of_the_stream_in_another_table_stay(warehouse: Warehouse, batch: Batches) -> None:
    message = batch(rows(0, 1), batch_id="a")
    for settings in ({}, {"tables": {"rows": "archive"}}):
        warehouse.load([schema(), message], **settings)
    warehouse.query(OLDER[warehouse.name] + "TRUE")
    assert entered(warehouse) == ["a", "a"]
    warehouse.load([schema(), record(id=1, name="x")], ledger_keep_days=9)
    assert entered(warehouse) == ["a"]
    warehouse.load([schema(), message], tables={"rows": "archive"})
    assert ids(warehouse, "archive") == [0]
    warehouse.load([schema(), message])
    assert ids(warehouse) == [0, 0, 1]


def test_a_run_ends_well_where_old_entries_cannot_be_removed(
    warehouse: Warehouse, batch: Batches, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        msg = "Removing old entries: the warehouse is busy"
        raise ServiceError(msg)

    monkeypatch.setattr(f"target_{warehouse.name}.target.remove_old", refuse)
    warehouse.load([schema(), batch(rows(0, 1), batch_id="a")], ledger_keep_days=9)
    assert ids(warehouse) == [0]
    assert "Old entries of the ledger stay for now: Removing old entries: the warehouse is busy" in caplog.text


def test_a_ledger_that_is_dropped_during_a_run_is_an_error_with_a_hint(
    warehouse: Warehouse, batch: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = some_batches(batch, 3)
    warehouse.load([schema(), record(id=100, name="x")])
    prepare, dropped = LoadMethod.prepare, list[bool]()

    def prepare_and_drop(method: Any, item: Any) -> Any:
        part = prepare(method, item)
        if not dropped:
            dropped.append(True)
            warehouse.query("DROP TABLE {_sdc_batches}")
        return part

    monkeypatch.setattr(LoadMethod, "prepare", prepare_and_drop)
    words = r"_sdc_batches.* The ledger was dropped during this run, .* which batches table .*rows has: before the next"
    with pytest.raises(LoadError, match=words):
        warehouse.load(run)
    assert ids(warehouse) == [100]
