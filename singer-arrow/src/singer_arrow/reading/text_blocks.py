"""Text of objects: decompressed, in UTF-8, in blocks of whole records."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import Any

from singer_arrow.compression import bgzip as bgzf
from singer_arrow.compression.chunk_file import ChunkFile
from singer_arrow.compression.codecs import TruncatedStreamError, decompress, detect
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered

MAX_RECORD_BYTES = 64 << 20
"""Maximum bytes of a record."""
MAX_JOINED_BYTES = 16 << 20
"""Maximum bytes of text of small objects that are parsed together."""
Cut = Callable[[bytes], int]
_MAGIC = 16
_RUN = 256 << 10  # bytes of blocked gzip decompressed at once, to at most 10 MiB
_LOOK = 64 << 10  # bytes per search for a line end
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
    whole = chain([first], chunks)
    is_blocked = codec == "gzip" and bgzf.member_size(first)
    plain = _inflated(reader, whole) if is_blocked else decompress(whole, codec, url=reader.url)
    text = _transcode(plain, encoding, reader.url)
    return text if not start and end is None else _between(text, start, end)


def _inflated(reader: ObjectReader, chunks: Iterator[Any]) -> Iterator[Any]:
    """Decompress blocked gzip in parallel; from the first other member on, like any gzip."""
    rest = list[Iterator[Any]]()

    def whole() -> Iterator[bgzf.Run]:
        for found in bgzf.member_runs(chunks, size=_RUN):
            if not isinstance(found, bgzf.Run):
                rest.append(found)
                return
            yield found

    def cost(run: bgzf.Run) -> int:
        return len(run.data) + len(run.ends) * bgzf.MAX_MEMBER_BYTES

    results = map_ordered(whole(), lambda run: (run.data, *run.inflate()), reader.budget.decoded, cost=cost)
    with closing(results):
        for data, text, end in results:
            yield text
            if end < len(data):
                following = chain((later for later, _, _ in results), chain.from_iterable(rest))
                yield from decompress(chain([data[end:]], following), "gzip", url=reader.url)
                return
    for chunks_left in rest:
        yield from decompress(chunks_left, "gzip", url=reader.url)


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
    """Yield blocks of whole records; their boundaries depend on the text only, not on the chunks.

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
            yield memoryview(data)[:at]
            carry, want = data[at:], size
        elif want >= MAX_RECORD_BYTES:
            raise LongRecordError
        else:
            carry, want = data, want * 2


def blocks_of_lines(chunks: Iterable[Any], *, size: int) -> Iterator[memoryview]:
    """Yield blocks as `blocks` does, for records that are lines; each is a view of a whole bytes object."""
    source, carry, want = ChunkFile(chunks), b"", size
    while True:
        pieces = [memoryview(carry), *source.pieces(want - len(carry))]
        if sum(map(len, pieces)) < want:
            if data := b"".join(pieces):
                yield memoryview(data)
            return
        if not (at := _last_line_end(pieces[-1])):
            pieces = [memoryview(b"".join(pieces))]
            at = _last_line_end(pieces[-1])
        if at:
            yield memoryview(b"".join((*pieces[:-1], pieces[-1][:at])))
            carry, want = bytes(pieces[-1][at:]), size
        elif want >= MAX_RECORD_BYTES:
            raise LongRecordError
        else:
            carry, want = bytes(pieces[-1]), want * 2


def _last_line_end(text: memoryview) -> int:
    """Return the end of the last whole line; 0 if there is none."""
    for end in range(len(text), 0, -_LOOK):
        start = max(0, end - _LOOK)
        if at := bytes(text[start:end]).rfind(b"\n") + 1:
            return start + at
    return 0
