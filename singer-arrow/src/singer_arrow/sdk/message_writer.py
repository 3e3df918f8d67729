"""Write the messages of a tap as whole lines, also if a signal arrives; decide when STATE leaves.

The privates of the SDK that are used here are listed in `tests/unit/singer_arrow/sdk/test_message_writer.py`.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from singer_sdk.helpers._state import StateWriter
from singer_sdk.io_base import SingerWriter
from singer_sdk.singerlib import Message
from singer_sdk.singerlib.json import serialize_json

from singer_arrow.errors import ClosedPipeError
from singer_arrow.load.stream_ends import KEY
from singer_arrow.runtime.process import Terminated, discard_output
from singer_arrow.runtime.threads import interrupt

_ADVICE = "; the next run continues from the last STATE"
_PIPE_BYTES = 1 << 20
_WRITE_BYTES = 1 << 20  # bytes of one write, so that a signal does not wait for a slow reader to read a whole block
_SMALL_STATE, _STATE_BYTES_PER_SECOND = 16 << 10, 100 << 10


@dataclass(slots=True)
class PlainMessage(Message):
    """A message with more members than the SDK's, or others."""

    members: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the message."""
        return self.members


class LineWriter(SingerWriter):
    """Writes whole lines; a signal that arrives within a line takes effect after it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0  # bytes of all messages
        self._writing = False
        self._signal = 0
        self.has_unwound = False
        """Whether lines are written although a signal came: its exception was raised."""
        self._handle: int | None = None

    def write_message(self, message: Message) -> None:
        """Write one line; ClosedPipeError if the reader has closed the pipe."""
        self.write_lines(memoryview(f"{self.format_message(message)}\n".encode()))

    def write_lines(self, lines: memoryview) -> None:
        """Write lines that end each with a newline; ClosedPipeError if the reader has closed the pipe."""
        self.written += lines.nbytes
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
        """End the process with the exit code of a signal; a second one within a line does not wait for its end."""
        waits, self._writing, self._signal = self._writing, False, signum
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
        if self._signal and not self.has_unwound:
            raise Terminated(self._signal, _ADVICE)


class StateMessages(StateWriter):
    """Writes STATE, with marks of the ends of streams; a large one once it does not outweigh what else was written.

    STATE has the bookmarks of all streams, so that one for each stream would have a size that grows with their square.
    It is written at once up to 16 KiB, else behind as many bytes of other messages as the last one has, of which each
    second makes 100 KiB good. `write_due` follows other messages; `flush` writes the one that waits.
    """

    def __init__(self, writer: LineWriter) -> None:
        super().__init__(writer)
        self.ended: list[str] = []  # streams whose ends are to be marked
        self._writer, self._last = writer, ""
        self._waiting: Mapping[str, Any] | None = None
        self._size, self._written, self._at = 0, 0, 0.0

    def write_state(self, state: Mapping[str, Any]) -> None:
        self._waiting = state
        self.write_due()

    def write_due(self) -> None:
        """Write the STATE that waits, if any, unless it outweighs what was written since the last one."""
        written, seconds = self._writer.written - self._written, time.monotonic() - self._at
        if self._size <= _SMALL_STATE or self._size <= written + seconds * _STATE_BYTES_PER_SECOND:
            self.flush()

    def flush(self, *, has_unwound: bool = False) -> None:
        """Write the STATE that waits, if any, unless it is that which was written last and marks nothing.

        `has_unwound`: the exception of a signal that came was raised, and the STATE is written nevertheless.
        """
        self._writer.has_unwound = has_unwound
        if self._waiting is None:
            return
        value = serialize_json(self._waiting)
        if value != self._last or self.ended:
            marks = {KEY: self.ended[0] if len(self.ended) == 1 else self.ended} if self.ended else {}
            self._writer.write_message(PlainMessage({"type": "STATE", "value": self._waiting, **marks}))
        self._waiting, self.ended = None, []  # behind the message, before which a signal may have come
        self._last, self._size, self._written, self._at = value, len(value), self._writer.written, time.monotonic()


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
