"""Runs on Dask of which the tap, a worker or the scheduler is killed, or sleeps, after some of the STATEs.

Afterwards each task was sent once, in the order of a run on threads, and its files hold its rows, also if a worker
wakes after another one has done its task.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dask_runs import ROWS, TASKS, Running, Start, check_rest, clusters, first_row, put_tasks, settings
from tap_source import Source
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs

VICTIMS = pytest.mark.parametrize("victim", ["worker", "scheduler", "tap"])
STATES = pytest.mark.parametrize("states", [1, 3, TASKS - 1])
SLEEP_S = 4
"""How long the tap and the scheduler sleep."""
MOVED_S = 9
"""How long a worker sleeps at least: after that the scheduler has removed it, and its tasks have moved."""


@pytest.fixture
def start(cloud: Cloud, s3_faults: FaultProxy, tmp_path: Path) -> Iterator[Start]:
    with clusters(cloud, s3_faults, tmp_path) as run:
        yield run


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    source = Source(s3, bucket, tap)
    put_tasks(source)
    return source


@STATES
@VICTIMS
@pytest.mark.long
def test_everything_is_sent_once_whatever_is_killed(source: Source, start: Start, victim: str, states: int) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster), states=states)
    victims = {"worker": cluster.workers[0].pid, "scheduler": cluster.scheduler.pid, "tap": running.pid}
    os.kill(victims[victim], signal.SIGKILL)
    ran = running.end()
    if victim == "worker":
        assert ran.check().stdout == source.run(settings(source, None)).stdout
        return
    assert ran.code != 0
    check_rest(source, ran, start() if victim == "scheduler" else cluster)


@STATES
@VICTIMS
@pytest.mark.long
def test_everything_is_sent_once_whatever_sleeps(source: Source, start: Start, victim: str, states: int) -> None:
    cluster = start(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="3s")
    running = Running(source, settings(source, cluster), states=states)
    worker = cluster.workers[0]
    pid = {"worker": worker.pid, "scheduler": cluster.scheduler.pid, "tap": running.pid}[victim]
    os.kill(pid, signal.SIGSTOP)
    if victim == "worker":
        stopped = time.monotonic()
        ran = running.end().check()
        time.sleep(max(0.0, stopped + MOVED_S - time.monotonic()))  # a worker without a task is not waited for
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not worker.alive())  # it ends its task first, and writes its files once more
    else:
        time.sleep(SLEEP_S)
        os.kill(pid, signal.SIGCONT)
        ran = running.end().check()
    assert [row["id"] for row in source.rows(ran)] == [first_row(n) + i for n in range(TASKS) for i in range(ROWS)]
    assert ran.stdout == source.run(settings(source, None)).stdout
