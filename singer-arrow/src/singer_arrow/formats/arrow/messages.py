"""Size checks of the messages of an Arrow IPC stream before Arrow decompresses them.

Arrow trusts the size in memory with which a compressed buffer starts. See the Arrow specification, "Serialization and
Interprocess Communication"; the metadata is a FlatBuffer, of which three tables are parsed here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from singer_arrow.formats.file_errors import too_large
from singer_arrow.reading.random_access import ChunkFile

MAX_INFLATION = 100
"""Compression ratio up to which batches are always accepted."""
_CONTINUES = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3
_LARGEST_BODY = 1 << 30


def check_messages(source: ChunkFile, most: int, url: object) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a stream unchanged.

    Raises:
        DataError: A batch decompresses to more than `most` bytes, at a ratio above `MAX_INFLATION`.
    """
    while len(start := source.read(4)) == 4:
        length = source.read(4) if start == _CONTINUES else start
        yield start if length is start else start + length
        size = int.from_bytes(length, "little")
        if not 0 < size < _LARGEST_BODY:
            break
        yield (metadata := source.read(size))
        try:
            body, buffers = _body_of(metadata)
        except (struct.error, IndexError):
            break
        if not buffers or not 0 <= body <= _LARGEST_BODY:
            yield from source.pieces(body)
            continue
        data = source.read(body)
        _check(data, buffers, most, url)
        yield data
    else:
        yield start
    yield from source.pieces()


def _check(body: bytes, buffers: list[tuple[int, int]], most: int, url: object) -> None:
    sizes = (
        struct.unpack_from("<q", body, at)[0] for at, length in buffers if length >= 8 and 0 <= at <= len(body) - 8
    )
    total = sum(size for size in sizes if size > 0)  # -1: not compressed
    if total > most and total > MAX_INFLATION * len(body):
        raise too_large("a batch of rows", total, most, url=url)


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
