"""Steps of tap cases: objects that are written, runs of the tap with their faults, and what follows. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from fault_suite.small_s3 import Faults


def keys(names: str, suffix: str = ".csv") -> tuple[str, ...]:
    """Return keys of objects, one for each letter."""
    return tuple(f"in/{name}{suffix}" for name in names)


@dataclass(frozen=True)
class Objects:
    """Write objects.

    Attributes:
        keys: Keys of the objects; existing ones are overwritten.
        at: Seconds after the newest object so far; 0: in the same second; negative: late arrival.
        is_bad: Whether each object has an invalid row.
    """

    keys: tuple[str, ...]
    at: int = 1
    is_bad: bool = False


@dataclass(frozen=True)
class Break:
    """A signal at a point of a run; see `tap_victim.Points`."""

    nth: int
    when: str = "before"
    signal: signal.Signals = signal.SIGKILL
    among: str = ""

    @property
    def words(self) -> dict[str, Any]:
        """Return the keyword arguments of `tap_victim.Points`."""
        return {"nth": self.nth, "when": self.when, "signal": int(self.signal), "among": self.among}


@dataclass(frozen=True)
class Limit:
    """A limit of the process: bytes of a file, bytes of TMPDIR, open files, or bytes of memory."""

    name: str
    most: int


@dataclass(frozen=True)
class Run:
    """Run the tap.

    Attributes:
        state: Whether the run starts from the last STATE that the target wrote, or without STATE.
        fault: The fault of the run.
        settings: A name of `SETTINGS`.
        most: Number of lines after which the target is killed.
        shard: The shard that is run, which has a STATE of its own; empty: all tasks.
        plans: Whether the run only writes the plan.
    """

    state: bool = True
    fault: Break | Faults | Limit | None = None
    settings: str = ""
    most: int | None = None
    shard: str = ""
    plans: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the run reads all that there is."""
        return self.most is None and not self.shard and not self.plans


@dataclass(frozen=True)
class Wake:
    """Continue a stopped run; with `keeps`, its STATEs are kept instead of those of the runs meanwhile."""

    keeps: bool = True


@dataclass(frozen=True)
class Empty:
    """Empty the table and its ledger, so that its batches count as new."""


Step = Objects | Run | Wake | Empty
