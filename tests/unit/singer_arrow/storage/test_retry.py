"""The number of concurrent requests, and the failures that are retried."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from singer_arrow.errors import ObjectChangedError, ServiceError
from singer_arrow.storage import errors as retry
from singer_arrow.storage.errors import AdaptiveLimiter, with_retries

SLOW = "Generic S3 error: ... Server returned non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>"
BROKEN = "Generic S3 error: HTTP error: request or response body error"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.0)


def _failing(*errors: Exception) -> tuple[Callable[[], str], list[Exception]]:
    left = list(errors)

    def ask() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return ask, left


@pytest.mark.parametrize(
    "error", [OSError(SLOW), OSError(BROKEN), ServiceError("broke off"), OSError("status code: 500")]
)
def test_passing_errors_are_tried_again(error: Exception) -> None:
    ask, left = _failing(*[error] * 5)
    assert with_retries(ask, "x", limiter=AdaptiveLimiter()) == "answer"
    assert not left


@pytest.mark.parametrize(
    "error",
    [ObjectChangedError(BROKEN), OSError("status code: 404 Not Found"), OSError("status code: 403"), ValueError("?")],
)
def test_lasting_errors_are_raised_at_once(error: Exception) -> None:
    ask, left = _failing(error, error)
    with pytest.raises(type(error)):
        with_retries(ask, "x", limiter=AdaptiveLimiter())
    assert len(left) == 1


KEY = "status code: 503/TooManyRequests/<Code>SlowDown</Code>/RequestTimeout.csv"
"""A key that looks like another answer."""


@pytest.mark.parametrize(
    ("status", "code", "passes", "slows"),
    [
        (404, "NoSuchKey", False, False),
        (403, "AccessDenied", False, False),
        (412, "PreconditionFailed", False, False),
        (416, "InvalidRange", False, False),
        (400, "InvalidRequest", False, False),
        (400, "RequestTimeout", True, False),
        (500, "InternalError", True, False),
        (500, "SlowDown", True, True),
        (503, "ServiceUnavailable", True, True),
        (429, "", True, True),
    ],
)
@pytest.mark.full
def test_the_answer_decides_and_not_the_key(
    answering: tuple[list[tuple[int, str]], S3Store], status: int, code: str, passes: bool, slows: bool
) -> None:
    answers, store = answering
    answers += [(status, f"<Error><Code>{code}</Code><Key>RequestTimeout SlowDown</Key></Error>"), (200, "here")]
    limiter = AdaptiveLimiter()
    if passes:
        assert with_retries(lambda: store.get(KEY).bytes().to_bytes(), KEY, limiter=limiter) == b"here"
    else:
        with pytest.raises((OSError, BaseError)):
            with_retries(lambda: store.get(KEY), KEY, limiter=limiter)
    assert len(answers) == (not passes)
    assert (limiter.limit < retry.MAX_REQUESTS) is slows


def test_cancelled_requests_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 1e6)
    asked, over, limiter = threading.Semaphore(0), threading.Event(), AdaptiveLimiter(1)

    def ask() -> None:
        asked.release()
        raise OSError(SLOW)

    def is_needed() -> bool:
        return not over.is_set()

    with ThreadPoolExecutor(2) as pool:
        pausing = pool.submit(with_retries, ask, "x", limiter=limiter, is_needed=is_needed)
        assert asked.acquire(timeout=60)
        with limiter.permit():
            waiting = pool.submit(with_retries, ask, "y", limiter=limiter, is_needed=is_needed)
            over.set()
            for future in (pausing, waiting):
                with pytest.raises((ServiceError, OSError), match="not needed|SlowDown"):
                    future.result(60)
    assert not asked.acquire(blocking=False)


def test_a_broken_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, left = _failing(*[OSError(BROKEN)] * 50)
    with pytest.raises(OSError, match="body error"):
        with_retries(ask, "x", limiter=AdaptiveLimiter())
    assert len(left) == 50 - retry.MAX_TRIES
    monkeypatch.setattr(retry, "DEADLINE", 0.0)
    ask, left = _failing(*[OSError(SLOW)] * 50)
    with pytest.raises(OSError, match="SlowDown"):
        with_retries(ask, "x", limiter=AdaptiveLimiter())
    assert len(left) == 49


def test_requests_under_way_slow_the_limiter_down_once() -> None:
    limiter = AdaptiveLimiter(64)
    together = threading.Barrier(32)
    asked = list[int]()

    def ask(first: list[int]) -> None:
        if not first:
            first.append(1)
            together.wait(60)
            raise OSError(SLOW)
        asked.append(1)

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda _: with_retries(lambda first=[]: ask(first), "x", limiter=limiter), range(32)))  # type: ignore[misc]
    assert len(asked) == 32
    assert 16 <= limiter.limit < 20, "half of 32, and a little for each answer since"


def test_no_more_are_under_way_than_may_be() -> None:
    limiter, lock, under_way, most = AdaptiveLimiter(8), threading.Lock(), 0, 0
    calls = 0

    def ask() -> None:
        nonlocal under_way, most, calls
        with lock:
            calls += 1
            under_way += 1
            most = max(most, under_way)
            slow = calls % 50 == 1
        try:
            if slow:
                raise OSError(SLOW)
        finally:
            with lock:
                under_way -= 1

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda _: with_retries(ask, "x", limiter=limiter), range(500)))
    assert most <= 8
    assert 1 <= limiter.limit <= 8
