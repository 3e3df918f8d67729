"""A sequential file over chunks of bytes: `ChunkFile`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any


class ChunkFile:
    """A sequential file over chunks of bytes, split anywhere.

    A read of more than `longest` bytes, which occurs only in damaged files, is refused. `position` is that of the next
    byte; the chunks begin at the one that is given.
    """

    closed = False

    def __init__(self, chunks: Iterable[Any], *, longest: int = sys.maxsize, position: int = 0) -> None:
        self._chunks, self._longest, self.position = iter(chunks), longest, position
        self._data, self._at = memoryview(b""), 0

    def read(self, n: int) -> bytes:
        """Return the next `n` bytes, or fewer at the end."""
        if n > self._longest:
            msg = f"it requests {n} bytes at once, more than {self._longest >> 20} MiB"
            raise OSError(msg)
        return b"".join(self.pieces(n))

    def pieces(self, n: int = sys.maxsize) -> Iterator[memoryview]:
        """Yield the next `n` bytes, or fewer at the end, without a copy."""
        while n > 0:
            if self._at == len(self._data):
                chunk = next(self._chunks, None)
                if chunk is None:
                    return
                self._data, self._at = memoryview(chunk).cast("B"), 0
            piece = self._data[self._at : self._at + n]
            self._at += len(piece)
            self.position += len(piece)
            n -= len(piece)
            yield piece

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing."""
