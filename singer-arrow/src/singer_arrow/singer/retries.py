"""How long to wait before another try of what a warehouse could not do just now. Pure but for the clock."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator


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
