"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 120, or_else: str = "it did not happen in time") -> T:
    """Return what the condition gives once that is true; fail the test, in these words, if it never is.

    The limit is for a machine that does much else besides; what takes so long elsewhere has gone wrong.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail(or_else)
