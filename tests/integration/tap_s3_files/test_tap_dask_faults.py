"""The tap on Dask when processes die, hang or do not fit: one clear line, and nothing lost or sent twice."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tap_source import Source, moment, state_of
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.certificates import write_certificates
from local_cloud.dask.cluster import DaskCluster
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs, Ran

TASKS = 6
Start = Callable[..., DaskCluster]


@pytest.fixture
def start(cloud: Cloud, s3_faults: FaultProxy, tmp_path: Path) -> Iterator[Start]:
    """Starts a cluster whose workers wait for each object that they read."""
    s3_faults.set({"match": "^GET /[^/]+/in/", "delay_ms": 300})
    clusters: list[DaskCluster] = []

    def run(workers: int = 2, **env: str) -> DaskCluster:
        folder = tmp_path / f"cloud-{len(clusters)}"
        folder.mkdir()
        clusters.append(DaskCluster(folder / "dask", env=cloud.environ(AWS_ENDPOINT_URL=s3_faults.url, **env)))
        clusters[-1].start(workers)
        return clusters[-1]

    yield run
    for cluster in clusters:
        for service in (*cluster.workers, cluster.scheduler):
            if service.alive():
                os.kill(service.pid, signal.SIGKILL)
        cluster.stop()


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    source = Source(s3, bucket, tap)
    for n in range(TASKS):  # each is a task, because it fills a batch file
        source.csv(f"in/{n}.csv", n * 40_000, 30_000, at=moment(n))
    return source


def settings(source: Source, cluster: DaskCluster | None, **more: Any) -> dict[str, Any]:
    config = source.config(batch_config=source.batches(file_mb=0.5), max_workers=2)
    if cluster is not None:
        config |= {"executor": "dask", "dask_scheduler": cluster.address, "dask_tls": cluster.tls}
    return config | more


class Running:
    """A run of the tap, up to its first STATE and then to its end."""

    def __init__(self, source: Source, config: dict[str, Any], **options: Any) -> None:
        self._process = source.tap.start("tap-s3-files", config=config, **options)
        assert self._process.stdout is not None
        self._lines = []
        while b'"STATE"' not in (line := self._process.stdout.readline()):
            assert line, self._process.communicate()[1].decode()
            self._lines.append(line)
        self._lines.append(line)

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> Ran:
        try:
            out, err = self._process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(self._process.communicate()[1].decode()) from None
        return Ran(self._process.returncode, (b"".join(self._lines) + out).decode(), err.decode())


def kill(service: Any) -> None:
    os.kill(service.pid, signal.SIGKILL)
    wait_until(lambda: not service.alive())


def last(ran: Ran) -> str:
    assert ran.code == 1
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.stderr.splitlines()[-1].rpartition(" | ")[2]


def check_rest(source: Source, ran: Ran, cluster: DaskCluster | None) -> None:
    """Check that a run with the last STATE sends what is missing, and nothing else."""
    rest = source.run(settings(source, cluster), state=state_of(ran))
    sent = [m["batch_id"] for m in (*ran.of_type("BATCH"), *rest.of_type("BATCH"))]
    assert sent == [m["batch_id"] for m in source.run(settings(source, None)).of_type("BATCH")]
    assert rest.of_type("BATCH")


def test_tasks_of_a_worker_that_is_killed_run_on_another(source: Source, start: Start) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster))
    kill(cluster.workers[0])
    ran = running.end().check()
    assert ran.stdout == source.run(settings(source, None)).stdout


def test_tasks_of_a_worker_that_sleeps_run_on_another_and_it_may_wake(source: Source, start: Start) -> None:
    cluster = start(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="3s")
    running = Running(source, settings(source, cluster))
    sleeper = cluster.workers[0]
    os.kill(sleeper.pid, signal.SIGSTOP)
    ran = running.end().check()
    os.kill(sleeper.pid, signal.SIGCONT)
    wait_until(lambda: not sleeper.alive())  # it ends its task, and learns that it is no longer a member
    assert [r["id"] for r in source.rows(ran)] == [n * 40_000 + i for n in range(TASKS) for i in range(30_000)]
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


def test_a_task_that_kills_its_workers_is_named(source: Source, start: Start) -> None:
    cluster = start(1, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    running = Running(source, settings(source, cluster, max_workers=1))
    kill(cluster.workers[0])
    ran = running.end()
    assert f"the task that reads s3://{source.bucket}/in/" in last(ran)
    assert " ended each of 1 Dask workers that ran it" in last(ran)
    check_rest(source, ran, None)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_tap_that_is_stopped_continues_with_its_last_state(source: Source, start: Start, how: int) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster, max_workers=1))
    running.send(how)
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
    cluster.add_worker({"PYTHONPATH": str(other.parent)})
    kill(cluster.workers[0])
    assert " has singer-arrow 9.9, and this process " in last(running.end())  # it came during the run
    ran = source.tap("tap-s3-files", config=settings(source, cluster))
    address = cluster.workers[1].facts["address"]
    assert last(ran).startswith(f"Dask worker {address} has singer-arrow 9.9, and this process ")
