"""Fork runs of the tap from a process that has imported it, and kill or stop them at given points.

`python -m fault_suite.tap_victim` reads one JSON object per line and answers each with a line: `run` with the process
id, `wait` with how the run ended or that it has stopped; `wake` continues a stopped run, and `learn` imports the
modules of a run. A point is a call of the storage or the queue, or the writing of a message; all points of a run are
numbered.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fault_suite.victim import change, hasten_storage, strike

WATCHED = {
    "singer_arrow.storage.store:Storage": ("list", "head", "get", "put", "put_file", "delete", "download"),
    "tap_s3_files.sqs:Queue": ("receive", "delete", "release", "drop"),
}
"""Classes and methods whose calls are points."""
_STOPPED = "stopped"
_MS_PRIVATE, _MS_REC = 1 << 18, 1 << 14  # from sys/mount.h
_ANSWER_SECONDS, _PAUSE_SECONDS = 0.6, 0.1


def main() -> None:
    """Answer requests until standard input ends."""
    from singer_arrow.runtime.process import limit_arenas
    from singer_arrow.sdk.cli import import_sdk

    limit_arenas()
    import_sdk()
    CLIENTS.share()
    importlib.import_module("tap_s3_files.tap")
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        match asked["op"]:
            case "run":
                pid = os.fork()
                if not pid:
                    run(asked)
                    return
                reply(pid)
            case "wait":
                reply(wait(asked["pid"]))
            case "wake":
                os.kill(asked["pid"], signal.SIGCONT)
                reply(0)
            case "may mount":
                reply(int(may_mount()))
            case "learn":
                learn(asked["modules"], asked["clients"], asked["env"])
                reply(0)


def reply(word: object) -> None:
    """Write an answer."""
    sys.stdout.write(f"{json.dumps(word)}\n")
    sys.stdout.flush()


def wait(pid: int) -> int | str:
    """Return the exit code of a run when it ends, or that it has stopped."""
    status = os.waitpid(pid, os.WUNTRACED)[1]
    return _STOPPED if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


def learn(modules: list[str], clients: list[str], env: Mapping[str, str]) -> None:
    """Import the modules of a run and create its botocore clients, once for all runs."""
    for name in modules:
        if name not in sys.modules and name != "__main__":
            importlib.import_module(name)
    os.environ.update(env)
    CLIENTS.share()
    for key in clients:
        CLIENTS.make(key)
    gc.freeze()


class Clients:
    """Cache of botocore clients, because creating one takes longer than most of a run.

    Runs share the clients that were created before the fork.
    """

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._create: Callable[..., Any] | None = None
        self.keys: list[str] = []

    def share(self) -> None:
        """Make the whole process use one session, which returns cached clients."""
        import botocore.session
        from botocore.session import Session

        if self._create is not None:
            return
        session = botocore.session.get_session()
        botocore.session.get_session = lambda: session
        create = self._create = Session.create_client

        def shared(session: Any, service_name: str, **options: Any) -> Any:
            config = options.get("config")
            plain = {name: text for name, text in options.items() if isinstance(text, str)}
            key = json.dumps([service_name, plain, config._user_provided_options if config else {}], default=str)
            self.keys.append(key)
            return self._made.get(key) or create(session, service_name, **options)

        Session.create_client = shared

    def make(self, key: str) -> None:
        """Create the client of a key that a run has reported."""
        import botocore.session
        from botocore.config import Config

        service, options, config = json.loads(key)
        assert self._create is not None
        if key not in self._made:
            session = botocore.session.get_session()
            self._made[key] = self._create(session, service, config=Config(**config), **options)


CLIENTS = Clients()


def run(job: Mapping[str, Any]) -> None:
    """Execute the run in this process."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        handle = os.open(job[name], os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
    faulthandler.register(signal.SIGUSR1, sys.stderr)  # prints the stack of a hung run
    os.environ.update(job["env"])
    sys.argv = ["tap-s3-files", *job["arguments"]]
    plan = importlib.import_module("tap_s3_files.plan_model")
    change(vars(plan), **job["plan"])
    if job["hasty"]:
        hasten_storage()
        hasten_botocore()
    points = Points(**job["fault"]) if job["fault"] else Points()
    points.watch()
    for name, most in job["limits"].items():
        limit(name, most)
    program: Any = importlib.import_module("tap_s3_files.__main__")
    try:
        program.main()
    finally:  # the tap ends by SystemExit
        if not (job["fault"] or job["limits"]):
            report = {"points": points.names, "modules": sorted(sys.modules), "clients": CLIENTS.keys}
            Path(job["report"]).write_text(json.dumps(report))


