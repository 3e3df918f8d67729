"""Processes that run on this machine, read from /proc."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def running() -> dict[int, tuple[int, str]]:
    """Return all running processes with their parents and commands."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if state != "Z":
                found[int(entry.name)] = (int(parent), command)
    return found


def family_of(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    known, family = running(), {pid}
    while more := {child for child, (parent, _) in known.items() if parent in family} - family:
        family |= more
    return family
