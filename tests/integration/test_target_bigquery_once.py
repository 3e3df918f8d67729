"""Exactly once: replays, interruptions at named moments, two targets at once, and a server that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bigquery_traces import entries, load_jobs
from singer_lines import Batches, Message, lines, load, record, rows, schema, some_batches, state, states
from waiting import wait_until

from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs
from singer_arrow.errors import CredentialsError, LoadError, ServiceError
from target_bigquery import connection

Config = dict[str, Any]
UPLOAD = "^(POST|PUT) /upload/"


ONE_EACH = {"max_batch_mb": 0.000001}  # many load jobs


# Replays


def test_a_replay_grouped_otherwise_loads_nothing_twice(
    config: Config, batch: Batches, ids: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    run = some_batches(batch)
    load(run, config)
    assert ids() == list(range(12))
    for size, part in ((0.001, run), (512, run), (512, run[:7]), (512, [run[0], *run[5:]])):
        caplog.clear()
        caplog.set_level("INFO")
        target = load(part, config | {"max_batch_mb": size})
        assert ids() == list(range(12))
        counts = target.tally("rows").counts()
        assert counts["skipped"] == counts["batches"] == sum(m["type"] == "BATCH" for m in part)
        assert counts["load_jobs"] == 0
    assert "batch batch-5 was loaded at 20" in caplog.text
    assert "to load it again set replay: load" in caplog.text
    assert states(capsys.readouterr().out)[-1] == 5


def test_what_is_new_in_a_replay_is_loaded(config: Config, batch: Batches, ids: Any) -> None:
    run = some_batches(batch)
    load(run[:5], config | ONE_EACH)
    target = load(run, config)
    assert ids() == list(range(12))
    assert target.tally("rows").counts()["skipped"] == 2


def test_a_batch_that_comes_twice_in_one_run_is_loaded_once(config: Config, batch: Batches, ids: Any) -> None:
    message = batch(rows(0, 2), batch_id="a")
    load([schema(), message, message, state(1), message], config | ONE_EACH)
    assert ids() == [0, 1]


def test_replay_load_loads_again(config: Config, batch: Batches, ids: Any) -> None:
    run = some_batches(batch, 2)
    load(run, config)
    load(run, config | {"replay": "load"})
    assert ids() == sorted([*range(4)] * 2)
    load(run, config)
    assert len(ids()) == 8


def test_other_taps_and_records_are_loaded_as_often_as_they_come(config: Config, batch: Batches, ids: Any) -> None:
    run = [schema(), batch(rows(0, 1)), record(id=1, name="x")]
    for _ in range(2):
        load(run, config)
    assert ids() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "clean_up",
    [
        "DROP TABLE `{t}`",
        "CREATE OR REPLACE TABLE `{t}` (id INT64, name STRING)",
        "TRUNCATE TABLE `{t}`",
        "DELETE FROM `{t}` WHERE TRUE",
    ],
)
def test_after_a_clean_up_everything_is_loaded_again(
    clean_up: str, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    run = some_batches(batch)
    load(run, config)
    time.sleep(0.01)
    bq.query(clean_up.format(t=f"{dataset}.rows")).result()
    load(run[:7], config | ONE_EACH)
    assert ids() == list(range(6))
    load(run, config)  # and what was loaded before the clean-up stays void, although the table is not empty any more
    assert ids() == list(range(12))
    load(run, config)
    assert ids() == list(range(12))


@pytest.mark.parametrize("first", ["record", "other tap"])
def test_an_emptied_table_is_noticed_whatever_comes_first(
    first: str, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    run = some_batches(batch, 2)
    load(run, config)
    bq.query(f"TRUNCATE TABLE `{dataset}.rows`").result()
    load([schema(), record(id=100, name="x") if first == "record" else batch(rows(100, 1))], config)
    load(run, config)
    assert ids() == [0, 1, 2, 3, 100]


def test_rows_deleted_one_by_one_are_not_missed(
    config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    run = some_batches(batch, 2)
    load(run, config)
    bq.query(f"DELETE FROM `{dataset}.rows` WHERE id = 1").result()
    load(run, config)
    assert ids() == [0, 2, 3]


def test_entries_count_for_their_own_table(config: Config, batch: Batches, ids: Any, bq: Any, dataset: str) -> None:
    run = some_batches(batch, 2)
    load([schema()], config | {"table_prefix": "other_"})  # it exists before the batches are loaded elsewhere
    load(run, config)
    load(run, config | {"table_prefix": "other_"})
    assert bq.get_table(f"{dataset}.other_rows").num_rows == len(ids()) == 4


# Interruptions


class Running:
    """The target as a process, fed through a pipe that stays open."""

    def __init__(self, run: Programs, messages: list[Message], config: Config, **env: str) -> None:
        self.process = run.start("target-bigquery", config=["ENV", config], env=env)
        assert self.process.stdin is not None
        self.process.stdin.write(lines(messages).encode())
        self.process.stdin.flush()

    def close(self) -> None:
        """Say that no further message comes."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def end(self) -> tuple[int, list[int], str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, states(out.decode()), err.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


