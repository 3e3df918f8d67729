"""What a target does about every second, whether or not a message comes."""

from __future__ import annotations

import time
import weakref
from typing import Protocol

from singer_arrow.load.checkpoint import Checkpoints
from singer_arrow.load.scheduler import Limits, LoadScheduler

_PROGRESS_SECONDS = 30.0


class Ticking(Protocol):
    """A target, as far as the ticker goes."""

    @property
    def limits(self) -> Limits:
        """Where loads end."""

    @property
    def record_age_seconds(self) -> float | None:
        """How long records wait, where that is not as long as all else."""

    @property
    def checkpoints(self) -> Checkpoints:
        """What holds STATE back."""

    def drain_old_records(self) -> None:
        """Hand over records that are old enough."""

    def report_progress(self) -> None:
        """Log the progress."""


def tick(reference: weakref.ref[Ticking], scheduler: LoadScheduler) -> None:
    """Load old groups, release a STATE that is due, and log the progress, at intervals.

    Ends with the loads, or when the target is gone; what goes wrong here ends the loads.
    """
    said = time.monotonic()
    try:
        while (target := reference()) is not None and not scheduler.is_over:
            target.drain_old_records()
            scheduler.tick()
            target.checkpoints.tick()
            if time.monotonic() - said >= _PROGRESS_SECONDS:
                target.report_progress()
                said = time.monotonic()
            ages = (target.limits.age_seconds, target.record_age_seconds)
            period = min(1.0, max(0.05, min(age for age in ages if age is not None) / 2))
            del target
            time.sleep(period)
    except BaseException as error:  # noqa: BLE001 - it is raised again where the messages are read
        scheduler.fail(error)
