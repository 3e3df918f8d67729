"""The format `csv`: the path of one file.

`read` finds the header (`header`), cuts the text into blocks (`_results`), parses the blocks in parallel (`parser`),
and delivers the batches in order (`delivery`). A block is cut where a record probably ends. If its parse finds that
wrong, the file is read again from that block on, cut by the exact rules. So where a block ends depends only on where it
begins.

Empty fields without quotes are null; `""` is empty text, and null in columns of other types. With `on_bad_row` skip or
rescue, a quote that is not closed within 64 MiB makes unreadable the line on which it opens, and the lines of the same
row before it; the next line begins a row again. A longer line is always an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.spelling import hint
from singer_arrow.compression.codecs import archive_of
from singer_arrow.enforcement.row_policy import BlockResult
from singer_arrow.enforcement.schema_drift import unknown_columns
from singer_arrow.errors import DataError, SingerArrowError
from singer_arrow.formats.csv.dialect import Dialect
from singer_arrow.formats.csv.header import (
    HEAD_BYTES,
    CsvHeader,
    endless_header,
    parse_header,
    peek_header,
    take_header,
)
from singer_arrow.formats.csv.parser import CsvBlockParser
from singer_arrow.formats.csv.range_scan import csv_row_starts, scan_csv
from singer_arrow.formats.delivery import FilePosition, deliver, until
from singer_arrow.formats.range_scan import RangeScan, undivided
from singer_arrow.formats.text.infer import infer_type, present
from singer_arrow.formats.text.rows import SAMPLE, TextDrift, TextRows, nulls_of
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered
from singer_arrow.reading.range_planner import Span
from singer_arrow.reading.text_blocks import (
    MAX_RECORD_BYTES,
    LongRecordError,
    blocks,
    decoded,
    read_sample,
    text_offset,
    whole_text,
)

logger = logging.getLogger(__name__)
_LONGEST_SAMPLE = 64 << 20


class CsvFormat:
    """The format `csv`."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".tab", ".psv")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        size = max(sample_bytes, HEAD_BYTES)
        while True:
            text, whole = read_sample(reader, size, compression=options.compression, encoding=options.encoding)
            if whole and text and not text.endswith((b"\n", b"\r")):
                text += b"\n"
            header = parse_header(text, reader, options, final=whole) if whole or len(text) >= HEAD_BYTES else None
            end = len(text) if whole else header.bytes + header.dialect.exact_cut(text[header.bytes :]) if header else 0
            if whole or (header and end > header.bytes) or size >= _LONGEST_SAMPLE:
                break
            size *= 4
        if header is None and not whole:
            raise endless_header(reader.url)
        if header is None:
            return pa.schema([])
        return _infer_columns(text[header.bytes : max(end, header.bytes)], header, options, reader.url)

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        bodies, headers = list[bytes](), set[tuple[Dialect, tuple[str, ...]]]()
        try:
            texts = whole_text(readers, options.compression, encoding=options.encoding)
            for reader, text in zip(readers, texts, strict=False):
                header = parse_header(text, reader, options, final=True)
                if header is None:
                    return None
                headers.add((header.dialect, tuple(header.names)))
                if len(headers) > 1:
                    return None
                bodies.append(text[header.bytes :])
        except SingerArrowError:
            return None
        if len(bodies) < len(readers):
            return None
        dialect, names = headers.pop()
        if options.on_drift != "ignore" and unknown_columns(names, schema, options):
            return None
        return CsvBlockParser(TextRows(names, schema, options, nulls_of(options)), dialect).together(bodies)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        begin, end = progress.resume_point or ResumePoint(), progress.end.at if progress.end else None

        def text_from(at: int) -> Iterator[Any]:
            return until(_text(reader, options, at, end), progress.end, reader.url)

        peeks = begin.at > 0 or end is not None
        header, text = (peek_header(reader, options), None) if peeks else take_header(reader, options)
        if header is None:
            return
        if not begin.at:
            begin = ResumePoint(0, header.bytes, header.lines)
        text = text or text_from(begin.at)
        position = FilePosition(reader.url, begin)
        rows = TextRows(header.names, schema, options, nulls_of(options))
        infer = partial(self.infer, reader, replace(options, on_bad_row="skip"), sample_bytes=SAMPLE)
        drift = TextDrift(rows, infer).refuse if options.on_drift == "raise" else None
        results = _results(reader, options, CsvBlockParser(rows, header.dialect), text, begin.at, text_from=text_from)
        try:
            yield from deliver(results, position, progress, drift)
        except LongRecordError:
            reason = f"a row is longer than {MAX_RECORD_BYTES >> 20} MiB, or a quote in it is never closed"
            raise DataError(reason, url=reader.url, line=position.resume_point.lines + 1) from None

    def scan(self, reader: ObjectReader, options: ReadOptions, span: Span) -> RangeScan:
        header = _divisible_header(reader, options)
        span = span if span[0] or header is None else (header.bytes, span[1])
        if header is None or span[0] >= span[1]:
            return RangeScan(span)
        return scan_csv(partial(_text, reader, options), header.dialect, span)

    def row_starts(
        self, reader: ObjectReader, options: ReadOptions, scans: Sequence[RangeScan]
    ) -> Sequence[ResumePoint]:
        header = _divisible_header(reader, options)
        if header is None or header.bytes >= scans[0].span[1]:
            return undivided(len(scans) + 1)
        return csv_row_starts(partial(_text, reader, options), header, scans)


