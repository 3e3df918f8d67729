"""The tap on Dask when processes die, hang or do not fit: one clear line, and nothing lost or sent twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dask_runs import Running, Start, check_rest, clusters, kill, put_tasks, settings
from tap_source import Source
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.certificates import write_certificates
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs, Ran


@pytest.fixture
def start(cloud: Cloud, s3_faults: FaultProxy, tmp_path: Path) -> Iterator[Start]:
    with clusters(cloud, s3_faults, tmp_path) as run:
        yield run


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    source = Source(s3, bucket, tap)
    put_tasks(source)
    return source


def last(ran: Ran) -> str:
    assert ran.code == 1
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.stderr.splitlines()[-1].rpartition(" | ")[2]


def test_tasks_of_a_worker_that_is_killed_run_on_another(source: Source, start: Start) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster))
    kill(cluster.workers[0])
    ran = running.end().check()
    assert ran.stdout == source.run(settings(source, None)).stdout


def test_a_scheduler_that_is_killed_is_one_line_and_the_next_run_sends_the_rest(source: Source, start: Start) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster))
    kill(cluster.scheduler)
    ran = running.end()
    assert last(ran).startswith(f"the Dask scheduler at {cluster.address} is gone after ")
    assert last(ran).endswith(" tasks; run again with the last STATE [service]")
    check_rest(source, ran, start())


def test_a_cluster_without_workers_is_waited_for(source: Source, start: Start) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster))
    for worker in cluster.workers:
        kill(worker)
    cluster.add_worker()
    ran = running.end().check()
    assert ran.stdout == source.run(settings(source, None)).stdout


def test_a_cluster_without_workers_is_waited_for_only_so_long(source: Source, start: Start) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster, dask_wait_seconds=3))
    for worker in cluster.workers:
        kill(worker)
    ran = running.end()
    assert f"the Dask scheduler at {cluster.address} has had no worker for 3 s, after " in last(ran)
    check_rest(source, ran, None)


def test_workers_that_are_paused_take_no_tasks(source: Source, start: Start) -> None:
    cluster = start(1, DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE="0.000001")
    config = settings(source, cluster, dask_wait_seconds=3)
    ran = source.tap("tap-s3-files", config=config)
    assert f"the Dask scheduler at {cluster.address} has had no worker but 1 paused for 3 s, after " in last(ran)


def test_a_task_that_kills_its_workers_is_named(source: Source, start: Start, s3_faults: FaultProxy) -> None:
    cluster = start(1, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    s3_faults.set({"match": "^GET /[^/]+/in/[1-9]", "delay_ms": 3000})
    running = Running(source, settings(source, cluster, max_workers=1))
    wait_until(lambda: s3_faults.report()["rules"][0]["matched"])  # the worker reads the second object
    kill(cluster.workers[0])
    ran = running.end()
    assert f"the task that reads s3://{source.bucket}/in/" in last(ran)
    assert " ended each of 1 Dask workers that ran it" in last(ran)
    check_rest(source, ran, None)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_tap_that_is_stopped_continues_with_its_last_state(source: Source, start: Start, how: int) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster, max_workers=1))
    os.kill(running.pid, how)
    ran = running.end()
    assert ran.code != 0
    assert "Traceback" not in ran.stderr
    check_rest(source, ran, cluster)


def test_a_scheduler_that_speaks_tls_is_not_reached_without(source: Source, start: Start) -> None:
    cluster = start(0)
    config = settings(source, cluster, dask_scheduler=cluster.address.replace("tls", "tcp"), dask_wait_seconds=5)
    del config["dask_tls"]
    ran = source.tap("tap-s3-files", config=config)
    assert last(ran).startswith("the Dask scheduler at tcp://127.0.0.1:")
    assert " cannot be reached: " in last(ran)


def test_certificates_of_another_authority_are_refused(source: Source, start: Start, tmp_path: Path) -> None:
    cluster = start(0)
    write_certificates(tmp_path)
    files = {name: str(tmp_path / Path(file).name) for name, file in cluster.tls.items()}
    ran = source.tap("tap-s3-files", config=settings(source, cluster, dask_tls=files, dask_wait_seconds=5))
    assert "certificate verify failed" in last(ran)
    unknown = {**cluster.tls, "cert_file": files["cert_file"], "key_file": files["key_file"]}
    ran = source.tap("tap-s3-files", config=settings(source, cluster, dask_tls=unknown, dask_wait_seconds=5))
    assert f"the Dask scheduler at {cluster.address} cannot be reached: " in last(ran)
    missing = {**cluster.tls, "ca_file": "/no/ca.pem"}
    ran = source.tap("tap-s3-files", config=settings(source, cluster, dask_tls=missing))
    assert last(ran) == "Setting 'dask_tls.ca_file': there is no file /no/ca.pem [config]"


def test_a_worker_of_another_version_is_refused(source: Source, start: Start, tmp_path: Path) -> None:
    other = tmp_path / "other" / "singer_arrow-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: singer-arrow\nVersion: 9.9\n")
    cluster = start(1)
    running = Running(source, settings(source, cluster, max_workers=1))
    os.kill(running.pid, signal.SIGSTOP)
    cluster.add_worker({"PYTHONPATH": str(other.parent)})
    kill(cluster.workers[0])
    os.kill(running.pid, signal.SIGCONT)
    assert " has singer-arrow 9.9, and this process " in last(running.end())  # it came during the run
    ran = source.tap("tap-s3-files", config=settings(source, cluster))
    address = cluster.workers[1].facts["address"]
    assert last(ran).startswith(f"Dask worker {address} has singer-arrow 9.9, and this process ")
