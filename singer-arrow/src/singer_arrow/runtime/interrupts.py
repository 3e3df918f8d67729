"""Deferral of exceptions raised by signal handlers: `interrupt`, `Uninterrupted`."""

from __future__ import annotations

import threading
from types import TracebackType

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
