"""Pools and threads, none of which keeps the process from ending; waits between the attempts of a call."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

# Threads: pools, background threads, parallel tasks with results in order, and exceptions of signal handlers.
#
# No thread delays the end of the process or is interrupted by a signal while it starts.

_pending: list[BaseException] = []
_depth = 0


def interrupt(error: BaseException) -> None:
    """Raise an exception from a signal handler; within `Uninterrupted`, at the end of the block."""
    if _depth:
        _pending.append(error)
    else:
        raise error


class Uninterrupted:
    """A block that defers `interrupt` to its end in the main thread; it has no effect in other threads."""

    def __enter__(self) -> None:
        global _depth  # noqa: PLW0603 - changed by the main thread only
        self._is_main = threading.current_thread() is threading.main_thread()
        _depth += self._is_main

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _depth  # noqa: PLW0603
        _depth -= self._is_main
        if self._is_main and not _depth and _pending:
            raise _pending.pop()


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


def fulfil(future: Future[T], action: Callable[[], T]) -> None:
    """Give a future what an action returns, or raises."""
    try:
        future.set_result(action())
    except BaseException as error:  # noqa: BLE001 - raised again by future.result()
        future.set_exception(error)


def within(seconds: float, action: Callable[[], T]) -> T:
    """Return what an action returns, which runs in a thread that is abandoned after some seconds, by TimeoutError."""
    future: Future[T] = Future()
    threading.Thread(target=fulfil, args=(future, action), name="within", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise
        raise TimeoutError(f"it took longer than {seconds:g} s") from None


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


def default_workers() -> int:
    """Return the number of usable cores, at least 2: one worker computes while another waits for the network."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, available)


def ordered_results(executor: Executor | DaemonPool, tasks: Iterable[Callable[[], T]], window: int) -> Generator[T]:
    """Run tasks and yield their results in order.

    At most `window` tasks are running or have pending results; `tasks` is consumed lazily, so it may be infinite. The
    first error is raised and cancels tasks that have not started.
    """
    pending: deque[Future[T]] = deque()
    try:
        for task in tasks:
            pending.append(executor.submit(task))
            if len(pending) >= window:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


class Stopped(Exception):  # noqa: N818 - not an error
    """Raised inside a task whose results are not needed any more."""


def ordered_streams(
    executor: Executor, tasks: Iterable[Callable[[threading.Event], Iterable[T]]], window: int
) -> Generator[Iterator[T]]:
    """Run tasks that yield many results each; yield an iterator over the results of each task, in order.

    Results are available while their task runs. At most `window` tasks are running or have pending results. When the
    caller stops or a task fails, the event passed to every task is set; long-running tasks should check it.
    """
    stop = threading.Event()
    pending: deque[_Results[T]] = deque()
    try:
        for task in tasks:
            pending.append(_Results(executor, task, stop))
            if len(pending) >= window:
                yield pending.popleft().take()
        while pending:
            yield pending.popleft().take()
    finally:
        stop.set()
        for results in pending:
            results.future.cancel()


class _Results(Generic[T]):
    def __init__(
        self, executor: Executor, task: Callable[[threading.Event], Iterable[T]], stop: threading.Event
    ) -> None:
        self._queue: queue.SimpleQueue[tuple[T] | None] = queue.SimpleQueue()
        self._stop = stop
        self.future = executor.submit(self._run, task)
        self.future.add_done_callback(lambda _: self._queue.put(None))

    def _run(self, task: Callable[[threading.Event], Iterable[T]]) -> None:
        for result in task(self._stop):
            if self._stop.is_set():
                raise Stopped
            self._queue.put((result,))

    def take(self) -> Iterator[T]:
        while (item := self._queue.get()) is not None:
            yield item[0]
        self.future.result()


# Threads that run tasks and never keep the process from ending.

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


# Wait between the attempts of a call that may succeed later, and log the reason from time to time.

LOGGED_SECONDS = 4.0
"""Pauses that are longer are logged."""
REPEATED_SECONDS = 30.0
"""Seconds of pauses after which the reason is logged again."""


class Waiting:
    """Sleep between the attempts of one call; log the reason before the first long pause, and about every 30 s."""

    def __init__(self, logger: logging.Logger, sleep: Callable[[float], None] = time.sleep) -> None:
        self._logger = logger
        self._sleep = sleep
        self._slept = 0.0
        self._due = 0.0

    def before_again(self, pause: float, why: object) -> None:
        """Sleep so many seconds before the next attempt; `why` is the error of the last one, on one line."""
        if pause > LOGGED_SECONDS and self._slept >= self._due:
            so_far = f", for {self._slept:,.0f} s so far" if self._due else ""
            self._due = self._slept + REPEATED_SECONDS
            self._logger.warning("%s; trying again%s", str(why).removesuffix("; run again"), so_far)
        self._slept += pause
        self._sleep(pause)


def pauses(
    deadline_seconds: float,
    *,
    first: float = 0.5,
    most: float = 32.0,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> Iterator[float | None]:
    """Yield the seconds to wait before each further attempt: doubled each time, randomized; None at the deadline."""
    end = clock() + deadline_seconds
    pause = first
    while clock() + pause < end:
        yield pause * (0.5 + chance() / 2)
        pause = min(most, pause * 2)
    yield None
