"""The connection to Redshift fails at any point of a load; the same run resumes and loads the exact rows."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local_settings import ONE_EACH
from singer_lines import Batches, lines, record, rows, schema, some_batches, state
from waiting import wait_until
from warehouses import Redshift, Warehouse

from local_cloud import Cloud
from singer_arrow.errors import ServiceError
from target_redshift import connection, load
from target_redshift.target import TargetRedshift

ONLY = pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)
APPEND = "INSERT INTO (?!.*_sdc_batches)"
LEDGER = "INSERT INTO .*_sdc_batches"


POINTS = [
    *(("append-only", match, at) for match in ("^COPY", APPEND) for at in ("before", "middle", "after")),
    *(("append-only", match, at) for match in (LEDGER, "^COMMIT") for at in ("before", "after")),
    *(("append-only", "^(BEGIN|START)", "after"), ("append-only", "^LOCK", "middle")),
    *(("upsert", "^MERGE", at) for at in ("before", "middle", "after")),
    *(("upsert", "^COMMIT", "after"), ("upsert", "^CREATE TEMP", "after")),
    *(("overwrite", match, "middle") for match in ("^COPY", "^DELETE")),
    ("overwrite", "^COMMIT", "after"),
]


@pytest.mark.parametrize(("method", "match", "at"), POINTS, ids=["-".join(p).replace(" ", "-") for p in POINTS])
@ONLY
def test_killed_at(
    method: str,
    match: str,
    at: str,
    warehouse: Warehouse,
    batch: Batches,
    redshift_faults: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("INFO")
    warehouse.load(some_batches(batch, 1), load_method=method)
    redshift_faults({"match": match, "action": "kill", "at": at, "times": 2})
    warehouse.load(some_batches(batch, 4, 1), load_method=method, **ONE_EACH)
    assert "again" in caplog.text
    assert warehouse.table() == rows(*((2, 8) if method == "overwrite" else (0, 10)))
    assert '{"n": 4}' in capsys.readouterr().out.replace('"n":4', '"n": 4')


@ONLY
@pytest.mark.parametrize("at", ["before", "after"])
def test_records_are_not_doubled_by_a_commit_whose_answer_is_lost(
    at: str, warehouse: Warehouse, redshift_faults: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    warehouse.load([schema(), record(**rows(0, 1)[0])])
    redshift_faults({"match": "^COMMIT", "action": "kill", "at": at, "times": 1})
    warehouse.load([schema(), *(record(**r) for r in rows(1, 5)), state(1)])
    assert "again" in caplog.text
    assert warehouse.table() == rows(0, 6)


@ONLY
@pytest.mark.parametrize("method", ["append-only", "upsert"])
def test_terminated_at_random_moments(method: str, cloud: Cloud, warehouse: Warehouse, batch: Batches, rs: Any) -> None:
    chance, is_over, ended = random.Random(method), threading.Event(), []

    def terminate() -> None:
        query = "SELECT pg_terminate_backend(process) FROM stv_sessions WHERE process <> ALL(%s)"
        while not is_over.wait(chance.uniform(0.02, 0.3)):
            ended.extend(killer.execute(query, [spared]).fetchall())
            if len(ended) > 8:
                return

    with cloud.redshift_connection() as killer:
        spared = [session.execute("SELECT pg_backend_pid()").fetchone()[0] for session in (rs, killer)]
        thread = threading.Thread(target=terminate)
        thread.start()
        done = 0
        try:
            while done < 10 or len(ended) < 3:
                warehouse.load(some_batches(batch, 5, done), load_method=method, **ONE_EACH)
                done += 5
        finally:
            is_over.set()
            thread.join()
    assert warehouse.table() == rows(0, 2 * done)


@ONLY
def test_serialisation_errors_are_met_with_another_try(
    warehouse: Warehouse, batch: Batches, redshift_faults: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    redshift_faults(
        {"match": APPEND, "action": "error", "times": 2},
        {"match": "^COMMIT", "action": "error", "at": "before", "times": 1},
    )
    warehouse.load(some_batches(batch, 4))
    assert "again" in caplog.text
    assert warehouse.table() == rows(0, 8)


def test_a_server_that_ends_in_the_middle_is_one_line(
    batch: Batches, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "DEADLINE_SECONDS", 1.0)  # that of a load is longer, and does not count then
    with Cloud(services=("s3", "redshift")) as own:
        for name, value in own.env.items():
            monkeypatch.setenv(name, value)
        with own.redshift_connection() as client:
            warehouse = Redshift(own, client, "dying")

            def messages() -> Iterator[str]:
                yield lines([schema()])
                yield lines([batch(rows(0, 2), batch_id="a")])
                yield lines([state(1)])
                wait_until(lambda: "rows" in warehouse.tables() and warehouse.table() == rows(0, 2))
                own.services["redshift"].stop()
                yield lines([batch(rows(2, 2), batch_id="b")])
                yield lines([state(2)])

            running = TargetRedshift(config=warehouse.config | {"max_batch_age_seconds": 0.2})
            try:
                with pytest.raises(ServiceError) as caught:
                    running.listen(messages())  # type: ignore[arg-type]  # lines are all that is read of it
                running.run.abandon()
            finally:
                running.run.close()
    assert "\n" not in str(caught.value)
    assert warehouse.config["password"] not in str(caught.value)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"n": 1}]


@ONLY
def test_a_statement_that_never_gets_through_is_one_line(
    warehouse: Warehouse, batch: Batches, redshift_faults: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connection, load):
        monkeypatch.setattr(module, "DEADLINE_SECONDS", 2.0)
    redshift_faults({"match": "^COPY", "action": "kill", "at": "middle"})
    with pytest.raises(ServiceError) as caught:
        warehouse.load(some_batches(batch, 4))
    assert "\n" not in str(caught.value)
    redshift_faults()
    warehouse.load(some_batches(batch, 4))
    assert warehouse.table() == rows(0, 8)
