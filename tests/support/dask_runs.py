"""Runs of the tap on a Dask cluster whose processes a test stops or kills."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tap_source import Source, ids_of, moment, state_of
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.dask.cluster import DaskCluster
from local_cloud.faults.client import FaultProxy
from local_cloud.process import HERE, Host
from local_cloud.programs import Ran

TASKS = 6
ROWS = 30_000
"""Rows of each task."""
ROW_BYTES = 63
"""Bytes of a row of the large object, about."""
Start = Callable[..., DaskCluster]


@contextmanager
def clusters(
    cloud: Cloud, s3_faults: FaultProxy, folder: Path, hosts: Sequence[Host] = (HERE,), **variables: str
) -> Iterator[Start]:
    """Return a function that starts a cluster whose workers wait for each object that they read.

    Args:
        hosts: Where processes run: the scheduler on the first, workers on those after it.
        variables: Of the environment of all processes.
    """
    s3_faults.set({"match": "^GET /[^/]+/in/", "delay_ms": 300})
    started: list[DaskCluster] = []

    def run(workers: int = 2, **more: str) -> DaskCluster:
        own = folder / f"cloud-{len(started)}"
        own.mkdir()
        env = cloud.environ(**{"AWS_ENDPOINT_URL": s3_faults.url} | variables | more)
        started.append(DaskCluster(own / "dask", env=env, hosts=hosts))
        started[-1].start(workers)
        return started[-1]

    yield run
    for cluster in started:
        for service in (*cluster.workers, cluster.scheduler):
            if service.alive():
                os.kill(service.pid, signal.SIGKILL)
        cluster.stop()


def put_tasks(source: Source) -> None:
    """Put objects of which each is a task, because it fills a batch file."""
    for n in range(TASKS):
        source.csv(f"in/{n}.csv", first_row(n), ROWS, at=moment(n))


def put_large_object(source: Source) -> dict[str, Any]:
    """Put an object with the rows of all tasks; return the settings with which each task is a range of it."""
    ids = (first_row(n) + i for n in range(TASKS) for i in range(ROWS))
    source.put("in/0.csv", "id,name\n" + "".join(f"{i},{i % 1000} {'x' * 50}\n" for i in ids), at=moment(0))
    return {"object_range_mb": ROWS * ROW_BYTES / 2**20}


def first_row(task: int) -> int:
    """Return the id of the first row of a task."""
    return task * 40_000


def settings(source: Source, cluster: DaskCluster | None, **more: Any) -> dict[str, Any]:
    """Return the settings of a run; on threads, if there is no cluster."""
    config = source.config(batch_config=source.batches(file_mb=0.5), max_workers=2)
    if cluster is not None:
        config |= {"executor": "dask", "dask_scheduler": cluster.address, "dask_tls": cluster.tls}
    return config | more


class Running:
    """A run of the tap: it is made once `states` STATE messages were read, and `end` waits for the rest."""

    def __init__(self, source: Source, config: dict[str, Any], *, states: int = 1, **options: Any) -> None:
        self._process = source.tap.start("tap-s3-files", config=config, **options)
        assert self._process.stdout is not None
        self._lines = list[bytes]()
        # without a buffer, so that `end` reads all of the rest
        with open(self._process.stdout.fileno(), "rb", buffering=0, closefd=False) as unbuffered:
            while states:
                line = unbuffered.readline()
                assert line, self._process.communicate()[1].decode()
                self._lines.append(line)
                states -= b'"STATE"' in line

    @property
    def pid(self) -> int:
        """The process id of the tap."""
        return self._process.pid

    def end(self) -> Ran:
        """Wait for the end of the run."""
        try:
            out, err = self._process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(self._process.communicate()[1].decode()) from None
        return Ran(self._process.returncode, (b"".join(self._lines) + out).decode(), err.decode())


def kill(service: Any) -> None:
    """Kill a process of a cluster, and wait until it is gone."""
    os.kill(service.pid, signal.SIGKILL)
    wait_until(lambda: not service.alive())


def check_rest(source: Source, ran: Ran, cluster: DaskCluster | None, **more: Any) -> None:
    """Check that a run with the last STATE sends what is missing, and nothing else; `more` are settings of both."""
    rest = source.run(settings(source, cluster, **more), state=state_of(ran))
    whole = source.run(settings(source, None, **more))
    assert confirmed_batches(ran) + ids_of(rest) == ids_of(whole)
    assert ran.code != 0 or not ids_of(rest)


def confirmed_batches(ran: Ran) -> list[str]:
    """Return the ids of the batches before the last STATE: of a killed run, one more may have been written."""
    messages = ran.of_type("BATCH", "STATE")
    while messages[-1]["type"] == "BATCH":
        messages.pop()
    return [message["batch_id"] for message in messages if message["type"] == "BATCH"]
