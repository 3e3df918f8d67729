"""load_via: storage_write, exactly once: kills at each step, paused twins, concurrent targets, lost streams."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bigquery_traces import entries
from held_load_job import HELD_SECONDS
from singer_lines import Batches, Message, lines, load, record, some_batches
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.programs import Programs
from singer_arrow.errors import LoadError
from target_bigquery.client import BigQuery
from target_bigquery.settings import Settings

Config = dict[str, Any]
Fail = Callable[..., list[dict[str, Any]]]
Start = Callable[[list[Message]], subprocess.Popen[bytes]]
STREAMED = {"load_via": "storage_write"}


@pytest.fixture
def config(config: Config) -> Config:
    """Return settings for the local BigQuery and the Storage Write API."""
    return config | STREAMED


@pytest.fixture
def start(run: Programs) -> Iterator[Start]:
    """Starts targets with all of their input, and kills those that are still running after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(messages: list[Message]) -> subprocess.Popen[bytes]:
        process = run.start("target-bigquery", config=["ENV", STREAMED])
        started.append(process)
        assert process.stdin is not None
        process.stdin.write(lines(messages).encode())
        process.stdin.close()
        process.stdin = None
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
        process.communicate(timeout=60)


STEPS: dict[str, dict[str, Any]] = {
    "before the write stream": {"call": "create"},
    "after the rows": {"call": "append", "after": True},
    "after the end of the write stream": {"call": "finalize", "after": True},
    "after the claim, before the commit": {"call": "commit"},
    "after the commit, before STATE": {"call": "commit", "after": True},
}


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_each_step(
    step: str, start: Start, config: Config, batch: Batches, ids: Any, dataset: str, cloud: Cloud, fail_writes: Fail
) -> None:
    run = some_batches(batch, 3)
    fail_writes({"match": dataset, "delay_s": HELD_SECONDS, "times": 1, **STEPS[step]})
    victim = start(run)
    wait_until(lambda: cloud.write_faults()[0]["fired"])
    victim.kill()
    assert victim.communicate()[0] == b""
    counts = load(run, config).run.tallies.of("rows").counts()  # while the victim's call is still in progress
    assert ids() == list(range(6))
    assert counts["skipped"] == (3 if STEPS[step]["call"] == "commit" else 0)
    fail_writes()
    wait_until(lambda: not cloud.write_faults())  # the victim's last call ends now, and must find the work done
    assert ids() == list(range(6))
    assert load(run, config | {"load_via": "load_job"}).run.tallies.of("rows").counts()["skipped"] == 3
    assert ids() == list(range(6))


def test_a_paused_twin_that_wakes_loads_nothing_again(
    start: Start, config: Config, batch: Batches, ids: Any, dataset: str, cloud: Cloud, fail_writes: Fail
) -> None:
    run = some_batches(batch, 3)
    fail_writes({"call": "finalize", "match": dataset, "delay_s": HELD_SECONDS, "times": 1})
    twin = start(run)
    wait_until(lambda: cloud.write_faults()[0]["fired"])
    os.kill(twin.pid, signal.SIGSTOP)
    load(run, config)
    assert ids() == list(range(6))
    fail_writes()
    os.kill(twin.pid, signal.SIGCONT)
    out, log = twin.communicate(timeout=60)
    assert twin.returncode == 0, log.decode()
    assert b'{"n": 2}' in out or b'{"n":2}' in out
    assert ids() == list(range(6))
    assert b"was loaded just now by another run" in log


def test_a_twin_whose_claim_is_too_late(config: Config, batch: Batches, ids: Any, bq: Any, dataset: str) -> None:
    run = some_batches(batch, 1)
    load(run, config | {"load_via": "load_job"})
    client = BigQuery(Settings.from_config(config))
    job_id = "target_bigquery_test_" + os.urandom(8).hex()
    name = client.writes.create("rows")
    try:
        assert client.claim(job_id, name)
        assert client.claim(job_id, name)  # the answer to the first call was lost
        assert not client.claim(job_id, client.writes.create("rows"))
        taken = "target_bigquery_test_" + os.urandom(8).hex()
        assert client.occupy(taken) is None
        assert not client.claim(taken, name)
        job = client.job(job_id)
        assert job is not None
        assert job.claims == name
    finally:
        client.close()


def test_two_targets_at_once(start: Start, batch: Batches, ids: Any) -> None:
    run = some_batches(batch, 8)
    twins = [start(run) for _ in range(2)]
    logs = [twin.communicate(timeout=120)[1].decode() for twin in twins]
    assert [twin.returncode for twin in twins] == [0, 0], "\n".join(logs)[-6000:]
    assert ids() == list(range(16))


def test_what_was_committed_is_written_down(
    config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, cloud: Cloud, fail_writes: Fail
) -> None:
    run = some_batches(batch, 3)
    load(run, config)
    found = entries(bq, dataset)
    commits = [e for e in found if e["job_id"].endswith(":committed")]
    assert sorted(e["batch_id"] for e in commits) == ["batch-0", "batch-1", "batch-2"]
    assert len(found) == 6
    fail_writes({"call": "get", "match": dataset, "status": "NOT_FOUND"})  # BigQuery forgets write streams
    assert load(run, config).run.tallies.of("rows").counts()["skipped"] == 3
    assert cloud.write_faults()[0]["fired"] == 0
    assert ids() == list(range(6))


def test_a_run_that_fails_writes_down_what_it_committed(
    config: Config, batch: Batches, bq: Any, dataset: str, fail_writes: Fail
) -> None:
    fail_writes({"call": "create", "match": dataset, "status": "INVALID_ARGUMENT", "skip": 1})
    with pytest.raises(LoadError, match="INVALID_ARGUMENT"):
        load([*some_batches(batch, 1), record(id=9, name="x")], config | {"max_parallel_loads": 1})
    assert [e["batch_id"] for e in entries(bq, dataset) if e["job_id"].endswith(":committed")] == ["batch-0"]


def test_a_lost_write_stream_without_a_ledger_entry(
    config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, fail_writes: Fail
) -> None:
    run = some_batches(batch, 2)
    for part in (run[:3], run):
        load(part, config)
    bq.query(f"DELETE FROM `{dataset}._sdc_batches` WHERE ENDS_WITH(job_id, ':committed')").result()
    fail_writes({"call": "get", "match": dataset, "status": "NOT_FOUND"})
    errors = []
    for _ in range(2):
        with pytest.raises(LoadError, match=r"committed batch batch-\d, .* whether the 2 rows are in table") as error:
            load(run, config)
        errors.append(str(error.value))
        leave_out = errors[-1].partition("to leave them out, run ")[2]
        bq.query(leave_out).result()  # as the message advises
    assert errors[0] != errors[1]
    assert load(run, config).run.tallies.of("rows").counts()["skipped"] == 2
    assert ids() == list(range(4))


def test_a_table_that_was_emptied_fills_again(config: Config, batch: Batches, ids: Any, bq: Any, dataset: str) -> None:
    run = some_batches(batch, 3)
    for clean_up in ("TRUNCATE TABLE", "DROP TABLE"):
        load(run, config)
        assert ids() == list(range(6))
        time.sleep(0.01)
        bq.query(f"{clean_up} `{dataset}.rows`").result()
    load(run, config)
    assert ids() == list(range(6))
