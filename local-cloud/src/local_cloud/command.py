"""Run a command in its own process group, which ends with the command and with local-cloud."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from local_cloud.errors import LocalCloudError

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
Handler = Callable[[int, FrameType | None], object]


def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command to its end and return its exit code, or 128 + signal if a signal ended it (as a shell does).

    Guarantees: SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process reach the command's whole group; no process of the
    group outlives the command; the whole group also ends when this process is killed by SIGKILL.
    """
    guard = subprocess.Popen(
        [sys.executable, "-P", "-m", "local_cloud.guard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert guard.stdin is not None
    assert guard.stdout is not None
    try:
        with guard.stdout:
            guard.stdout.readline()
        with _terminal_for(guard.pid):
            return _wait(command, env, guard.pid)
    finally:
        guard.stdin.close()
        guard.wait()


def _wait(command: Sequence[str], env: Mapping[str, str], group: int) -> int:
    try:
        process = subprocess.Popen(command, env=env, process_group=group)
    except OSError as error:
        raise LocalCloudError(f"cannot run {command[0]}: {error.strerror}") from None
    with _forwarding(group):
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _forwarding(group: int) -> Iterator[None]:
    def forward(number: int, _: FrameType | None) -> None:
        os.killpg(group, number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _terminal_for(group: int) -> Iterator[None]:
    """Make the command the foreground group of the terminal, if this process has it."""
    try:
        mine = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        mine = False
    if not mine:
        yield
        return
    # The terminal is taken back from the background, where the kernel would stop this process.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, group)
    try:
        yield
    finally:
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, before)
