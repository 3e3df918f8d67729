"""Tar archives, also compressed: each regular file is read as an object.

An archive is read once, in order; each member is copied to local disk while it is read. Folders, links, empty members
and files that macOS and Windows add (`._name`, `.DS_Store`, `Thumbs.db`) are skipped. A truncated or damaged archive is
an error, even between two members.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from singer_arrow.compression import ARCHIVES, ChunkFile, decompress, detect, is_system_file
from singer_arrow.errors import DataError
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.runtime.process import no_room, temporary_folder
from singer_arrow.storage.urls import Url

_PIECE = 1 << 20
_LARGEST = 1 << 20  # bytes of an extended header
_MOST_IN_A_ROW = 100
_EXTENDED = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)


class TarMember(ObjectReader):
    """A member of an archive, which is a file on local disk while it is read."""

    def __init__(self, archive: ObjectReader, path: Path, url: Url) -> None:
        super().__init__(archive.storage, url, budget=archive.budget)
        self.ranged = False
        self._path = path

    @property
    def size(self) -> int:
        """Bytes of the member."""
        return self._path.stat().st_size

    def download(self, path: Path) -> int:
        """Copy the member to another local file."""
        try:
            shutil.copyfile(self._path, path)
        except OSError as error:
            raise no_room(self.url, path.parent, error) from None
        return self.size

    def _sequential(self, start: int, end: int | None) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            file.seek(start)
            left = (self.size if end is None else end) - start
            while left > 0 and (data := file.read(min(_PIECE, left))):
                left -= len(data)
                yield data

    def _first(self, n: int) -> bytes:
        with self._path.open("rb") as file:
            return file.read(n)


class _Source(ChunkFile):
    """The bytes of an archive, with the last read."""

    last = b""

    def read(self, n: int) -> bytes:
        self.last = super().read(n)
        return self.last

    def is_over(self, at: int) -> bool:
        """Return whether only the end mark follows the byte `at`, which is within the last read."""
        rest, length = self.last[at - (self.position - len(self.last)) :], 0
        while rest:
            if rest.strip(b"\0"):
                return False
            length += len(rest)
            rest = super().read(_PIECE)
        return length >= tarfile.BLOCKSIZE


def _headers_of(url: Url) -> type[tarfile.TarInfo]:
    """Return a class of headers that refuses extended ones that are large or many, which tarfile would read whole."""

    class Header(tarfile.TarInfo):
        in_a_row = 0

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
            made = super().frombuf(buf, encoding, errors)
            cls.in_a_row = cls.in_a_row + 1 if made.type in _EXTENDED else 0
            if cls.in_a_row > _MOST_IN_A_ROW or (cls.in_a_row and made.size > _LARGEST):
                raise _broken(
                    url, f"an extended header has {made.size:,} bytes, or more than {_MOST_IN_A_ROW} follow one another"
                )
            return made

    return Header


def tar_members(reader: ObjectReader) -> Generator[TarMember]:
    """Yield the members that are not empty; each can be read until the next one is requested."""
    codec = detect(reader.url.name, bytes(reader.head_bytes(16)))
    chunks: Iterator[Any] = reader.chunks()
    source = _Source(chunks if codec in ARCHIVES else decompress(chunks, codec, url=reader.url))
    with temporary_folder("archive-") as folder:
        try:
            with tarfile.open(fileobj=source, mode="r|", tarinfo=_headers_of(reader.url)) as archive:  # type: ignore[call-overload]
                for info in archive:
                    if not info.isfile() or not info.size or is_system_file(info.name):
                        continue
                    path = _extract(archive, info, folder / "member", reader.url)
                    name = info.name.encode(errors="replace").decode()
                    yield TarMember(
                        reader, path, Url(reader.url.scheme, reader.url.bucket, f"{reader.url.key}!/{name}")
                    )
                if not source.is_over(archive.offset):
                    raise _broken(reader.url, "it is cut or damaged between two members")
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise _broken(reader.url, str(error)) from None


def _extract(archive: tarfile.TarFile, info: tarfile.TarInfo, path: Path, url: Url) -> Path:
    data = archive.extractfile(info)
    assert data is not None
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(data, file, _PIECE)
    except OSError as error:
        raise no_room(url, path.parent, error) from None
    if path.stat().st_size != info.size:
        raise _broken(url, f"the member {info.name!r} ends before its end")
    return path


def _broken(url: Url, why: str) -> DataError:
    reason = f"not a tar archive, or it is broken ({why})"
    return DataError(reason, url=url, hint="Upload the object again, or set the stream's compression")
