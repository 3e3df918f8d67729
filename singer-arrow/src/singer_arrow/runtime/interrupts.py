"""What a signal raises in the main thread waits until a step that must not be cut short is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_waiting: list[BaseException] = []
_depth = 0


def interrupt(error: BaseException) -> None:
    """Raise an exception from a signal handler; within `Uninterrupted`, at its end."""
    if _depth:
        _waiting.append(error)
    else:
        raise error


class Uninterrupted:
    """A block of the main thread that ends before an `interrupt` is raised; other threads get none."""

    def __enter__(self) -> None:
        global _depth  # noqa: PLW0603 - of the main thread alone
        self._is_main = threading.current_thread() is threading.main_thread()
        _depth += self._is_main

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _depth  # noqa: PLW0603
        _depth -= self._is_main
        if self._is_main and not _depth and _waiting:
            raise _waiting.pop()


class Threads(ThreadPoolExecutor):
    """An executor of threads that lives as long as the process; a signal never hits while a thread is being started.

    Python would not know the thread then, and wait for it at its end without waking it.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        with Uninterrupted():
            return super().submit(fn, *args, **kwargs)
