"""A Dask cluster, usually on 127.0.0.1: a scheduler and workers, a process each."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from local_cloud.process import HERE, Host, Service


class DaskCluster:
    """A scheduler and its workers, with mutual TLS and certificates of their own.

    The scheduler runs on the first of `hosts`, the workers on those after it, in turn. `folder`, which must not exist
    yet, receives the certificates and the log of each process.
    """

    def __init__(self, folder: Path, *, env: Mapping[str, str], hosts: Sequence[Host] = (HERE,)) -> None:
        self.folder, self._env, self._hosts = folder, dict(env), hosts
        self.workers: list[Service] = []
        self._scheduler: Service | None = None

    def start(self, workers: int) -> None:
        """Start the scheduler and some workers."""
        from local_cloud.certificates import write_certificates

        self.folder.mkdir()
        write_certificates(self.folder)
        self._scheduler = self._node("scheduler", self._hosts[0], "scheduler")
        for _ in range(workers):
            self.add_worker()

    def add_worker(self, env: Mapping[str, str] | None = None) -> Service:
        """Start another worker, with these variables besides those of the cluster."""
        number = len(self.workers)
        host = self._hosts[(number + 1) % len(self._hosts)]
        worker = self._node(f"worker-{number}", host, "worker", self.address, env=env)
        self.workers.append(worker)
        return worker

    @property
    def scheduler(self) -> Service:
        """The process of the scheduler."""
        assert self._scheduler is not None, "the cluster is not running"
        return self._scheduler

    @property
    def address(self) -> str:
        """The address of the scheduler: tls://HOST:PORT."""
        return str(self.scheduler.facts["address"])

    @property
    def tls(self) -> dict[str, str]:
        """Return paths of the files with which a client is accepted."""
        files = {"ca_file": "ca.pem", "cert_file": "client.pem", "key_file": "client.key"}
        return {name: str(self.folder / file) for name, file in files.items()}

    def stop(self) -> None:
        """End all processes."""
        for service in (*self.workers, *([self._scheduler] if self._scheduler else [])):
            service.stop()

    def _node(self, name: str, host: Host, *arguments: str, env: Mapping[str, str] | None = None) -> Service:
        module = [sys.executable, "-P", "-m", "local_cloud.dask.node"]
        command: list[str | Path] = [*host.enter, *module, self.folder, host.address, *arguments]
        return Service(f"dask {name}", command, log=self.folder / f"{name}.log", env=self._env | dict(env or {}))
