"""What is lost while a window is read: it is read again as a whole, and in the end there is one line."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from flight_tap import Tap, numbers
from waiting import wait_until

from local_cloud.flightsql.client import FlightSql
from local_cloud.programs import Programs

ROWS = 100_000
STREAM = {"name": "rows", "table": "rows", "replication_key": "id"}


@pytest.fixture(autouse=True)
def rows(flight: FlightSql) -> None:
    """Make a table of some batches for each endpoint."""
    flight.execute(f"CREATE TABLE rows AS {numbers(ROWS)}")


def files_of(tap: Tap) -> set[str]:
    return {str(f) for f in tap.folder.rglob("*.parquet")}


def last_line(text: str) -> str:
    return text.splitlines()[-1].partition(" | tap-flight-sql")[2].partition("| ")[2]


@pytest.mark.parametrize(
    "fault",
    [
        {"action": "lost", "after_batches": 2, "endpoint": 1},
        {"action": "expired", "endpoint": 3},
        {"action": "restart", "after_batches": 1, "endpoint": 2},
        {"action": "error", "endpoint": 0},
        {"action": "skip_rows", "endpoint": 0},
        {"call": "info", "action": "lost", "match": "WHERE"},
    ],
    ids=lambda fault: f"{fault.get('call', 'get')}-{fault['action']}",
)
def test_the_window_is_read_again(flight: FlightSql, tap: Tap, fault: dict[str, Any]) -> None:
    flight.fail({**fault, "match": "WHERE", "times": 1})
    ran = tap(STREAM).check()
    assert flight.fail()[0]["fired"] == 1
    assert tap.ids(ran) == list(range(ROWS))
    assert ran.stderr.count("the window is read again (2 of 3)") == 1
    assert files_of(tap) == {u.removeprefix("file://") for b in ran.of_type("BATCH") for u in b["manifest"]}


def test_rows_that_change_between_two_tries(flight: FlightSql, tap: Tap) -> None:
    change = f"INSERT INTO rows {numbers(50, ROWS)}; DELETE FROM rows WHERE id < 100"
    flight.fail({"match": "WHERE", "action": "lost", "after_batches": 2, "then": change, "times": 1})
    assert tap.ids(tap(STREAM).check()) == list(range(100, ROWS))


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"action": "lost", "after_batches": 1, "endpoint": 2}, "an endpoint: the connection to the backend was lost"),
        ({"action": "expired", "endpoint": 3}, "an endpoint: the ticket has expired"),
        ({"action": "restart", "after_batches": 1, "endpoint": 0}, "an endpoint: "),
        ({"action": "skip_rows", "endpoint": 1}, f"the query has {ROWS} rows, and its endpoints sent "),
        ({"call": "info", "action": "lost"}, "the query: the server is not available"),
    ],
    ids=lambda value: f"{value.get('call', 'get')}-{value['action']}" if isinstance(value, dict) else "",
)
def test_three_tries_and_one_line(flight: FlightSql, tap: Tap, fault: dict[str, Any], text: str) -> None:
    flight.fail({"match": "<=", **fault})
    ran = tap(STREAM)
    assert flight.fail()[0]["fired"] == 3
    assert ran.code == 1
    assert ran.stderr.count("the window is read again") == 2
    assert last_line(ran.stderr).startswith(f"Stream 'rows': {flight.uri}: {text}")
    assert last_line(ran.stderr).endswith("no row of it was sent after 3 tries: run again [service]")
    assert "Traceback" not in ran.stderr
    assert not ran.of_type("BATCH")
    assert not files_of(tap)
    wait_until(lambda: (again := tap(STREAM)).code == 0 and tap.ids(again) == list(range(ROWS)))  # once it is back


def test_endpoints_that_are_listed_twice_are_read_once(flight: FlightSql, tap: Tap) -> None:
    flight.fail({"call": "info", "action": "twice"})
    ran = tap(STREAM).check()
    assert tap.ids(ran) == list(range(ROWS))


def test_records_are_sent_after_the_whole_window_was_read(flight: FlightSql, tap: Tap) -> None:
    flight.fail({"match": "WHERE", "action": "lost", "after_batches": 2, "times": 1})
    ran = tap(STREAM, records=True).check()
    assert sorted(m["record"]["id"] for m in ran.of_type("RECORD")) == list(range(ROWS))


def test_a_query_that_is_refused(tap: Tap) -> None:
    ran = tap({"name": "bad", "query": "SELECT nope FROM rows"})
    assert ran.code == 1
    assert 'the query was refused: Binder Error: Referenced column "nope" not found' in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"uri": "grpc://127.0.0.1:1"}, "connection refused"),
        ({"env": {"TAP_FLIGHT_SQL_PASSWORD": "wrong-one"}}, "correct username and password"),
        ({"max_message_mb": 1, "streams": [{"name": "wide", "query": "SELECT repeat('x', 3000000) AS t"}]}, "max_mes"),
        ({"streams": [{"name": "a", "table": "rows", "replication_key": "nope"}]}, "names 'nope', which is no column"),
        ({"streams": [{"name": "a", "query": "SELECT 1 AS a, 2 AS A, 3 AS a"}]}, "'a' occurs twice"),
        ({"session": ["SET nonsense = 1"]}, "the statement 'SET nonsense = 1' of the setting 'session' was refused: "),
    ],
    ids=["refused", "password", "message", "key", "twice", "session"],
)
def test_one_line(tap: Tap, options: dict[str, Any], text: str) -> None:
    options = {"streams": [STREAM], **options}
    ran = tap(*options.pop("streams"), **options)
    assert ran.code == 1
    assert text in last_line(ran.stderr)
    assert "wrong-one" not in ran.stderr
    assert "Traceback" not in ran.stderr


def test_timeouts(flight: FlightSql, tap: Tap) -> None:
    flight.fail({"call": "info", "match": r"max\(", "action": "hang", "delay_s": 5, "times": 1})
    ran = tap(STREAM, query_timeout_seconds=1)
    assert ran.code == 1
    assert "the query: " in last_line(ran.stderr)
    flight.fail({"match": "WHERE", "action": "hang", "delay_s": 5, "after_batches": 1, "times": 1})
    assert tap.ids(tap(STREAM, fetch_timeout_seconds=3).check()) == list(range(ROWS))


def test_a_signal_ends_a_run_that_waits_for_the_server(
    flight: FlightSql, tap: Tap, flight_cloud: Any, tmp_path: Path
) -> None:
    flight.fail({"match": "WHERE", "action": "hang", "delay_s": 60, "after_batches": 1})
    config = {"streams": [STREAM], "batch_config": tap.batches}
    process = Programs(flight_cloud.environ(), tmp_path).start("tap-flight-sql", config=["ENV", config])
    wait_until(lambda: any("WHERE" in s for s in flight.statements()), 60)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 143
    assert "Traceback" not in stderr.decode()
