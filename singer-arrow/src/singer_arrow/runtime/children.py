"""Processes that end with the one that has started them, whatever ends it, also kill -9."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

KILL_SECONDS = 30
"""Seconds that a process has to end after SIGTERM before it gets SIGKILL; a target waits 20 for running loads."""

# The end of the input is the end of the process that holds its other end. `kill` of a shell has no common way to name
# several groups, and none to say that one is gone but its exit code.
_WATCH = f"""
while read -r one; do groups="$groups $one"; done
for one in $groups; do kill -s TERM -- "-$one"; done 2>/dev/null
left={KILL_SECONDS * 5}
while [ "$left" -gt 0 ]; do
  alive=
  for one in $groups; do kill -s 0 -- "-$one" && alive=1; done 2>/dev/null
  [ "$alive" ] || exit 0
  sleep 0.2
  left=$((left - 1))
done
for one in $groups; do kill -s KILL -- "-$one"; done 2>/dev/null
"""


class Children:
    """Starts processes in groups of their own, which are ended if this process ends before `close`.

    Each group gets SIGTERM, and SIGKILL `KILL_SECONDS` later. A shell does this: it reads the groups from a pipe whose
    other end is open in this process alone. It works on every system with a POSIX shell, and for programs that know
    nothing of it. Close this only once the processes have been waited for, so that their numbers are not those of
    other processes meanwhile.
    """

    def __init__(self) -> None:
        read, self._write = os.pipe()
        try:
            # A session of its own, so that signals for this process's group do not reach it.
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath},
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
