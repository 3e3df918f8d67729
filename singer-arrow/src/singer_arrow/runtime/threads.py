"""Thread pools and background threads; none of them delays the end of the process or is interrupted while it starts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from singer_arrow.runtime.interrupts import Uninterrupted

T = TypeVar("T")
_is_finalizing = sys.is_finalizing


class ThreadPool(ThreadPoolExecutor):
    """A thread pool whose threads start uninterrupted by signals.

    Otherwise Python could lose track of a starting thread and wait for it at exit without waking it.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        with Uninterrupted():
            return super().submit(fn, *args, **kwargs)


@cache
def shared_pool(name: str, workers: int) -> ThreadPool:
    """Return the process-wide pool of a name."""
    return ThreadPool(workers, name)


def join_thread(thread: threading.Thread) -> None:
    """Wait until a daemon thread has ended; return at once at interpreter exit, which has stopped such threads."""
    if not _is_finalizing():
        thread.join()


@contextmanager
def repeat_every(seconds: float, action: Callable[[], None], *, name: str) -> Iterator[None]:
    """Call `action` every `seconds` seconds in a thread of that name while the block runs."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            action()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        join_thread(thread)
