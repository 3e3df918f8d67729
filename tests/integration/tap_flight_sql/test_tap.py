"""The tap reads queries and tables of a server, whole or by a replication key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flight_tap import ROWS, Tap, numbers
from run_reports import reports

from local_cloud.flightsql.client import FlightSql
from tap_flight_sql.sql import ESCAPE_PROBE

INCREMENTAL = {"name": "rows", "table": "rows", "replication_key": "id", "key_properties": ["id"]}
FULL = {"name": "rows", "table": "rows"}


def fill(flight: FlightSql, count: int, first: int = 0) -> None:
    """Add rows to the table `rows`."""
    flight.execute(f"CREATE TABLE IF NOT EXISTS rows AS {numbers(0)}")
    flight.execute(f"INSERT INTO rows {numbers(count, first)}")


@pytest.mark.smoke
def test_a_query_is_read_by_all_endpoints(flight: FlightSql, tap: Tap) -> None:
    ran = tap({"name": "half", "query": f"SELECT * FROM ({numbers(ROWS)}) WHERE id % 2 = 0;"}).check()
    assert tap.ids(ran) == list(range(0, ROWS, 2))
    batches = ran.of_type("BATCH")
    assert len(batches) == 4
    assert sum(b["row_count"] for b in batches) == ROWS // 2
    versions = {b["version"] for b in batches}
    assert [m["version"] for m in ran.of_type("ACTIVATE_VERSION")] == list(versions)
    assert ran.messages[-1]["end_of_stream"] == "half"
    assert flight.statements()[-1].startswith("SELECT * FROM (SELECT i AS id")


def test_windows_follow_each_other(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 100)
    first = tap(INCREMENTAL, report=str(tap.folder / "reports")).check()
    assert tap.ids(first) == list(range(100))
    (stream,) = reports(tap.folder / "reports")[0]["streams"]
    assert (stream["lag_seconds"] < 60, stream["complete_until"] is not None) == (True, True)
    state = first.of_type("STATE")[-1]["value"]
    entry = {
        "replication_key": "id",
        "replication_key_value": 99,
        "window": 1,
        "log": state["bookmarks"]["rows"]["log"],
        "batch": first.of_type("BATCH")[-1]["batch_id"],
    }
    assert state == {"bookmarks": {"rows": entry}}
    nothing = tap(INCREMENTAL, state=state).check()
    assert not nothing.of_type("BATCH")
    assert nothing.of_type("STATE")[-1]["value"] == state
    fill(flight, 5, first=100)
    second = tap(INCREMENTAL, state=state).check()
    assert tap.ids(second) == list(range(100, 105))
    assert second.of_type("BATCH")[0]["plan_log"]["follows"] == entry["batch"]
    assert second.of_type("STATE")[-1]["value"]["bookmarks"]["rows"]["window"] == 2


def test_a_run_without_state_sends_the_same_batches_and_does_not_ask_for_them(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 100)
    first = tap(INCREMENTAL).check()
    flight.execute("UPDATE rows SET name = 'changed'")
    flight.statements()
    again = tap(INCREMENTAL).check()
    assert again.of_type("BATCH") == first.of_type("BATCH")
    assert again.of_type("STATE")[-1] == first.of_type("STATE")[-1]
    assert [s for s in flight.statements() if "WHERE" in s] == [
        'SELECT max("id") AS upper_bound FROM (SELECT * FROM rows) AS q WHERE "id" > 99'
    ]


def test_windows_of_another_query_are_named_once(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 20)
    for first in (20, 40):
        assert "the query has changed" not in tap(INCREMENTAL).check().stderr
        fill(flight, 20, first=first)
    other = {"name": "rows", "query": "SELECT id, name FROM rows WHERE id < 50", "replication_key": "id"}
    again = tap(other).check()
    assert tap.ids(again) == list(range(50))
    assert again.stderr.count("the query has changed since window 0 was read") == 1


def test_rows_that_come_after_the_bound_wait_for_the_next_window(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 50)
    flight.fail({"call": "info", "match": r"max\(", "then": f"INSERT INTO rows {numbers(10, 50)}", "times": 1})
    first = tap(INCREMENTAL).check()
    assert tap.ids(first) == list(range(50))
    second = tap(INCREMENTAL, state=first.of_type("STATE")[-1]["value"]).check()
    assert tap.ids(second) == list(range(50, 60))


def test_rows_without_a_key_are_in_the_first_window(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 3)
    flight.execute("INSERT INTO rows VALUES (NULL, 'no id', 1, NULL)")
    stream = {"name": "rows", "table": "rows", "replication_key": "id"}
    ran = tap(stream).check()
    assert sorted(tap.table(ran)["name"].to_pylist()) == ["name 0", "name 1", "name 2", "no id"]


def test_rows_that_get_no_key_later_are_not_seen(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 3)
    stream = {"name": "rows", "table": "rows", "replication_key": "id"}
    first = tap(stream).check()
    flight.execute("INSERT INTO rows VALUES (NULL, 'no id', 1, NULL), (3, 'name 3', 1, NULL)")
    second = tap(stream, state=first.of_type("STATE")[-1]["value"]).check()
    assert tap.table(second)["name"].to_pylist() == ["name 3"]


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_key_that_no_value_is_above_is_one_line(flight: FlightSql, tap: Tap, value: str) -> None:
    fill(flight, 3)
    flight.execute(f"INSERT INTO rows VALUES (7, 'x', '{value}'::DOUBLE, NULL)")
    ran = tap({"name": "rows", "table": "rows", "replication_key": "score"})
    assert ran.code == 1
    assert f"the largest value of the replication key is {value}, above which no rows" in ran.stderr.splitlines()[-1]
    assert "Leave such rows out in the stream's query" in ran.stderr.splitlines()[-1]
    assert "stream 'rows'" in ran.stderr.splitlines()[-1]
    assert not ran.of_type("BATCH")
    kept = {"name": "rows", "query": "SELECT * FROM rows WHERE isfinite(score)", "replication_key": "score"}
    assert tap.ids(tap(kept).check()) == [0, 1, 2]


@pytest.mark.parametrize("key", ["at", "name", "score"])
def test_keys_of_other_types(flight: FlightSql, tap: Tap, key: str) -> None:
    fill(flight, 9)
    stream = {"name": "rows", "table": "rows", "replication_key": key}
    first = tap(stream).check()
    flight.execute("INSERT INTO rows SELECT 9, 'name 9', 9 / 4, TIMESTAMP '2024-01-01 00:00:09.000001'")
    second = tap(stream, state=first.of_type("STATE")[-1]["value"]).check()
    assert (tap.ids(first), tap.ids(second)) == (list(range(9)), [9])


def test_text_keys_with_backslashes_and_quotes(flight: FlightSql, tap: Tap) -> None:
    """Each window ends at one of them; the server is asked once whether a backslash is an escape."""
    flight.execute("CREATE TABLE rows (id BIGINT, name TEXT)")
    stream, state, found = {"name": "rows", "table": "rows", "replication_key": "name"}, None, list[int]()
    for number, key in enumerate([r"a\\", r"a\\b", "a\\b'c", "b\\"]):
        quoted = key.replace("'", "''")
        flight.execute(f"INSERT INTO rows VALUES ({number}, '{quoted}')")
        ran = tap(stream, state=state).check()
        state = ran.of_type("STATE")[-1]["value"]
        found += tap.ids(ran)
    assert found == [0, 1, 2, 3]
    assert flight.statements().count(ESCAPE_PROBE) == 4


def test_a_whole_table_is_read_each_time(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 10)
    first = tap(FULL).check()
    second = tap(FULL, state=first.of_type("STATE")[-1]["value"]).check()
    assert tap.ids(first) == tap.ids(second) == list(range(10))
    assert not {b["batch_id"] for b in first.of_type("BATCH")} & {b["batch_id"] for b in second.of_type("BATCH")}


def test_no_rows(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 0)
    for stream in (FULL, INCREMENTAL):
        ran = tap(stream).check()
        assert not ran.of_type("BATCH")
        assert ran.messages[-1]["end_of_stream"] == "rows"


def test_records(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 100)
    ran = tap(INCREMENTAL, records=True).check()
    assert sorted(m["record"]["id"] for m in ran.of_type("RECORD")) == list(range(100))
    state = ran.of_type("STATE")[-1]["value"]
    assert not tap(INCREMENTAL, records=True, state=state).check().of_type("RECORD")
    assert len(tap(FULL, records=True, test=True).check().of_type("RECORD")) == 1
    assert not list(tap.folder.parent.glob("batches"))


def test_stream_maps_and_flattening(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 10)
    maps = {"rows": {"id": "id", "twice": "id * 2", "__else__": None}}
    ran = tap(INCREMENTAL, stream_maps=maps).check()
    assert sorted(m["record"]["twice"] for m in ran.of_type("RECORD")) == list(range(0, 20, 2))
    assert not tap(INCREMENTAL, stream_maps={"rows": None}).check().of_type("SCHEMA", "BATCH", "RECORD")


def test_selection_is_done_by_the_server(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 10)
    catalog = json.loads(tap(INCREMENTAL, discover=True).check().stdout)
    for entry in catalog["streams"][0]["metadata"]:
        if entry["breadcrumb"] == ["properties", "name"]:
            entry["metadata"]["selected"] = False
    flight.statements()
    ran = tap(INCREMENTAL, catalog=catalog).check()
    assert tap.table(ran).column_names == ["id", "score", "at"]
    assert flight.statements()[-1].startswith('SELECT "id", "score", "at" FROM (SELECT * FROM rows) AS q WHERE "id" <=')


@pytest.mark.smoke
def test_tables_are_discovered(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 10)
    flight.execute('CREATE TABLE "Other Rows" (x INTEGER, span INTERVAL)')
    flight.execute('INSERT INTO "Other Rows" VALUES (1, INTERVAL 1 MONTH)')
    discovered = tap(discover=True).check()
    catalog = json.loads(discovered.stdout)
    assert [s["tap_stream_id"] for s in catalog["streams"]] == ["main-Other Rows", "main-rows"]
    assert "'span' is of type month_day_nano_interval" in discovered.stderr
    for stream in catalog["streams"]:
        stream["replication_method"] = "INCREMENTAL"
        stream["replication_key"] = "id" if "rows" in stream["tap_stream_id"] else "x"
    ran = tap(catalog=catalog).check()
    assert {b["stream"] for b in ran.of_type("BATCH")} == {"main-Other Rows", "main-rows"}
    assert ran.of_type("STATE")[-1]["value"]["bookmarks"]["main-Other Rows"]["replication_key_value"] == 1


def test_jsonl_files(flight: FlightSql, tap: Tap) -> None:
    fill(flight, 10)
    tap.batches["encoding"] = {"format": "jsonl", "compression": "gzip"}
    ran = tap(FULL).check()
    assert {b["encoding"]["compression"] for b in ran.of_type("BATCH")} == {"gzip"}
    assert {Path(u).suffix for b in ran.of_type("BATCH") for u in b["manifest"]} == {".gz"}


def test_small_batch_files(flight: FlightSql, tap: Tap) -> None:
    tap.batches["target_file_mb"] = 0.05  # type: ignore[assignment]
    ran = tap({"name": "rows", "query": numbers(200_000)}, max_workers=3, memory_limit_mb=64).check()
    assert tap.ids(ran) == list(range(200_000))
    assert len(ran.of_type("BATCH")) > 8


def test_statements_of_the_session_come_first(flight: FlightSql, tap: Tap) -> None:
    tap({"name": "one", "query": "SELECT 1 AS id"}, session=["SELECT 'a'", "SELECT 'b'"]).check()
    assert flight.statements()[-3:] == ["SELECT 'a'", "SELECT 'b'", "SELECT 1 AS id"]
