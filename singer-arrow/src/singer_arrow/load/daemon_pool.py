"""Threads that run tasks and never keep the process from ending."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from singer_arrow.runtime.threads import fulfil

P = ParamSpec("P")
R = TypeVar("R")
LAST_SECONDS = 2.0
"""Seconds that a process waits at its end for a thread that uses a storage.

A Rust library that returns to an interpreter which has ended prints errors to standard error.
"""


class DaemonPool:
    """A pool of daemon threads, started as they are needed.

    The interpreter waits for the threads of a ThreadPoolExecutor when it ends, so one slow upload would hold up a
    process that must stop; these are abandoned.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], None]] | None] = queue.SimpleQueue()

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Run the function in one of the threads, in the order of submission."""
        future: Future[R] = Future()

        def task() -> None:
            if future.set_running_or_notify_cancel():
                fulfil(future, partial(function, *args, **kwargs))

        with self._lock:
            self._tasks.put((future, task))
            self._busy += 1
            if len(self._threads) < min(self._busy, self._count):
                thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def stop(self, seconds: float = 0.0) -> None:
        """Accept no further task, cancel those that wait, and wait some seconds for the threads to end theirs."""
        end = time.monotonic() + seconds
        with self._lock:
            with contextlib.suppress(queue.Empty):
                while True:
                    if waiting := self._tasks.get_nowait():
                        waiting[0].cancel()
            for _ in self._threads:
                self._tasks.put(None)
        for thread in self._threads if seconds else ():
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while (taken := self._tasks.get()) is not None:
            taken[1]()
            with self._lock:
                self._busy -= 1
