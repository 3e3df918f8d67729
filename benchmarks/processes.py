"""Which processes descend from a command, and how much memory they hold, read from /proc."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MEMORY_LINES = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of a process, and the most that it ever had; pages shared with others are counted in full."""

    now: int
    peak: int


def process_ids() -> set[int]:
    """The ids of all processes of this machine."""
    return {int(name) for name in os.listdir(PROC) if name.isdigit()}  # noqa: PTH208 - fifty times a second


def cpu_seconds(session: int) -> float:
    """User and system seconds of the processes of a session that are alive."""
    ticks = 0
    for pid in process_ids():
        try:
            fields = _fields(pid)
        except OSError:
            continue  # it ended since the listing
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """The fields of a process's `stat` after its name, which is in brackets and may hold spaces and brackets."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


class ProcessTree:
    """The processes that descend from some roots, also those whose parent is gone.

    A process belongs to the tree if its parent does when it is first seen, or if its parent is this process, which
    starts no others meanwhile and is the one that orphans fall to. Each process is classified once, so that a look
    costs one directory listing and one small read for each member.

    Attributes:
        seen: the ids of all members so far.

    Args:
        roots: the ids of the processes that were started.
        before: the ids of all processes that were there before them, from `process_ids`.
    """

    def __init__(self, roots: Iterable[int], before: set[int]) -> None:
        self._inside = set(roots)
        self._outside = before | {os.getpid()}
        self.seen = set(self._inside)

    def look(self) -> dict[int, Memory]:
        """The memory of every member that is alive."""
        alive = process_ids()
        self._inside &= alive
        self._outside &= alive
        # In ascending order a parent comes before its children, except after the ids wrapped around.
        for pid in sorted(alive - self._inside - self._outside):
            (self._inside if self._belongs(pid) else self._outside).add(pid)
        self.seen |= self._inside
        return dict(self._memory())

    def _belongs(self, pid: int) -> bool:
        try:
            parent = int(_fields(pid)[1])
        except OSError:
            return False
        return parent in self._inside or parent == os.getpid()

    def _memory(self) -> Iterator[tuple[int, Memory]]:
        for pid in self._inside:
            try:
                status = (PROC / str(pid) / "status").read_text()
            except OSError:
                continue  # it ended since the listing
            # A process that has ended but was not waited for has no memory, and no such lines.
            if found := dict(MEMORY_LINES.findall(status)):
                yield pid, Memory(now=int(found["VmRSS"]) * 1024, peak=int(found["VmHWM"]) * 1024)
