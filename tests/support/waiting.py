"""Wait for another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 120, or_else: str = "it did not happen in time") -> T:
    """Return the result of a condition once it is true; fail the test with a message at the time limit.

    The limit allows for a busy machine.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail(or_else)
