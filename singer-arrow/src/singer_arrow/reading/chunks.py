"""Files over fetched ranges, for libraries that seek; blocks of whole lines."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa

from singer_arrow.compression import ChunkFile, TruncatedStreamError, decompress, detect
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.reading.objects import SMALL_OBJECT, FetchedRange, ObjectReader, Span
from singer_arrow.runtime.process import no_room, temporary_folder
from singer_arrow.storage.urls import Url

# File objects over fetched ranges, for Arrow and other readers of files.


def concatenated(parts: Sequence[Any]) -> pa.Buffer:
    """Return bytes one after another in a buffer; copies them without Python's lock, which `b"".join` holds."""
    found = pa.allocate_buffer(sum(len(part) for part in parts))
    with pa.FixedSizeBufferWriter(found) as out:
        for part in parts:
            out.write(part)
    return found


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
        return found[0] if len(found) == 1 else concatenated(found)

    def read(self, n: int = -1) -> bytes:
        """Return the next `n` bytes."""
        data: bytes = self.read_buffer(self._size if n < 0 else n).to_pybytes()
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        """Implement the file protocol."""
        moved = position + (0, self._position, self._size)[whence]
        if moved < 0:
            raise OSError("the position is before the beginning of the file")
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


# Text of objects: decompressed, in UTF-8, in blocks of whole records.

MAX_RECORD_BYTES = 64 << 20
"""Maximum bytes of a record."""
MAX_JOINED_BYTES = 16 << 20
"""Maximum bytes of text of small objects that are parsed together."""
Cut = Callable[[bytes], int]
_MAGIC = 64
PLAIN_ENCODINGS = ("utf-8", "utf-8-sig", "ascii")
"""Names of the encodings whose text is read as it is."""
_MARKS = (  # the UTF-32 marks start with those of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LONGEST_MARK = 4
_BY_ZEROS: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
}


