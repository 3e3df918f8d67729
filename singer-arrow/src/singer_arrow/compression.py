"""Detect the codec of a stream, and decompress it; Snappy."""

from __future__ import annotations

import bz2
import lzma
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from isal import igzip_lib

from singer_arrow.errors import ConfigError, DataError

# A sequential file over chunks of bytes: `ChunkFile`.


class ChunkFile:
    """A sequential file over chunks of bytes, split anywhere.

    A read of more than `longest` bytes, which occurs only in damaged files, is refused. `position` is that of the next
    byte; the chunks begin at the one that is given.
    """

    closed = False

    def __init__(self, chunks: Iterable[Any], *, longest: int = sys.maxsize, position: int = 0) -> None:
        self._chunks, self._longest, self.position = iter(chunks), longest, position
        self._data, self._at = memoryview(b""), 0

    def read(self, n: int) -> bytes:
        """Return the next `n` bytes, or fewer at the end."""
        if n > self._longest:
            raise OSError(f"it requests {n} bytes at once, more than {self._longest >> 20} MiB")
        return b"".join(self.pieces(n))

    def pieces(self, n: int = sys.maxsize) -> Iterator[memoryview]:
        """Yield the next `n` bytes, or fewer at the end, without a copy."""
        while n > 0:
            if self._at == len(self._data):
                chunk = next(self._chunks, None)
                if chunk is None:
                    return
                self._data, self._at = memoryview(chunk).cast("B"), 0
            piece = self._data[self._at : self._at + n]
            self._at += len(piece)
            self.position += len(piece)
            n -= len(piece)
            yield piece

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing."""


def in_pieces(chunks: Iterable[Any], size: int) -> Iterator[memoryview]:
    """Yield chunks in pieces of at most `size` bytes, without a copy."""
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        for start in range(0, len(view), size):
            yield view[start : start + size]


# The three Snappy file formats: framed, Hadoop and raw.
#
# The framing format has CRC-32C checksums, which are not verified here; lengths are. Hadoop's files consist of blocks
# of known length with one or several parts. A raw file is a single block, which is held in memory.

SNAPPY_CODECS = ("snappy", "hadoop_snappy", "raw_snappy")
_SNAPPY_MARK = b"\xff\x06\x00\x00sNaPpY"
_FRAME = 65_536  # maximum decompressed bytes of a frame
_COMPRESSED, _PLAIN, _FIRST_SKIPPABLE = 0x00, 0x01, 0x80
_CHECKSUM = 4
_LONGEST_BLOCK = 64 << 20  # maximum bytes of a block in memory
_SNAPPY_PIECE = 4 << 20


def _exactly(source: ChunkFile, n: int) -> bytes:
    data = source.read(n)
    if len(data) < n:
        raise EOFError
    return data


def _framed(source: ChunkFile) -> Iterator[bytes]:
    if _exactly(source, len(_SNAPPY_MARK)) != _SNAPPY_MARK:
        raise ValueError("it does not begin with the mark of framed Snappy; is it hadoop_snappy or raw_snappy?")
    while head := source.read(4):
        if len(head) < 4:
            raise EOFError
        kind, size = head[0], int.from_bytes(head[1:], "little")
        data = _exactly(source, size)
        if kind == _COMPRESSED:
            yield _block(data[_CHECKSUM:], _FRAME)
        elif kind == _PLAIN:
            yield data[_CHECKSUM:]
        elif kind < _FIRST_SKIPPABLE or (kind == _SNAPPY_MARK[0] and data != _SNAPPY_MARK[4:]):
            raise ValueError(f"a frame is of the unknown kind 0x{kind:02x}")


def _hadoop(source: ChunkFile) -> Iterator[memoryview]:
    while head := source.read(4):
        if len(head) < 4:
            raise EOFError
        due = int.from_bytes(head, "big")
        if due > _LONGEST_BLOCK:
            raise ValueError(f"a block claims {due} bytes; is it another kind of Snappy?")
        while due:
            size = int.from_bytes(_exactly(source, 4), "big")
            if size > _LONGEST_BLOCK:
                raise ValueError(f"a part of a block claims {size} bytes; is it another kind of Snappy?")
            data = _block(_exactly(source, size), due)
            if not data:
                raise ValueError("a part of a block is empty")
            due -= len(data)
            yield from in_pieces([data], _SNAPPY_PIECE)


def _block(data: bytes, limit: int) -> bytes:
    """Decompress a block of at most `limit` bytes."""
    import pyarrow as pa

    try:
        size, _ = read_varint(data[:5], 0)
    except IndexError:
        raise ValueError("a block does not begin with its length") from None
    if size > limit:
        raise ValueError(f"a block claims {size} bytes where at most {limit} may be")
    try:
        plain: bytes = pa.decompress(data, size, codec="snappy", asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from None
    return plain


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned integer at a position, and the position after it; IndexError if the data ends within it.

    Snappy, Avro and Protocol Buffers (ORC) have such integers.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


# Detection of codecs, and decompression of streams.
#
# Streams of several members or frames (`cat a.gz b.gz`, bgzip, pbzip2, pzstd) are read to their end. Output pieces have
# at most 4 MiB, whatever the compression ratio. For archives see `formats.zip_archive`.

SUFFIXES = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bzip2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".xz": "xz",
    ".lz4": "lz4",
    ".sz": "snappy",
    ".snappy": "snappy",
    ".zip": "zip",
    ".tar": "tar",
    ".tgz": "tar",
    ".tbz2": "tar",
    ".txz": "tar",
    ".tzst": "tar",
    ".gpg": "openpgp",
    ".pgp": "openpgp",
}
ARCHIVES = ("zip", "tar", "openpgp")
"""Members of `CODECS` that are archives of files, one file if it is encrypted."""
CODECS = ("none", *dict.fromkeys(SUFFIXES.values()), "hadoop_snappy", "raw_snappy")
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # of the first member, and of an archive without any
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")  # of data, and of the end of an empty stream
IsalError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub declares an instance
_PIECE = 1 << 20  # bytes of output at a time; more would allocate new pages each time
_FEED = 256 << 10  # bytes of input at a time; the rest after the end of a member is copied


class TruncatedStreamError(DataError):
    """A compressed stream that is truncated."""

    code = "truncated"


def detect(name: str, head: bytes = b"") -> str:
    """Detect the codec of an object by its first bytes (10 suffice), or by its suffix if none are given."""
    if not head:
        return SUFFIXES.get(_suffix(name), "none")
    if head[:3] == b"BZh" and head[4:10] in _BZIP2_BLOCKS:
        return "bzip2"
    found = next((codec for magic, codec in _MAGIC if head.startswith(magic)), "none")
    by_name = SUFFIXES.get(_suffix(name), "none")
    if found == "none" and by_name == "snappy":  # Hadoop's files have no signature
        return "hadoop_snappy"
    return "zip" if head.startswith(_ZIP) and by_name == "zip" else found


def strip_suffix(name: str) -> str:
    """Return the name without the suffix of its compression: `a.csv.gz` and `a.csv.tar.gz` -> `a.csv`."""
    suffix = _suffix(name)
    if suffix not in SUFFIXES:
        return name
    base = name[: -len(suffix)]
    if SUFFIXES[suffix] == "openpgp":
        return strip_suffix(base)
    return base[: -len(".tar")] if _suffix(base) == ".tar" else base


def archive_of(name: str) -> str | None:
    """Return the archive type of a name, also of compressed tar archives; None for other names."""
    suffix = _suffix(name)
    codec = SUFFIXES.get(suffix)
    if codec in ARCHIVES:
        return codec
    return "tar" if codec is not None and _suffix(name[: -len(suffix)]) == ".tar" else None


_SYSTEM_FILES = {".ds_store", "thumbs.db", "ehthumbs.db", "desktop.ini"}


def is_system_file(member: str) -> bool:
    """Return whether a member of an archive is one that macOS or Windows adds next to the files of a user."""
    *folders, name = member.replace("\\", "/").split("/")
    return "__MACOSX" in folders or name.startswith("._") or name.lower() in _SYSTEM_FILES


def decompress(chunks: Iterable[Any], codec: str, *, url: object = None) -> Iterator[Any]:
    """Decompress a stream of chunks, split anywhere, in pieces of at most 4 MiB (`none`: unchanged).

    Raises TruncatedStreamError or another DataError if it is truncated or corrupt, ConfigError for an unknown codec.
    """
    if codec == "none":
        return iter(chunks)
    if codec in ("zstd", "lz4"):
        return _compressed_once(_by_arrow(chunks, codec, url), codec, url)
    if codec in _MEMBERS:
        return _compressed_once(_by_members(chunks, codec, url), codec, url)
    if codec in SNAPPY_CODECS:
        return _compressed_once(_snappy(chunks, codec, url), codec, url)
    if codec in ARCHIVES:
        reason = f"it is a {codec} archive"
        raise DataError(reason, url=url, hint="This format cannot be read from archives; extract it first")
    raise ConfigError(f"compression {codec!r} is not known; use one of {', '.join(CODECS)}")


def _suffix(name: str) -> str:
    base, dot, suffix = name.lower().rpartition(".")
    return dot + suffix if base else ""


_MEMBERS: dict[str, tuple[Callable[[], Any], bytes]] = {
    "gzip": (lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), b"\x1f\x8b"),
    "bzip2": (bz2.BZ2Decompressor, b"BZh"),
    "xz": (lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), b"\xfd7zXZ\x00"),
}
"""Decompressors of a member of a stream, and how a member begins."""
_SHOWN = 20  # bytes


def _by_members(chunks: Iterable[Any], codec: str, url: object) -> Iterator[bytes]:
    (new, magic), member, is_first = _MEMBERS[codec], None, True
    begin = b""  # of a member whose mark is not complete
    try:
        for piece in in_pieces(chunks, _FEED):
            data: Any = piece
            while True:
                if member is None:
                    data, begin = (begin + bytes(data)).lstrip(b"\0"), b""  # only padding may separate members
                    if not is_first and not data.startswith(magic):
                        if not magic.startswith(data):
                            raise _trailing(codec, data, url)
                        begin = data
                        break
                    if not data:
                        break
                    member, is_first = new(), False
                if out := member.decompress(data, _PIECE):
                    yield out
                if member.eof:
                    data, member = member.unused_data, None
                elif member.needs_input:
                    break
                else:
                    data = b""
    except (OSError, ValueError, EOFError, lzma.LZMAError, IsalError) as error:
        raise corrupt_stream(codec, str(error), url) from None
    if member is not None:
        raise _truncated(codec, url)
    if begin:
        raise _trailing(codec, begin, url)


def _trailing(codec: str, data: bytes, url: object) -> DataError:
    shown = f"{data[:_SHOWN]!r}{'...' if len(data) > _SHOWN else ''}"
    reason = f"bytes follow the end of the {codec} stream that are no {codec} ({shown})"
    return DataError(reason, url=url, hint="Remove these bytes, or compress the file again")


def _compressed_once(pieces: Iterator[Any], codec: str, url: object) -> Iterator[Any]:
    """Yield the pieces of a stream; a DataError if what it holds is compressed too."""
    for number, piece in enumerate(pieces):
        if not number and (inner := detect("", bytes(piece[:10]))) != "none":
            reason = f"it is compressed twice: what {codec} holds is compressed by {inner}"
            raise DataError(reason, url=url, hint="Compress it once only")
        yield piece


def _by_arrow(chunks: Iterable[Any], codec: str, url: object) -> Iterator[bytes]:
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.PythonFile(ChunkFile(chunks), "r"), codec)
    while True:
        try:
            piece = stream.read(_FEED)  # part of the output before an error is lost
        except (OSError, pa.ArrowException) as error:
            if "Truncated" in str(error):
                raise _truncated(codec, url) from None
            raise corrupt_stream(codec, str(error), url) from None
        if not piece:
            return
        yield piece


def _snappy(chunks: Iterable[Any], codec: str, url: object) -> Iterator[Any]:
    source = ChunkFile(chunks)
    try:
        if codec == "snappy":
            yield from _framed(source)
        elif codec == "hadoop_snappy":
            yield from _hadoop(source)
        else:
            data = source.read(_LONGEST_BLOCK + 1)
            if len(data) > _LONGEST_BLOCK:
                raise corrupt_stream(codec, f"it is one block of more than {_LONGEST_BLOCK >> 20} MiB", url)
            yield from in_pieces([_block(data, _LONGEST_BLOCK)], _SNAPPY_PIECE)
    except EOFError:
        raise _truncated(codec, url) from None
    except ValueError as error:
        raise corrupt_stream(codec, str(error), url) from None


def _truncated(codec: str, url: object) -> TruncatedStreamError:
    reason = f"truncated {codec} stream: it ends before its end mark"
    return TruncatedStreamError(reason, url=url, hint="Upload the object again")


def corrupt_stream(codec: str, reason: str, url: object) -> DataError:
    """Return the error for a corrupt stream."""
    return DataError(f"corrupt {codec} stream ({reason})", url=url, hint="Upload the object again")
