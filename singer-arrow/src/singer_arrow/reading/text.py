"""Objects of text: decompressed, in UTF-8, cut into blocks, and the blocks worked on in parallel."""

from __future__ import annotations

import codecs
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from singer_arrow.compression import TruncatedStreamError, decompress, detect
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.reading.budget import Allowance
from singer_arrow.reading.objects import ObjectReader

BLOCK = 4 << 20
"""Bytes of a block. Where batches end depends on it, and batch ids depend on that: never change it lightly."""
LONGEST_RECORD = 64 << 20
"""Bytes of one record, at most."""
_DECODED_PER_TEXT = 3  # bytes of a block and of what it becomes in memory, for each byte of text

T = TypeVar("T")
Cut = Callable[[bytes], int]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 2, "parse")


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


def blocks(chunks: Iterable[Any], cut: Cut, *, size: int = BLOCK) -> Iterator[memoryview]:
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


def ordered(blocks: Iterator[memoryview], work: Callable[[memoryview], T], allowance: Allowance) -> Iterator[T]:
    """`work` on each block, in parallel, the results in order.

    Blocks are made in a thread of their own and worked on by a pool that all readers share. One block of each
    reader is always under way; further ones while the allowance has room.

    Raises:
        Exception: What making a block or working on it raised, after the results of all blocks before it.
    """
    return _Pump(blocks, work, allowance).results()


class _Pump:
    def __init__(self, blocks: Iterator[memoryview], work: Callable[[memoryview], Any], allowance: Allowance) -> None:
        self._blocks, self._work, self._allowance = blocks, work, allowance
        self._done: queue.SimpleQueue[tuple[Future[Any], int] | BaseException | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._under_way = 0
        self._stopped = False
        self._window = 2 + (os.cpu_count() or 2)

    def results(self) -> Generator[Any]:
        thread = threading.Thread(target=self._run, name="blocks", daemon=True)
        thread.start()
        try:
            while (item := self._done.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                future, cost = item
                try:
                    yield future.result()
                finally:
                    self._release(cost)
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            thread.join()
            self._discard()

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            for block in self._blocks:
                cost = len(block) * _DECODED_PER_TEXT
                if not self._admit(cost):
                    break
                self._done.put((_pool().submit(self._work, block), cost))
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            end = error
        finally:
            if isinstance(self._blocks, Generator):
                self._blocks.close()
        self._done.put(end)

    def _admit(self, cost: int) -> bool:
        """Wait until a block may be worked on; False if nobody wants it any more."""
        with self._changed:
            while not self._stopped:
                if self._under_way == 0:
                    self._allowance.force(cost)
                elif self._under_way >= self._window or not self._allowance.try_take(cost):
                    self._changed.wait()
                    continue
                self._under_way += 1
                return True
        return False

    def _release(self, cost: int) -> None:
        self._allowance.give(cost)
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _discard(self) -> None:
        while not self._done.empty():
            if isinstance(item := self._done.get(), tuple):
                item[0].cancel()
                self._allowance.give(item[1])
