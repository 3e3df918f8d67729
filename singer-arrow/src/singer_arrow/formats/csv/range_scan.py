"""Find where rows begin in ranges of CSV, which depends on the quotes before them.

A range is scanned as if it began outside quotes, then as if it began within. Where all quotes are regular in one of the
two (one opens at the beginning of a field and closes at its end), their number decides, which is fast. Otherwise both
scans are done by the rules of the parser.

The end of a range never divides a run of quotes: the whole run belongs to the range before it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.formats.csv.dialect import Dialect
from singer_arrow.formats.csv.header import CsvHeader
from singer_arrow.formats.range_scan import (
    FILE_END,
    RangeScan,
    TextScan,
    count_byte,
    line_starts,
    pieces_of,
    scan_lines,
    text_point,
)
from singer_arrow.read_progress import ResumePoint
from singer_arrow.reading.range_planner import Span
from singer_arrow.reading.text_blocks import MAX_RECORD_BYTES

Text = Callable[[int, int | None], Iterator[Any]]
"""Returns the text of a file between two bytes of it."""
LONGEST_RUN = 4096
"""Longest run of quotes at the end of a range or of a piece; with a longer one the range is not scanned."""

TAIL_BYTES = 64 << 10
"""The last row end of a piece is searched for in this many bytes at its end first."""


def scan_csv(text: Text, dialect: Dialect, span: Span) -> RangeScan:
    """Scan a range, whatever comes before it."""
    if dialect.quote is None:
        return RangeScan(span, {False: scan_lines(text(*span))})
    for is_within in (False, True):
        found = _scan(text, dialect, span, is_within=is_within)
        if found is None:
            return RangeScan(span)
        if found.is_regular:
            return RangeScan(span, {is_within: found.result})
    exact = {is_within: _scan(text, dialect, span, is_within=is_within, exact=True) for is_within in (False, True)}
    return RangeScan(span, {is_within: scan.result for is_within, scan in exact.items() if scan is not None})


def csv_row_starts(text: Text, header: CsvHeader, scans: Sequence[RangeScan]) -> list[ResumePoint]:
    """Return where the ranges of a file begin; the first scan begins behind the header, the last range has none."""
    dialect = header.dialect
    if dialect.quote is None:
        return line_starts(scans, first_line=header.lines)
    starts, is_within, lines = [ResumePoint()], False, header.lines
    row = text_point(header.bytes, header.lines, header.lines)
    for number, scan in enumerate(scans):
        found = scan.found.get(is_within)
        if found is None and (again := _scan(text, dialect, scan.span, is_within=is_within, exact=True)) is not None:
            found = again.result
        if found is not None and found.row_start is not None:
            at, before = found.row_start
            row = text_point(scan.span[0] + at, lines + before, header.lines)
        if found is None or scan.span[1] - row.at > MAX_RECORD_BYTES:  # such a row is read by other rules
            return [*starts, *[FILE_END] * (len(scans) - number)]
        lines, is_within = lines + found.lines, found.ends_within
        starts.append(row)
    return starts


def _scan(
    text: Text, dialect: Dialect, span: Span, *, is_within: bool = False, exact: bool = False
) -> _QuotedScan | None:
    """Scan a range; None if very many quotes follow each other."""
    scan = _QuotedScan(dialect, span[1] - span[0], is_within=is_within, exact=exact)
    start = max(0, span[0] - 1)  # the byte before shows whether a quote opens a field
    pieces = pieces_of(text(start, span[1] + LONGEST_RUN))
    return scan if scan.add_all(pieces if span[0] else chain([b"\n"], pieces)) else None


class _QuotedScan:
    """A scan of a range that begins within quotes or outside of them.

    It `is_regular` if each quote opens or closes a field; always, if the scan is exact.
    """

    def __init__(self, dialect: Dialect, size: int, *, is_within: bool, exact: bool) -> None:
        assert dialect.quote is not None
        quote, delimiter = dialect.quote.encode(), dialect.delimiter.encode()
        self._quote, self._left, self._exact = quote, size, exact
        self._edges = pa.array([*b"\r\n", *delimiter, *quote], pa.uint8())
        q, d = re.escape(quote), re.escape(delimiter)
        text, opens = rb"[^%b]*+(?:%b%b[^%b]*+)*+" % (q, q, q, q), rb"[\r\n%b]%b" % (d, q)
        self._rest = re.compile(rb"%b(%b?)" % (text, q))
        # The quote comes first, so that it is searched for fast; then the byte before it is examined.
        self._field = re.compile(rb"%b(?<=%b)%b" % (q, opens, self._rest.pattern))
        self._closed = re.compile(rb"(?:[^%b]++|%b(?:(?<=%b)%b%b|(?<!%b)))*+" % (q, q, opens, text, q, opens))
        self.is_regular, self._is_within, self._before = True, is_within, b""
        self._at = self._lines = 0
        self._row_start: tuple[int, int] | None = None

    @property
    def result(self) -> TextScan:
        return TextScan(self._lines, self._row_start, self._is_within)

    def add_all(self, text: Iterator[bytes]) -> bool:
        """Scan a text from the byte before the range on; return False if very many quotes follow each other.

        It ends at the first quote that is not regular, unless the scan is exact.
        """
        held = b""
        while len(held) < 2 * LONGEST_RUN and (piece := next(text, None)) is not None:
            held += piece
        run = len(held) - len(held.lstrip(self._quote))
        begin = max(1, run)  # a run of quotes that the start of the range divides is of the range before
        self._before, held = held[begin - 1 : begin], held[begin:]
        self._at, self._left = begin - 1, self._left - (begin - 1)
        for piece in text:
            body = held.rstrip(self._quote)
            if len(held) - len(body) > LONGEST_RUN:
                return False
            if len(held) < self._left:
                if body and not self._add(body, b""):
                    return True
                held = held[len(body) :]
            held += piece
        end = min(len(held), max(0, self._left))
        while 0 < end < len(held) and held[end - 1 : end + 1] == 2 * self._quote:
            end += 1
        if end - self._left >= LONGEST_RUN:
            return False
        if end:
            self._add(held[:end], held[end : end + 1])
        return True

    def _add(self, body: bytes, after: bytes) -> bool:
        """Scan bytes that end with no quote, or else have `after` behind them; return whether they are regular."""
        lines = count_byte(body, b"\n")
        if self._quote not in body:
            end = 0 if self._is_within else body.rfind(b"\n") + 1
        elif self._exact:
            end = self._exact_row_end(self._before + body)
        else:
            end = self._regular_row_end(b"".join((self._before, body, after or b"\n")), len(body))
        if end:
            self._row_start = (self._at + end, self._lines + lines - body.count(b"\n", end))
        self._at, self._left, self._lines = self._at + len(body), self._left - len(body), self._lines + lines
        self._before = body[-1:]
        return self.is_regular

    def _regular_row_end(self, data: bytes, size: int) -> int:
        """Return where the last row ends in the bytes between the first and the last one; 0 if none does."""
        every = pa.Array.from_buffers(pa.uint8(), size + 2, [None, pa.py_buffer(data)])
        quotes = pc.indices_nonzero(pc.equal(every.slice(1, size), pa.scalar(self._quote[0], pa.uint8())))
        count = len(quotes)
        odd = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(b"\xaa" * (count // 8 + 1))])
        opens, closes = (odd, pc.invert(odd)) if self._is_within else (pc.invert(odd), odd)
        before = every.take(quotes.filter(opens))
        after = every.take(pc.add(quotes.filter(closes), pa.scalar(2, pa.uint64())))
        self.is_regular = all(pc.all(pc.is_in(edge, self._edges)).as_py() is not False for edge in (before, after))
        if not self.is_regular:
            return 0
        at, positions = size, memoryview(quotes.buffers()[1]).cast("Q")
        while (at := data.rfind(b"\n", 1, at + 1) - 1) >= 0:
            number = bisect_left(positions, at, 0, count)  # of quotes before the line break
            if self._is_within == bool(number & 1):
                break
            at = positions[number - 1] if number else -1
        self._is_within ^= bool(count & 1)
        return max(0, at + 1)

    def _exact_row_end(self, data: bytes) -> int:
        """Return where the last row ends in the bytes after the first, by the rules of the parser; 0 if none does."""
        begin = 1
        if self._is_within:
            rest = self._rest.match(data, begin)
            assert rest is not None  # it also matches nothing
            begin, self._is_within = rest.end(), not rest[1]
        # Skip to the last line break before the tail, or to the field that holds it.
        cut = data.rfind(b"\n", begin, max(begin, len(data) - TAIL_BYTES)) + 1
        closed = self._closed.match(data, begin, cut) if cut else None
        end = self._last_row_end(data, closed.end()) if closed is not None else 0
        return end or self._last_row_end(data, begin)

    def _last_row_end(self, data: bytes, begin: int) -> int:
        """Return where the last row ends after a byte that is outside quotes; 0 if none does."""
        fields = list(self._field.finditer(data, begin))
        if fields:
            self._is_within = not fields[-1][1]
        at = len(data)
        while (at := data.rfind(b"\n", begin, at)) >= 0:
            number = bisect_left(fields, at, key=re.Match.start)
            if not number or fields[number - 1].end() <= at:
                return at
            at = fields[number - 1].start()
        return 0
