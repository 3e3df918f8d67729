"""load_via: storage_write: rows, the choice between streaming and load jobs, and failing calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from bigquery_traces import load_jobs
from singer_lines import Batches, lines, load, record, rows, schema, some_batches, state, states
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.programs import Programs
from singer_arrow.errors import CredentialsError, LoadError
from target_bigquery import connection
from target_bigquery.storage_write import load_method as arrow_rows

Config = dict[str, Any]
Fail = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def config(config: Config) -> Config:
    """Return settings for the local BigQuery and the Storage Write API."""
    return config | {"load_via": "storage_write"}


@pytest.mark.smoke
def test_batches_and_records_arrive_without_a_load_job(
    config: Config, batch: Batches, table: Any, bq: Any, dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonl = batch([{"id": 20, "name": "é"}], file_format="jsonl")
    messages = [*some_batches(batch, 3), record(id=10, name="x"), record(id=11, name=None), jsonl, state(9)]
    counts = load(messages, config).run.tallies.of("rows").counts()
    found = [*rows(0, 6), {"id": 10, "name": "x"}, {"id": 11, "name": None}, {"id": 20, "name": "é"}]
    assert table() == found
    assert load_jobs(bq, dataset) == []
    assert counts["load_jobs"] == 0
    assert counts["write_streams"] >= 1
    assert counts["rows"] == 9
    assert states(capsys.readouterr().out)[-1] == 9
    again = load(messages, config).run.tallies.of("rows").counts()
    assert again["skipped"] == 3
    assert [r["id"] for r in table()] == [*range(6), 10, 10, 11, 11, 20, 20]
    assert load_jobs(bq, dataset) == []
    load(messages[:6], config | {"load_via": "load_job"})  # each way skips batches that the other has loaded
    assert len(table()) == 12


PLACE = pa.struct([("n", pa.decimal128(38, 12)), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC"))])
TYPES = pa.schema(
    [
        *(("id", pa.int64()), ("half", pa.float32()), ("double", pa.float64()), ("yes", pa.bool_())),
        *(("u64", pa.uint64()), ("price", pa.decimal128(38, 9)), ("fine", pa.decimal128(38, 18))),
        *(("wide", pa.decimal256(38, 9)), ("text", pa.string()), ("raw", pa.binary()), ("day", pa.date32())),
        *(("at", pa.timestamp("us", "UTC")), ("finer", pa.timestamp("ns", "UTC")), ("tags", pa.list_(pa.string()))),
        *(("place", PLACE), ("places", pa.list_(PLACE)), ("free", pa.map_(pa.string(), pa.int64())), ("no", pa.null())),
    ]
)
FULL: dict[str, Any] = {
    **{"id": 1, "half": 0.5, "double": 1.7976931348623157e308, "yes": False, "u64": 2**64 - 1},
    **{"price": Decimal("-99999999999999999999999999999.999999999"), "fine": Decimal("0.000000000000000001")},
    **{"wide": Decimal("1.5"), "text": 'é😀 "q", a\nb\0', "raw": bytes(range(256)), "day": date(1, 1, 1)},
    "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "finer": datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
    "tags": ["", "b"],
    "place": {"n": Decimal("1.000000000001"), "tags": None, "at": None},
    "places": [{"n": None, "tags": ["x"], "at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)}],
    "free": [("a", -1)],
}
ROWS = [FULL, {"id": 2, "text": "", "tags": [], "places": [], "day": date(9999, 12, 31)}, {"id": 3}]


def test_every_type_arrives_as_by_load_jobs(config: Config, batch: Batches, table: Any, bq: Any, dataset: str) -> None:
    content = [dict.fromkeys(TYPES.names) | row for row in ROWS]
    messages = [schema(columns=TYPES), batch(content, columns=TYPES)]
    load(messages, config | {"load_via": "load_job", "table_prefix": "jobs_"})
    before = len(load_jobs(bq, dataset))
    load(messages, config)
    assert len(load_jobs(bq, dataset)) == before == 1
    expected = [dict(r.items()) for r in bq.query(f"SELECT * FROM `{dataset}.jobs_rows` ORDER BY id").result()]
    assert table() == expected
    assert expected[0]["u64"] == 2**64 - 1
    assert expected[0]["price"] == FULL["price"]
    assert expected[0]["text"] == FULL["text"]


def test_what_the_api_has_no_type_for_goes_by_load_jobs(
    config: Config, batch: Batches, table: Any, bq: Any, dataset: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns = pa.schema([("id", pa.int64()), ("in", pa.struct([("clock", pa.time64("us"))]))])
    content = [{"id": 1, "in": {"clock": time(1, 2, 3)}}]
    message = schema(columns=columns)
    load([message, batch(content, columns=columns), message, record(id=2, **{"in": {"clock": "04:05:06"}})], config)
    assert [r["in"]["clock"] for r in table()] == [time(1, 2, 3), time(4, 5, 6)]
    assert load_jobs(bq, dataset)
    assert caplog.text.count("goes by load jobs: the Storage Write API takes no Arrow for column in.clock (TIME)") == 1


def test_rows_that_are_too_large_go_by_a_load_job(
    config: Config, batch: Batches, table: Any, bq: Any, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_rows.split_requests, "__defaults__", (20_000,))
    large = batch([{"id": 0, "name": "x" * 30_000}, {"id": 1, "name": "y"}], batch_id="large")
    counts = load([schema(), large, batch(rows(2, 1000), batch_id="small")], config).run.tallies.of("rows").counts()
    assert [len(r["name"]) for r in table()][:2] == [30_000, 1]
    assert [r["id"] for r in table()] == list(range(1002))
    assert (counts["load_jobs"], counts["write_streams"]) == (1, 1)
    assert load([schema(), large], config).run.tallies.of("rows").counts()["skipped"] == 1
    upsert = config | {"load_method": "upsert"}
    load([schema(), large, batch([{"id": 2, "name": "z"}])], upsert)
    assert len(table()) == 1002
    assert table()[2]["name"] == "z"


def test_upsert(config: Config, batch: Batches, table: Any, bq: Any, dataset: str) -> None:
    upsert = config | {"load_method": "upsert", "max_batch_mb": 0.000001, "cluster_by": ["id"]}
    load(
        [schema(), batch([*rows(0, 3), {"id": 1, "name": "b"}]), record(id=2, name="c"), record(id=3, name="d")], upsert
    )
    assert [(r["id"], r["name"]) for r in table()] == [(0, "name 0"), (1, "b"), (2, "c"), (3, "d")]
    assert load_jobs(bq, dataset) == []
    assert [t.table_id for t in bq.list_tables(dataset)] == ["rows"]
    merges = [j.query for j in bq.list_jobs() if j.job_type == "query" and "MERGE" in j.query and dataset in j.query]
    assert merges
    assert all(re.search(r"t\.`id` (?:= (?!s\.)|BETWEEN )", text) for text in merges), merges  # it is bounded


def test_overwrite_goes_by_load_jobs(
    config: Config, batch: Batches, table: Any, caplog: pytest.LogCaptureFixture
) -> None:
    overwrite = config | {"load_method": "overwrite"}
    load([schema(), batch(rows(0, 3))], config)
    load([schema(), batch(rows(5, 2))], overwrite)
    assert [r["id"] for r in table()] == [5, 6]
    assert "goes by load jobs: overwrite replaces the table by a copy" in caplog.text


def test_new_columns_reach_a_table_that_is_written_to(config: Config, batch: Batches, table: Any) -> None:
    wider = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.list_(pa.int64()))])
    load(
        [
            schema(),
            batch(rows(0, 1)),
            schema(columns=wider),
            batch([{"id": 1, "name": "b", "more": [1]}], columns=wider),
        ],
        config,
    )
    assert table() == [{"id": 0, "name": "name 0", "more": []}, {"id": 1, "name": "b", "more": [1]}]


# Calls that fail

_HIDDEN = "'TABLES_UPDATE_DATA' denied on resource 't' (or it may not exist)."
PASSING: dict[str, list[dict[str, Any]]] = {
    "not done": [
        {"call": "create", "status": "UNAVAILABLE", "times": 2},
        {"call": "append", "status": "UNAVAILABLE", "skip": 1, "times": 2},
        {"call": "finalize", "status": "UNAVAILABLE", "times": 1},
        {"call": "commit", "status": "UNAVAILABLE", "times": 2},
    ],
    "done, and the answer is lost": [
        {"call": "create", "status": "DEADLINE_EXCEEDED", "after": True, "times": 1},
        {"call": "append", "status": "INTERNAL", "after": True, "skip": 1, "times": 2},
        {"call": "finalize", "status": "UNKNOWN", "after": True, "times": 1},
        {"call": "commit", "status": "INTERNAL", "after": True, "times": 1},
    ],
    "answered with an error": [
        {"call": "append", "status": "ABORTED", "in_band": True, "times": 2},
        {"call": "append", "status": "INTERNAL", "in_band": True, "after": True, "skip": 2, "times": 1},
        {"call": "append", "status": "RESOURCE_EXHAUSTED", "in_band": True, "skip": 4, "times": 1},
    ],
    "of no use any more": [
        {
            "call": "append",
            "code": "OFFSET_OUT_OF_RANGE",
            "status": "OUT_OF_RANGE",
            "in_band": True,
            "skip": 1,
            "times": 1,
        },
        {"call": "append", "code": "STREAM_FINALIZED", "status": "INVALID_ARGUMENT", "in_band": True, "times": 1},
        {"call": "append", "code": "STREAM_NOT_FOUND", "status": "NOT_FOUND", "skip": 2, "times": 1},
    ],
    "new to it": [
        {"call": "create", "status": "NOT_FOUND", "times": 2},
        {"call": "create", "status": "PERMISSION_DENIED", "message": f"Permission {_HIDDEN}", "times": 2},
        {"call": "append", "status": "PERMISSION_DENIED", "message": f"Permission {_HIDDEN}", "times": 1},
        {"call": "append", "code": "SCHEMA_MISMATCH_EXTRA_FIELDS", "status": "INVALID_ARGUMENT", "times": 2},
    ],
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between retries."""
    from singer_arrow.runtime import threads as retries

    monkeypatch.setattr(retries.time, "sleep", lambda _: None)


