"""Find the header of a CSV file: the names of its columns, and where its rows begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.compression.codecs import strip_suffix
from singer_arrow.errors import DataError
from singer_arrow.formats.csv.dialect import Dialect, count_lines, detect_delimiter, has_known_delimiter
from singer_arrow.formats.text.infer import distinct, infer_type, numbered
from singer_arrow.formats.text.rows import nulls_of
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.text_blocks import MAX_RECORD_BYTES, decoded, read_sample

HEAD_BYTES = 64 << 10
"""Bytes at the beginning of a file in which the header is searched first."""


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """Header of a file: the names of its columns, the bytes and lines before its first row, and its dialect."""

    names: list[str]
    bytes: int
    lines: int
    dialect: Dialect


def take_header(reader: ObjectReader, options: ReadOptions) -> tuple[CsvHeader | None, Iterator[Any]]:
    """Return the header of a file and the text after it; no header if the file holds no record."""
    chunks = decoded(reader, compression=options.compression, encoding=options.encoding)
    held, size, done = b"", HEAD_BYTES, False
    while True:
        while len(held) < size and not done:
            chunk = next(chunks, None)
            done = chunk is None
            held += bytes(chunk) if chunk is not None else b""
        final = done and size >= len(held)
        header = parse_header(held[:size], reader, options, final=final)
        if header is not None or final:
            return header, chain([memoryview(held)[header.bytes if header else len(held) :]], chunks)
        size = _more(size, reader)


def peek_header(reader: ObjectReader, options: ReadOptions) -> CsvHeader | None:
    """Return the header as `take_header` does, fetching only the beginning of the file."""
    size = HEAD_BYTES
    while True:
        text, whole = read_sample(reader, size, compression=options.compression, encoding=options.encoding)
        header = parse_header(text, reader, options, final=whole) if whole or len(text) >= HEAD_BYTES else None
        if header is not None or whole:
            return header
        size = _more(size, reader)


def parse_header(text: bytes, reader: ObjectReader, options: ReadOptions, *, final: bool) -> CsvHeader | None:
    """Return the header of a text; None if it lies beyond the end, or if the text holds no record.

    The text is the beginning of the file: all of it if `final`, else at least `HEAD_BYTES` bytes.
    """
    if final and not text.endswith((b"\n", b"\r")):
        text += b"\n"
    name, at = strip_suffix(reader.url.name), 0
    dialect = Dialect.of(name, options)
    for _ in range(options.skip_rows):
        at = text.find(b"\n", at) + 1
        if at == 0:
            return None
    skipped = count_lines(text[:at])
    if not has_known_delimiter(name, options):
        dialect = replace(dialect, delimiter=detect_delimiter(text[at:HEAD_BYTES], dialect))
    record = next(dialect.records(text[at:]), None)
    if record is None:
        whole = dialect.whole(text[at:])
        if final and at + whole < len(text):
            reason = "a quote is opened in the header and never closed"
            raise DataError(reason, url=reader.url, line=skipped + count_lines(text[at : at + whole]) + 1)
        return None
    if not final and at + record.end == len(text) and text.endswith(b"\r"):
        return None  # an LF may follow
    line = skipped + record.line
    raw = text[at + record.start : at + record.end]
    try:
        values = dialect.fields(raw)
    except UnicodeDecodeError as error:
        reason = f"invalid UTF-8 in the header (byte 0x{error.object[error.start]:02x})"
        hint = "Set csv.encoding to the file's encoding, for instance latin-1 or utf-16"
        raise DataError(reason, url=reader.url, line=line, hint=hint) from None
    names_columns = options.header
    if options.header == "auto":  # no value is a number, a date or a boolean
        types = [infer_type(pa.array([value], pa.string()), nulls_of(options), options) for value in values]
        names_columns = all(pt.is_string(t) or pt.is_null(t) for t in types)
    if not names_columns:
        return CsvHeader(numbered([""] * len(values)), at, skipped, dialect)
    names = distinct(numbered(values))
    return CsvHeader(names, at + record.end, skipped + record.line - 1 + count_lines(raw), dialect)


def _more(size: int, reader: ObjectReader) -> int:
    """Return the next number of bytes to search for the header, if `size` bytes were too few."""
    if size >= MAX_RECORD_BYTES:
        raise endless_header(reader.url)
    return size * 4


def endless_header(url: object) -> DataError:
    """Return the error for a file whose first record does not end."""
    reason = f"the header is longer than {MAX_RECORD_BYTES >> 20} MiB, or a quote in it is never closed"
    return DataError(reason, url=url, line=1)