@pytest.fixture
def start(run: Programs) -> Iterator[Callable[..., Running]]:
    """Starts targets, and ends those that a test leaves behind."""
    started: list[Running] = []

    def begin(messages: list[Message], config: Config | None = None, **env: str) -> Running:
        started.append(Running(run, messages, config or {}, **env))
        return started[-1]

    yield begin
    for running in started:
        if running.process.poll() is None:
            os.kill(running.process.pid, signal.SIGCONT)
            running.kill()


def test_killed_between_the_ledger_and_the_job(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, bq_faults: FaultProxy
) -> None:
    run = some_batches(batch)
    bq_faults.set({"match": UPLOAD, "action": "reset", "delay_ms": 60_000})
    victim = start(run, TARGET_BIGQUERY_API_ENDPOINT=bq_faults.url)
    victim.close()
    wait_until(lambda: len(entries(bq, dataset)) == 6)
    victim.process.kill()
    job_id = entries(bq, dataset)[0]["job_id"]
    load(run, config)
    assert ids() == list(range(12))
    assert bq.get_job(job_id).job_type == "query"  # taken, so that nobody else can have it
    assert len(load_jobs(bq, dataset)) == 1


def test_killed_while_the_job_runs(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, fail_jobs: Any, caplog: Any
) -> None:
    caplog.set_level("INFO")
    run = some_batches(batch)
    fail_jobs({"job": "load", "match": dataset, "delay_s": 8})
    victim = start(run)
    victim.close()
    wait_until(lambda: [j for j in load_jobs(bq, dataset) if j.state == "RUNNING"])
    victim.kill()
    load(run, config)
    assert ids() == list(range(12))
    assert "is still loading; waiting for it" in caplog.text
    assert len(load_jobs(bq, dataset)) == 1


def test_killed_while_a_job_runs_that_fails_later(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, fail_jobs: Any
) -> None:
    run = some_batches(batch)
    fail_jobs({"job": "load", "match": dataset, "delay_s": 2, "reason": "invalid", "times": 1})
    victim = start(run)
    victim.close()
    wait_until(lambda: [j for j in load_jobs(bq, dataset) if j.state == "RUNNING"])
    victim.kill()
    load(run, config)
    assert ids() == list(range(12))
    assert len(load_jobs(bq, dataset)) == 2


def test_killed_between_the_job_and_its_state(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, bq_faults: FaultProxy
) -> None:
    run = some_batches(batch)
    bq_faults.set({"match": UPLOAD, "action": "stall", "keep": 0})
    victim = start(run, TARGET_BIGQUERY_API_ENDPOINT=bq_faults.url)
    victim.close()
    wait_until(lambda: [j for j in load_jobs(bq, dataset) if j.state == "DONE"])
    victim.process.kill()
    out, _ = victim.process.communicate(timeout=60)
    assert out == b""
    target = load(run, config)
    assert ids() == list(range(12))
    assert target.tally("rows").counts()["skipped"] == 6


def test_a_paused_twin_that_wakes_loads_nothing_again(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, bq_faults: FaultProxy
) -> None:
    run = some_batches(batch)
    bq_faults.set({"match": UPLOAD, "delay_ms": 1500, "action": "reset", "times": 1})
    twin = start(run, TARGET_BIGQUERY_API_ENDPOINT=bq_faults.url)
    twin.close()
    wait_until(lambda: len(entries(bq, dataset)) == 6)
    os.kill(twin.process.pid, signal.SIGSTOP)
    load(run, config)
    assert ids() == list(range(12))
    time.sleep(1.5)
    os.kill(twin.process.pid, signal.SIGCONT)
    code, sent, said = twin.end()
    assert (code, sent[-1:]) == (0, [5]), said
    assert ids() == list(range(12))
    assert "was loaded just now by another run" in said


def test_two_targets_at_once(start: Any, batch: Batches, ids: Any, run: Programs) -> None:
    messages = some_batches(batch, 10)
    twins = [start(messages, ONE_EACH) for _ in range(3)]
    for twin in twins:
        twin.close()
    ends = [twin.end() for twin in twins]
    assert [code for code, _, _ in ends] == [0, 0, 0], "\n".join(said for _, _, said in ends)[-6000:]
    assert ids() == list(range(20))


