"""Programs whose standard error is a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence


def run_on_terminal(
    command: Sequence[str], env: Mapping[str, str], *, columns: int = 120, stdin: bytes = b""
) -> tuple[int, str]:
    """Run a program to its end, and return its exit code and what the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs, env={"TERM": "xterm-256color", **env}
    )
    os.close(theirs)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    shown = b""
    while True:
        try:
            some = os.read(ours, 1 << 16)
        except OSError:  # Linux: the other end is closed
            break
        if not some:
            break
        shown += some
    os.close(ours)
    return process.wait(), shown.decode()


def percentages(shown: str) -> list[int]:
    """Return the percentages that a terminal got, in order."""
    return [int(text) for text in re.findall(r"(\d+)%", re.sub(r"\x1b\[[\d;]*m", "", shown))]
