"""kill -9 of `tap-flight-sql | target-...` at each step, while the rows of the server change: each row arrives once.

A window is written down before its first batch is sent. What is killed before that is read anew, with the rows of then;
what is killed after it is sent as it was written, whatever the server has by then.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from flight_tap import numbers
from forked_programs import ForkedPrograms
from interrupted_pipe import Cut, Piped, pipe
from killed_pipeline import Pipeline
from waiting import wait_until
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.flightsql.client import FlightSql
from local_cloud.programs import Programs
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.settings import Bookmark
from tap_flight_sql.stream import Window, WindowLog

ROWS, MORE = 20_000, 100
KEYED = {"name": "rows", "table": "rows", "replication_key": "id"}
WHOLE = {"name": "rows", "table": "rows"}
PIPE_CUTS = [
    Cut("SCHEMA"),
    Cut("BATCH", 1, 0.5),
    Cut("BATCH", 2),
    Cut("BATCH", 4),
    Cut("STATE", 1, 0.5),
    Cut("STATE", 1),
]
STEPS: dict[str, dict[str, Any]] = {
    "first file": {"match": "^PUT .*parquet"},
    "last file": {"match": "^PUT .*parquet", "skip": 3},
    "last file is there": {"match": "^PUT .*parquet", "skip": 3, "forward": True},
    "window": {"match": "^PUT .*_windows/[^/]+/0"},
    "window is there": {"match": "^PUT .*_windows/[^/]+/0", "forward": True},
}
COMPACTION: dict[str, dict[str, Any]] = {
    "checkpoint": {"match": "^PUT .*_windows.*zst"},
    "checkpoint is there": {"match": "^PUT .*_windows.*zst", "forward": True},
    "removal": {"match": "^POST .*delete"},
    "removed": {"match": "^POST .*delete", "forward": True},
}


class Rows:
    """The table of the server, and what must have arrived of it.

    Args:
        flight: The server.
        warehouse: Where the rows go to.
    """

    def __init__(self, flight: FlightSql, warehouse: Warehouse) -> None:
        self._flight, self._warehouse = flight, warehouse
        flight.execute(f"CREATE TABLE rows AS {numbers(ROWS)}")

    def change(self) -> None:
        """Change all rows of the server, and add some."""
        self._flight.execute(f"UPDATE rows SET name = 'changed'; INSERT INTO rows {numbers(MORE, ROWS)}")

    def check(self, *, changed: bool) -> None:
        """Check that all rows are there once, those of the first window as they were when it was written down."""
        ids = ROWS + MORE
        text = (
            "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(id) AS s, COUNT(DISTINCT name) AS names FROM {rows}"
        )
        names = MORE + 1 if changed else ids
        assert self._warehouse.one(text) == (ids, ids, sum(range(ids)), names)


@pytest.fixture
def rows(flight: FlightSql, warehouse: Warehouse) -> Rows:
    return Rows(flight, warehouse)


@pytest.fixture
def flight_run(run: Programs, flight_cloud: Cloud, tmp_path: Path) -> Programs:
    """Runs programs in the environment of the warehouses and of Flight SQL."""
    return ForkedPrograms(run.env | flight_cloud.env, tmp_path)


def settings(stream: dict[str, Any], bucket: str) -> dict[str, Any]:
    return {
        "streams": [stream],
        "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/batches"}},
    }


def piped(
    run: Programs,
    stream: dict[str, Any],
    bucket: str,
    warehouse: Warehouse,
    *,
    cut: Cut | None = None,
    state: dict[str, Any] | None = None,
    **target: Any,
) -> Piped:
    tap = {"config": ["ENV", settings(stream, bucket)], **({"state": state} if state else {})}
    return pipe(run, tap, warehouse.program, target, cut, tap_program="tap-flight-sql")


@pytest.mark.parametrize(
    ("warehouse", "cut"),
    [*[("redshift", cut) for cut in PIPE_CUTS], *[("bigquery", cut) for cut in PIPE_CUTS[::3]]],
    indirect=["warehouse"],
    ids=str,
)
def test_the_tap_is_killed_at_a_message(
    cut: Cut, rows: Rows, flight_run: Programs, bucket: str, warehouse: Warehouse
) -> None:
    first = piped(flight_run, KEYED, bucket, warehouse, cut=cut)
    rows.change()
    state = first.states[-1] if first.states else None
    again = piped(flight_run, KEYED, bucket, warehouse, state=state)
    assert (again.tap, again.target) == (0, 0), again.log
    rows.check(changed=cut.kind == "SCHEMA")
    lost = piped(flight_run, KEYED, bucket, warehouse)  # STATE is lost
    assert (lost.tap, lost.target) == (0, 0), lost.log
    rows.check(changed=cut.kind == "SCHEMA")


@pytest.mark.parametrize(
    ("warehouse", "step"),
    [*[("redshift", step) for step in STEPS], ("bigquery", "window is there")],
    indirect=["warehouse"],
)
def test_the_tap_is_killed_while_it_writes(
    step: str, rows: Rows, flight_run: Programs, bucket: str, warehouse: Warehouse, s3_faults: FaultProxy
) -> None:
    s3_faults.set({"action": "hang", "times": 1, **STEPS[step]})
    env = {"AWS_ENDPOINT_URL": s3_faults.url}
    tap = flight_run.start("tap-flight-sql", config=["ENV", settings(KEYED, bucket)], env=env)
    wait_until(lambda: s3_faults.report()["rules"][0]["fired"])
    time.sleep(0.3)  # what is forwarded arrives
    tap.kill()
    out, _ = tap.communicate()
    assert b'"BATCH"' not in out
    s3_faults.clear()
    rows.change()
    again = piped(flight_run, KEYED, bucket, warehouse)
    assert (again.tap, again.target) == (0, 0), again.log
    rows.check(changed=step != "window is there")


@pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)
@pytest.mark.parametrize("step", COMPACTION)
def test_the_tap_is_killed_while_it_compacts_the_window_log(
    step: str, rows: Rows, flight_run: Programs, bucket: str, warehouse: Warehouse, s3_faults: FaultProxy
) -> None:
    root = Url.parse(f"s3://{bucket}/batches")
    log = WindowLog(Storage(), root, "rows", Bookmark())
    for number in range(14):  # two more make a checkpoint
        log.append(Window("rows", number, f"token-{number}", None, -1, "parquet", None, {"properties": {}}, ()))
    first = piped(flight_run, KEYED, bucket, warehouse)
    assert (first.tap, first.target) == (0, 0), first.log
    rows.change()
    s3_faults.set({"action": "hang", "times": 1, **COMPACTION[step]})
    env = {"AWS_ENDPOINT_URL": s3_faults.url}
    tap = flight_run.start("tap-flight-sql", config=["ENV", settings(KEYED, bucket)], env=env)
    wait_until(lambda: s3_faults.report()["rules"][0]["fired"])
    time.sleep(0.3)  # what is forwarded arrives
    tap.kill()
    tap.communicate()
    s3_faults.clear()
    for _ in range(2):  # STATE is lost, twice
        again = piped(flight_run, KEYED, bucket, warehouse)
        assert (again.tap, again.target) == (0, 0), again.log
        rows.check(changed=False)
    assert [w.number for w in WindowLog(Storage(), root, "rows", Bookmark()).windows()] == list(range(16))


@pytest.mark.parametrize("cut", [Cut("BATCH", 2), Cut("ACTIVATE_VERSION", 1, 0.5)], ids=str)
def test_a_whole_table(cut: Cut, rows: Rows, flight_run: Programs, bucket: str, warehouse: Warehouse) -> None:
    piped(flight_run, WHOLE, bucket, warehouse, cut=cut, hard_delete=True)
    rows.change()
    again = piped(flight_run, WHOLE, bucket, warehouse, hard_delete=True)
    assert (again.tap, again.target) == (0, 0), again.log
    rows.check(changed=True)


@pytest.mark.parametrize("cleans", [False, True])
@pytest.mark.parametrize("victim", ["tap", "target"])
def test_killed_at_any_moment(
    victim: str,
    cleans: bool,
    rows: Rows,
    flight_run: Programs,
    bucket: str,
    warehouse: Warehouse,
    tmp_path: Path,
) -> None:
    chance = random.Random(f"{victim}-{cleans}")
    target = {"clean_up_batch_files": True, "manifest_roots": [f"s3://{bucket}/batches"]} if cleans else {}
    pipeline = Pipeline(
        Programs(flight_run.env, tmp_path),
        warehouse.program,
        [KEYED],
        bucket,
        tmp_path,
        file_mb=0.02,
        target=target,
        tap_program="tap-flight-sql",
    )
    tap, loader = pipeline.start(state=True)
    time.sleep(chance.uniform(1, 5))
    (loader if victim == "target" else tap).kill()
    pipeline.end(tap, loader)
    pipeline.run_to_the_end(state=True)
    rows.change()
    pipeline.run_to_the_end(state=True)
    rows.check(changed=False)