def _infer_columns(data: bytes, header: CsvHeader, options: ReadOptions, url: object) -> pa.Schema:
    """Return the types of the columns in whole records; a DataError for a bad row if the policy is to fail."""
    if not data:
        return pa.schema([(name, pa.null()) for name in header.names])
    rows = TextRows(header.names, pa.schema([(name, pa.string()) for name in header.names]), options)
    result = CsvBlockParser(rows, header.dialect)(memoryview(data), ends_exactly=True)
    assert result is not None
    if result.failed is not None:
        raise FilePosition(url, ResumePoint(0, header.bytes, header.lines)).error(result.failed)
    assert result.batch is not None
    nulls, found = nulls_of(options), list[pa.Field]()
    for name, column in zip(header.names, result.batch.columns, strict=True):
        t = infer_type(column, nulls, options)
        found.append(pa.field(name, t))
        if pt.is_string(t) and (setting := hint(present(column, nulls))):
            logger.info("%s, column %r is text; set %s to read it as more", url, name, setting)
    return pa.schema(found)


def _divisible_header(reader: ObjectReader, options: ReadOptions) -> CsvHeader | None:
    """Return the header of a file that can be read from its middle; None for other files."""
    if text_offset(reader, options.compression, options.encoding) is None or archive_of(reader.url.name):
        return None
    header = peek_header(reader, options)
    return None if header is None or header.dialect.escape or header.dialect.comment else header


def _text(reader: ObjectReader, options: ReadOptions, begin: int, end: int | None) -> Iterator[Any]:
    return decoded(reader, compression=options.compression, encoding=options.encoding, start=begin, end=end)


def _results(
    reader: ObjectReader,
    options: ReadOptions,
    parser: CsvBlockParser,
    text: Iterator[Any],
    at: int,
    *,
    text_from: Callable[[int], Iterator[Any]],
) -> Iterator[BlockResult]:
    """Yield the parsed blocks of a text that begins at the byte `at`; `text_from` returns it from a later byte on.

    LongRecordError for a record that is too long is raised after the blocks before it.
    """
    dialect = parser.dialect
    cut = dialect.likely_cut
    parse: Callable[[memoryview], BlockResult | None] = parser
    while True:
        try:
            for result in map_ordered(blocks(text, cut, size=options.block_bytes), parse, reader.budget.decoded):
                if result is None:
                    break  # the cut was wrong
                at += result.bytes
                yield result
            else:
                return
        except LongRecordError:
            if options.on_bad_row == "fail":
                raise
            result = parser(_up_to_open_quote(text_from(at), dialect), ends_exactly=True)
            assert result is not None
            at += result.bytes
            yield result
        text, cut, parse = text_from(at), dialect.checked_cut, partial(parser, ends_exactly=True)


def _up_to_open_quote(text: Iterator[Any], dialect: Dialect) -> memoryview:
    """Return the beginning of a text up to the end of the line on which a quote opens that is not closed.

    Raises LongRecordError if that line is too long itself.
    """
    head = bytes(next(blocks(text, len, size=MAX_RECORD_BYTES)))
    end = dialect.damaged(head, dialect.whole(head))
    if end == len(head):
        raise LongRecordError
    return memoryview(head)[:end]
