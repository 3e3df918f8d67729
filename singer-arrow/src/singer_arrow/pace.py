"""How a process asks stores: as many requests at once as they take, and what fails in passing is asked again."""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from singer_arrow.errors import ServiceError, SingerArrowError

logger = logging.getLogger(__name__)
AT_ONCE = 128
"""Requests of a process under way at once, at most."""
TRIES = 10
"""How often a request is asked whose connection breaks; one that is told to slow down may be asked more often."""
DEADLINE = 180.0
"""Seconds after its first failure in which a request is asked again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_STATUS = re.compile(r"status code: (\d{3})")
_SLOW = re.compile(r"status code: (?:503|429)|SlowDown|TooManyRequests|reduce your request rate")
_PASSING = {"408", "425", "429", "500", "502", "503", "504", "509"}
T = TypeVar("T")


class Pace:
    """How many requests may be under way, shared by all who ask.

    It begins at the most. An answer that says to slow down halves what is under way, once for all requests that were
    begun before it; each other answer makes room again, for one more request after as many answers as are allowed at
    once.

    Attributes:
        limit: Requests that may be under way now, of which the fraction does not count yet.
    """

    def __init__(self, most: int = AT_ONCE) -> None:
        self.limit = float(most)
        self._most, self._busy, self._age = most, 0, 0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Wait for room, and ask within the block."""
        with self._changed:
            while self._busy >= max(1, int(self.limit)):
                self._changed.wait()
            self._busy += 1
            turn = Turn(self, self._age)
        try:
            yield turn
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def answered(self) -> None:
        """A request was answered as it should be."""
        if self.limit < self._most:
            with self._changed:
                self.limit = min(float(self._most), self.limit + 1 / self.limit)
                self._changed.notify()

    def slow_down(self, age: int) -> None:
        """A request that was begun at some age was answered that there are too many."""
        with self._changed:
            if age == self._age:
                self.limit, self._age = max(1.0, min(self.limit, self._busy) / 2), age + 1


class Turn:
    """One request's place among those under way."""

    def __init__(self, pace: Pace, age: int) -> None:
        self._pace, self._age = pace, age

    def slow_down(self) -> None:
        """The answer was that there are too many requests."""
        self._pace.slow_down(self._age)


PACE = Pace()
"""Of all requests for the bytes of objects."""


def persist(ask: Callable[[], T], name: object, *, pace: Pace = PACE) -> T:
    """What a request gives that reads and changes nothing; one that fails in passing is asked again after a pause.

    Pauses are random, below a bound that doubles from 0.1 s to 10 s.

    Args:
        ask: The whole of it, to the last byte of its body. Its errors are obstore's, or a ServiceError.
        name: What is asked for, in a log.
        pace: What it waits for.

    Raises:
        Exception: That of the last try, or the first that another try would not mend.
    """
    ends, broken, bound = 0.0, 0, _FIRST_PAUSE
    while True:
        with pace.turn() as turn:
            try:
                answer = ask()
            except Exception as error:
                told = str(error)
                is_slow = _SLOW.search(told) is not None
                if is_slow:
                    turn.slow_down()
                broken += not is_slow
                now = time.monotonic()
                ends = ends or now + DEADLINE
                if not _passes(error, told) or broken >= TRIES or now >= ends:
                    raise
                logger.debug("%s is asked for again: %s", name, told.partition("\n")[0][:200])
            else:
                pace.answered()
                return answer
        time.sleep(random.uniform(0, bound))  # noqa: S311 - so that not all ask again at once
        bound = min(2 * bound, _LONGEST_PAUSE)


def _passes(error: Exception, told: str) -> bool:
    """Whether another try may help: obstore tells of a status, or of its connection."""
    if isinstance(error, SingerArrowError):
        return isinstance(error, ServiceError)
    if found := _STATUS.search(told):
        return found[1] in _PASSING or _SLOW.search(told) is not None or "RequestTimeout" in told
    return "HTTP error:" in told
