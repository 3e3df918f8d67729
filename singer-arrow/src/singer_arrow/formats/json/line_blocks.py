"""Lines in blocks, where lines that are too long are left out and told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from singer_arrow.formats.json.bad_rows import Fault
from singer_arrow.reading import text_blocks as limits
from singer_arrow.reading.text_blocks import blocks

_KEPT = 1 << 20


def last_line_end(data: bytes) -> int:
    """Where the last whole line of a text ends."""
    return data.rfind(b"\n") + 1


class LongLine(bytes):
    """The beginning of a line that is too long; a block of its own. `size` is that of the whole line."""

    size: int

    def fault(self) -> Fault:
        """What is wrong with it."""
        return Fault(1, too_long(", of which no more than the first MiB is kept"), text=bytes(self))


def too_long(more: str = "") -> str:
    """What is wrong with a line that is too long."""
    return f"the line is longer than {limits.MAX_RECORD_BYTES >> 20} MiB{more}; is each record on a line of its own?"


def blocks_without_long_lines(chunks: Iterable[Any], *, size: int) -> Iterator[memoryview]:
    """As `reading.text.blocks` of lines; one that is too long becomes a block that is a view of a LongLine.

    A block after a long line begins as if the text began there.
    """
    head, length = b"", 0  # of a long line that has begun

    def cut(data: bytes) -> int:
        if length:
            return data.find(b"\n") + 1 or len(data)
        end = last_line_end(data)
        return len(data) if not end and len(data) >= limits.MAX_RECORD_BYTES else end

    for block in blocks(chunks, cut, size=size):
        rest = block
        if length or (len(block) >= limits.MAX_RECORD_BYTES and b"\n" not in bytes(block)):
            end = bytes(block).find(b"\n") + 1
            head, length, rest = head or bytes(block[:_KEPT]), length + (end or len(block)), block[end or len(block) :]
            if end:
                yield _told(head, length)
                head, length = b"", 0
        if rest:
            yield rest
    if length:
        yield _told(head, length)


def _told(head: bytes, size: int) -> memoryview:
    line = LongLine(head)
    line.size = size
    return memoryview(line)