def unpacked(reader: ObjectReader, compression: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of an object, in order; `auto`: its codec is known by name and first bytes."""
    codec = _codec(reader, compression, bytes(reader.head_bytes(_MAGIC)))
    return decompress(reader.chunks(), codec, url=reader.url)


def decoded(
    reader: ObjectReader,
    *,
    compression: str = "auto",
    encoding: str = "utf-8",
    start: int = 0,
    end: int | None = None,
) -> Iterator[Any]:
    """Yield the object's text as UTF-8 without a byte order mark, in order, split anywhere.

    UTF-8 input is not validated. With a Unicode encoding, text that starts like UTF-16 or UTF-32 is read as such. Only
    the bytes of text from `start` to `end` are yielded; others are not fetched if the object is uncompressed UTF-8.

    Raises DataError if the object is corrupt, truncated or not in that encoding.
    """
    if (start or end is not None) and (offset := text_offset(reader, compression, encoding)) is not None:
        return reader.chunks(offset + start, None if end is None else offset + end)
    chunks = reader.chunks()
    first = next(chunks, b"")
    codec = _codec(reader, compression, bytes(memoryview(first)[:_MAGIC]))
    plain = _text_only(decompress(chain([first], chunks), codec, url=reader.url), codec, reader)
    text = _transcode(plain, encoding, reader.url)
    return text if not start and end is None else _between(text, start, end)


def text_offset(reader: ObjectReader, compression: str = "auto", encoding: str = "utf-8") -> int | None:
    """Return the offset of the text in the object; None if the object is compressed or recoded."""
    head = bytes(reader.head_bytes(_MAGIC))
    plain = (
        _codec(reader, compression, head) == "none"
        and codec_name(encoding) in PLAIN_ENCODINGS
        and _detect_wide(head) is None
    )
    return len(head) - len(head.removeprefix(codecs.BOM_UTF8)) if plain else None


def _codec(reader: ObjectReader, compression: str, head: bytes) -> str:
    return detect(reader.url.name, head) if compression == "auto" else compression


_BINARY = (
    (b"PK\x05\x06", "an empty zip archive", "compression to zip"),
    (b"PK\x03\x04", "a zip archive", "compression to zip"),
    (b"\xd0\xcf\x11\xe0", "a workbook", "format to excel"),
    (b"PAR1\x15", "a Parquet file", "format to parquet"),
    (b"Obj\x01", "an Avro file", "format to avro"),
    (b"ARROW1\x00\x00", "an Arrow file", "format to arrow"),
    (b"ORC\n", "an ORC file", "format to orc"),
)
_IN_WORKBOOKS = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetypeapplication/vnd.oasis")
_NAME_IN_ZIP = 30


def _text_only(chunks: Iterator[Any], codec: str, reader: ObjectReader) -> Iterator[Any]:
    """Yield the bytes of an object, decompressed; DataError if they are no text by the first ones."""
    head = b""
    for chunk in chunks:
        head += bytes(chunk)
        if len(head) >= _MAGIC:
            break
    for mark, name, setting in _BINARY:
        if head.startswith(mark):
            is_workbook = mark.startswith(b"PK") and head.startswith(_IN_WORKBOOKS, _NAME_IN_ZIP)
            what, setting = ("a workbook", "format to excel") if is_workbook else (name, setting)  # noqa: PLW2901
            reason = f"it is {what} by its first bytes, and its name or the settings say text"
            hint = f"Set the stream's {setting}, or leave the file out"
            if codec != "none":
                reason = f"what is compressed by {codec} in it is {what} by its first bytes, not text"
                hint = "Store it as that, or leave the file out"
            raise DataError(reason, url=reader.url, hint=hint)
    yield head
    yield from chunks


def _between(chunks: Iterable[Any], start: int, end: int | None) -> Iterator[memoryview]:
    """Yield the bytes from `start` to `end`."""
    at = 0
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        if found := view[max(0, start - at) : None if end is None else max(0, end - at)]:
            yield found
        at += len(view)
        if end is not None and at >= end:
            return


def read_sample(
    reader: ObjectReader, size: int, *, compression: str = "auto", encoding: str = "utf-8"
) -> tuple[bytes, bool]:
    """Return the first `size` bytes of the object's text as UTF-8, and whether they are the whole text.

    Fetches at most `size` bytes of the object, or a small object whole.
    """
    head = reader.head_bytes(size)
    whole = len(head) < size if reader.size is None else reader.size <= len(head)
    codec = _codec(reader, compression, bytes(head[:_MAGIC]))
    found, length = [], 0
    try:
        plain = _text_only(decompress([head], codec, url=reader.url), codec, reader)
        for piece in _transcode(plain, encoding, reader.url, final=whole):
            found.append(bytes(piece))
            length += len(found[-1])
            if length > size:
                whole = False
                break
    except TruncatedStreamError:
        if whole:
            raise
    return b"".join(found)[:size], whole


def whole_text(readers: Iterable[ObjectReader], compression: str, *, encoding: str = "utf-8") -> Iterator[bytes]:
    """Yield the text of each small object (see `decoded`); stop when the total exceeds `MAX_JOINED_BYTES`."""
    size = 0
    for reader in readers:
        found = list[bytes]()
        for piece in decoded(reader, compression=compression, encoding=encoding):
            found.append(bytes(piece))
            size += len(found[-1])
            if size > MAX_JOINED_BYTES:
                return
        yield found[0] if len(found) == 1 else b"".join(found)


def codec_name(encoding: str) -> str:
    """Return the name of an encoding, of which a setting may have another spelling; ConfigError if it is unknown."""
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        msg = f"csv.encoding {encoding!r} is not known; use one of Python's, for instance latin-1, cp1252 or utf-16"
        raise ConfigError(msg) from None


def _detect_wide(head: bytes) -> str | None:
    """Detect UTF-16 and UTF-32 by the first bytes of a text; None for other encodings.

    Detects byte order marks, and UTF-16 without one by a zero byte in each of the first two characters.
    """
    if encoding := next((name for mark, name in _MARKS if head.startswith(mark)), None):
        return encoding
    zeros = [not byte for byte in head[:_LONGEST_MARK]]
    return _BY_ZEROS.get(tuple(zeros))


def _transcode(chunks: Iterator[Any], encoding: str, url: object, *, final: bool = True) -> Iterator[Any]:
    """Yield text as UTF-8 without a mark, from the encoding detected by its first bytes, or else from the given one."""
    name, head = codec_name(encoding), b""
    if name in PLAIN_ENCODINGS or name.startswith(("utf-16", "utf-32")):
        for chunk in chunks:
            head += bytes(chunk)
            if len(head) >= _LONGEST_MARK:
                break
        name = _detect_wide(head) or name
    if name in PLAIN_ENCODINGS:
        yield memoryview(head)[len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0 :]
        yield from chunks
    else:
        yield from _without_mark(_recoded(chain([head], chunks), name, url, final=final))


def _without_mark(chunks: Iterator[Any]) -> Iterator[Any]:
    head = b""
    for chunk in chunks:
        head += bytes(chunk)
        if len(head) >= len(codecs.BOM_UTF8):
            break
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from chunks


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
        msg = f"it is not text in {encoding} ({error.reason if isinstance(error, UnicodeDecodeError) else error})"
        order = ", with its byte order: utf-16-le or utf-16-be" if encoding == "utf-16" else ""
        hint = f"Set csv.encoding to the file's encoding{order}"
        raise DataError(msg, url=url, line=lines + 1, hint=hint) from None


class LongRecordError(Exception):
    """A record exceeds `MAX_RECORD_BYTES`, or its end was not found."""


def blocks(chunks: Iterable[Any], cut: Cut, *, size: int) -> Iterator[memoryview]:
    """Yield blocks of whole records, as views that copy nothing; their boundaries depend on the text only.

    `cut` returns the end of the last whole record in a text that starts with a record; 0 if there is none. A block of
    several records has at most `size` bytes. LongRecordError is raised after the blocks before the record.
    """
    source, carry, want = ChunkFile(chunks), b"", size
    while True:
        data = b"".join((carry, *source.pieces(want - len(carry))))
        if len(data) < want:
            if data:
                yield memoryview(data)
            return
        if at := cut(data):
            carry, want = data[at:], size
            yield memoryview(data)[:at]
        elif want >= MAX_RECORD_BYTES:
            raise LongRecordError
        else:
            carry, want = data, want * 2


# Sliding windows over spans that are read side by side: `Windows`.


class Windows:
    """Windows over spans that are too large for memory, such as the columns of a large Parquet row group.

    Each of the disjoint spans has at most two windows of `size` bytes in memory: the current one, and the next, which
    is being fetched. Reading backwards costs a request.
    """

    def __init__(self, spans: Iterable[Span], size: int, start: Callable[[Span], Future[FetchedRange]]) -> None:
        self._spans = sorted(spans)
        self._starts = [span[0] for span in self._spans]
        self._size, self._start = size, start
        self._held = [self._open(span[0], span[1]) for span in self._spans]

    def read(self, span: Span) -> FetchedRange:
        """Return the bytes of a span; one outside of all windowed spans costs a request."""
        i = bisect_right(self._starts, span[0]) - 1
        if i < 0 or span[1] > self._spans[i][1]:
            return self._start(span).result()
        pieces, at = list[Any](), span[0]
        while at < span[1]:
            start, data = self._window(i, at)
            pieces.append(memoryview(data)[at - start : span[1] - start])
            at += len(pieces[-1])
        return span[0], pieces[0] if len(pieces) == 1 else concatenated(pieces)

    def _window(self, i: int, at: int) -> FetchedRange:
        """Return the window of span `i` that contains the byte `at`."""
        end = self._spans[i][1]
        current, following = self._held[i]
        if following is not None and following[0][0] <= at < following[0][1]:
            current, following = following, self._next(following[0], end)
        elif not current[0][0] <= at < current[0][1]:
            current, following = self._open(at, end)
        elif following is None:
            following = self._next(current[0], end)
        self._held[i] = (current, following)
        return current[1].result()

    def _open(self, at: int, end: int) -> tuple[_Window, _Window | None]:
        span = (at, min(at + self._size, end))
        return (span, self._start(span)), None

    def _next(self, span: Span, end: int) -> _Window | None:
        following = (span[1], min(span[1] + self._size, end))
        return (following, self._start(following)) if following[0] < following[1] else None


_Window = tuple[Span, Future[FetchedRange]]
