"""Retries of requests to object stores, and an adaptive limit of concurrent requests."""

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
MAX_REQUESTS = 128
"""Maximum number of concurrent requests of a process."""
MAX_TRIES = 10
"""Maximum number of tries if connections break; a request that is throttled may be tried more often."""
DEADLINE = 300.0
"""Seconds after the first try in which a request is retried."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 10.0
_POLL_SECONDS = 0.2  # interval at which a waiting request checks whether its answer is still needed
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_THROTTLED = {"429", "503", "SlowDown", "TooManyRequests"}
_TRANSIENT = {"408", "425", "429", "500", "502", "503", "504", "509"}
_NOT_NEEDED = "the request was cancelled, because its answer is not needed any more"
T = TypeVar("T")


def always() -> bool:
    """Return True: the default of `is_needed`."""
    return True


class AdaptiveLimiter:
    """Limits concurrent requests; all threads of a process share one.

    The limit starts at its maximum. A throttled request halves the number of requests under way, once for all requests
    that started before it; each other answer raises the limit by 1 / limit. Rounded down, it is the number of requests
    that may be under way.
    """

    def __init__(self, maximum: int = MAX_REQUESTS) -> None:
        self.limit = float(maximum)
        self._maximum, self._busy, self._generation = maximum, 0, 0
        self._changed = threading.Condition()

    @contextmanager
    def permit(self, is_needed: Callable[[], bool] = always) -> Iterator[int]:
        """Hold a slot within the block, which gets its generation; ServiceError if `is_needed` returns False before."""
        with self._changed:
            while self._busy >= max(1, int(self.limit)):
                if not is_needed():
                    raise ServiceError(_NOT_NEEDED)
                self._changed.wait(_POLL_SECONDS)
            self._busy += 1
            generation = self._generation
        try:
            yield generation
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def succeeded(self) -> None:
        """Raise the limit after a successful request."""
        if self.limit < self._maximum:
            with self._changed:
                self.limit = min(float(self._maximum), self.limit + 1 / self.limit)
                self._changed.notify()

    def throttled(self, generation: int) -> None:
        """Halve the limit, unless it was halved after the request of `generation` started."""
        with self._changed:
            if generation == self._generation:
                self.limit, self._generation = max(1.0, min(self.limit, self._busy) / 2), generation + 1


LIMITER = AdaptiveLimiter()
"""Limiter of requests for objects and ranges; listings, HEAD and keys that only botocore reads are not limited."""


def with_retries(
    request: Callable[[], T],
    name: object,
    *,
    limiter: AdaptiveLimiter = LIMITER,
    is_needed: Callable[[], bool] = always,
    classify: Callable[[Exception], tuple[bool, bool]] | None = None,
) -> T:
    """Return the result of an idempotent request, which reads the whole body, retried after transient errors.

    Pauses are random, below a bound that doubles from 0.1 s to 10 s. No try starts later than `DEADLINE` after the
    first, apart from waiting for a permit; a single try may take 600 s (see `store_factory`). `is_needed` is checked
    every 0.2 s while waiting; if it returns False, no further try starts. `classify` returns whether an error is
    transient, and whether the service throttled the request; by default by HTTP status, and broken connections are
    transient. The error of the last try is raised.
    """
    ends, broken, bound = 0.0, 0, FIRST_PAUSE
    while True:
        with limiter.permit(is_needed) as generation:
            ends = ends or time.monotonic() + DEADLINE
            try:
                answer = request()
            except Exception as error:
                is_transient, is_throttled = (classify or _classify)(error)
                if is_throttled:
                    limiter.throttled(generation)
                broken += not is_throttled
                if not is_transient or broken >= MAX_TRIES or time.monotonic() >= ends or not is_needed():
                    raise
                logger.debug("%s is requested again: %s", name, str(error).partition("\n")[0][:200])
            else:
                limiter.succeeded()
                return answer
        _pause(random.uniform(0, bound), is_needed)  # noqa: S311 - jitter, so that not all retry at once
        bound = min(2 * bound, MAX_PAUSE)


def _pause(seconds: float, is_needed: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if not is_needed():
            raise ServiceError(_NOT_NEEDED)
        time.sleep(min(left, _POLL_SECONDS))


def _classify(error: Exception) -> tuple[bool, bool]:
    """Return whether an error is transient, and whether it is throttling.

    The text of an error also contains the key, which may look like a code; where it contains a status, obstore has
    percent-encoded the key.
    """
    from obstore import exceptions as oe

    if isinstance(error, SingerArrowError):
        return isinstance(error, ServiceError), False
    if isinstance(error, FileNotFoundError | PermissionError | oe.BaseError) and not isinstance(error, oe.GenericError):
        return False, False
    text = str(error)
    if not (status := _STATUS.search(text)):
        return "HTTP error:" in text, False
    code = found[1] if (found := _CODE.search(text)) else ""
    if status[1] == "400":  # the request body arrived too slowly
        return code == "RequestTimeout", False
    is_transient = status[1] in _TRANSIENT
    return is_transient, is_transient and not _THROTTLED.isdisjoint((status[1], code))
