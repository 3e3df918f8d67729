"""The lines of a target's input. Whoever waits for the next one can be interrupted, from any thread.

A tap may write nothing for hours; a load that fails meanwhile must end the run at once, not with the next message. A
thread that is blocked in a read cannot be told so, therefore the reader waits for two things at once: the input, and a
pipe of its own.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Generator, Iterable
from typing import IO

_CHUNK = 1 << 20


class Lines:
    """Reads lines until the end of the input, or until it is interrupted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._waker: int | None = None

    def interrupt(self, error: BaseException) -> None:
        """Raise an error where lines are read, at once; only the first counts."""
        with self._lock:
            if self._error is None:
                self._error = error
                if self._waker is not None:
                    os.write(self._waker, b"!")

    def of(self, source: IO[str]) -> Generator[str]:
        """The lines of an input of which nothing was read yet; without their ends, where it is a pipe or a terminal.

        Raises:
            BaseException: What `interrupt` was given.
            UnicodeDecodeError: A line is no UTF-8.
        """
        handle = _pollable(source)
        return self._plain(source) if handle is None else self._polled(handle)

    def _plain(self, source: IO[str]) -> Generator[str]:
        for line in source:
            self._check()
            yield line

    def _polled(self, handle: int) -> Generator[str]:
        """The lines of a file descriptor."""
        woken, waker = os.pipe()
        with self._lock:
            self._waker = waker
        try:
            poll = select.poll()
            for each in (handle, woken):
                poll.register(each, select.POLLIN)
            begun: list[bytes] = []  # the parts of a line that has not ended
            while True:
                self._check()
                if handle not in (ready for ready, _ in poll.poll()):
                    continue
                if not (chunk := os.read(handle, _CHUNK)):
                    break
                lines, newline, rest = chunk.rpartition(b"\n")
                if newline:
                    yield from _decoded(b"".join([*begun, lines]))
                    begun = []
                begun.append(rest)
            if rest := b"".join(begun):
                yield rest.decode()
        finally:
            with self._lock:
                self._waker = None
            os.close(woken)
            os.close(waker)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error


def _decoded(lines: bytes) -> Iterable[str]:
    """The lines as text; all that come before one that is no UTF-8."""
    try:
        return lines.decode().split("\n")
    except UnicodeDecodeError:
        return map(bytes.decode, lines.split(b"\n"))


def _pollable(source: IO[str]) -> int | None:
    """The file descriptor of an input that can keep its reader waiting; None for files, and where there is no poll."""
    try:
        handle = source.fileno()
    except (OSError, AttributeError):  # it has none
        return None
    is_file = stat.S_ISREG(os.fstat(handle).st_mode)
    return None if is_file or not hasattr(select, "poll") else handle
