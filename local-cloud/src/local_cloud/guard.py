"""The guard of the command of `local-cloud run`, which ends its process group: `python -m local_cloud.guard`.

The guard is the leader of the group, so the group exists before the command does, and its number is not reused
while the guard lives. The guard waits for the end of its standard input, which is the end of local-cloud.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from local_cloud.lifeline import Ready

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
