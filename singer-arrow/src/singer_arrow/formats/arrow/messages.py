"""Size checks of the messages of an Arrow IPC stream before Arrow decompresses them.

Arrow trusts the size in memory with which a compressed buffer starts. See the Arrow specification, "Serialization and
Interprocess Communication"; the metadata is a FlatBuffer, of which four tables are parsed here.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator

import pyarrow as pa

from singer_arrow.compression.chunk_file import ChunkFile
from singer_arrow.errors import DataError
from singer_arrow.formats.file_errors import too_large
from singer_arrow.reading.range_planner import Span

MAX_INFLATION = 100
"""Compression ratio up to which batches are always accepted."""
MAGIC = b"ARROW1"
"""Mark at the start and at the end of a file."""
_CONTINUES = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3
LARGEST_BODY = 1 << 30
"""Maximum bytes of a record batch in a file; it is in memory at once."""


class Messages:
    """The messages of a stream, each checked before it is yielded.

    A record batch may decompress to `most` bytes, or at a ratio of up to `MAX_INFLATION`; more is a DataError.
    `has_end_mark` is whether the stream's end mark was yielded.
    """

    def __init__(self, source: ChunkFile, most: int, url: object) -> None:
        self._source, self._most, self._url = source, most, url
        self.has_end_mark = False

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the stream unchanged."""
        while (yield from self.one()):
            pass
        yield from self._source.pieces()

    def one(self) -> Generator[bytes | memoryview, None, bool]:
        """Yield the bytes of one message unchanged, and return whether another one may follow."""
        start = self._source.read(4)
        length = self._source.read(4) if start == _CONTINUES else start
        size = int.from_bytes(length, "little")
        self.has_end_mark = len(length) == 4 and size == 0
        yield start if length is start else start + length
        if not 0 < size < LARGEST_BODY:
            return False
        metadata = self._source.read(size)
        try:
            body, buffers = _body_of(metadata)
        except (struct.error, IndexError):
            yield metadata  # which Arrow refuses
            return False
        if body > LARGEST_BODY:
            reason = f"a record batch of it has {body >> 20} MB, more than the {LARGEST_BODY >> 20} MB of one at most"
            raise DataError(reason, url=self._url, hint="Write it with fewer rows in a record batch")
        yield metadata
        if not buffers or body < 0:
            yield from self._source.pieces(body)
            return True
        data = self._source.read(body)
        compressed = (at for at, length in buffers if length >= 8 and 0 <= at <= len(data) - 8)
        sizes = (struct.unpack_from("<q", data, at)[0] for at in compressed)
        total = sum(size for size in sizes if size > 0)  # -1: not compressed
        if total > self._most and total > MAX_INFLATION * len(data):
            raise too_large("a batch of rows", total, self._most, url=self._url)
        yield data
        return True


def blocks_of(footer: bytes) -> tuple[list[Span], list[Span]]:
    """Return where the dictionaries and the record batches of a file are, according to its footer."""
    try:
        table = _Table(footer, struct.unpack_from("<I", footer)[0])
        return _blocks(footer, table.inner(2)), _blocks(footer, table.inner(3))
    except (struct.error, IndexError):
        msg = "the footer is broken"
        raise pa.ArrowInvalid(msg) from None


def _blocks(footer: bytes, vector: _Table | None) -> list[Span]:
    if vector is None:
        return []
    count = struct.unpack_from("<I", footer, vector.at)[0]
    found = (struct.unpack_from("<qi4xq", footer, vector.at + 4 + 24 * i) for i in range(count))
    return [(offset, offset + metadata + body) for offset, metadata, body in found]


def _body_of(metadata: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return the size of a message's body, and offset and length of its compressed buffers."""
    table = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    kind = table.number("<B", 1)
    body: int = table.number("<q", 3)
    batch = table.inner(2) if kind in (_DICTIONARY, _BATCH) else None
    if batch is not None and kind == _DICTIONARY:
        batch = batch.inner(1)
    if batch is None or batch.inner(3) is None:
        return body, []
    vector = batch.inner(2)
    if vector is None:
        return body, []
    count = struct.unpack_from("<I", metadata, vector.at)[0]
    return body, [struct.unpack_from("<qq", metadata, vector.at + 4 + 16 * i) for i in range(count)]


class _Table:
    """A table of a FlatBuffer at an offset."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def number(self, kind: str, field: int) -> int:
        """Return a numeric field; 0 if it is missing."""
        offset = self._offset(field)
        return int(struct.unpack_from(kind, self._data, offset)[0]) if offset else 0

    def inner(self, field: int) -> _Table | None:
        """Return a field that is a table or a vector; None if it is missing."""
        offset = self._offset(field)
        return _Table(self._data, offset + struct.unpack_from("<I", self._data, offset)[0]) if offset else None

    def _offset(self, field: int) -> int:
        fields = self.at - struct.unpack_from("<i", self._data, self.at)[0]
        if 4 + 2 * field >= struct.unpack_from("<H", self._data, fields)[0]:
            return 0
        offset = struct.unpack_from("<H", self._data, fields + 4 + 2 * field)[0]
        return self.at + offset if offset else 0
