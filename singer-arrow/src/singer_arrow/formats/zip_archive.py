"""Any format inside zip and tar archives: each member is a file with its own header or footer. Or in encrypted objects.

Zip members are found in the directory at the end of the archive and decompressed as streams, so memory is bounded
whatever their claimed size; for tar see `tar_archive`. Folders, empty members and files that macOS and Windows add
(`__MACOSX/`, `.DS_Store`, `Thumbs.db`) are skipped. Archives are recognised by name or the option `compression`, not by
their first bytes, because columnar formats are read from the end of a file.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
from isal import igzip_lib

from singer_arrow.compression import ARCHIVES, ChunkFile, IsalError, archive_of, is_system_file
from singer_arrow.errors import DataError, EmptyObjectError
from singer_arrow.formats.base import Format, JoiningFormat, naming_file
from singer_arrow.read_options import Decryption, ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.chunks import RangeFile, random_access
from singer_arrow.reading.objects import SMALL_OBJECT, ObjectReader
from singer_arrow.runtime.process import no_room
from singer_arrow.schema.arrow_schema import merge_all
from singer_arrow.storage.urls import Url

_TAIL = 128 << 10
_PIECE = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, and the lengths of name and extra field
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_STORED = 0
_METHODS: dict[int, Callable[[], Any]] = {
    8: lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE),
    12: bz2.BZ2Decompressor,
    95: lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
}
_SAMPLED = 5  # number of members from which a schema is inferred


class ArchiveFormat:
    """A format that also reads zip and tar archives, and whose errors name the file or member."""

    def __init__(self, inner: Format) -> None:
        self._inner = inner

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """Return the schema of a file, or the merged schemas of an archive's first five members."""
        if (kind := _archive(reader, options)) is None:
            with naming_file(reader.url):
                return self._inner.infer(reader, options, sample_bytes=sample_bytes)
        own, schemas = replace(options, compression="auto"), list[pa.Schema]()
        inner = self if kind == "openpgp" else self._inner
        with _members_of(reader, kind, options) as members:
            for member in islice(members, _SAMPLED):
                with naming_file(member.url):
                    schemas.append(inner.infer(member, own, sample_bytes=sample_bytes))
        if not schemas:
            raise _empty_archive(reader.url)
        return merge_all(schemas).with_metadata(next((s.metadata for s in schemas if s.metadata), None))

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, or of all members of an archive, which can only be read from its start."""
        if (kind := _archive(reader, options)) is None:
            with naming_file(reader.url):
                yield from self._inner.read(reader, schema, options, progress)
            return
        own, found, progress = replace(options, compression="auto"), False, progress or ReadProgress()
        inner = self if kind == "openpgp" else self._inner
        with _members_of(reader, kind, options) as members:
            for member in members:
                found, progress.resume_point, progress.rows_read = True, ResumePoint(), 0
                with naming_file(member.url):
                    for batch in inner.read(member, schema, own, progress):
                        progress.resume_point = None
                        yield batch
        if not found:
            raise _empty_archive(reader.url)

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        if not isinstance(self._inner, JoiningFormat) or any(_archive(r, options) for r in readers):
            return None
        return self._inner.join(readers, schema, options)


def _archive(reader: ObjectReader, options: ReadOptions) -> str | None:
    """Return the archive type of an object; None if it is not an archive."""
    kind = archive_of(reader.url.name)
    if options.compression == "auto" or kind == "openpgp":
        return kind
    return options.compression if options.compression in ARCHIVES else None


@contextmanager
def _members_of(reader: ObjectReader, kind: str, options: ReadOptions) -> Iterator[Iterator[ObjectReader]]:
    if kind == "openpgp":
        from singer_arrow.formats.openpgp import decrypted

        with decrypted(reader, options.decryption or Decryption()) as inner:
            yield iter([inner])
        return
    if kind == "tar":
        from singer_arrow.formats.tar_archive import tar_members

        with closing(tar_members(reader)) as members:
            yield members
        return
    with random_access(reader) as archive:
        yield zip_members(archive, reader.url)


def zip_members(archive: ObjectReader, url: Url) -> Iterator[MemberReader]:
    """Yield the members that are not empty."""
    start, data = archive.tail(_TAIL)
    size = start + len(data)
    if size <= SMALL_OBJECT:
        archive.head_bytes(size)  # cached, so that members need no requests
    file: Any = RangeFile(size, [(start, data)], lambda span: archive.fetch([span])[0])
    try:
        directory = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        reason = f"not a zip archive, or its directory is broken ({error})"
        raise DataError(reason, url=url, hint="Upload the object again, or set the stream's compression") from None
    infos = directory.infolist()
    ends = sorted({*(i.header_offset for i in infos), directory.start_dir, size})
    for info in infos:
        if not info.is_dir() and info.file_size and not is_system_file(info.filename):
            end = ends[bisect_right(ends, info.header_offset)]
            yield MemberReader(archive, info, end, Url(url.scheme, url.bucket, f"{url.key}!/{info.filename}"))


class MemberReader(ObjectReader):
    """A member of a zip archive, read in order, by its entry in the directory; the next one starts at `end`."""

    def __init__(self, archive: ObjectReader, entry: zipfile.ZipInfo, end: int, url: Url) -> None:
        super().__init__(archive.storage, url, budget=archive.budget)
        self.ranged = False
        self._archive, self._entry, self._end = archive, entry, end

    @property
    def size(self) -> int:
        """Bytes of the member according to the directory."""
        return self._entry.file_size

    def download(self, path: Path) -> int:
        """Write the member to a local file."""
        try:
            with path.open("wb") as file:
                file.writelines(self._data())
        except OSError as error:
            raise no_room(self.url, path.parent, error) from None
        return self.size

    def _sequential(self, start: int, end: int | None) -> Iterator[bytes]:
        position = 0
        for data in self._data():
            if chunk := data[max(0, start - position) : None if end is None else max(0, end - position)]:
                yield chunk
            position += len(data)

    def _first(self, n: int) -> bytes:
        held = b""
        for data in self._data():
            held += data
            if len(held) >= n:
                break
        return held[:n]

    def _data(self) -> Iterator[bytes]:
        """Yield the member's bytes, and check size and checksum against the directory."""
        due, size, checksum = self._entry, 0, 0
        for data in self._unpacked():
            size += len(data)
            checksum = zlib.crc32(data, checksum)
            if size > due.file_size:
                raise self._error(f"it has more than the {due.file_size} bytes of its directory entry")
            yield data
        if (size, checksum) != (due.file_size, due.CRC):
            raise self._error("its size or checksum differs from its directory entry")

    def _unpacked(self) -> Iterator[bytes]:
        info, end = self._entry, self._end
        if info.flag_bits & _ENCRYPTED:
            hint = "Extract it, and upload it without a password"
            raise DataError("it is encrypted, which cannot be read", url=self.url, hint=hint)
        if info.compress_type not in (_STORED, *_METHODS):
            reason = f"it is compressed by method {info.compress_type}, which cannot be read"
            raise DataError(reason, url=self.url, hint="Compress it by deflate")
        source = ChunkFile(self._archive.chunks(info.header_offset, end))
        header = source.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
            raise self._error("it is not at the offset of its directory entry")
        _, name_size, extra_size = _LOCAL_HEADER.unpack(header)
        source.read(name_size + extra_size)
        if info.header_offset + _LOCAL_HEADER.size + name_size + extra_size + info.compress_size > end:
            raise self._error("it overlaps the next member")
        sizes = (min(_PIECE, info.compress_size - at) for at in range(0, info.compress_size, _PIECE))
        packed = takewhile(bool, map(source.read, sizes))
        if info.compress_type == _STORED:
            yield from packed
            return
        try:
            yield from _unpack(packed, _METHODS[info.compress_type]())
        except (OSError, ValueError, EOFError, lzma.LZMAError, IsalError) as error:
            raise self._error(str(error)) from None

    def _error(self, reason: str) -> DataError:
        return DataError(f"corrupt member of a zip archive ({reason})", url=self.url, hint="Upload the archive again")


def _unpack(packed: Iterable[bytes], unpacker: Any) -> Iterator[bytes]:
    """Yield decompressed pieces of at most 1 MiB."""
    for piece in packed:
        data = piece
        while not unpacker.eof:
            if out := unpacker.decompress(data, _PIECE):
                yield out
            if unpacker.needs_input:
                break
            data = b""
    if not unpacker.eof:
        raise EOFError("it ends before its end")


def _empty_archive(url: object) -> EmptyObjectError:
    return EmptyObjectError(f"{url} is empty: it contains no file with content")
