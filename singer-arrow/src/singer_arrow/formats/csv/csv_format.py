"""CSV files.

Fields without quotes that are empty are null, `""` is empty text (and null in columns of other types). A block is cut
where a record probably ends; each block's parse tells whether that was so, and if not that block is cut by the exact
rules of its dialect (and the guess is checked from there on). So blocks depend on where they begin alone.

With `on_bad_row` skip or rescue, a quote that is not closed, or not within 64 MiB, costs the line on which it is opened
(and those before it of the same row), and what follows is read as rows again. A line that is longer than that is an
error in any case. A row with too many or too few fields costs that row, however many lines its quoted fields span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.formats.csv.dialect import Dialect
from singer_arrow.formats.csv.header import FIRST_LOOK, endless_header, find_start, look_for_start, take_start
from singer_arrow.formats.csv.infer import infer_columns
from singer_arrow.formats.csv.parser import BlockParser, Parsed
from singer_arrow.formats.csv.small_files import join
from singer_arrow.formats.text.block_results import SAMPLE, Settlement
from singer_arrow.formats.text.rows import TextRows, nulls_of
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import ordered
from singer_arrow.reading.text_blocks import LONGEST_RECORD, LongRecordError, blocks, decoded, sample

_LONGEST_SAMPLE = 64 << 20


class Csv:
    """See the module."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".tab", ".psv")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """See `Format.infer`; the types are those of `csv_infer`."""
        size = max(sample_bytes, FIRST_LOOK)
        while True:
            text, whole = sample(reader, size, compression=options.compression, encoding=options.encoding)
            if whole and text and not text.endswith((b"\n", b"\r")):
                text += b"\n"
            start = find_start(text, reader, options, final=whole) if whole or len(text) >= FIRST_LOOK else None
            end = len(text) if whole else start.bytes + start.dialect.exact_cut(text[start.bytes :]) if start else 0
            if whole or (start and end > start.bytes) or size >= _LONGEST_SAMPLE:
                break
            size *= 4
        if start is None and not whole:
            raise endless_header(reader.url)
        if start is None:
            return pa.schema([])
        data = text[start.bytes : max(end, start.bytes)]
        return infer_columns(data, start.names, start.dialect, options, url=reader.url, lines_before=start.lines)

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        """See `JoiningFormat`."""
        return join(readers, schema, options)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        progress = progress or ReadProgress()
        begin = progress.resume_point or ResumePoint()
        start, text = (look_for_start(reader, options), None) if begin.at else take_start(reader, options)
        if start is None:
            return
        at = ResumePoint(0, start.bytes, start.lines) if text is not None else begin
        rows = TextRows(start.names, schema, options, nulls_of(options))
        settlement = Settlement(rows, progress, reader.url, partial(self._types, reader, options))
        parse = BlockParser(rows, start.dialect)
        text = _text(reader, options, at.at) if text is None else text
        try:
            for parsed in _parsed(reader, options, parse, text, at.at):
                batch = settlement.settle(parsed.outcome, at.lines)
                given = batch.num_rows if batch is not None else 0
                at = ResumePoint(at.rows + given, at.at + parsed.bytes, at.lines + parsed.lines)
                is_over = progress.has_reached_end(at, reader.url)
                if batch is not None:
                    progress.resume_point = at
                    yield batch
                if is_over:
                    return
        except LongRecordError:
            reason = f"a row is longer than {LONGEST_RECORD >> 20} MiB, or a quote in it is never closed"
            raise DataError(reason, url=reader.url, line=at.lines + 1) from None

    def _types(self, reader: ObjectReader, options: ReadOptions) -> pa.Schema:
        return self.infer(reader, replace(options, on_bad_row="skip"), sample_bytes=SAMPLE)


def _text(reader: ObjectReader, options: ReadOptions, start: int) -> Iterator[Any]:
    return decoded(reader, compression=options.compression, encoding=options.encoding, start=start)


def _parsed(
    reader: ObjectReader, options: ReadOptions, parse: BlockParser, text: Iterator[Any], at: int
) -> Iterator[Parsed]:
    """The blocks of a text from the byte `at` on; where each ends depends on where it begins alone.

    Raises:
        LongRecordError: After the blocks before the record.
    """
    dialect = parse.dialect
    cut, work = dialect.likely_cut, cast("Callable[[memoryview], Parsed]", parse)
    while True:
        torn = False
        try:
            for parsed in ordered(blocks(text, cut, size=options.block_bytes), work, reader.budget.decoded):
                if torn := parsed.torn:
                    break
                at += parsed.bytes
                yield parsed
            if not torn:
                return
        except LongRecordError:
            if options.on_bad_row == "fail":
                raise
            parsed = parse(_unclosed(_text(reader, options, at), dialect), checked=True)
            at += parsed.bytes
            yield parsed
        text, cut, work = _text(reader, options, at), dialect.checked_cut, partial(parse, checked=True)


def _unclosed(text: Iterator[Any], dialect: Dialect) -> memoryview:
    """The beginning of a text up to the end of the line on which a quote is opened that is not closed for too long.

    Raises:
        LongRecordError: That line is too long itself.
    """
    head = bytes(next(blocks(text, len, size=LONGEST_RECORD)))
    end = dialect.damaged(head, dialect.whole(head))
    if end == len(head):
        raise LongRecordError
    return memoryview(head)[:end]
