"""Run a command in its own process group, which ends with the command and with local-cloud: its guard sees to that.

The guard is the process `python -m local_cloud.command`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from local_cloud.errors import LocalCloudError
from local_cloud.lifeline import Ready

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
Handler = Callable[[int, FrameType | None], object]


def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command to its end and return its exit code, or 128 + signal if a signal ended it (as a shell does).

    Guarantees: SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process reach the command's whole group; no process of the
    group outlives the command; the whole group also ends when this process is killed by SIGKILL.
    """
    guard = subprocess.Popen(
        [sys.executable, "-P", "-m", "local_cloud.command"],
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


# The guard of the command of `local-cloud run`, which ends its process group.
#
# The guard is the leader of the group, so the group exists before the command does, and its number is not reused while
# the guard lives. The guard waits for the end of its standard input, which is the end of local-cloud.

GRACE_SECONDS = 3.0


def group_members(group: int) -> list[int]:
    """Return the ids of the running processes of a group."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, pgid, state in rows if int(pgid) == group and not state.startswith("Z")]
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The command's name, in parentheses, may contain spaces; state, parent and group follow it.
            state, _, pgid = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it ended between the listing and the reading
        if int(pgid) == group and state != "Z":
            found.append(int(entry.name))
    return found


def end_group(grace: float = GRACE_SECONDS) -> None:
    """Send SIGTERM to every other process of this group, and SIGKILL after `grace` seconds."""
    own, group = os.getpid(), os.getpgrp()

    def others() -> list[int]:
        return [pid for pid in group_members(group) if pid != own]

    if not others():
        return
    os.killpg(group, signal.SIGTERM)
    os.killpg(group, signal.SIGCONT)
    deadline = time.monotonic() + grace
    while others():
        if time.monotonic() > deadline:
            os.killpg(group, signal.SIGKILL)
        time.sleep(0.02)


def main() -> None:
    """Wait for the parent's end or its order, then end the group."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    Ready().report({})
    while os.read(0, 4096):
        pass
    end_group()
    sys.exit(0)


if __name__ == "__main__":
    main()
