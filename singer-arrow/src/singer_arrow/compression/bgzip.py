"""Blocked gzip (bgzip), whose members contain their size and can be decompressed in parallel.

See the SAM specification, section 4.1: the subfield `BC` of a member's extra field is its size minus one; a member has
at most 64 KiB decompressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from isal import igzip_lib

from singer_arrow.compression.codecs import IsalError

HEADER_BYTES = 18
"""Bytes of the header of a member."""
MAX_MEMBER_BYTES = 64 << 10
"""Maximum decompressed bytes of a member."""
_MARK = b"\x1f\x8b\x08\x04"
_EXTRA = b"\x06\x00BC\x02\x00"


def member_size(data: Any) -> int:
    """Return the size of the member that starts with these bytes (18 or more); 0 if bgzip did not write it."""
    head = bytes(data[:HEADER_BYTES])
    if len(head) < HEADER_BYTES or head[:4] != _MARK or head[10:16] != _EXTRA:
        return 0
    size = int(struct.unpack("<H", head[16:18])[0]) + 1
    return size if size > HEADER_BYTES else 0


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive whole members: their bytes, and the end of each."""

    data: bytes
    ends: tuple[int, ...]

    def inflate(self) -> tuple[bytes, int]:
        """Decompress the members; return the bytes and the start of the first invalid member, or the end.

        An invalid member is corrupt, has more than 64 KiB, or another size than its header claims; it and all following
        bytes may still be gzip.
        """
        view, start, found = memoryview(self.data), 0, []
        for end in self.ends:
            member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            try:
                text = member.decompress(view[start:end], MAX_MEMBER_BYTES + 1)
            except (ValueError, EOFError, IsalError):
                break
            if not member.eof or member.unused_data or len(text) > MAX_MEMBER_BYTES:
                break
            found.append(text)
            start = end
        return b"".join(found), start


def member_runs(chunks: Iterable[Any], *, size: int) -> Iterator[Run | Iterator[Any]]:
    """Yield the members of a stream in runs of about `size` bytes, then an iterator over other bytes, if any.

    A truncated member belongs to the other bytes.
    """
    source, held, start = iter(chunks), b"", 0
    while True:
        while len(held) - start < size + MAX_MEMBER_BYTES and (chunk := next(source, None)) is not None:
            held, start = b"".join((memoryview(held)[start:], chunk)), 0
        ends, at = list[int](), start
        while at - start < size and 0 < (length := member_size(held[at : at + HEADER_BYTES])) <= len(held) - at:
            at += length
            ends.append(at - start)
        if ends:
            yield Run(held[start:at], tuple(ends))
            start = at
        else:
            if start < len(held):
                yield chain([held[start:]], source)
            return
