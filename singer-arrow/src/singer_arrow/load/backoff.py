"""Wait between the attempts of a call that may succeed later, and log the reason from time to time."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator

LOGGED_SECONDS = 4.0
"""Pauses that are longer are logged."""
REPEATED_SECONDS = 30.0
"""Seconds of pauses after which the reason is logged again."""


class Waiting:
    """Sleep between the attempts of one call; log the reason before the first long pause, and about every 30 s."""

    def __init__(self, logger: logging.Logger, sleep: Callable[[float], None] = time.sleep) -> None:
        self._logger = logger
        self._sleep = sleep
        self._slept = 0.0
        self._due = 0.0

    def before_again(self, pause: float, why: object) -> None:
        """Sleep so many seconds before the next attempt; `why` is the error of the last one, on one line."""
        if pause > LOGGED_SECONDS and self._slept >= self._due:
            so_far = f", for {self._slept:,.0f} s so far" if self._due else ""
            self._due = self._slept + REPEATED_SECONDS
            self._logger.warning("%s; trying again%s", str(why).removesuffix("; run again"), so_far)
        self._slept += pause
        self._sleep(pause)


def pauses(
    deadline_seconds: float,
    *,
    first: float = 0.5,
    most: float = 32.0,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> Iterator[float | None]:
    """Yield the seconds to wait before each further attempt: doubled each time, randomized; None at the deadline."""
    end = clock() + deadline_seconds
    pause = first
    while clock() + pause < end:
        yield pause * (0.5 + chance() / 2)
        pause = min(most, pause * 2)
    yield None
