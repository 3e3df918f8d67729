"""Divide a file into ranges that are read independently: what a scan of a range finds, and where the ranges begin.

A file is divided at bytes that its size alone decides. The rows of a range are those from the last row that begins at
or before its first byte, up to that of the next range. Which row that is can depend on all that comes before, as a line
break within quotes ends no row. So ranges are scanned first, each for itself and all at once; then
`DivisibleFormat.row_starts` combines the scans, in order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from singer_arrow.read_progress import ResumePoint
from singer_arrow.reading.range_planner import Span

FILE_END = ResumePoint(at=sys.maxsize)
"""The end of a file; ranges after the last row begin there."""
SCAN_BYTES = 32 << 20
"""Memory of the scan of a range, at most."""
_PIECE = 1 << 20
_SHORT = 64 << 10  # bytes below which a call of Arrow costs more than it saves


@dataclass(frozen=True, slots=True)
class TextScan:
    """What a range of a text holds.

    `row_start` is the offset of the last start of a row in the range or at its end, and the line breaks before it, both
    relative to the range; None if no row starts there.
    """

    lines: int  # line breaks
    row_start: tuple[int, int] | None
    ends_within: bool = False  # ends within quotes


@dataclass(frozen=True, slots=True)
class RangeScan:
    """The bytes of a range, and what was found for a start outside quotes (False) and within quotes (True).

    One is missing where that start is unlikely, or where very many quotes follow each other.
    """

    span: Span
    found: Mapping[bool, TextScan] = field(default_factory=dict)


def divide(size: int, count: int) -> list[Span]:
    """Divide the bytes of a file into ranges of about one size."""
    ends = [size * number // count for number in range(count + 1)]
    return list(pairwise(ends))


def undivided(count: int) -> list[ResumePoint]:
    """Return where the ranges of a file begin that cannot be read from its middle: the first one holds all rows."""
    return [ResumePoint(), *[FILE_END] * (count - 1)]


def range_bounds(starts: Sequence[ResumePoint], number: int) -> tuple[ResumePoint, ResumePoint | None] | None:
    """Return the points between which a range is read, None for the file's end; None if the range has no row."""
    start, end = starts[number], starts[number + 1] if number + 1 < len(starts) else FILE_END
    return None if start.at == end.at else (start, None if end == FILE_END else end)


def line_starts(scans: Iterable[RangeScan], *, first_line: int = 0) -> list[ResumePoint]:
    """Return where the ranges of a text begin whose rows are its lines; `scans` are of all ranges but the last one."""
    starts, lines = [ResumePoint()], first_line
    for scan in scans:
        found = scan.found[False]
        starts.append(starts[-1])
        if found.row_start is not None:
            at, before = found.row_start
            starts[-1] = text_point(scan.span[0] + at, lines + before, first_line)
        lines += found.lines
    return starts


def text_point(at: int, lines: int, first_line: int) -> ResumePoint:
    """Return the point after some bytes and lines of a text; each line after the first ones counts as a row."""
    return ResumePoint(max(0, lines - first_line), at, lines)


def scan_lines(text: Iterable[Any]) -> TextScan:
    """Scan a range of a text whose rows are its lines."""
    at = lines = 0
    row_start: tuple[int, int] | None = None
    for data in pieces_of(text):
        lines += count_byte(data, b"\n")
        if end := data.rfind(b"\n") + 1:
            row_start = (at + end, lines)
        at += len(data)
    return TextScan(lines, row_start)


def pieces_of(text: Iterable[Any]) -> Iterator[bytes]:
    """Yield a text in pieces of at most 1 MiB."""
    for chunk in text:
        view = memoryview(chunk).cast("B")
        for start in range(0, len(view), _PIECE):
            yield bytes(view[start : start + _PIECE])


def count_byte(text: bytes, character: bytes, start: int = 0, end: int | None = None) -> int:
    """Return how often a byte occurs in `text[start:end]`; releases the GIL for a long text."""
    size = (len(text) if end is None else end) - start
    if size < _SHORT:
        return text.count(character, start, start + max(0, size))
    import pyarrow.compute as pc

    found = pa.Array.from_buffers(pa.uint8(), size, [None, pa.py_buffer(text)], offset=start)
    return int(pc.equal(found, pa.scalar(character[0], pa.uint8())).true_count)
