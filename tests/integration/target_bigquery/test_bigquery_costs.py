"""Job configuration: bytes billed, labels, encryption key and location; and the logged cost of an upsert."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud import bigquery
from singer_lines import Batches, activate, load, rows, schema, state

from local_cloud.faults.client import FaultProxy
from singer_arrow.errors import LoadError, ServiceError
from singer_arrow.runtime.threads import pauses
from target_bigquery import client as jobs
from target_bigquery import load as methods
from target_bigquery.client import BigQuery
from target_bigquery.settings import Settings

Config = dict[str, Any]
MB = 1 << 20
KEY = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
RESERVATION = "projects/admin/locations/eu/reservations/loads"


def jobs_of(bq: Any, dataset: str) -> list[Any]:
    """Return the jobs that a target ran on a dataset, without child jobs."""
    ours = [j for j in bq.list_jobs() if j.job_id.startswith("target_bigquery_")]
    return [bq.get_job(j.job_id, location=j.location) for j in ours if dataset in str(j.to_api_repr())]


def test_the_local_bigquery_estimates_and_refuses(bq: Any, dataset: str, config: Config, batch: Batches) -> None:
    load([schema(), batch(rows(0, 5)), schema("other"), batch(rows(5, 5), stream="other")], config)
    size = bq.get_table(f"{dataset}.rows").num_bytes
    assert size > 0
    dry = bigquery.QueryJobConfig(dry_run=True)
    text = f"SELECT * FROM `{dataset}.rows` JOIN `{dataset}.other` USING (id)"
    assert bq.query(text, job_config=dry).total_bytes_processed == 2 * size
    assert bq.query(f"SELECT COUNT(*) FROM `{dataset}.rows`", job_config=dry).total_bytes_processed == 0
    assert bq.query(f"INSERT INTO `{dataset}.rows` (id) VALUES (1)", job_config=dry).total_bytes_processed == 0
    assert bq.query(f"DELETE FROM `{dataset}.rows` WHERE id = 1", job_config=dry).total_bytes_processed == size

    def limited(limit: int) -> Any:
        return bq.query(text, job_config=bigquery.QueryJobConfig(maximum_bytes_billed=limit))

    done = limited(20 * MB)
    assert list(done.result()) == []
    assert (done.total_bytes_processed, done.total_bytes_billed) == (2 * size, 20 * MB)
    with pytest.raises(GoogleAPICallError, match=r"bytes billed: 20971519\. 20971520 or higher required"):
        limited(20 * MB - 1).result()


def test_a_query_has_at_most_1_mb_of_text(bq: Any, dataset: str, config: Config) -> None:
    longest = f"SELECT 1 -- {'é' * ((1 << 20) - 12)}"
    assert [r[0] for r in bq.query_and_wait(longest)] == [1]
    with pytest.raises(GoogleAPICallError, match=r"The query is too large \(1024\.00K characters\)"):
        bq.query_and_wait(f"{longest}!")
    client = BigQuery(Settings.from_config(config))
    with pytest.raises(LoadError, match=r"^Asking: its query has 2,097,140 bytes, and BigQuery takes 1 MB; leave"):
        client.query(longest, what="Asking")
    client.close()


@pytest.mark.parametrize("what", ["ledger", "merge", "delete"])
def test_no_query_bills_more_than_the_limit(
    what: str, config: Config, batch: Batches, bq: Any, dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"ledger": {}, "merge": {"load_method": "upsert"}, "delete": {"hard_delete": True}}[what]
    ids = ("a", "b") if what == "ledger" else (None, None)  # with ids the ledger's queries would be refused first
    activation = [activate(2)] if what == "delete" else []
    load([schema(), batch(rows(0, 2), batch_id=ids[0], version=1), state(1)], config | more)
    capsys.readouterr()
    words = {"ledger": "Reading .*_sdc_batches", "merge": "Merging into table", "delete": "Removing old versions"}[what]
    again = [schema(), batch(rows(2, 2), batch_id=ids[1], version=2), *activation, state(2)]
    limited = config | more | {"bytes_billed_limit": 10 * MB - 1}
    with pytest.raises(
        LoadError, match=rf"{words}.*bytes billed: .*Nothing was done or billed. Raise bytes_billed_limit"
    ):
        load(again, limited)
    assert capsys.readouterr().out == ""
    assert {r["id"] for r in bq.query(f"SELECT id FROM `{dataset}.rows`").result()} >= {0, 1}
    load(again, limited | {"bytes_billed_limit": 100 * MB})
    assert capsys.readouterr().out == '{"n":2}\n'


def test_every_job_asks_for_what_is_set(
    config: Config, batch: Batches, bq: Any, dataset: str, gcs_bucket: Path
) -> None:
    limit = 100 * MB
    asked: Config = {"labels": {"team": "data"}, "kms_key": KEY, "location": "EU", "bytes_billed_limit": limit}
    asked["reservation"] = RESERVATION
    lines = [schema(), batch(rows(0, 2), batch_id="a", version=1), activate(1), state(1)]
    for more in (
        {},
        {"load_method": "upsert", "table_prefix": "u_"},
        {"load_method": "overwrite", "table_prefix": "o_"},
        {"gcs_stage": f"gs://{gcs_bucket.name}/stage", "table_prefix": "g_"},
    ):
        load(lines, config | asked | more)
    found = jobs_of(bq, dataset)
    assert {j.job_type for j in found} == {"load", "query", "copy"}
    assert {j.location for j in found} == {"EU"}
    assert [j.job_id for j in found if j.labels != {"team": "data"}] == []
    assert {j.maximum_bytes_billed for j in found if j.job_type == "query"} == {limit}
    assert {j.to_api_repr()["configuration"].get("reservation") for j in found} == {RESERVATION}
    changing = [j for j in found if j.job_type == "query" and not j.query.startswith("SELECT")]
    assert {j.destination_encryption_configuration for j in changing} == {None}  # the table's own key applies there
    others = [j for j in found if j not in changing]
    assert {j.destination_encryption_configuration.kms_key_name for j in others} == {KEY}
    for name in ("rows", "u_rows", "o_rows", "_sdc_batches"):
        assert bq.get_table(f"{dataset}.{name}").encryption_configuration.kms_key_name == KEY
    assert bq.get_dataset(dataset).default_encryption_configuration.kms_key_name == KEY
    assert bq.get_dataset(dataset).labels == {"team": "data"}


def test_a_job_that_takes_an_id_asks_for_the_same(config: Config, bq: Any) -> None:
    client = BigQuery(Settings.from_config(config | {"labels": {"team": "data"}, "bytes_billed_limit": 5}))
    try:
        assert client.occupy("target_bigquery_taken_by_a_test") is None
    finally:
        client.close()
    job = bq.get_job("target_bigquery_taken_by_a_test")
    assert (job.labels, job.maximum_bytes_billed) == ({"team": "data"}, 5)


def test_an_upsert_logs_the_bytes_of_its_merge(
    config: Config, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    upsert = config | {"load_method": "upsert", "max_batch_mb": 0.000001}
    load([schema(), batch(rows(0, 3)), batch(rows(1, 3)), state(1)], upsert)
    logged = [m for m in caplog.messages if "a MERGE processes about" in m]
    assert logged == ["Stream 'rows': a MERGE processes about 0.0 MB; bytes_billed_limit would bound it"]


def test_an_upsert_does_not_need_to_know_what_it_costs(
    config: Config, batch: Batches, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)

    def refuse(*_: Any, what: str) -> int:
        raise ServiceError(what)

    monkeypatch.setattr(BigQuery, "estimate", refuse)
    load([schema(), batch(rows(0, 3)), state(1)], config | {"load_method": "upsert"})
    assert [r.levelname for r in caplog.records if "could not be estimated: Merging into" in r.message] == ["DEBUG"]


def test_load_jobs_are_counted_over_runs_and_announced(
    config: Config,
    batch: Batches,
    dataset: str,
    caplog: pytest.LogCaptureFixture,
    fail_jobs: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "DAILY_LOADS", 5)
    monkeypatch.setattr(jobs, "LIST_SECONDS", 120.0)  # the jobs of all tests are listed, beside other tests
    lines = [schema(), batch(rows(0, 1)), state(1)]
    for _ in range(3):
        load(lines, config)
    assert "within 24 hours" not in caplog.text
    load(lines, config)
    logged = (
        f"Table local.{dataset}.rows: 4 load jobs within 24 hours, of 5 that BigQuery allows a table and day; raise"
    )
    assert [m[: len(logged)] for m in caplog.messages if "within 24 hours" in m] == [logged]
    quota_error = "Quota exceeded: Your table exceeded quota for imports or query appends per table"
    fail_jobs({"job": "load", "match": dataset, "reason": "quotaExceeded", "message": quota_error})
    with pytest.raises(
        LoadError, match=rf"{quota_error}\. Wait until .*\. The table had 5 load jobs within 24 hours, of 5 "
    ):
        load(lines, config)


def test_a_list_of_everybodys_jobs_that_is_denied(
    config: Config, batch: Batches, dataset: str, bq_faults: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "DAILY_LOADS", 1)
    load([schema(), batch(rows(0, 1))], config)
    bq_faults.set({"match": "^GET .*allUsers=true", "action": "error", "status": 403, "code": "accessDenied"})
    client = BigQuery(Settings.from_config(config | {"api_endpoint": bq_faults.url}))
    try:
        found = client.destinations(datetime.now(UTC) - jobs.DAY, datetime.now(UTC))
    finally:
        client.close()
    assert found.count(f"local.{dataset}.rows") == 1


PASSING = {
    "too many table updates": "rateLimitExceeded: Exceeded rate limits: too many table update operations for a table",
    "too many DML": "resourcesExceeded: Too many DML statements outstanding against table t, limit is 20.",
    "a short quota": "quotaExceeded: Quota exceeded: Your project exceeded quota for concurrent queries",
    "backend": "jobBackendError: ",
    "internal": "jobInternalError: ",
    "rate": "jobRateLimitExceeded: ",
    "unavailable": "tableUnavailable: ",
}


def test_jobs_that_fail_of_what_passes_run_again(
    config: Config, batch: Batches, dataset: str, bq: Any, fail_jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All transient reasons in turn: of load jobs, of an upsert's queries, and of the ledger's statements."""
    for module in (jobs, methods):
        monkeypatch.setattr(module, "pauses", partial(pauses, first=0.01))
    faults = [dict(zip(("reason", "message"), text.split(": ", 1), strict=True)) for text in PASSING.values()]
    for job in ("load", "query"):
        match = dataset if job == "load" else f"MERGE.*{dataset}"
        fail_jobs(*({"job": job, "match": match, "times": 1, **fault} for fault in faults))
        load([schema(), batch(rows(0, 2)), state(1)], config | {"load_method": "upsert"})
        assert bq.get_table(f"{dataset}.rows").num_rows == 2
    for number, statement in enumerate(("INSERT INTO", "SELECT.*FROM"), 2):
        match = f"{statement}.*{dataset}.*_sdc_batches"
        fail_jobs(*({"job": "query", "match": match, "times": 1, **fault} for fault in faults))
        load([schema(), batch(rows(number, 1), batch_id=f"b{number}"), state(1)], config)
        assert bq.get_table(f"{dataset}.rows").num_rows == number + 1
