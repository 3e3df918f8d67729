"""Run connectors as processes forked from one that has imported them: imports are most of the CPU time of a short run.

`python forked_programs.py` is that process, for all connectors. Each run has its own environment, folder, arguments
and streams, and ends as an interpreter does. `Programs.start` and `Programs.command`, and commands of a
shell, use the executables themselves.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from local_cloud.programs import Option, Programs, Ran

IMPORTS = {
    "tap-s3-files": ("tap_s3_files", "botocore.session", "pyarrow.orc"),
    "tap-flight-sql": ("tap_flight_sql", "adbc_driver_flightsql.dbapi", "botocore.session"),
    "target-bigquery": ("target_bigquery", "google.cloud.bigquery", "google.cloud.bigquery_storage_v1"),
    "target-redshift": ("target_redshift", "redshift_connector"),
}
"""The executables of the connectors, each with its package and the libraries that functions of it import."""
FOR_ALL = ("obstore.store", "polars", "pyarrow.dataset", "pyarrow.parquet")
"""Libraries that functions of singer-arrow import."""


class ForkedPrograms(Programs):
    """Programs of which connectors that run to their end are forked."""

    def __call__(
        self,
        program: str,
        *arguments: str | Path,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        **options: Option | list[Option],
    ) -> Ran:
        """Run a program to its end; see `Programs`."""
        if program not in IMPORTS:
            return super().__call__(program, *arguments, stdin=stdin, env=env, timeout=timeout, **options)
        given = (stdin.encode() if isinstance(stdin, str) else stdin) or b""
        line = self.command(program, *arguments, **options)
        return _fork_server().run(program, line, self.env | dict(env or {}), given, timeout)


class ForkServer:
    """The process from which the runs of all connectors are forked; threads may use it at the same time."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Python warns of forks in processes with threads; the only thread is jemalloc's, which supports fork.
        command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", __file__]
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True
            )
        atexit.register(self.close)

    def run(self, program: str, line: list[str], env: Mapping[str, str], given: bytes, timeout: float) -> Ran:
        """Run a connector to its end."""
        ours, theirs = socket.socketpair()
        (stdin, feed), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        passed = [theirs.detach(), stdin, stdout, stderr]
        with ours, ours.makefile("rw") as channel, ThreadPoolExecutor(2) as threads:
            try:
                socket.send_fds(self._requests, [b"run"], passed)
            finally:
                for number in passed:
                    os.close(number)
            written = [threads.submit(_read, number) for number in (out, err)]
            json.dump({"program": program, "argv": line, "env": dict(env), "folder": str(Path.cwd())}, channel)
            channel.write("\n")
            channel.flush()
            pid = int(channel.readline() or self._ended())
            late = threading.Event()
            limit = threading.Timer(timeout, lambda: (late.set(), os.kill(pid, signal.SIGKILL)))
            limit.start()
            _write(feed, given)
            output, log = (w.result() for w in written)
            code = int(channel.readline())
            limit.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(line, timeout, output, log)
        return Ran(code, output.decode(), log.decode(errors="replace"))

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.communicate()

    def _ended(self) -> str:
        raise AssertionError(f"the process that forks runs has ended: {self._process.communicate()[1].decode()}")


@cache
def _fork_server() -> ForkServer:
    return ForkServer()


def _read(number: int) -> bytes:
    with open(number, "rb") as file:
        return file.read()


def _write(number: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(number, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _forked() -> Callable[[], None]:
    """Wait for requests, and return the main function of the connector in each forked process."""
    from singer_arrow.runtime.process import limit_arenas
    from singer_arrow.sdk.cli import import_sdk

    limit_arenas()
    import_sdk()
    packages = {name for name, *_ in IMPORTS.values()}
    own = [import_module(name) for name in ("singer_arrow", *sorted(packages))]
    modules = [module.name for each in own for module in walk_packages(each.__path__, f"{each.__name__}.")]
    libraries = {name for _, *names in IMPORTS.values() for name in names}
    for name in (*modules, *FOR_ALL, *sorted(libraries)):
        import_module(name)
    gc.freeze()
    watching: set[int] = set()
    requests = socket.socket(fileno=os.dup(0))
    while True:
        request, passed, _, _ = socket.recv_fds(requests, 8, 4)
        if not request:
            sys.exit()
        if not (pid := os.fork()):
            requests.close()
            package = IMPORTS[_watch(*passed)][0]
            main: Callable[[], None] = sys.modules[f"{package}.__main__"].main
            return main
        for number in passed:
            os.close(number)
        watching = {one for one in watching | {pid} if os.waitpid(one, os.WNOHANG)[0] == 0}


def _watch(answers: int, *streams: int) -> str:
    """Fork a run, with the job that is read from a socket, and report how it ends; in the run, return its program."""
    with socket.socket(fileno=answers) as connection, connection.makefile("rw") as channel:
        job = json.loads(channel.readline())
        for number, given in enumerate(streams):
            os.dup2(given, number)
            os.close(given)
        if pid := os.fork():
            for number in range(3):
                os.close(number)  # the ends of the pipes are those of the run
            channel.write(f"{pid}\n")
            channel.flush()
            channel.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
            channel.flush()
            os._exit(0)
    program: str = job.pop("program")
    _enter(**job)
    return program


def _enter(argv: list[str], env: dict[str, str], folder: str) -> None:
    sys.argv = argv
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    time.tzset()
    tempfile.tempdir = None


if __name__ == "__main__":
    sys.exit(_forked()())