@pytest.mark.parametrize("faults", PASSING.values(), ids=PASSING)
def test_what_passes_is_met_with_another_try(
    faults: list[dict[str, Any]],
    config: Config,
    batch: Batches,
    table: Any,
    dataset: str,
    cloud: Cloud,
    fail_writes: Fail,
    monkeypatch: pytest.MonkeyPatch,
    quick: None,
) -> None:
    monkeypatch.setattr(arrow_rows.split_requests, "__defaults__", (1_000,))  # many requests
    fail_writes(*({"match": dataset, **fault} for fault in faults))
    load([*some_batches(batch, 3), batch(rows(6, 200), batch_id="large"), record(id=206, name="x")], config)
    assert [r["id"] for r in table()] == list(range(207))
    assert [f["fired"] for f in cloud.write_faults()] == [f["times"] for f in faults]


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (
            {"call": "create", "status": "PERMISSION_DENIED"},
            CredentialsError,
            "Opening a write stream .*check the cred",
        ),
        (
            {"call": "create", "status": "PERMISSION_DENIED", "message": f"Permission {_HIDDEN}"},
            CredentialsError,
            "Opening a write stream .*may not exist.*check the cred",
        ),
        (
            {"call": "append", "status": "UNAUTHENTICATED"},
            CredentialsError,
            "Writing to a write stream .*check the cred",
        ),
        (
            {"call": "append", "status": "INVALID_ARGUMENT", "message": "bad\nrow"},
            LoadError,
            "INVALID_ARGUMENT: bad row",
        ),
        ({"call": "append", "status": "UNAVAILABLE"}, LoadError, "all retries failed"),
        ({"call": "append", "status": "RESOURCE_EXHAUSTED"}, LoadError, "raise the quota .*load_via: load_job"),
        ({"call": "commit", "status": "FAILED_PRECONDITION"}, LoadError, "Committing a write stream .*run again"),
    ],
)
def test_a_refused_write_is_an_error_of_one_line(
    fault: dict[str, Any],
    error: type[Exception],
    words: str,
    config: Config,
    batch: Batches,
    dataset: str,
    fail_writes: Fail,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(connection, "DEADLINE_SECONDS", 0.1)
    fail_writes({"match": dataset, **fault})
    with pytest.raises(error, match=words) as caught:
        load(some_batches(batch, 3), config)
    assert "\n" not in str(caught.value)
    assert "projects/" not in str(caught.value)
    assert states(capsys.readouterr().out) == []


def test_a_table_that_is_dropped_meanwhile(
    config: Config, batch: Batches, bq: Any, dataset: str, fail_writes: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DEADLINE_SECONDS", 0.1)
    load([schema()], config)
    fail_writes({"call": "append", "match": dataset, "status": "NOT_FOUND", "code": "TABLE_NOT_FOUND"})
    with pytest.raises(LoadError, match="TABLE_NOT_FOUND.*the table was changed during this run"):
        load(some_batches(batch, 3), config)


# Records


LIVE = {"load_via": "storage_write", "add_record_metadata": True, "max_batch_age_seconds": 3600}


def test_records_arrive_while_the_tap_is_running(run: Programs, bq: Any, dataset: str, cloud: Cloud) -> None:
    process = run.start("target-bigquery", config=["ENV", LIVE])
    clocks = schema("clocks", pa.schema([("at", pa.time64("us"))]), keys=())
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for n in range(2):
            messages = [record("clocks", at="01:02:03"), record(id=n, name="x"), state(n)]
            messages = messages if n else [schema(), clocks, *messages]
            process.stdin.write(lines(messages).encode())
            process.stdin.flush()
            wait_until(partial(_has_more_than, n, bq, dataset))  # long before the age limit of a batch
    finally:
        out, log = process.communicate(timeout=60)
    assert process.returncode == 0, log.decode()
    assert states(out)[-1] == 1
    assert len(load_jobs(bq, dataset)) == 1  # of the clocks, whose rows are gathered as usual


def _has_more_than(n: int, bq: Any, dataset: str) -> bool:
    from google.api_core.exceptions import NotFound

    try:
        return bool(bq.get_table(f"{dataset}.rows").num_rows > n)
    except NotFound:
        return False
