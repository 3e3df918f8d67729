"""Threads beside other work, which must not hold up the end of a process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_is_finalizing = sys.is_finalizing


def join(thread: threading.Thread) -> None:
    """Wait until a daemon thread has ended; not while the interpreter ends, which stops such threads where they are."""
    if not _is_finalizing():
        thread.join()


@contextmanager
def every(seconds: float, act: Callable[[], None], *, name: str) -> Iterator[None]:
    """Call something over and over while the block runs, first after so many seconds, in a thread of that name."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            act()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        join(thread)
