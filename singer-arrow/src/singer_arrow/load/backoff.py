"""Wait between the tries of a call that may succeed later, and log the reason once."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator

TOLD_SECONDS = 4.0
"""Shorter pauses are not worth a line."""


class Waiting:
    """Sleep between the tries of one call; log the reason once, before the first long pause."""

    def __init__(self, logger: logging.Logger, sleep: Callable[[float], None] = time.sleep) -> None:
        self._logger = logger
        self._sleep = sleep
        self._is_told = False

    def before_again(self, pause: float, why: object) -> None:
        """Sleep.

        Args:
            pause: Seconds.
            why: What the last try failed of, in one line.
        """
        if pause > TOLD_SECONDS and not self._is_told:
            self._is_told = True
            self._logger.warning("%s; it is tried again", str(why).removesuffix("; run again"))
        self._sleep(pause)


def pauses(
    deadline_seconds: float,
    *,
    first: float = 0.5,
    most: float = 32.0,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> Iterator[float | None]:
    """How long to wait before each further try: doubling, with chance in it; None at the deadline."""
    end = clock() + deadline_seconds
    pause = first
    while clock() + pause < end:
        yield pause * (0.5 + chance() / 2)
        pause = min(most, pause * 2)
    yield None
