"""A run stops at any of its warehouse calls while another run does its work: each row is loaded once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from singer_lines import Batches, Message, activate, rows, schema, state
from stopping import WAIT_SECONDS, Run, watch
from warehouses import Warehouse

from singer_arrow.load.run import Checkpoints
from singer_arrow.warehouse import run as warehouse_run
from target_bigquery import ledger

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),  # threads of a killed run
]
OFFSETS = 3
"""Each test stops at every third call."""
BLOCKED_SECONDS = 6.0
"""Seconds after which a run that waits for a stopped one counts as blocked by its lock."""
NARROW, WIDE = (
    pa.schema([("id", pa.int64()), ("name", pa.string()), *more]) for more in ((), [("more", pa.float64())])
)
WAYS = [
    ("bigquery", {}),
    ("bigquery", {"load_via": "storage_write"}),
    ("bigquery", {"gcs_stage": "gs://{bucket}/x"}),
    ("redshift", {}),
]
dead = pytest.mark.parametrize("dead", [False, True], ids=["", "dead letters"])
ways = pytest.mark.parametrize(
    ("warehouse", "way"), WAYS, indirect=["warehouse"], ids=["load_job", "storage_write", "gcs_stage", "redshift"]
)
offsets = pytest.mark.parametrize("offset", range(OFFSETS))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release every STATE as soon as it is allowed, and shorten the waits for a dead run."""
    monkeypatch.setitem(Checkpoints.__init__.__kwdefaults__, "interval", 0.0)
    monkeypatch.setattr(warehouse_run, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(ledger, "PATIENCE_SECONDS", 1.0)


def ids(warehouse: Warehouse) -> list[int]:
    """Return the ids in the table, sorted."""
    return [row["id"] for row in warehouse.query("SELECT id FROM {rows} ORDER BY id")]


def calls(offset: int) -> Iterator[int]:
    """Return the calls at which runs stop."""
    yield from range(offset + 1, 10_000, OFFSETS)


@pytest.fixture
def settings(way: dict[str, str], gcs_bucket: Any) -> Callable[[int], dict[str, Any]]:
    """Return the settings of a run; every second run loads each batch alone."""
    own = {name: value.format(bucket=gcs_bucket.name) for name, value in way.items()}
    return lambda call: own | {"max_batch_mb": 0.000001 if call % 2 else 64}


@dead
@offsets
@ways
def test_a_run_sleeps_while_another_one_does_its_work(
    warehouse: Warehouse, settings: Any, batch: Batches, dead: bool, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent(number: int) -> Message:
        bad: list[Any] = [{"id": "none", "name": "bad"}] * dead
        form = "jsonl" if dead else "parquet"
        return batch([*rows(2 * number, 2), *bad], batch_id=f"batch-{number}", file_format=form)

    for call in calls(offset):
        lines = [schema(), *(m for n in range(3) for m in (sent(n), state(n)))]
        own = settings(call) | ({"on_bad_row": "dead_letter"} if dead else {})
        if call % 3 == 0:
            warehouse.load(lines[:3], **own)
        sleeper = Run(call)
        with monkeypatch.context() as patch:
            watch(sleeper, patch)
            sleeper.begin(warehouse, lines, **own)
            other = threading.Thread(target=warehouse.load, args=(lines,), kwargs=own, daemon=True)
            other.start()
            other.join(BLOCKED_SECONDS)
            sleeper.end()
            other.join(WAIT_SECONDS)
            assert not other.is_alive()
        warehouse.load(lines, **own)
        assert ids(warehouse) == list(range(6)), call
        assert not dead or len(warehouse.query("SELECT position FROM {_sdc_rejected}")) == 3, call
        warehouse.drop()
        if not sleeper.stopped.is_set():
            return


@offsets
@ways
def test_a_run_dies_while_columns_and_versions_change(
    warehouse: Warehouse, settings: Any, batch: Batches, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent(number: int, version: int, columns: pa.Schema = WIDE) -> Message:
        found = rows(2 * number, 2)
        return batch(found, batch_id=f"batch-{number}", version=version, columns=columns)

    for call in calls(offset):
        lines = [schema(columns=NARROW), sent(0, 1, NARROW), state(0), schema(columns=WIDE), sent(1, 1), state(1)]
        lines += [sent(2, 2), activate(2), state(2), sent(3, 2), state(3)]
        own = settings(call) | {"hard_delete": True}
        dying = Run(call, dies=True)
        with monkeypatch.context() as patch:
            watch(dying, patch)
            dying.begin(warehouse, lines, **own)
        out = max(dying.states, default=-1)
        there = set(ids(warehouse)) if out >= 0 else set()
        is_replaced = {4, 5} <= there and not there & {0, 1, 2, 3}
        assert out < 0 or is_replaced or (out < 2 and set(range(2 * out + 2)) <= there), (call, out, there)
        assert out < 3 or {6, 7} <= there, (call, out, there)
        rest = [schema(columns=WIDE), *lines[lines.index(state(out)) + 1 :]] if out >= 0 and call % 4 < 2 else lines
        warehouse.load(rest, **own)
        assert ids(warehouse) == [4, 5, 6, 7], call
        warehouse.drop()
        if not dying.stopped.is_set():
            return
