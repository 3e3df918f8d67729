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
DEADLINE = 300.0
"""Seconds since it was first asked in which a request is asked again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_LOOK = 0.2  # seconds after which one who waits looks whether the answer is still wanted
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_SLOW = {"429", "503", "SlowDown", "TooManyRequests"}
_PASSING = {"408", "425", "429", "500", "502", "503", "504", "509"}
T = TypeVar("T")


def always() -> bool:
    """It is wanted."""
    return True


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
    def turn(self, wanted: Callable[[], bool] = always) -> Iterator[Turn]:
        """Wait for room, and ask within the block.

        Raises:
            ServiceError: It is not `wanted` any more, and there is no room.
        """
        with self._changed:
            while self._busy >= max(1, int(self.limit)):
                if not wanted():
                    raise ServiceError(_UNWANTED)
                self._changed.wait(_LOOK)
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


_UNWANTED = "nobody waits for the answer any more"


def persist(
    ask: Callable[[], T],
    name: object,
    *,
    pace: Pace = PACE,
    wanted: Callable[[], bool] = always,
    passing: Callable[[Exception], tuple[bool, bool]] | None = None,
) -> T:
    """What a request gives that reads and changes nothing; one that fails in passing is asked again after a pause.

    Pauses are random, below a bound that doubles from 0.1 s to 10 s. No try begins later than `DEADLINE` after the
    first, but for what it waits for its turn, so the whole takes at most that and what a single try may take (600 s:
    see `stores`).

    Args:
        ask: The whole of it, to the last byte of its body. Its errors are obstore's, or a ServiceError.
        name: What is asked for, in a log.
        pace: What it waits for.
        wanted: Whether anybody waits for the answer. Looked at several times a second while it waits itself; once
            nobody does, it is not asked again.
        passing: Returns whether another try may help after an error, and whether the service asks to slow down;
            by default its status decides, or that the connection broke.

    Raises:
        Exception: That of the last try, or the first that another try would not mend.
    """
    ends, broken, bound = 0.0, 0, _FIRST_PAUSE
    while True:
        with pace.turn(wanted) as turn:
            ends = ends or time.monotonic() + DEADLINE
            try:
                answer = ask()
            except Exception as error:
                passes, is_slow = (passing or _told_by)(error)
                if is_slow:
                    turn.slow_down()
                broken += not is_slow
                if not passes or broken >= TRIES or time.monotonic() >= ends or not wanted():
                    raise
                logger.debug("%s is asked for again: %s", name, str(error).partition("\n")[0][:200])
            else:
                pace.answered()
                return answer
        _pause(random.uniform(0, bound), wanted)  # noqa: S311 - so that not all ask again at once
        bound = min(2 * bound, _LONGEST_PAUSE)


def _pause(seconds: float, wanted: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if not wanted():
            raise ServiceError(_UNWANTED)
        time.sleep(min(left, _LOOK))


def _told_by(error: Exception) -> tuple[bool, bool]:
    """Whether another try may help, and whether there were too many requests: a status tells, or a connection.

    Texts hold the key too, which may be called `SlowDown`; where they hold a status, obstore has coded the key.
    """
    from obstore import exceptions as oe

    if isinstance(error, SingerArrowError):
        return isinstance(error, ServiceError), False
    if isinstance(error, FileNotFoundError | PermissionError | oe.BaseError) and not isinstance(error, oe.GenericError):
        return False, False
    told = str(error)
    if not (status := _STATUS.search(told)):
        return "HTTP error:" in told, False
    code = found[1] if (found := _CODE.search(told)) else ""
    if status[1] == "400":  # that a body came too slowly
        return code == "RequestTimeout", False
    passes = status[1] in _PASSING
    return passes, passes and not _SLOW.isdisjoint((status[1], code))
