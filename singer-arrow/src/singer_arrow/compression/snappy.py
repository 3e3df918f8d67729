"""The three Snappy file formats: framed, Hadoop and raw.

The framing format has CRC-32C checksums, which are not verified here; lengths are. Hadoop's files consist of blocks of
known length with one or several parts. A raw file is a single block, which is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from singer_arrow.compression.chunk_file import ChunkFile

CODECS = ("snappy", "hadoop_snappy", "raw_snappy")
_MARK = b"\xff\x06\x00\x00sNaPpY"
_FRAME = 65_536  # maximum decompressed bytes of a frame
_COMPRESSED, _PLAIN, _FIRST_SKIPPABLE = 0x00, 0x01, 0x80
_CHECKSUM = 4
_LONGEST_BLOCK = 64 << 20  # maximum bytes of a block in memory
_PIECE = 4 << 20


def decompress_snappy(chunks: Iterable[Any], codec: str) -> Iterator[bytes]:
    """Decompress a stream; EOFError if it is truncated, ValueError if it is corrupt or in another Snappy format."""
    source = ChunkFile(chunks)
    if codec == "raw_snappy":
        data = source.read(_LONGEST_BLOCK + 1)
        if len(data) > _LONGEST_BLOCK:
            msg = f"it is one block of more than {_LONGEST_BLOCK >> 20} MiB"
            raise ValueError(msg)
        return _pieces(_block(data, _LONGEST_BLOCK))
    return _framed(source) if codec == "snappy" else _hadoop(source)


def _exactly(source: ChunkFile, n: int) -> bytes:
    data = source.read(n)
    if len(data) < n:
        raise EOFError
    return data


def _framed(source: ChunkFile) -> Iterator[bytes]:
    if _exactly(source, len(_MARK)) != _MARK:
        msg = "it does not begin with the mark of framed Snappy; is it hadoop_snappy or raw_snappy?"
        raise ValueError(msg)
    while head := source.read(4):
        if len(head) < 4:
            raise EOFError
        kind, size = head[0], int.from_bytes(head[1:], "little")
        data = _exactly(source, size)
        if kind == _COMPRESSED:
            yield _block(data[_CHECKSUM:], _FRAME)
        elif kind == _PLAIN:
            yield data[_CHECKSUM:]
        elif kind < _FIRST_SKIPPABLE or (kind == _MARK[0] and data != _MARK[4:]):
            msg = f"a frame is of the unknown kind 0x{kind:02x}"
            raise ValueError(msg)


def _hadoop(source: ChunkFile) -> Iterator[bytes]:
    while head := source.read(4):
        if len(head) < 4:
            raise EOFError
        due = int.from_bytes(head, "big")
        if due > _LONGEST_BLOCK:
            msg = f"a block claims {due} bytes; is it another kind of Snappy?"
            raise ValueError(msg)
        while due:
            size = int.from_bytes(_exactly(source, 4), "big")
            if size > _LONGEST_BLOCK:
                msg = f"a part of a block claims {size} bytes; is it another kind of Snappy?"
                raise ValueError(msg)
            data = _block(_exactly(source, size), due)
            if not data:
                msg = "a part of a block is empty"
                raise ValueError(msg)
            due -= len(data)
            yield from _pieces(data)


def _block(data: bytes, limit: int) -> bytes:
    """Decompress a block of at most `limit` bytes."""
    import pyarrow as pa

    size = _length(data)
    if size > limit:
        msg = f"a block claims {size} bytes where at most {limit} may be"
        raise ValueError(msg)
    try:
        plain: bytes = pa.decompress(data, size, codec="snappy", asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from None
    return plain


def _length(data: bytes) -> int:
    """Return the decompressed length at the start of a block, a varint."""
    size = 0
    for i, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return size
    msg = "a block does not begin with its length"
    raise ValueError(msg)


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]
