"""Blocks of whole records of a text file, decompressed while it is read."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from local_cloud.redshift.copy.sources import File
from local_cloud.redshift.copy.text.pieces import Load
from local_cloud.redshift.errors import RedshiftError

BLOCK = 2 << 20  # half of the largest record, so that a larger block is rare
BOM = b"\xef\xbb\xbf"

# The end of the last whole record of some bytes; 0 if there is none.
Ending = Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole records."""

    data: bytes  # line ends included
    line: int  # number of the first line, from 1


def blocks(load: Load, file: File, ending: Ending) -> Iterator[Block]:
    """Yield the file's blocks, in order, without a byte order mark."""
    line, rest = 1, b""
    with load.objects.opened(file.url) as stream:
        for at, (data, last) in enumerate(_reads(load, file, stream)):
            found = rest + (data.removeprefix(BOM) if at == 0 else data)
            end = len(found) if last else ending(found)
            if end:
                yield Block(found[:end], line)
                line += found.count(b"\n", 0, end)
            rest = found[end:]


def _reads(load: Load, file: File, stream: io.BufferedIOBase) -> Iterator[tuple[bytes, bool]]:
    """Yield the bytes of each read, and whether it is the last."""
    held: bytes | None = None
    for data in _decompressed(load, file, stream):
        if held is not None:
            yield held, False
        held = data
    yield held or b"", True


def _decompressed(load: Load, file: File, stream: io.BufferedIOBase) -> Iterator[bytes]:
    kind = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd", None: None}[load.command.compression]
    source = pa.PythonFile(stream, mode="r")
    opened = pa.CompressedInputStream(source, kind) if kind else source
    try:
        while data := opened.read(BLOCK):
            yield data
    except (pa.ArrowException, OSError) as error:
        raise RedshiftError(
            f"{(load.command.compression or 'S3').upper()} data of {file.url} cannot be read: {error}"
        ) from None


def last_line(data: bytes) -> int:
    """Return the end of the last whole line."""
    return data.rfind(b"\n") + 1


def last_unescaped_line(data: bytes) -> int:
    """Return the end of the last line that does not end in an escape."""
    end = data.rfind(b"\n")
    while end > 0 and data[end - 1 : end] == b"\\":
        end = data.rfind(b"\n", 0, end)
    return end + 1


def last_object(data: bytes) -> int:
    """Return the end of the last object that another one follows on a new line, as never inside valid JSON."""
    end = data.rfind(b"\n")
    while end >= 0:
        before, after = data[max(0, end - 64) : end].rstrip(), data[end : end + 64].lstrip()
        if before.endswith(b"}") and after.startswith(b"{"):
            return end + 1
        end = data.rfind(b"\n", 0, end)
    return 0


def last_unquoted_line(quote: bytes) -> Ending:
    """Return a function that finds the end of the last line outside of quotes."""

    def ending(data: bytes) -> int:
        end = data.rfind(b"\n")
        quotes = data.count(quote, 0, max(0, end))
        while end >= 0 and quotes % 2:
            before = data.rfind(b"\n", 0, end)
            quotes -= data.count(quote, max(0, before), end)
            end = before
        return end + 1

    return ending
