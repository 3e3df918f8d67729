"""CSV files.

Fields without quotes that are empty are null, `""` is empty text (and null in columns of other types). A block is cut
where a record probably ends; each block's parse tells whether that was so, and if not the rest of the file is cut by
the exact rules of its dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from singer_arrow.compression import strip_suffix
from singer_arrow.errors import DataError
from singer_arrow.formats.csv_dialect import Dialect, count_lines
from singer_arrow.formats.csv_infer import infer_columns
from singer_arrow.formats.csv_parse import BlockParser
from singer_arrow.formats.protocol import Course, ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import ordered
from singer_arrow.reading.text import LONGEST_RECORD, LongRecordError, blocks, decoded, sample

_FIRST_LOOK = 64 << 10
_LONGEST_SAMPLE = 64 << 20


@dataclass(frozen=True, slots=True)
class _Start:
    """Where the rows of a file begin, and what its columns are called."""

    names: list[str]
    bytes: int
    lines: int


class Csv:
    """See the module."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".tab", ".psv")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """See `Format.infer`; the types are those of `csv_infer`."""
        dialect = Dialect.of(strip_suffix(reader.url.name), options)
        while True:
            text, whole = sample(reader, sample_bytes, compression=options.compression, encoding=options.encoding)
            if whole and text and not text.endswith((b"\n", b"\r")):
                text += b"\n"
            start = _find_start(text, dialect, options, reader.url, final=whole)
            end = len(text) if whole else start.bytes + dialect.exact_cut(text[start.bytes :]) if start else 0
            if whole or (start and end > start.bytes) or sample_bytes >= _LONGEST_SAMPLE:
                break
            sample_bytes *= 4
        if start is None and not whole:
            raise _endless_header(reader.url)
        if start is None:
            return pa.schema([])
        data = text[start.bytes : max(end, start.bytes)]
        return infer_columns(data, start.names, dialect, options.null_values, url=reader.url, lines_before=start.lines)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, course: Course | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        if course is not None:
            course.place = None
        dialect = Dialect.of(strip_suffix(reader.url.name), options)
        text = _text(reader, options)
        start, text = _take_start(text, dialect, options, reader.url)
        if start is None:
            return
        parse = BlockParser(start.names, schema, dialect, options.null_values)
        at, cut = start, dialect.likely_cut
        while True:
            torn = False
            try:
                for parsed in ordered(blocks(text, cut, size=options.block_bytes), parse, reader.budget.decoded):
                    torn = parsed.torn and cut == dialect.likely_cut
                    if torn:
                        break
                    if problem := parsed.problem:
                        raise problem.error(reader.url, at.lines)
                    at = replace(at, bytes=at.bytes + parsed.bytes, lines=at.lines + parsed.lines)
                    if parsed.batch is not None and parsed.batch.num_rows:
                        yield parsed.batch
            except LongRecordError:
                reason = f"a row is longer than {LONGEST_RECORD >> 20} MiB, or a quote in it is never closed"
                raise DataError(reason, url=reader.url, line=at.lines + 1) from None
            if not torn:
                return
            cut, text = dialect.exact_cut, _skip(_text(reader, options), at.bytes)


def _text(reader: ObjectReader, options: ReadOptions) -> Iterator[Any]:
    return decoded(reader, compression=options.compression, encoding=options.encoding)


def _skip(chunks: Iterator[Any], n: int) -> Iterator[memoryview]:
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        yield view[n:]
        n = max(0, n - len(view))


def _take_start(
    chunks: Iterator[Any], dialect: Dialect, options: ReadOptions, url: object
) -> tuple[_Start | None, Iterator[Any]]:
    """The start of a text, and the text after it."""
    held, want, done = b"", _FIRST_LOOK, False
    while True:
        while len(held) < want and not done:
            chunk = next(chunks, None)
            done = chunk is None
            held += bytes(chunk) if chunk is not None else b""
        text = held[:want]
        final = done and want >= len(held)
        if final and not text.endswith((b"\n", b"\r")):
            text += b"\n"
        start = _find_start(text, dialect, options, url, final=final)
        if start is not None or final:
            return start, chain([memoryview(held)[start.bytes if start else len(held) :]], chunks)
        if want >= LONGEST_RECORD:
            raise _endless_header(url)
        want *= 4


def _find_start(text: bytes, dialect: Dialect, options: ReadOptions, url: object, *, final: bool) -> _Start | None:
    """The start of a text; None if it lies beyond its end, or if the text holds no record at all."""
    at = 0
    for _ in range(options.skip_rows):
        at = text.find(b"\n", at) + 1
        if at == 0:
            return None
    skipped = count_lines(text[:at])
    record = next(dialect.records(text[at:]), None)
    if record is None:
        if final and (torn := dialect.is_whole(text[at:])) > 0:
            reason = "a quote is opened in the header and never closed"
            raise DataError(reason, url=url, line=skipped + torn)
        return None
    line = skipped + record.line
    raw = text[at + record.start : at + record.end]
    try:
        values = dialect.fields(raw)
    except UnicodeDecodeError as error:
        reason = f"invalid UTF-8 in the header (byte 0x{error.object[error.start]:02x})"
        hint = "Set csv.encoding to the file's encoding, for instance latin-1 or utf-16"
        raise DataError(reason, url=url, line=line, hint=hint) from None
    if not options.header:
        return _Start(_numbered([""] * len(values)), at, skipped)
    names = _numbered(values)
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        reason = f"the header names the column {twice[0]!r} twice"
        raise DataError(reason, url=url, line=line, hint="Rename it, or set csv.header to false and csv.skip_rows to 1")
    return _Start(names, at + record.end, skipped + record.line - 1 + count_lines(raw))


def _endless_header(url: object) -> DataError:
    reason = f"the header is longer than {LONGEST_RECORD >> 20} MiB, or a quote in it is never closed"
    return DataError(reason, url=url, line=1)


def _numbered(names: Iterable[str]) -> list[str]:
    return [name or f"column_{i}" for i, name in enumerate(names, 1)]
