"""target-bigquery with a BigQuery that fails temporarily or permanently."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from bigquery_traces import load_jobs
from local_settings import ONE_EACH
from singer_lines import Batches, lines, load, rows, schema, some_batches, state, states

from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs
from singer_arrow.errors import AccessDeniedError, CredentialsError, ServiceError
from target_bigquery import connection
from target_bigquery.resources import QuotaError

Config = dict[str, Any]
UPLOAD = "^(POST|PUT) /upload/"


@pytest.mark.parametrize(
    "fault",
    [
        {"match": UPLOAD, "action": "reset", "forward": True, "times": 1},  # the answer is lost, the job runs
        {"match": UPLOAD, "action": "reset", "times": 2},
        {"match": UPLOAD, "action": "error", "status": 503, "code": "backendError", "times": 2},
        {"match": "^POST /bigquery", "action": "error", "status": 503, "code": "backendError", "times": 3},
        {"match": "^POST /bigquery.*jobs", "action": "reset", "forward": True, "times": 2},
        {"match": "^GET /bigquery", "action": "error", "status": 502, "code": "badGateway", "times": 3},
        {"match": "^GET /bigquery.*(jobs|queries)", "action": "reset", "times": 2},
        {"match": "", "action": "error", "status": 403, "code": "rateLimitExceeded", "times": 3},
        {"match": "", "action": "reset", "forward": True, "probability": 0.15},
        {"match": "", "action": "error", "status": 500, "code": "internalError", "probability": 0.15},
    ],
    ids=lambda f: "-".join(str(v) for k, v in f.items() if k in ("match", "action", "forward", "code", "probability")),
)
def test_transient_failures_are_met_with_another_try(
    fault: dict[str, Any], config: Config, batch: Batches, ids: Any, bq_faults: FaultProxy
) -> None:
    bq_faults.set(fault)
    run = some_batches(batch, 3)
    for _ in range(2):
        load(run, config | ONE_EACH | {"api_endpoint": bq_faults.url})
    assert ids() == list(range(6))
    assert sum(r["fired"] for r in bq_faults.report()["rules"]) > 0


def test_jobs_that_fail_for_a_while_run_again_under_new_ids(
    config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, fail_jobs: Any
) -> None:
    fail_jobs(
        {"job": "load", "match": dataset, "reason": "backendError", "times": 2},
        {"job": "query", "match": f"INSERT INTO.*{dataset}", "reason": "rateLimitExceeded", "times": 1},
    )
    run = some_batches(batch, 2)
    load(run, config)
    assert ids() == list(range(4))
    assert len(load_jobs(bq, dataset)) == 3
    fail_jobs()
    load(run, config)
    assert ids() == list(range(4))


def test_a_table_that_somebody_else_changes_meanwhile_is_looked_at_again(
    config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, bq_faults: FaultProxy
) -> None:
    load([schema(), batch(rows(0, 1), batch_id="a")], config)
    changed = {"match": "^(PUT|PATCH) .*/tables/rows", "action": "error", "status": 412, "code": "conditionNotMet"}
    bq_faults.set(changed | {"times": 2})
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.int64())])
    content = [{"id": 1, "name": "x", "more": 2}]
    more = [schema(columns=columns), batch(content, columns=columns, batch_id="b"), state(1)]
    load(more, config | {"api_endpoint": bq_faults.url})
    assert ids() == [0, 1]
    assert [f.name for f in bq.get_table(f"{dataset}.rows").schema] == columns.names
    assert [r["fired"] for r in bq_faults.report()["rules"]] == [2]


@pytest.mark.parametrize("where", ["request", "job"])
@pytest.mark.usefixtures("tried_once")
def test_a_quota_that_is_used_up_ends_the_run_at_once(
    where: str,
    config: Config,
    batch: Batches,
    bq_faults: FaultProxy,
    fail_jobs: Any,
    dataset: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    quota_error = "Quota exceeded: Your table exceeded quota for imports or query appends per table"
    if where == "request":
        bq_faults.set(
            {"match": UPLOAD, "action": "error", "status": 403, "code": "quotaExceeded", "message": quota_error}
        )
    else:
        fail_jobs({"job": "load", "match": dataset, "reason": "quotaExceeded", "message": quota_error})
    with pytest.raises(QuotaError, match=rf"quotaExceeded: {quota_error}.*Wait until the quota is back") as caught:
        load(some_batches(batch, 2), config | {"api_endpoint": bq_faults.url})
    assert "\n" not in str(caught.value)
    assert states(capsys.readouterr().out) == []


def test_a_refused_load_has_its_reason_and_no_state_passes_it(
    run: Programs, batch: Batches, dataset: str, fail_jobs: Any, ids: Any
) -> None:
    reason = "Error while reading data, error message: row 3: bad"
    fail_jobs({"job": "load", "match": dataset, "reason": "invalid", "message": reason, "skip": 2})
    messages = some_batches(batch, 20)
    ran = run("target-bigquery", stdin=lines(messages), config=["ENV", ONE_EACH | {"max_parallel_loads": 1}])
    assert ran.code == 1
    assert "Traceback" not in ran.stderr
    assert f"Loading into table local.{dataset}.rows: invalid: {reason}" in ran.stderr.splitlines()[-1]
    assert ran.stderr.endswith(" [refused-data]\n")
    sent = states(ran.stdout)
    assert max(sent, default=-1) < 19
    fail_jobs()
    loaded = ids()
    assert 4 <= len(loaded) < 40
    run("target-bigquery", stdin=lines(messages), config=["ENV", {}]).check()
    assert ids() == list(range(40))


def test_a_service_that_stays_away_is_one_line(
    config: Config, batch: Batches, bq_faults: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DEADLINE_SECONDS", 2.0)
    bq_faults.set({"match": "", "action": "error", "status": 503, "code": "backendError"})
    with pytest.raises(ServiceError, match="Reading dataset .*all retries failed") as caught:
        load(some_batches(batch, 1), config | {"api_endpoint": bq_faults.url})
    assert "\n" not in str(caught.value)
    with pytest.raises(ServiceError, match="could not be reached"):
        load(some_batches(batch, 1), config | {"api_endpoint": "http://127.0.0.1:9"})


def test_credentials_that_are_refused_are_one_line(config: Config, batch: Batches, bq_faults: FaultProxy) -> None:
    refused = {"match": "", "action": "error", "status": 403, "code": "accessDenied", "message": "Access Denied: x"}
    bq_faults.set(refused)
    with pytest.raises(AccessDeniedError, match="Access Denied: x; check the credentials and the roles"):
        load(some_batches(batch, 1), config | {"api_endpoint": bq_faults.url})
    bq_faults.set(refused | {"status": 401, "code": "authError"})
    with pytest.raises(CredentialsError, match="requires credentials, and none are set for this api_endpoint"):
        load(some_batches(batch, 1), config | {"api_endpoint": bq_faults.url})
