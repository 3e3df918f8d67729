"""Read the lines of a target's input; waiting for the next one can be interrupted from any thread.

A tap may write nothing for hours; a load that fails meanwhile must end the run at once, not with the next message. A
thread cannot be interrupted while it is blocked in a read, so the reader polls two files: the input, and a pipe of its
own that `interrupt` writes to.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import threading
from collections.abc import Generator, Iterator
from typing import IO, Any

from singer_arrow.reading import text_blocks as limits
from singer_arrow.reading.text_blocks import LongRecordError

_CHUNK = 1 << 20
_PIPE_BYTES = 1 << 20


class InputLines:
    """Reads lines until the end of the input or until `interrupt` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.error: BaseException | None = None
        """The error that was passed to `interrupt`."""
        self._waker: int | None = None

    def interrupt(self, error: BaseException) -> None:
        """Raise an error in the thread that reads lines, at once; only the first call has an effect."""
        with self._lock:
            if self.error is None:
                self.error = error
                if self._waker is not None:
                    os.write(self._waker, b"!")

    def of(self, source: IO[str]) -> Generator[bytes]:
        """Yield whole lines with line breaks, as many at a time as are available; the last may have no line break.

        Raises the error that was passed to `interrupt`, or LongRecordError for a line longer than
        `text_blocks.MAX_RECORD_BYTES`.
        """
        handle = _pollable(source)
        begun, size = list[bytes](), 0  # the parts of a line that has not ended
        with contextlib.closing(self._plain(source) if handle is None else self._polled(handle)) as chunks:
            for chunk in chunks:
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield b"".join([*begun, memoryview(chunk)[:end]])
                    begun, size = [], 0
                if rest := chunk[end:]:
                    begun.append(rest)
                    size += len(rest)
                    if size > limits.MAX_RECORD_BYTES:
                        raise LongRecordError
        if begun:
            yield b"".join(begun)

    def _plain(self, source: IO[str]) -> Generator[bytes]:
        """Yield the bytes of a file, or of an input without a file descriptor."""
        binary: Any = getattr(source, "buffer", None)
        chunks: Iterator[bytes] = iter(lambda: binary.read(_CHUNK), b"")
        if binary is None:  # lone surrogates are reported by the reader of the line
            chunks = (line.encode(errors="surrogatepass") for line in source)
        for chunk in chunks:
            self._check()
            yield chunk

    def _polled(self, handle: int) -> Generator[bytes]:
        """Yield the bytes of a file descriptor as they arrive."""
        woken, waker = os.pipe()
        with self._lock:
            self._waker = waker
        try:
            # a pipe of larger capacity lets writer and reader wait less for each other
            with contextlib.suppress(ImportError, AttributeError, OSError):  # only Linux can, and it may not allow it
                import fcntl

                fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            poll = select.poll()
            for each in (handle, woken):
                poll.register(each, select.POLLIN)
            while True:
                self._check()
                if handle not in (ready for ready, _ in poll.poll()):
                    continue
                if not (chunk := os.read(handle, _CHUNK)):
                    break
                yield chunk
        finally:
            with self._lock:
                self._waker = None
            os.close(woken)
            os.close(waker)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def _pollable(source: IO[str]) -> int | None:
    """Return the file descriptor of a pipe or terminal; None for files, and on systems without poll."""
    try:
        handle = source.fileno()
    except (OSError, AttributeError):  # it has none
        return None
    is_file = stat.S_ISREG(os.fstat(handle).st_mode)
    return None if is_file or not hasattr(select, "poll") else handle
