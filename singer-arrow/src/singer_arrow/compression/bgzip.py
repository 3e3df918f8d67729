"""Blocked gzip, as bgzip writes it: each member tells its own size, so members can be found without inflating them.

The format is that of the specification of SAM, section 4.1: a member's extra field has a subfield `BC` that holds its
size less one; a member inflates to at most 64 KiB.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from isal import igzip_lib

HEADER_BYTES = 18
"""Bytes by which a member as bgzip writes it is known."""
MAX_MEMBER_BYTES = 64 << 10
"""Bytes of a member, inflated, at most."""
_MARK = b"\x1f\x8b\x08\x04"
_EXTRA = b"\x06\x00BC\x02\x00"
_IsalError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub says an instance


def member_size(data: Any) -> int:
    """Bytes of the member whose first 18 or more these are; 0 if it is none of bgzip's."""
    head = bytes(data[:HEADER_BYTES])
    if len(head) < HEADER_BYTES or head[:4] != _MARK or head[10:16] != _EXTRA:
        return 0
    size = int(struct.unpack("<H", head[16:18])[0]) + 1
    return size if size > HEADER_BYTES else 0


@dataclass(frozen=True, slots=True)
class Run:
    """Whole members, one after the other: their bytes, and where each of them ends."""

    data: bytes
    ends: tuple[int, ...]

    def inflate(self) -> tuple[bytes, int]:
        """What is in them, and where the first member begins that is none of bgzip's; the end if all of them are.

        Such a member is corrupt, or inflates to more than 64 KiB, or is not as long as it tells: it and what follows it
        are gzip at most.
        """
        view, start, found = memoryview(self.data), 0, []
        for end in self.ends:
            member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            try:
                text = member.decompress(view[start:end], MAX_MEMBER_BYTES + 1)
            except (ValueError, EOFError, _IsalError):
                break
            if not member.eof or member.unused_data or len(text) > MAX_MEMBER_BYTES:
                break
            found.append(text)
            start = end
        return b"".join(found), start


def member_runs(chunks: Iterable[Any], *, size: int) -> Iterator[Run | Iterator[Any]]:
    """The members of a stream in runs of some `size` bytes; last, where something else follows, the rest as it comes.

    A member that is cut short is such a rest.
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
