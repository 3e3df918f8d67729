"""Delays between retries."""

from __future__ import annotations

import itertools
import logging

import pytest

from singer_arrow.runtime.threads import Waiting, pauses


def test_pauses_double_up_to_a_limit_and_end() -> None:
    now = itertools.count()
    waits = list(pauses(10, first=1, most=4, clock=lambda: next(now), chance=lambda: 1.0))
    assert waits == [1, 2, 4, 4, 4, None]
    assert list(pauses(0)) == [None]


def test_pauses_hold_chance() -> None:
    first = [next(pauses(100, first=8)) for _ in range(50)]
    assert all(4 <= (p or 0) <= 8 for p in first)
    assert len(set(first)) > 10


def test_the_first_long_pause_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    slept = list[float]()
    waiting = Waiting(logging.getLogger("target"), slept.append)
    for number, pause in enumerate((0.5, 1.0, 4.0, 4.1, 32.0)):
        assert caplog.messages == (["busy 3; trying again"] if number > 3 else [])
        waiting.before_again(pause, f"busy {number}; run again")
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert slept == [0.5, 1.0, 4.0, 4.1, 32.0]


def test_a_long_wait_is_a_line_about_every_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting(logging.getLogger("target"), lambda _: None)
    for _ in range(8):
        waiting.before_again(16.0, "down")
    assert [m.partition(", for ")[2] for m in caplog.messages] == ["", "32 s so far", "64 s so far", "96 s so far"]
