"""Rows deleted at the source: outdated versions and rows marked as deleted, by BATCH and by RECORD."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from singer_lines import Batches, Message, activate, record, schema, state
from warehouses import Warehouse

DELETED = "_sdc_deleted_at"
AT = "2024-02-29T12:30:00+00:00"
PLAIN = pa.schema([("id", pa.int64()), ("name", pa.string())])
WITH_DELETED = PLAIN.append(pa.field(DELETED, pa.timestamp("us", "UTC")))
UPSERT = {"load_method": "upsert"}


def rows(*ids: int, name: str = "a", deleted: bool = False) -> list[dict[str, Any]]:
    return [{"id": n, "name": name, **({DELETED: AT} if deleted else {})} for n in ids]


def batch_of(
    batch: Batches, content: Iterable[dict[str, Any]], columns: pa.Schema = WITH_DELETED, **more: Any
) -> Message:
    moments = pa.array([AT], pa.string()).cast(pa.timestamp("us", "UTC"))[0].as_py()
    given = [{k: moments if v == AT else v for k, v in r.items()} for r in content]
    return batch(given, columns=columns, **more)


def ids(warehouse: Warehouse, where: str = "1 = 1") -> list[int]:
    return [r["id"] for r in warehouse.query(f"SELECT id FROM {{rows}} WHERE {where} ORDER BY id")]


@pytest.mark.parametrize("how", ["batch", "records", "both"])
def test_deleted_rows_are_removed_with_hard_delete(how: str, warehouse: Warehouse, batch: Batches) -> None:
    """Also within one load: the last row of a key counts."""

    def sent(content: list[dict[str, Any]], number: int) -> list[Message]:
        if how == "batch" or (how == "both" and number % 2):
            return [batch_of(batch, content)]
        return [record(**r) for r in content]

    steps = [
        rows(1, 2, 3, 4, 5),
        rows(2, 9, deleted=True),  # key 9 never existed
        rows(3, deleted=True),
        rows(3, name="again"),
        [*rows(4, name="b"), *rows(4, deleted=True)],
        rows(6),
        rows(6, deleted=True),
    ]
    together = [m for number, step in enumerate(steps) for m in sent(step, number)]
    settings = {**UPSERT, "hard_delete": True}
    warehouse.load([schema(columns=WITH_DELETED), *together, state(1)], **settings)
    assert ids(warehouse) == [1, 3, 5]
    later = [m for number, step in enumerate([rows(1, deleted=True), rows(5, 7)]) for m in sent(step, number)]
    for _ in range(2):  # a replay changes nothing
        warehouse.load([schema(columns=WITH_DELETED), *later, state(2)], **settings, max_batch_mb=0.000001)
        assert ids(warehouse) == [3, 5, 7]
    assert ids(warehouse, f"{DELETED} IS NOT NULL") == []
    assert warehouse.query("SELECT name FROM {rows} WHERE id = 3") == [{"name": "again"}]


def test_deleted_rows_stay_marked_without_hard_delete(warehouse: Warehouse, batch: Batches) -> None:
    settings = {**UPSERT, "add_record_metadata": True}
    first = [schema(columns=WITH_DELETED), batch_of(batch, rows(1, 2)), record(**rows(3)[0])]
    warehouse.load([*first, batch_of(batch, rows(1, deleted=True)), record(**rows(3, deleted=True)[0])], **settings)
    assert ids(warehouse, f"{DELETED} IS NOT NULL") == [1, 3]
    warehouse.load([schema(columns=WITH_DELETED), batch_of(batch, rows(1)), record(**rows(3)[0])], **settings)
    assert ids(warehouse, f"{DELETED} IS NULL") == [1, 2, 3]


@pytest.mark.parametrize("method", ["append-only", "overwrite"])
def test_where_rows_do_not_replace_each_other_all_stay(method: str, warehouse: Warehouse, batch: Batches) -> None:
    lines = [schema(columns=WITH_DELETED), batch_of(batch, rows(1, 2)), batch_of(batch, rows(1, deleted=True))]
    warehouse.load(lines, load_method=method, hard_delete=True)
    assert ids(warehouse) == [1, 1, 2]
    assert ids(warehouse, f"{DELETED} IS NOT NULL") == [1]


def test_a_table_of_keys_alone(warehouse: Warehouse, batch: Batches) -> None:
    columns = pa.schema([("id", pa.int64()), (DELETED, pa.timestamp("us", "UTC"))])
    lines = [schema(columns=columns), batch_of(batch, [{"id": 1}, {"id": 2}], columns)]
    warehouse.load([*lines, batch_of(batch, [{"id": 1, DELETED: AT}], columns)], **UPSERT, hard_delete=True)
    assert ids(warehouse) == [2]


@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize("method", ["append-only", "upsert"])
def test_versions_that_are_over(hard: bool, method: str, warehouse: Warehouse, batch: Batches) -> None:
    """The version is the message's; a run has several, each activated once it is complete."""
    settings = {"load_method": method, "hard_delete": hard, "add_record_metadata": not hard}
    lines = [
        schema(columns=PLAIN),
        batch_of(batch, rows(1, 2, 3), PLAIN, version=10, batch_id="a"),
        record(version=10, id=4, name="a"),
        activate(10),
        state(1),
        batch_of(batch, rows(2, 3, name="b"), PLAIN, version=20, batch_id="b"),
        record(version=20, id=5, name="b"),
        activate(20),
        state(2),
        batch_of(batch, rows(3, name="c"), PLAIN, version=30, batch_id="c"),
        activate(30),
        activate(20),  # an older one removes nothing
        batch_of(batch, rows(6, name="c"), PLAIN, version=30, batch_id="d"),
        state(3),
    ]
    warehouse.load(lines, **settings)
    live = "1 = 1" if hard else f"{DELETED} IS NULL"
    assert ids(warehouse, live) == [3, 6]
    if not hard:
        gone = [1, 2, 2, 3, 3, 4, 5] if method == "append-only" else [1, 2, 4, 5]
        assert ids(warehouse, f"{DELETED} IS NOT NULL") == gone
    again = [schema(columns=PLAIN), batch_of(batch, rows(1, name="d"), PLAIN, version=40, batch_id="e"), activate(40)]
    warehouse.load(again, **settings)
    assert ids(warehouse, live) == [1]


