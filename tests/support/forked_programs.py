"""Run our executables as processes forked from one that has imported them: imports are most of the CPU time of a run.

`python forked_programs.py` is that process, for all executables. Each run has its own environment, folder, arguments
and open files, and ends as an interpreter does. `ForkedPrograms` puts a folder first in PATH in which each executable
is a small script, `warm_stub.py`, that asks for such a run, passes signals on and ends as the run does. So shells and
`singer-arrow run` use forked runs, too.

A forked run ends a moment after its script is killed, so `start` starts the executables themselves, as `Programs` does
for all: use it also for signals, a killed `singer-arrow run`, process groups, terminals, memory, what is imported.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import select
import shutil
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
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from local_cloud.programs import Option, Programs, Ran

IMPORTS = {
    "singer-arrow": ("singer_arrow", "yaml"),
    "tap-s3-files": ("tap_s3_files", "botocore.session", "pyarrow.orc"),
    "tap-flight-sql": ("tap_flight_sql", "adbc_driver_flightsql.dbapi", "botocore.session"),
    "target-bigquery": ("target_bigquery", "google.cloud.bigquery", "google.cloud.bigquery_storage_v1"),
    "target-redshift": ("target_redshift", "redshift_connector"),
}
"""The executables, each with its package and the libraries that functions of it import."""
FOR_ALL = ("obstore.store", "polars", "pyarrow.dataset", "pyarrow.parquet")
"""Libraries that functions of singer-arrow import."""
SOCKET = "S"


class ForkedPrograms(Programs):
    """Programs of which our executables are forked, also where a shell or `singer-arrow run` starts them."""

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        super().__init__(env, folder)
        self.env["PATH"] = f"{_fork_server().folder}:{self.env['PATH']}"

    def command(self, program: str, *arguments: str | Path, **options: Option | list[Option]) -> list[str]:
        """Return the command line of a program with its options."""
        line = super().command(program, *arguments, **options)
        return [str(_fork_server().folder / program), *line[1:]] if program in IMPORTS else line

    def start(self, program: str, *arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start an executable itself; see `Programs`."""
        return Programs(self.env, self._folder).start(program, *arguments, **options)

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
        return _fork_server().run(line, self.env | dict(env or {}), given, timeout)


class ForkServer:
    """The process from which all runs are forked; threads may use it at the same time.

    Attributes:
        folder: The scripts that stand for the executables.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="warm-"))
        for program in IMPORTS:
            script = self.folder / program
            script.write_text(f"#!{sys.executable} -IS\n{Path(__file__).with_name('warm_stub.py').read_text()}")
            script.chmod(0o755)
        # Python warns of forks in processes with threads; the only thread is jemalloc's, which supports fork.
        command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", __file__]
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.folder / SOCKET))
            listening.listen(128)
            number = listening.fileno()
            self._process = subprocess.Popen(
                [*command, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=[number],
            )
        atexit.register(self.close)

    def run(self, line: list[str], env: Mapping[str, str], given: bytes, timeout: float) -> Ran:
        """Run an executable to its end."""
        (stdin, feed), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        passed = [stdin, stdout, stderr]
        job = {"argv": line, "env": dict(env), "folder": str(Path.cwd()), "umask": None, "files": [0, 1, 2]}
        data = json.dumps(job).encode()
        late = threading.Event()
        with socket.socket(socket.AF_UNIX) as connection, ThreadPoolExecutor(2) as threads:
            try:
                connection.connect(str(self.folder / SOCKET))
                socket.send_fds(connection, [len(data).to_bytes(4, "big")], passed)
            finally:
                for number in passed:
                    os.close(number)
            written = [threads.submit(_read, number) for number in (out, err)]
            connection.sendall(data)
            kill = bytes([signal.SIGKILL])
            limit = threading.Timer(timeout, lambda: (late.set(), connection.sendall(kill)))
            limit.start()
            _write(feed, given)
            output, log = (w.result() for w in written)
            code = connection.recv(2)
            limit.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(line, timeout, output, log)
        if not code:
            raise AssertionError(f"the process that forks runs has ended: {self._process.communicate()[1].decode()}")
        return Ran(int.from_bytes(code, "big", signed=True), output.decode(), log.decode(errors="replace"))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def forked_executables() -> Path:
    """Return the folder of the scripts that stand for the executables."""
    return _fork_server().folder


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


def _forked() -> Callable[[], object]:
    """Wait for requests, and return the main function of the executable in each forked process."""
    from singer_arrow.runtime.process import limit_arenas
    from singer_arrow.sdk.cli import import_sdk

    limit_arenas()
    import_sdk()
    packages = {name for name, *_ in IMPORTS.values()}
    own = [import_module(name) for name in sorted(packages)]
    modules = [module.name for each in own for module in walk_packages(each.__path__, f"{each.__name__}.")]
    libraries = {name for _, *names in IMPORTS.values() for name in names}
    for name in (*modules, *FOR_ALL, *sorted(libraries)):
        import_module(name)
    mains = {one.name: one.load() for one in entry_points(group="console_scripts") if one.name in IMPORTS}
    gc.freeze()
    watching: set[int] = set()
    listening = socket.socket(fileno=int(sys.argv[1]))
    while True:
        if listening not in select.select([listening, 0], [], [])[0]:
            sys.exit()  # the end of standard input: the tests have ended
        connection, _ = listening.accept()
        if not (pid := os.fork()):
            listening.close()
            _serve(connection)
            main: Callable[[], object] = mains[Path(sys.argv[0]).name]
            return main
        connection.close()
        watching = {one for one in watching | {pid} if os.waitpid(one, os.WNOHANG)[0] == 0}


def _serve(connection: socket.socket) -> None:
    """Fork a run with the job that is read from a socket, and report how it ends; return in the run only."""
    head, passed, _, _ = socket.recv_fds(connection, 4, 64)
    with connection, connection.makefile("rb") as channel:
        job = json.loads(channel.read(int.from_bytes(head, "big")).decode(errors="surrogateescape"))
        numbers = job.pop("files")
        if pid := os.fork():
            for number in (*passed, *range(3)):
                os.close(number)  # they are those of the run
            _watch(pid, connection)
            os._exit(0)
    above = max(*numbers, *passed) + 1
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD, above) for number in passed]  # none takes the place of another
    for number, given in zip(numbers, moved, strict=True):
        os.dup2(given, number)
    for number in {*passed, *moved} - set(numbers):
        os.close(number)
    _enter(**job)


def _watch(pid: int, connection: socket.socket) -> None:
    """Pass signals on to a run, SIGKILL if nobody waits for it any more; send its exit code when it ends."""
    ended, end = os.pipe()
    codes = list[int]()

    def wait() -> None:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os.close(end)

    threading.Thread(target=wait).start()
    while ended not in select.select([connection, ended], [], [])[0]:
        for number in connection.recv(16) or [signal.SIGKILL]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    with suppress(OSError):
        connection.sendall(codes[0].to_bytes(2, "big", signed=True))


def _enter(argv: list[str], env: dict[str, str], folder: str, umask: int | None) -> None:
    os.setsid()
    sys.argv = argv
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    if umask is not None:
        os.umask(umask)
    time.tzset()
    tempfile.tempdir = None


if __name__ == "__main__":
    sys.exit(_forked()())
