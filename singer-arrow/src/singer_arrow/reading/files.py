"""Fetched ranges of an object, as the random-access file that Arrow's readers take."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from singer_arrow.reading.objects import ObjectReader, Part
from singer_arrow.reading.ranges import Span
from singer_arrow.temporary import temporary_folder
from singer_arrow.urls import Url


class RangeFile:
    """A file of which some parts are in memory; others are fetched when they are read. Reads copy nothing.

    Args:
        size: Bytes of the whole file.
        parts: What is in memory.
        miss: Fetches a span that is not.
    """

    closed = False

    def __init__(self, size: int, parts: Iterable[Part], miss: Callable[[Span], Part]) -> None:
        self._size, self._position, self._miss = size, 0, miss
        ordered = sorted((part for part in parts), key=lambda part: part[0])
        self._starts = [start for start, _ in ordered]
        self._buffers = [pa.py_buffer(data) for _, data in ordered]

    def read_buffer(self, n: int) -> Any:
        """The next `n` bytes as an Arrow buffer."""
        start, end = self._position, min(self._position + n, self._size)
        self._position = end
        found, at = [], start
        while at < end:
            i = bisect_right(self._starts, at) - 1
            offset = at - self._starts[i] if i >= 0 else 0
            if i < 0 or offset >= self._buffers[i].size:
                found = [pa.py_buffer(self._miss((start, end))[1])]
                break
            found.append(self._buffers[i].slice(offset, min(end - at, self._buffers[i].size - offset)))
            at += found[-1].size
        return found[0] if len(found) == 1 else pa.py_buffer(b"".join(found))

    def read(self, n: int = -1) -> bytes:
        """The next `n` bytes."""
        data: bytes = self.read_buffer(self._size if n < 0 else n).to_pybytes()
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        """As of any file."""
        self._position = position + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        """As of any file."""
        return self._position

    def seekable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Nothing to do: the parts live as long as somebody uses them."""


@contextmanager
def random_access(reader: ObjectReader) -> Iterator[ObjectReader]:
    """The reader itself, or one of a copy on local disk where the scheme knows no ranges."""
    if reader.ranged:
        yield reader
        return
    with temporary_folder("object-") as folder:
        path = folder / "object"
        reader.download(path)
        yield ObjectReader(reader.storage, Url.parse(str(path)), budget=reader.budget)
