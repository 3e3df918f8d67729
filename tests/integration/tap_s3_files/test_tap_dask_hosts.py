"""The tap, the scheduler and two workers of Dask on a host each, some of whose links are cut.

A cut link ends no connection: what is sent is lost, and each side notices only that nothing comes.
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
from network_hosts import HostPrograms, Network, network_of, why_not
from tap_source import Source
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy

pytestmark = pytest.mark.skipif(why_not() != "", reason=why_not())
REMOVED_SOON = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s"}
"""With this the scheduler removes a worker out of reach after 5 to 8 seconds."""


@pytest.fixture
def network(cloud: Cloud, s3_faults: FaultProxy) -> Iterator[Network]:
    """Make the hosts of the tap, of the scheduler and of two workers."""
    with network_of(4, cloud.s3_url, s3_faults.url) as made:
        yield made


@pytest.fixture
def source(cloud: Cloud, s3: Any, bucket: str, network: Network, tmp_path: Path) -> Iterator[Source]:
    """Return a bucket, and the tap on its host."""
    env = cloud.environ(AWS_ENDPOINT_URL=network.url(cloud.s3_url), **network.environ)
    programs = HostPrograms(env, tmp_path, network.hosts[0])
    source = Source(s3, bucket, programs)
    put_tasks(source)
    yield source
    programs.end()


@pytest.fixture
def start(cloud: Cloud, s3_faults: FaultProxy, network: Network, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a cluster on the other hosts."""
    variables = network.environ | {"AWS_ENDPOINT_URL": network.url(s3_faults.url)}
    with clusters(cloud, s3_faults, tmp_path, network.hosts[1:], **variables) as run:
        yield run


def pause_until_results_are_ready(running: Running, s3_faults: FaultProxy) -> None:
    """Stop the tap, until the workers have written the files of all tasks that were sent to them."""
    os.kill(running.pid, signal.SIGSTOP)
    wait_until(lambda: len(s3_faults.requests("PUT")) >= 2)
    time.sleep(1)


def test_messages_are_those_of_threads(source: Source, start: Start, network: Network, s3_faults: FaultProxy) -> None:
    cluster = start()
    ran = source.run(settings(source, cluster))
    assert cluster.address.startswith(f"tls://{network.hosts[1].address}:")
    assert network.users(s3_faults.url) == {host.address for host in network.hosts[2:]}  # both workers have read
    assert ran.stdout == source.run(settings(source, None)).stdout


def test_tasks_of_a_worker_out_of_reach_run_on_another(source: Source, start: Start, network: Network) -> None:
    cluster = start(**REMOVED_SOON)
    running = Running(source, settings(source, cluster))
    network.cut(network.hosts[3])
    ran = running.end().check()
    worker = cluster.workers[1]
    removed = f"Remove worker addr: {worker.facts['address']} "
    wait_until(lambda: removed in cluster.scheduler.log.read_text())  # without a task it is not waited for
    network.join(network.hosts[3])
    wait_until(lambda: not worker.alive())  # it ends its task first, and may write its files once more
    assert [row["id"] for row in source.rows(ran)] == [first_row(n) + i for n in range(TASKS) for i in range(ROWS)]
    assert ran.stdout == source.run(settings(source, None)).stdout


def test_a_result_on_a_worker_out_of_reach_is_made_again(
    source: Source, start: Start, network: Network, s3_faults: FaultProxy
) -> None:
    cluster = start(1, **REMOVED_SOON)
    running = Running(source, settings(source, cluster, dask_wait_seconds=3))
    pause_until_results_are_ready(running, s3_faults)
    network.cut(network.hosts[2])
    cluster.add_worker()
    os.kill(running.pid, signal.SIGCONT)
    ran = running.end().check()
    assert ran.stdout == source.run(settings(source, None)).stdout


def test_a_worker_out_of_reach_before_the_run_takes_no_part(source: Source, start: Start, network: Network) -> None:
    cluster = start(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="20s")  # later than the tap asks, on a busy machine too
    network.cut(network.hosts[3])
    ran = source.run(settings(source, cluster))
    assert ran.stderr.count(f"Dask worker {cluster.workers[1].facts['address']} does not answer: ") == 1
    assert ran.stdout == source.run(settings(source, None)).stdout


@pytest.mark.parametrize("is_result_ready", [False, True])
def test_a_scheduler_out_of_reach_is_one_line_and_the_next_run_sends_the_rest(
    source: Source, start: Start, network: Network, s3_faults: FaultProxy, is_result_ready: bool
) -> None:
    cluster = start()
    late = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "300s"}  # so that the setting of the tap is what ends the run
    running = Running(source, settings(source, cluster, dask_wait_seconds=4), env=late)
    if is_result_ready:
        pause_until_results_are_ready(running, s3_faults)
    network.cut(network.hosts[0])
    if is_result_ready:
        os.kill(running.pid, signal.SIGCONT)
    ran = running.end()
    network.join(network.hosts[0])
    assert ran.code == 1
    assert "Traceback" not in ran.stderr, ran.stderr
    error = ran.stderr.splitlines()[-1].rpartition(" | ")[2]
    assert error.startswith(f"the Dask scheduler at {cluster.address} is gone after ")
    assert error.endswith(" tasks; run again with the last STATE [service]")
    check_rest(source, ran, cluster)


def test_a_scheduler_out_of_reach_for_a_moment_does_no_harm(source: Source, start: Start, network: Network) -> None:
    cluster = start()
    running = Running(source, settings(source, cluster))
    network.cut(network.hosts[1])
    time.sleep(4)
    network.join(network.hosts[1])
    ran = running.end().check()
    assert ran.stdout == source.run(settings(source, None)).stdout
