"""Where tasks run, and the whole scheduler: results are taken in the order of the tasks, through a bounded window."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Generic, TypeVar

from singer_arrow.runtime.interrupts import Threads

T = TypeVar("T")


def default_workers() -> int:
    """As many workers as this process may use cores, at least 2: while one computes, another waits for the network."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, available)


def threads(workers: int) -> Threads:
    """An executor of threads: pyarrow, polars, obstore and isal work without the interpreter's lock."""
    return Threads(max_workers=workers, thread_name_prefix="task")


def ordered_results(executor: Executor, tasks: Iterable[Callable[[], T]], window: int) -> Generator[T]:
    """Run tasks, and yield their results in the order of the tasks.

    At most `window` tasks are running or waiting to be taken; `tasks` is asked for the next one only then, so it may be
    endless. The first error ends it; tasks that have not begun are then cancelled.
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


class Stopped(Exception):  # noqa: N818 - it is no error: nobody wants the result any more
    """Raised inside a task whose results nobody takes any more."""


def ordered_streams(
    executor: Executor, tasks: Iterable[Callable[[threading.Event], Iterable[T]]], window: int
) -> Generator[Iterator[T]]:
    """Run tasks that give many results each; yield, in the order of the tasks, an iterator over the results of each.

    Results can be taken while their task still runs. At most `window` tasks are running or waiting to be taken. When
    the caller stops, or a task fails, the event that every task was given is set: a task that works long between two
    results looks at it.

    Args:
        executor: One of this process; results need not be picklable.
        tasks: Functions that yield results.
        window: How many tasks may be begun before the first of them is taken to its end.
    """
    stop = threading.Event()

    def started() -> Iterator[_Results[T]]:
        for task in tasks:
            yield _Results(executor, task, stop)

    pending: deque[_Results[T]] = deque()
    try:
        for results in started():
            pending.append(results)
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
