"""Find where rows begin in ranges of CSV, which depends on the quotes before them.

A range is scanned as if it began outside quotes. If its quotes contradict that (one opens within a value, or text
follows one that closes), it is scanned as if it began within quotes. Both may fail where quotes are irregular, as in
`5" pipe`: from the last known row on, records are then found one by one, by the rules of the parser.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.formats.csv.dialect import Dialect
from singer_arrow.formats.csv.header import CsvHeader
from singer_arrow.formats.range_scan import (
    FILE_END,
    RangeScan,
    TextScan,
    count_in,
    line_starts,
    scan_lines,
    text_point,
)
from singer_arrow.read_progress import ResumePoint
from singer_arrow.reading.range_planner import Span
from singer_arrow.reading.text_blocks import LongRecordError, blocks

Text = Callable[[int, int | None], Iterator[Any]]
"""Returns the text of a file between two bytes of it."""


def scan_csv(text: Text, dialect: Dialect, span: Span) -> RangeScan:
    """Scan a range, whatever comes before it."""
    if dialect.quote is None:
        return RangeScan(span, {False: scan_lines(text(span[0], span[1]))})
    for is_within in (False, True) if span[0] else (False,):
        if (found := _scan(text, dialect, span, is_within=is_within)) is not None:
            return RangeScan(span, {is_within: found})
    return RangeScan(span)


def csv_row_starts(text: Text, header: CsvHeader, scans: Sequence[RangeScan], *, block_bytes: int) -> list[ResumePoint]:
    """Return where the ranges of a file begin.

    Args:
        text: Returns the text of the file.
        header: Its header; the first range was scanned from there on.
        scans: Of all ranges but the last one, in order.
        block_bytes: Bytes of text that are searched for rows at once.
    """
    if header.dialect.quote is None:
        return line_starts(scans, first_line=header.lines)
    starts = [ResumePoint()]
    row = begin = text_point(header.bytes, header.lines, header.lines)
    is_within = False
    for number, scan in enumerate(scans):
        span = (begin.at, scan.span[1])
        found = scan.found.get(is_within) if span == scan.span else None
        found = found or _scan(text, header.dialect, span, is_within=is_within)
        if found is not None:
            if found.row_start is not None:
                at, lines = found.row_start
                row = text_point(span[0] + at, begin.lines + lines, header.lines)
            begin, is_within = text_point(span[1], begin.lines + found.lines, header.lines), found.ends_within
        elif (exact := _exact_row_start(text, header, row, span[1], block_bytes)) is not None:
            row = begin = exact  # the next range is scanned from there on, where it is known to be outside quotes
            is_within = False
        else:
            return [*starts, *[FILE_END] * (len(scans) - number)]
        starts.append(row)
    return starts


def _exact_row_start(text: Text, header: CsvHeader, row: ResumePoint, end: int, block_bytes: int) -> ResumePoint | None:
    """Return where the last row begins at or before a byte, from a row on; None if a quote is open for too long."""
    at, lines = row.at, row.lines
    try:
        for block in blocks(text(row.at, None), header.dialect.checked_cut, size=block_bytes):
            data = bytes(block)
            if at + len(data) > end:
                data = data[: max((r.end for r in header.dialect.records(data) if at + r.end <= end), default=0)]
            at, lines = at + len(data), lines + count_in(data, b"\n")
            if len(data) < len(block):
                break
    except LongRecordError:
        return None
    return text_point(at, lines, header.lines)


def _scan(text: Text, dialect: Dialect, span: Span, *, is_within: bool) -> TextScan | None:
    """Scan a range that begins within quotes or outside of them; None if its quotes contradict that."""
    scan = _QuotedScan(dialect, span, is_within=is_within)
    start = max(0, span[0] - 1)  # the byte before shows whether a quote opens a value
    return scan.result if scan.add_all(text(start, span[1] + 1)) else None


class _QuotedScan:
    """A scan of a range that begins within quotes or outside of them."""

    def __init__(self, dialect: Dialect, span: Span, *, is_within: bool) -> None:
        assert dialect.quote is not None
        self._quote, self._size = dialect.quote.encode(), span[1] - span[0]
        self._edges = pa.array([*b"\r\n", *dialect.delimiter.encode(), *self._quote], pa.uint8())
        self._is_within, self._begins_file = is_within, span[0] == 0
        self._at = self._lines = 0
        self._row_start: tuple[int, int] | None = None

    @property
    def result(self) -> TextScan:
        return TextScan(self._lines, self._row_start, self._is_within)

    def add_all(self, text: Iterable[Any]) -> bool:
        """Scan the text, with a byte before and one after the range; return whether its quotes are regular."""
        held = b"\n" if self._begins_file else b""
        for piece in text:
            held = b"".join((held, piece))
            if len(held) > 2:
                if not self._add(held):
                    return False
                held = held[-2:]
        return self._at == self._size or self._add(held + b"\n")

    def _add(self, data: bytes) -> bool:
        """Scan the bytes between the first and the last one of `data`; return whether their quotes are regular."""
        size = len(data) - 2
        if size <= 0:
            return True
        inner = data[1:-1]
        lines = count_in(inner, b"\n")
        if self._quote not in inner:
            if not self._is_within and (end := inner.rfind(b"\n") + 1):
                self._row_start = (self._at + end, self._lines + lines)
        elif not self._add_quoted(data, inner, lines):
            return False
        self._at, self._lines = self._at + size, self._lines + lines
        return True

    def _add_quoted(self, data: bytes, inner: bytes, lines: int) -> bool:
        every = pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])
        quotes = pc.indices_nonzero(pc.equal(every.slice(1, len(inner)), pa.scalar(self._quote[0], pa.uint8())))
        count = len(quotes)
        odd = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(b"\xaa" * (count // 8 + 1))])
        opens, closes = (odd, pc.invert(odd)) if self._is_within else (pc.invert(odd), odd)
        before = every.take(quotes.filter(opens))
        after = every.take(pc.add(quotes.filter(closes), pa.scalar(2, pa.uint64())))
        if not all(pc.all(pc.is_in(edge, self._edges)).as_py() in (True, None) for edge in (before, after)):
            return False
        end = self._last_row_end(inner, quotes)
        if end:
            self._row_start = (self._at + end, self._lines + lines - inner.count(b"\n", end))
        self._is_within ^= bool(count & 1)
        return True

    def _last_row_end(self, inner: bytes, quotes: pa.Array) -> int:
        """Return where the last row ends in bytes with quotes; 0 if none does."""
        end = len(inner)
        while (at := inner.rfind(b"\n", 0, end)) >= 0:
            before = bisect_left(quotes, at, key=lambda quote: int(quote.as_py()))
            if not self._is_within ^ bool(before & 1):
                return at + 1
            end = quotes[before - 1].as_py() if before else 0
        return 0