def test_two_targets_at_once_that_change_the_table(start: Any, batch: Batches, bq: Any, dataset: str) -> None:
    twins = []
    for n in range(3):
        columns = pa.schema([("id", pa.int64()), *((f"c{n}_{i}", pa.string()) for i in range(3))])
        content = [{"id": n, **{f"c{n}_{i}": "x" for i in range(3)}}]
        twins.append(start([schema(columns=columns), batch(content, columns=columns, batch_id=f"b{n}")]))
    for twin in twins:
        twin.close()
    ends = [twin.end() for twin in twins]
    assert [code for code, _, _ in ends] == [0, 0, 0], "\n".join(said for _, _, said in ends)[-6000:]
    table = bq.get_table(f"{dataset}.rows")
    assert (len(table.schema), table.num_rows) == (10, 3)


def test_sigterm_ends_with_the_state_that_is_safe(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str
) -> None:
    run = some_batches(batch, 2)
    running = start([*run, record(id=99, name="x"), state(99)], {"max_batch_age_seconds": 0.2})
    wait_until(lambda: len(entries(bq, dataset)) == 2)
    wait_until(lambda: [j for j in load_jobs(bq, dataset) if j.state == "DONE"])
    os.kill(running.process.pid, signal.SIGTERM)
    code, sent, said = running.end()
    assert code == 128 + signal.SIGTERM, said
    assert set(sent) <= {0, 1, 99}
    assert "Traceback" not in said
    load(run, config)
    assert [i for i in ids() if i < 99] == list(range(4))
    if 99 in sent:
        assert 99 in ids()


# A server that fails


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
def test_a_quota_that_is_used_up_ends_the_run_at_once(
    where: str,
    config: Config,
    batch: Batches,
    bq_faults: FaultProxy,
    fail_jobs: Any,
    dataset: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "Quota exceeded: Your table exceeded quota for imports or query appends per table"
    if where == "request":
        bq_faults.set({"match": UPLOAD, "action": "error", "status": 403, "code": "quotaExceeded", "message": said})
    else:
        fail_jobs({"job": "load", "match": dataset, "reason": "quotaExceeded", "message": said})
    started = time.monotonic()
    with pytest.raises(LoadError, match=rf"quotaExceeded: {said}.*Wait until the quota is back") as caught:
        load(some_batches(batch, 2), config | {"api_endpoint": bq_faults.url})
    assert time.monotonic() - started < 20
    assert "\n" not in str(caught.value)
    assert states(capsys.readouterr().out) == []


def test_a_load_that_is_refused_says_why_and_no_state_passes_it(
    run: Programs, batch: Batches, dataset: str, fail_jobs: Any, ids: Any
) -> None:
    reason = "Error while reading data, error message: row 3: bad"
    fail_jobs({"job": "load", "match": dataset, "reason": "invalid", "message": reason, "skip": 2})
    messages = some_batches(batch, 20)
    ran = run("target-bigquery", stdin=lines(messages), config=["ENV", ONE_EACH | {"max_parallel_loads": 1}])
    assert ran.code == 1
    assert "Traceback" not in ran.stderr
    assert f"Loading into table local.{dataset}.rows: invalid: {reason}" in ran.stderr.splitlines()[-1]
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
    with pytest.raises(ServiceError, match="Reading dataset .*tried again in vain") as caught:
        load(some_batches(batch, 1), config | {"api_endpoint": bq_faults.url})
    assert "\n" not in str(caught.value)
    with pytest.raises(ServiceError, match="could not be reached"):
        load(some_batches(batch, 1), config | {"api_endpoint": "http://127.0.0.1:9"})


def test_credentials_that_are_refused_are_one_line(config: Config, batch: Batches, bq_faults: FaultProxy) -> None:
    refused = {"match": "", "action": "error", "status": 403, "code": "accessDenied", "message": "Access Denied: x"}
    bq_faults.set(refused)
    with pytest.raises(CredentialsError, match="Access Denied: x; check the credentials and the roles"):
        load(some_batches(batch, 1), config | {"api_endpoint": bq_faults.url})
    bq_faults.set(refused | {"status": 401, "code": "authError"})
    with pytest.raises(CredentialsError, match="wants credentials, and none are set for this api_endpoint"):
        load(some_batches(batch, 1), config | {"api_endpoint": bq_faults.url})


def test_no_process_is_left(run: Programs, batch: Batches) -> None:
    """Also when the target is killed while its own processes write nested rows."""
    columns = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.string()))])
    content = [{"id": n, "l": [f"{n} {i}" for i in range(20)]} for n in range(50_000)]
    message = batch(content, columns=columns, file_format="jsonl")
    running = Running(run, [schema(columns=columns), message], {}, TARGET_BIGQUERY_LOAD_FORMAT="avro")
    process = running.process

    def children() -> list[str]:
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
        return found.stdout.split()

    born = wait_until(children)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in born), 15)
