"""Files that are read by their footer, as those of polars, which contain no stream: `OpenFile`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from singer_arrow.compression.chunk_file import ChunkFile
from singer_arrow.formats.arrow.messages import MAGIC, Messages, blocks_of
from singer_arrow.reading.object_reader import FetchedRange, ObjectReader
from singer_arrow.reading.random_access import RangeFile, random_access
from singer_arrow.reading.range_planner import MIB, Span

_TAIL = 64 << 10
_END = 4 + len(MAGIC)  # bytes after the footer: its size and the mark


class OpenFile:
    """A file of which each message is checked before Arrow reads it; ArrowInvalid or OSError if it is broken."""

    def __init__(self, reader: ObjectReader, read: pa.ipc.IpcReadOptions | None) -> None:
        self._reader = reader
        start, end = reader.tail(_TAIL)
        self._size, self._held = start + len(end), (start, end)
        self._file = RangeFile(self._size, [(start, end)], self._fetch)
        dictionaries, self._blocks = blocks_of(self._footer())
        for block in dictionaries:
            self._check(block)
        self._opened = pa.ipc.open_file(pa.PythonFile(self._file, "r"), options=read)
        self.schema = self._opened.schema

    @classmethod
    @contextmanager
    def of(cls, reader: ObjectReader, read: pa.ipc.IpcReadOptions | None = None) -> Iterator[OpenFile]:
        """Open the file of a reader."""
        with random_access(reader) as file:
            yield cls(file, read)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the record batches."""
        for number, block in enumerate(self._blocks):
            self._check(block)
            yield self._opened.get_batch(number)

    def _footer(self) -> bytes:
        size, mark = struct.unpack("<i6s", self._read((max(0, self._size - _END), self._size)).rjust(_END, b"\0"))
        if mark != MAGIC or not 0 < size <= self._size - _END:
            msg = "the footer is broken"
            raise pa.ArrowInvalid(msg)
        return self._read((self._size - _END - size, self._size - _END))

    def _check(self, block: Span) -> None:
        def pieces() -> Iterator[bytes]:
            yield self._read(block)
            for at in range(block[1], self._size, MIB):  # its message may be longer than the footer has it
                yield self._read((at, at + MIB))

        if not 0 < block[0] < block[1] <= self._size:
            msg = "the footer is broken"
            raise pa.ArrowInvalid(msg)
        for _ in Messages(ChunkFile(pieces()), self._reader.budget.decoded.limit, self._reader.url).one():
            pass

    def _read(self, span: Span) -> bytes:
        self._file.seek(span[0])
        return self._file.read(span[1] - span[0])

    def _fetch(self, span: Span) -> FetchedRange:
        """Return a span, from the last block that was fetched if it is there."""
        start, data = self._held
        if not start <= span[0] <= span[1] <= start + len(data):
            start, data = self._held = self._reader.fetch([span])[0]
        return span[0], memoryview(data)[span[0] - start : span[1] - start]