def hasten_botocore() -> None:
    """Shorten botocore's timeouts and the delays between its retries."""
    from botocore import config
    from botocore.retries import standard

    class Quick(config.Config):  # type: ignore[misc] # botocore has no types
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options | {"read_timeout": _ANSWER_SECONDS})

    change(vars(config), Config=Quick)
    _, *rest = standard.ExponentialBackoff.__init__.__defaults__
    standard.ExponentialBackoff.__init__.__defaults__ = (_PAUSE_SECONDS, *rest)


def limit(name: str, most: int) -> None:
    """Limit a resource of this process.

    `AS` is added to the memory in use; `TMP` is the size of TMPDIR.
    """
    if name == "TMP":
        mount_small(Path(os.environ["TMPDIR"]), most)
        return
    kind = getattr(resource, f"RLIMIT_{name}")
    if name == "AS":
        most += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


def mount_small(folder: Path, size: int) -> None:
    """Mount a small disk at a folder, visible to this process only.

    Raises:
        PermissionError: This user may not mount.
    """
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    os.unshare(os.CLONE_NEWNS)
    for source, target, kind, flags, options in (
        (b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
        (b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={size}".encode()),
    ):
        if libc.mount(source, target, kind, flags, options):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def may_mount() -> bool:
    """Whether this user may mount; a child process tries."""
    pid = os.fork()
    if not pid:
        try:
            mount_small(Path(tempfile.gettempdir()), 1 << 20)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


class Points:
    """Counts the points of a run, and sends this process a signal at one of them.

    Args:
        nth: Number of the point, from 1; 0: none.
        when: `before` or `after` the point; `middle` of a message when half of it is written.
        signal: The signal.
        among: Count only points of this name.

    Attributes:
        names: Names of the points so far, in order.
    """

    def __init__(self, nth: int = 0, when: str = "before", signal: int = 0, among: str = "") -> None:
        self._nth, self._when, self._signal, self._among = nth, when, signal, among
        self._lock = threading.Lock()
        self.names: list[str] = []

    def watch(self) -> None:
        """Route all points through this counter."""
        for place, names in WATCHED.items():
            module, _, kind = place.partition(":")
            owner = getattr(importlib.import_module(module), kind)
            for name in names:
                wrap = self._iterator if name == "list" else self._call
                setattr(owner, name, wrap(name, getattr(owner, name)))
        sys.stdout = _Watched(sys.stdout, self)

    def begin(self, name: str) -> bool:
        """Count a point, and send the signal if it is due before it; return whether this is the point."""
        with self._lock:
            if self._among not in ("", name):
                return False
            self.names.append(name)
            is_it = len(self.names) == self._nth
        if is_it and self._when == "before":
            strike(self._signal)
        return is_it

    def end(self, is_it: bool, when: str = "after") -> None:
        """Send the signal, if it is due now."""
        if is_it and self._when == when:
            strike(self._signal)

    def is_torn(self, is_it: bool) -> bool:
        """Whether the signal is sent in the middle of the point."""
        return is_it and self._when == "middle"

    def _call(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **options: Any) -> Any:
            is_it = self.begin(name)
            answer = real(*args, **options)
            self.end(is_it)
            return answer

        return call

    def _iterator(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **options: Any) -> Iterator[Any]:
            is_it = self.begin(name)
            yield from real(*args, **options)
            self.end(is_it)

        return call


class _Watched:
    """Standard output on which each write is a point."""

    def __init__(self, real: Any, points: Points) -> None:
        self._real, self._points = real, points

    def write(self, text: str) -> int:
        """Write."""
        is_it = self._points.begin("write")
        if self._points.is_torn(is_it):
            self._real.write(text[: len(text) // 2])
            self._real.flush()
            self._points.end(is_it, "middle")
            text = text[len(text) // 2 :]
        self._real.write(text)
        if is_it:
            self._real.flush()
        self._points.end(is_it)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


if __name__ == "__main__":
    main()
