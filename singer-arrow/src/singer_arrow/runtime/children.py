"""Processes that end with the one that has started them, whatever ends it, also kill -9."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

KILL_SECONDS = 30
"""Seconds that a process has to end after SIGTERM before it gets SIGKILL; a target waits 20 for running loads."""

_WATCH = f"""
import os, signal, sys, time

def send(number):
    reached = 0
    for group in groups:
        try:
            os.killpg(group, number)
        except OSError:  # it has ended
            continue
        reached += 1
    return reached

groups = [int(line) for line in sys.stdin]  # ends with the process that has the other end of the pipe
send(signal.SIGTERM)
end = time.monotonic() + {KILL_SECONDS}
while time.monotonic() < end and send(0):
    time.sleep(0.2)
send(signal.SIGKILL)
"""


class Children:
    """Starts processes in groups of their own, which are ended if this process ends before `close`.

    Each group gets SIGTERM, and SIGKILL `KILL_SECONDS` later. A small process does this: it reads the groups from a
    pipe whose other end is open in this process alone, so it works on every system, and for programs that know nothing
    of it. Close this only once the processes have been waited for, so that their numbers are not those of other
    processes meanwhile.
    """

    def __init__(self) -> None:
        read, self._write = os.pipe()
        try:
            # A session of its own, so that signals for this process's group do not reach it.
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WATCH],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except BaseException:
            os.close(self._write)
            raise
        finally:
            os.close(read)

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process as `subprocess.Popen` does; OSError if it cannot be started.

        It says its number to the watcher before it becomes the program, so this also holds from the first instruction
        of the program on.
        """
        write = self._write

        def announce() -> None:
            os.write(write, b"%d\n" % os.getpid())

        return subprocess.Popen(command, process_group=0, preexec_fn=announce, **options)  # noqa: PLW1509 - see above

    def close(self) -> None:
        """End the watching; processes that still run are left alone."""
        self._watcher.kill()
        self._watcher.wait()
        os.close(self._write)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has not been waited for, with its whole group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
