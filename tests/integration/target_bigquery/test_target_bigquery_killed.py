"""Exactly once when target-bigquery is killed at given steps, paused, or run concurrently."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bigquery_traces import entries, load_jobs
from held_load_job import HELD_SECONDS, load_beside_a_held_job
from local_settings import ONE_EACH
from singer_lines import Batches, Message, lines, load, record, schema, some_batches, state, states
from waiting import wait_until

from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs

Config = dict[str, Any]
UPLOAD = "^(POST|PUT) /upload/"


class Running:
    """The target as a process, fed through a pipe that stays open."""

    def __init__(self, run: Programs, messages: list[Message], config: Config, **env: str) -> None:
        self.process = run.start("target-bigquery", config=["ENV", config], env=env)
        assert self.process.stdin is not None
        self.process.stdin.write(lines(messages).encode())
        self.process.stdin.flush()

    def close(self) -> None:
        """Close the target's standard input."""
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
def start(cold: Programs) -> Iterator[Callable[..., Running]]:
    """Starts targets, and kills those that are still running after the test."""
    started: list[Running] = []

    def begin(messages: list[Message], config: Config | None = None, **env: str) -> Running:
        started.append(Running(cold, messages, config or {}, **env))
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
    bq_faults.set({"match": UPLOAD, "action": "reset", "delay_ms": HELD_SECONDS * 1000})
    victim = start(run, TARGET_BIGQUERY_API_ENDPOINT=bq_faults.url)
    victim.close()
    wait_until(lambda: len(entries(bq, dataset)) == 6)
    victim.process.kill()
    job_id = entries(bq, dataset)[0]["job_id"]
    load(run, config)
    assert ids() == list(range(12))
    assert bq.get_job(job_id).job_type == "query"  # reserved, so that no other process can use it
    assert len(load_jobs(bq, dataset)) == 1


def killed_while_a_job_runs(victim: Running, bq: Any, dataset: str, project: str | None = None) -> None:
    victim.close()
    wait_until(lambda: [j for j in load_jobs(bq, dataset, project) if j.state == "RUNNING"])
    victim.kill()


def test_killed_while_the_job_runs(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, fail_jobs: Any, caplog: Any
) -> None:
    run = some_batches(batch)
    fail_jobs({"job": "load", "match": dataset, "delay_s": HELD_SECONDS})
    killed_while_a_job_runs(start(run), bq, dataset)
    load_beside_a_held_job(run, config, fail_jobs, caplog)
    assert ids() == list(range(12))
    assert len(load_jobs(bq, dataset)) == 1


def test_killed_while_a_job_runs_that_fails_later(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, fail_jobs: Any, caplog: Any
) -> None:
    run = some_batches(batch)
    fail_jobs({"job": "load", "match": dataset, "delay_s": HELD_SECONDS, "reason": "invalid", "times": 1})
    killed_while_a_job_runs(start(run), bq, dataset)
    load_beside_a_held_job(run, config, fail_jobs, caplog)
    assert ids() == list(range(12))
    assert len(load_jobs(bq, dataset)) == 2


@pytest.mark.smoke
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
    assert target.run.tallies.of("rows").counts()["skipped"] == 6


def billed_to(project: str | None) -> Config:
    return {"job_project": project} if project else {}


job_projects = pytest.mark.parametrize(("before", "now"), [("payer", None), (None, "payer"), ("payer", "other-payer")])


@job_projects
def test_killed_before_its_job_in_another_project(
    start: Any,
    config: Config,
    batch: Batches,
    ids: Any,
    bq: Any,
    dataset: str,
    bq_faults: FaultProxy,
    before: Any,
    now: Any,
) -> None:
    run = some_batches(batch)
    bq_faults.set({"match": UPLOAD, "action": "reset", "delay_ms": HELD_SECONDS * 1000})
    victim = start(run, billed_to(before), TARGET_BIGQUERY_API_ENDPOINT=bq_faults.url)
    victim.close()
    wait_until(lambda: len(entries(bq, dataset)) == 6)
    victim.process.kill()
    job_id, _, project = entries(bq, dataset)[0]["job_id"].partition("@")
    load(run, config | billed_to(now))
    assert ids() == list(range(12))
    assert bq.get_job(job_id, project=project or None).job_type == "query"  # where the killed one was to run
    assert [len(load_jobs(bq, dataset, p)) for p in (before, now)] == [0, 1]


@job_projects
def test_killed_while_its_job_runs_in_another_project(
    start: Any,
    config: Config,
    batch: Batches,
    ids: Any,
    bq: Any,
    dataset: str,
    fail_jobs: Any,
    caplog: Any,
    before: Any,
    now: Any,
) -> None:
    run = some_batches(batch)
    fail_jobs({"job": "load", "match": dataset, "delay_s": HELD_SECONDS})
    killed_while_a_job_runs(start(run, billed_to(before)), bq, dataset, before)
    load_beside_a_held_job(run, config | billed_to(now), fail_jobs, caplog)
    assert ids() == list(range(12))
    assert [len(load_jobs(bq, dataset, p)) for p in (before, now)] == [1, 0]


def test_a_paused_twin_that_wakes_loads_nothing_again(
    start: Any, config: Config, batch: Batches, ids: Any, bq: Any, dataset: str, bq_faults: FaultProxy
) -> None:
    run = some_batches(batch)
    bq_faults.set({"match": UPLOAD, "delay_ms": HELD_SECONDS * 1000, "action": "reset", "times": 1})
    twin = start(run, TARGET_BIGQUERY_API_ENDPOINT=bq_faults.url)
    twin.close()
    wait_until(lambda: bq_faults.report()["rules"][0]["fired"])
    assert len(entries(bq, dataset)) == 6
    os.kill(twin.process.pid, signal.SIGSTOP)
    load(run, config)
    assert ids() == list(range(12))
    bq_faults.clear()
    os.kill(twin.process.pid, signal.SIGCONT)
    code, sent, log = twin.end()
    assert (code, sent[-1:]) == (0, [5]), log
    assert ids() == list(range(12))
    assert "was loaded just now by another run" in log


def test_two_targets_at_once(start: Any, batch: Batches, ids: Any, run: Programs) -> None:
    messages = some_batches(batch, 10)
    twins = [start(messages, ONE_EACH) for _ in range(3)]
    for twin in twins:
        twin.close()
    ends = [twin.end() for twin in twins]
    assert [code for code, _, _ in ends] == [0, 0, 0], "\n".join(log for _, _, log in ends)[-6000:]
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
    assert [code for code, _, _ in ends] == [0, 0, 0], "\n".join(log for _, _, log in ends)[-6000:]
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
    code, sent, log = running.end()
    assert code == 128 + signal.SIGTERM, log
    assert set(sent) <= {0, 1, 99}
    assert "Traceback" not in log
    load(run, config)
    assert [i for i in ids() if i < 99] == list(range(4))
    if 99 in sent:
        assert 99 in ids()


def test_no_process_is_left(cold: Programs, batch: Batches) -> None:
    """Also when the target is killed while its child processes write nested rows."""
    columns = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.string()))])
    content = [{"id": n, "l": [f"{n} {i}" for i in range(20)]} for n in range(50_000)]
    message = batch(content, columns=columns, file_format="jsonl")
    running = Running(cold, [schema(columns=columns), message], {}, TARGET_BIGQUERY_LOAD_FORMAT="avro")
    process = running.process

    def children() -> list[str]:
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
        return found.stdout.split()

    born = wait_until(children)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in born))
