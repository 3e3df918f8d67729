"""File objects over fetched ranges, for Arrow and other readers of files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from singer_arrow.reading.object_reader import FetchedRange, ObjectReader
from singer_arrow.reading.range_planner import SMALL_OBJECT, Span
from singer_arrow.runtime.temporary import no_room, temporary_folder
from singer_arrow.storage.urls import Url


class RangeFile:
    """A random-access file with some ranges in memory; others are fetched when read, by `miss`. Reads do not copy."""

    closed = False

    def __init__(self, size: int, parts: Iterable[FetchedRange], miss: Callable[[Span], FetchedRange]) -> None:
        self._size, self._position, self._miss = size, 0, miss
        ordered = sorted((part for part in parts), key=lambda part: part[0])
        self._starts = [start for start, _ in ordered]
        self._buffers = [pa.py_buffer(data) for _, data in ordered]

    def read_buffer(self, n: int) -> Any:
        """Return the next `n` bytes as an Arrow buffer."""
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
        """Return the next `n` bytes."""
        data: bytes = self.read_buffer(self._size if n < 0 else n).to_pybytes()
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        """Implement the file protocol."""
        moved = position + (0, self._position, self._size)[whence]
        if moved < 0:
            msg = "the position is before the beginning of the file"
            raise OSError(msg)
        self._position = moved
        return self._position

    def tell(self) -> int:
        """Implement the file protocol."""
        return self._position

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing: the ranges are freed with their last reference."""


@contextmanager
def local_copy(reader: ObjectReader) -> Iterator[pa.NativeFile]:
    """Open a copy of the whole object: in memory below 8 MiB, else on local disk.

    For libraries that request many small ranges.
    """
    chunks, held, size = reader.chunks(), list[Any](), 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size > SMALL_OBJECT:
            break
    else:
        yield pa.BufferReader(b"".join(held))
        return
    with temporary_folder("object-") as folder:
        path = folder / "object"
        try:
            with path.open("wb") as file:
                file.writelines(held)
                held.clear()
                file.writelines(chunks)
        except OSError as error:
            raise no_room(reader.url, folder, error) from None
        with pa.OSFile(str(path)) as source:
            yield source


@contextmanager
def random_access(reader: ObjectReader) -> Iterator[ObjectReader]:
    """Yield the reader, or one of a local copy if the scheme has no range requests."""
    if reader.ranged:
        yield reader
        return
    with temporary_folder("object-") as folder:
        path = folder / "object"
        reader.download(path)
        yield ObjectReader(reader.storage, Url.parse(str(path)), budget=reader.budget)
