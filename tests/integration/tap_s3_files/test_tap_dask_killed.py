"""Runs on Dask of which the tap, a worker or the scheduler is killed, or sleeps, after some of the STATEs.

Each task reads an object of its own, or a range of one object.

Afterwards each task was sent once, in the order of a run on threads, and its files hold its rows, also if a worker
wakes after another one has done its task.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from dask_runs import (
    ROWS,
    TASKS,
    Running,
    Start,
    check_rest,
    clusters,
    first_row,
    put_large_object,
    put_tasks,
    settings,
)
from tap_source import Source
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs

PAIRS = {
    ("worker", "objects", 1),
    ("worker", "ranges", 3),
    ("scheduler", "objects", 3),
    ("scheduler", "ranges", TASKS - 1),
    ("tap", "objects", TASKS - 1),
    ("tap", "ranges", 1),
}
"""A case of each victim with each input, and of each number of STATEs; `make soak` runs all cases."""
CASES = pytest.mark.parametrize(
    ("victim", "what", "states"),
    [
        pytest.param(*case, marks=[] if case in PAIRS else [pytest.mark.soak])
        for case in product(["worker", "scheduler", "tap"], ["objects", "ranges"], [1, 3, TASKS - 1])
    ],
)
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
    return Source(s3, bucket, tap)


def put(source: Source, what: str) -> dict[str, Any]:
    """Put what all tasks read; return the settings that it needs."""
    if what == "ranges":
        return put_large_object(source)
    put_tasks(source)
    return {}


@CASES
def test_everything_is_sent_once_whatever_is_killed(
    source: Source, start: Start, what: str, victim: str, states: int
) -> None:
    more = put(source, what)
    cluster = start()
    running = Running(source, settings(source, cluster, **more), states=states)
    victims = {"worker": cluster.workers[0].pid, "scheduler": cluster.scheduler.pid, "tap": running.pid}
    os.kill(victims[victim], signal.SIGKILL)
    ran = running.end()
    if victim == "worker":
        assert ran.check().stdout == source.run(settings(source, None, **more)).stdout
        return
    check_rest(source, ran, start() if victim == "scheduler" else cluster, **more)


@CASES
def test_everything_is_sent_once_whatever_sleeps(
    source: Source, start: Start, what: str, victim: str, states: int
) -> None:
    more = put(source, what)
    cluster = start(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="3s")
    running = Running(source, settings(source, cluster, **more), states=states)
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
    assert ran.stdout == source.run(settings(source, None, **more)).stdout