@pytest.mark.parametrize("hard", [True, False])
def test_a_replay_of_versions_changes_nothing(hard: bool, warehouse: Warehouse, batch: Batches) -> None:
    """A run that ended before its STATE was written is repeated, with the same batch ids."""
    settings = {"hard_delete": hard, "add_record_metadata": not hard}
    old = [schema(columns=PLAIN), batch_of(batch, rows(1, 2), PLAIN, version=1, batch_id="a"), activate(1)]
    new = [
        schema(columns=PLAIN),
        batch_of(batch, rows(2, 3), PLAIN, version=2, batch_id="b"),
        batch_of(batch, rows(4), PLAIN, version=2, batch_id="c"),
        activate(2),
        state(2),
    ]
    warehouse.load([*old, state(1)], **settings)
    live = "1 = 1" if hard else f"{DELETED} IS NULL"
    warehouse.load(new[:2], **settings)  # killed before the rest: both versions are in the table
    assert ids(warehouse, live) == [1, 2, 2, 3]
    for _ in range(2):
        warehouse.load(new, **settings)
        assert ids(warehouse, live) == [2, 3, 4]
    marks = warehouse.query(f"SELECT DISTINCT {DELETED} FROM {{rows}} ORDER BY 1") if not hard else []
    warehouse.load(new, **settings)
    assert not marks or warehouse.query(f"SELECT DISTINCT {DELETED} FROM {{rows}} ORDER BY 1") == marks


def test_rows_without_a_version_stay(warehouse: Warehouse, batch: Batches) -> None:
    settings = {"hard_delete": True}
    lines = [schema(columns=PLAIN), batch_of(batch, rows(1), PLAIN), record(id=2, name="a")]
    warehouse.load([*lines, batch_of(batch, rows(3), PLAIN, version=1), activate(9)], **settings)
    assert ids(warehouse) == [1, 2]
