"""Run commands and measure the whole of what they start: seconds, CPU seconds and memory."""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import ProcessTree, process_ids

SAMPLE_SECONDS = 0.02
PR_SET_CHILD_SUBREAPER = 36


class BenchmarkError(Exception):
    """A benchmark cannot give a figure: a command failed, or its output is not what it should be."""


@dataclass(frozen=True)
class Command:
    """A program with its arguments; `stdin` is a file that it reads, `env` is laid over the harness's environment."""

    argv: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: Path | None = None


@dataclass(frozen=True)
class Measured:
    """What a pipeline of commands cost.

    Attributes:
        started: seconds since the epoch at which the first command was started.
        wall: seconds until the last command had ended.
        cpu: CPU seconds, user and system, of all processes.
        cpu_of: the same for each command of the pipeline with its descendants.
        peak_tree: the largest sum of resident bytes over all processes, sampled every 20 ms.
        peak_process: the largest resident set of any single process in bytes, as the kernel keeps it.
        stdout: the file with what the last command wrote.
    """

    started: float
    wall: float
    cpu: float
    cpu_of: tuple[float, ...]
    peak_tree: int
    peak_process: int
    stdout: Path


def measure(commands: Sequence[Command], folder: Path, *, timeout: float = 3600.0) -> Measured:
    """Run commands as a pipeline, each one's output into the next, and measure them to their end.

    Processes that outlive their parents count too; those that outlive the last command are killed.

    Args:
        commands: the pipeline, first to last.
        folder: takes `stdout` of the last command and `stderr-<n>` of each.
        timeout: seconds after which all are killed.

    Raises:
        BenchmarkError: a command cannot be started, ended with another code than 0, or ran into the timeout.
    """
    with _subreaper():
        return _measure(commands, folder, timeout)


def _measure(commands: Sequence[Command], folder: Path, timeout: float) -> Measured:
    before = process_ids()
    started, clock = time.time(), time.monotonic()
    running = _start(commands, folder)
    tree = ProcessTree([process.pid for process in running], before)
    try:
        with _Sampler(tree) as sampler, _deadline(running, timeout):
            usages = [_wait(process) for process in running]
            wall = time.monotonic() - clock
    finally:
        orphans = _reap(running, tree)
    # A target that ends early makes its tap fail too; the last command's own words explain more.
    for number in reversed(range(len(running))):
        if code := running[number].returncode:
            raise BenchmarkError(_complaint(commands[number], code, folder / f"stderr-{number}"))
    of_each = tuple(usage.ru_utime + usage.ru_stime for usage in usages)
    return Measured(
        started=started,
        wall=wall,
        cpu=sum(of_each) + sum(usage.ru_utime + usage.ru_stime for usage in orphans),
        cpu_of=of_each,
        peak_tree=max(sampler.peak_tree, sampler.peak_process),
        # Not ru_maxrss: that is never less than the memory of the process that started it, this one.
        peak_process=sampler.peak_process,
        stdout=folder / "stdout",
    )


def _start(commands: Sequence[Command], folder: Path) -> list[subprocess.Popen[bytes]]:
    running: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as files:
        for number, command in enumerate(commands):
            last = number == len(commands) - 1
            before = running[-1].stdout if running else None
            stdin = before or (files.enter_context(command.stdin.open("rb")) if command.stdin else subprocess.DEVNULL)
            try:
                process = subprocess.Popen(
                    [str(part) for part in command.argv],
                    stdin=stdin,
                    stdout=files.enter_context((folder / "stdout").open("wb")) if last else subprocess.PIPE,
                    stderr=files.enter_context((folder / f"stderr-{number}").open("wb")),
                    env={**os.environ, **command.env},
                    start_new_session=True,
                )
            except OSError as error:
                _reap(running, ProcessTree([each.pid for each in running], process_ids()))
                raise BenchmarkError(f"cannot start {command.argv[0]}: {error.strerror}") from error
            if before:
                before.close()  # or the earlier command would never see that its reader is gone
            running.append(process)
    return running


def _wait(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait for it again
    return usage


def _reap(running: Sequence[subprocess.Popen[bytes]], tree: ProcessTree) -> list[resource.struct_rusage]:
    """Kill what is left of the commands and collect the usage of every process that no other code waited for."""
    usages = []
    while True:
        tree.look()
        left = [usage for pid in sorted(tree.seen) if (usage := _end(pid))]
        usages += left
        if not left:  # nothing whose children could fall to this process any more
            break
    for process in running:
        process.returncode = -signal.SIGKILL if process.returncode is None else process.returncode
    return usages


def _end(pid: int) -> resource.struct_rusage | None:
    """Kill a process if it is a child of this one, and return its usage; None if it is not, or was reaped before."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    os.kill(pid, signal.SIGKILL)
    return os.wait4(pid, 0)[2]


def _complaint(command: Command, code: int, stderr: Path) -> str:
    tail = stderr.read_text(errors="replace").strip().splitlines()[-12:]
    words = " ".join(str(part) for part in command.argv)
    return "\n    ".join([f"exit code {code}: {words}", *tail])


@contextlib.contextmanager
def _subreaper() -> Iterator[None]:
    """Make this process the one that orphans fall to, so that their usage can be collected (Linux alone)."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextlib.contextmanager
def _deadline(running: Sequence[subprocess.Popen[bytes]], seconds: float) -> Iterator[None]:
    def kill() -> None:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


class _Sampler:
    """Looks at a process tree from a thread and keeps the largest sum of resident bytes, and of one process."""

    def __init__(self, tree: ProcessTree) -> None:
        self.peak_tree = 0
        self.peak_process = 0
        self._tree = tree
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def __enter__(self) -> "_Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            memory = self._tree.look().values()
            self.peak_tree = max(self.peak_tree, sum(each.now for each in memory))
            self.peak_process = max(self.peak_process, *(each.peak for each in memory), 0)
            if self._ended.wait(SAMPLE_SECONDS):
                return
