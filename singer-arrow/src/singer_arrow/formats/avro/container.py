"""Avro container files: a header with the schema, then blocks of encoded rows, each followed by the file's marker.

Blocks are decompressed and joined as bytes, without decoding rows.
See the Avro specification, "Object Container Files".
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats.file_errors import too_large
from singer_arrow.formats.varint import read_varint

MAGIC = b"Obj\x01"
MARKER = bytes.fromhex("5e1f8a0c77d24b3f9a6c21e0b4d8f356")
"""Marker of files that we write; constant, so that the same rows give the same file."""
_LARGEST_BLOCK, _PIECE = 1 << 30, 4 << 20


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a container file."""

    schema: dict[str, Any]
    codec: str
    marker: bytes


class Source(Protocol):
    """A source of bytes that returns fewer than requested only at its end."""

    def read(self, n: int) -> bytes:
        """Return the next `n` bytes."""
        ...


def write_header(schema: dict[str, Any], codec: str) -> bytes:
    """Return the header of a container with the marker `MARKER`."""
    metadata = {"avro.codec": codec.encode(), "avro.schema": json.dumps(schema).encode()}
    out = [MAGIC, _long(len(metadata))]
    for key, value in metadata.items():
        out += [_long(len(key)), key.encode(), _long(len(value)), value]
    return b"".join([*out, _long(0), MARKER])


def write_block(rows: int, data: bytes | memoryview, codec: str) -> bytes:
    """Return a block of `rows` encoded rows."""
    packed = compress_block(data, codec)
    return b"".join((_long(rows), _long(len(packed)), packed, MARKER))


def read_header(source: Source, url: object = None) -> Header:
    """Read the header; a DataError if it is invalid or truncated."""
    if _take(source, 4, url) != MAGIC:
        msg = "it is not an Avro file"
        raise DataError(msg, url=url)
    metadata: dict[str, bytes] = {}
    while count := _read_long(source, url):
        if count < 0:  # a negative count is followed by the size of the entries in bytes
            _read_long(source, url)
        for _ in range(abs(count)):
            key = _take(source, _read_long(source, url), url).decode()
            metadata[key] = _take(source, _read_long(source, url), url)
    try:
        schema = json.loads(metadata["avro.schema"])
    except (KeyError, ValueError):
        msg = "its header holds no schema"
        raise DataError(msg, url=url) from None
    return Header(schema, metadata.get("avro.codec", b"null").decode(), _take(source, 16, url))


def read_blocks(
    source: Source, header: Header, url: object = None, *, most: int = _LARGEST_BLOCK
) -> Iterator[tuple[int, bytes]]:
    """Yield the following blocks, decompressed: number of rows, and their bytes, of which `most` are allowed."""
    while (first := source.read(1)) != b"":
        rows = _read_long(source, url, first)
        size = _read_long(source, url)
        if not (rows >= 0 and 0 <= size <= _LARGEST_BLOCK):
            raise _damaged(url)
        data = _take(source, size, url)
        if _take(source, 16, url) != header.marker:
            raise _damaged(url)
        yield rows, decompress_block(data, header.codec, url, most=most)


def split_blocks(container: memoryview, start: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the blocks of an uncompressed container in memory from `start`, without a copy."""
    while start < len(container):
        rows, start = _long_at(container, start)
        size, start = _long_at(container, start)
        yield rows, container[start : start + size]
        start += size + 16


def header_size(container: memoryview) -> int:
    """Return the offset of the first block of a container in memory."""
    at = len(MAGIC)
    while True:
        count, at = _long_at(container, at)
        if not count:
            return at + 16
        for _ in range(2 * count):
            size, at = _long_at(container, at)
            at += size


def compress_block(data: bytes | memoryview, codec: str) -> bytes:
    """Compress a block; a ConfigError if the codec is not supported."""
    if codec == "null":
        return bytes(data)
    if codec == "deflate":
        squeezer = zlib.compressobj(1, wbits=-15)
        return squeezer.compress(data) + squeezer.flush()
    if codec == "snappy":  # the specification adds the checksum of the uncompressed bytes
        packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
        return packed + zlib.crc32(data).to_bytes(4, "big")
    if codec == "zstandard":
        squeezed: bytes = pa.Codec("zstd", compression_level=1).compress(data, asbytes=True)
        return squeezed
    msg = f"Avro files are not written with the codec {codec!r}; use null, deflate, snappy or zstandard"
    raise ConfigError(msg)


def decompress_block(data: bytes, codec: str, url: object = None, *, most: int = _LARGEST_BLOCK) -> bytes:
    """Decompress a block; a DataError if it is damaged or above `most` bytes, soon after which this stops."""
    try:
        plain = _decompressed(data, codec, most + 1)
    except (zlib.error, OSError, ValueError, IndexError, EOFError, lzma.LZMAError):
        raise _damaged(url) from None
    if plain is None:
        msg = f"its blocks are compressed with the codec {codec!r}, which is not known"
        raise DataError(msg, url=url)
    if len(plain) > most:
        raise too_large("a block of rows", len(plain), most, url=url)
    return plain


def _decompressed(data: bytes, codec: str, most: int) -> bytes | None:
    """Return the first `most` bytes of a block, verified if it has no more; None if the codec is unknown."""
    match codec:
        case "null":
            return data
        case "deflate":
            return _inflated(zlib.decompressobj(wbits=-15), data, most)
        case "snappy":
            size, _ = read_varint(memoryview(data), 0)
            if size >= most:
                return bytes(most)
            plain: bytes = pa.Codec("snappy").decompress(data[:-4], decompressed_size=size, asbytes=True)
            if zlib.crc32(plain).to_bytes(4, "big") != data[-4:]:
                msg = "its checksum is another"
                raise ValueError(msg)
            return plain
        case "zstandard":
            stream, found, left = pa.CompressedInputStream(pa.BufferReader(data), "zstd"), list[bytes](), most
            while left > 0 and (piece := stream.read(min(left, _PIECE))):  # it makes room for all that is requested
                found.append(piece)
                left -= len(piece)
            return b"".join(found)
        case "bzip2":
            return _inflated(bz2.BZ2Decompressor(), data, most)
        case "xz":
            return _inflated(lzma.LZMADecompressor(), data, most)
    return None


def _inflated(unpacker: Any, data: bytes, most: int) -> bytes:
    plain: bytes = unpacker.decompress(data, most)
    if len(plain) < most and not unpacker.eof:
        msg = "it ends before its end"
        raise EOFError(msg)
    return plain


def repack(header: Header, blocks: Iterable[tuple[int, bytes]], schema: dict[str, Any] | None = None) -> bytes:
    """Return a container of uncompressed blocks, optionally with another schema of the same encoding."""
    return b"".join(
        (write_header(schema or header.schema, "null"), *(write_block(rows, data, "null") for rows, data in blocks))
    )


def _damaged(url: object) -> DataError:
    return DataError("a block of the Avro file is damaged or broken off", url=url, hint="Write the file again")


def _take(source: Source, n: int, url: object) -> bytes:
    data = source.read(n) if n > 0 else b""
    if n < 0 or len(data) != n:
        raise _damaged(url)
    return data


def _read_long(source: Source, url: object, first: bytes = b"") -> int:
    value = shift = 0
    byte = first or _take(source, 1, url)
    while True:
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        byte = _take(source, 1, url)


def _long_at(data: memoryview, at: int) -> tuple[int, int]:
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _long(value: int) -> bytes:
    """Encode a number as a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
