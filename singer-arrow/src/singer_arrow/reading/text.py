"""Objects of text: decompressed, in UTF-8, and cut into blocks."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from singer_arrow.compression import TruncatedStreamError, decompress, detect
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.reading.objects import ObjectReader

LONGEST_RECORD = 64 << 20
"""Bytes of one record, at most."""
Cut = Callable[[bytes], int]


def decoded(reader: ObjectReader, *, compression: str = "auto", encoding: str = "utf-8") -> Iterator[Any]:
    """The object's text as bytes of UTF-8 without a byte order mark, in order, cut anywhere.

    UTF-8 itself is not checked here.

    Args:
        reader: The object.
        compression: A codec, or `auto`: told by the first bytes.
        encoding: Any of Python's.

    Raises:
        EmptyObjectError: The object holds no byte.
        DataError: It is corrupt or truncated, or not in that encoding.
        ConfigError: There is no such encoding.
    """
    chunks = reader.chunks()
    first = next(chunks, b"")
    codec = detect(reader.url.name, bytes(memoryview(first)[:16])) if compression == "auto" else compression
    return _transcode(decompress(_chain(first, chunks), codec, url=reader.url), encoding, reader.url)


def sample(
    reader: ObjectReader, size: int, *, compression: str = "auto", encoding: str = "utf-8"
) -> tuple[bytes, bool]:
    """The first `size` bytes of the object's text, as `decoded` gives them, and whether they are all there is.

    No more than `size` bytes of the object are asked for (but small objects whole).
    """
    head = reader.head_bytes(size)
    whole = reader.size is not None and reader.size <= len(head)
    codec = detect(reader.url.name, bytes(head[:16])) if compression == "auto" else compression
    found, length = [], 0
    try:
        for piece in _transcode(decompress([head], codec, url=reader.url), encoding, reader.url, final=whole):
            found.append(bytes(piece))
            length += len(found[-1])
            if length > size:
                whole = False
                break
    except TruncatedStreamError:
        if whole:
            raise
    return b"".join(found)[:size], whole


def _chain(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _transcode(chunks: Iterator[Any], encoding: str, url: object, *, final: bool = True) -> Iterator[Any]:
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        msg = f"csv.encoding {encoding!r} is not known; use one of Python's, for instance latin-1, cp1252 or utf-16"
        raise ConfigError(msg) from None
    if name in ("utf-8", "utf-8-sig", "ascii"):
        return _without_mark(chunks)
    return _without_mark(_recoded(chunks, name, url, final=final))


def _without_mark(chunks: Iterable[Any]) -> Iterator[Any]:
    rest, head = iter(chunks), b""
    for chunk in rest:
        head += bytes(chunk)
        if len(head) >= len(codecs.BOM_UTF8):
            break
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from rest


def _recoded(chunks: Iterator[Any], encoding: str, url: object, *, final: bool) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 0
    try:
        for chunk in chunks:
            text = decoder.decode(bytes(chunk)).encode()
            lines += text.count(b"\n")
            yield text
        if final:
            yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        where = lines + 1
        msg = f"it is not text in {encoding} ({error.reason if isinstance(error, UnicodeDecodeError) else error})"
        raise DataError(msg, url=url, line=where, hint="Set csv.encoding to the file's encoding") from None


class LongRecordError(Exception):
    """A record is longer than `LONGEST_RECORD`, or its end was not found."""


def blocks(chunks: Iterable[Any], cut: Cut, *, size: int) -> Iterator[memoryview]:
    """The text in blocks of whole records; where they end depends on the text alone, not on how it was cut before.

    Args:
        chunks: The text.
        cut: Where the last whole record ends in some text that begins with one; 0 if it holds no whole one.
        size: Bytes of a block, at most, unless one record is longer.

    Raises:
        LongRecordError: After the blocks before the record.
    """
    source, carry, want = _Source(chunks), b"", size
    while True:
        data = b"".join((carry, *source.take(want - len(carry))))
        if len(data) < want:
            if data:
                yield memoryview(data)
            return
        if at := cut(data):
            yield memoryview(data)[:at]
            carry, want = data[at:], size
        elif want >= LONGEST_RECORD:
            raise LongRecordError
        else:
            carry, want = data, want * 2


class _Source:
    """Chunks, taken by the number of bytes."""

    def __init__(self, chunks: Iterable[Any]) -> None:
        self._chunks, self._left = iter(chunks), memoryview(b"")

    def take(self, n: int) -> Iterator[memoryview]:
        """The next `n` bytes, or fewer at the end."""
        while n > 0:
            if not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    return
                self._left = memoryview(chunk).cast("B")
            taken, self._left = self._left[:n], self._left[n:]
            n -= len(taken)
            yield taken
