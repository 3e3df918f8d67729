"""Write messages of a tap as whole lines, also if a signal arrives.

The privates of the SDK that are used here are listed in `tests/unit/singer_arrow/sdk/test_message_writer.py`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from singer_sdk.io_base import SingerWriter
from singer_sdk.singerlib import Message

from singer_arrow.errors import ClosedPipeError
from singer_arrow.runtime.termination import Terminated
from singer_arrow.runtime.threads import interrupt
from singer_arrow.sdk.plugin import discard_output

_ADVICE = "; the next run continues from the last STATE"
_PIPE_BYTES = 1 << 20
_WRITE_BYTES = 1 << 20
"""Bytes of one write, so that a signal does not wait for a slow reader to read a whole block."""


class LineWriter(SingerWriter):
    """Writes whole lines; a signal that arrives within a line takes effect after it."""

    def __init__(self) -> None:
        super().__init__()
        self._writing = False
        self._signal = 0
        self._handle: int | None = None

    def write_message(self, message: Message) -> None:
        """Write one line; ClosedPipeError if the reader has closed the pipe."""
        with self._whole():
            super().write_message(message)

    def write_lines(self, lines: memoryview) -> None:
        """Write lines that end each with a newline; ClosedPipeError if the reader has closed the pipe."""
        with self._whole():
            try:
                handle = sys.stdout.fileno()
            except (AttributeError, io.UnsupportedOperation):  # a program has replaced it
                sys.stdout.write(str(lines, "utf-8"))
                return
            sys.stdout.flush()
            self._widen(handle)
            self._write_all(handle, lines)

    def stop(self, signum: int) -> None:
        """End the process with the exit code of a signal; a second signal does not wait for the line."""
        waits = self._writing and not self._signal
        self._signal = signum
        if not waits:
            interrupt(Terminated(signum, _ADVICE))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        self._exit_if_signalled()  # the exit may have been raised where exceptions are suppressed
        self._writing = True
        try:
            yield
        except BrokenPipeError:
            discard_output()
            raise ClosedPipeError("The target has closed the pipe; see its log for the reason") from None
        finally:
            self._writing = False
        self._exit_if_signalled()

    def _write_all(self, handle: int, lines: memoryview) -> None:
        """Write all lines, or after a signal only the rest of the current line."""
        data, at, end = lines.cast("B"), 0, lines.nbytes
        while at < end:
            at += os.write(handle, data[at : min(at + _WRITE_BYTES, end)])
            if self._signal and end == lines.nbytes:
                end = _line_end(data, at)

    def _widen(self, handle: int) -> None:
        """Increase the capacity of a pipe if possible, so that writer and reader wait less for each other."""
        if handle == self._handle:
            return
        self._handle = handle
        with suppress(ImportError, OSError):  # no Linux, no pipe, or the user's pipes hold much already
            from fcntl import F_SETPIPE_SZ, fcntl

            fcntl(handle, F_SETPIPE_SZ, _PIPE_BYTES)

    def _exit_if_signalled(self) -> None:
        if self._signal:
            raise Terminated(self._signal, _ADVICE)


def _line_end(data: memoryview, at: int) -> int:
    """Return the end of the line that contains the byte before `at`."""
    if data[at - 1] == 0x0A:
        return at
    step = 1 << 16
    for start in range(at, len(data), step):
        found = bytes(data[start : start + step]).find(b"\n")
        if found >= 0:
            return start + found + 1
    return len(data)
