"""Where the rows of a CSV file begin, and what its columns are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.compression.codecs import strip_suffix
from singer_arrow.errors import DataError
from singer_arrow.formats.csv.delimiter import detect_delimiter
from singer_arrow.formats.csv.dialect import Dialect, count_lines, is_delimiter_told
from singer_arrow.formats.csv.infer import infer_type
from singer_arrow.formats.text.rows import nulls_of
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.text_blocks import LONGEST_RECORD, decoded, sample

FIRST_LOOK = 64 << 10


@dataclass(frozen=True, slots=True)
class Start:
    """What stands before the rows of a file: so many bytes and lines; the names of its columns; how it is written."""

    names: list[str]
    bytes: int
    lines: int
    dialect: Dialect


def take_start(reader: ObjectReader, options: ReadOptions) -> tuple[Start | None, Iterator[Any]]:
    """The start of a file, None if it holds no record at all; and the text after it.

    Raises:
        DataError: The header cannot be read.
    """
    chunks = decoded(reader, compression=options.compression, encoding=options.encoding)
    held, want, done = b"", FIRST_LOOK, False
    while True:
        while len(held) < want and not done:
            chunk = next(chunks, None)
            done = chunk is None
            held += bytes(chunk) if chunk is not None else b""
        final = done and want >= len(held)
        start = find_start(held[:want], reader, options, final=final)
        if start is not None or final:
            return start, chain([memoryview(held)[start.bytes if start else len(held) :]], chunks)
        want = _more(want, reader)


def look_for_start(reader: ObjectReader, options: ReadOptions) -> Start | None:
    """The start of a file, of which no more is fetched than its head; the same as that of `take_start`."""
    want = FIRST_LOOK
    while True:
        text, whole = sample(reader, want, compression=options.compression, encoding=options.encoding)
        start = find_start(text, reader, options, final=whole) if whole or len(text) >= FIRST_LOOK else None
        if start is not None or whole:
            return start
        want = _more(want, reader)


def find_start(text: bytes, reader: ObjectReader, options: ReadOptions, *, final: bool) -> Start | None:
    """The start of a text that is at least `FIRST_LOOK` bytes long, or `final`: all there is.

    Returns:
        None if it lies beyond the text's end, or if the text holds no record at all.

    Raises:
        DataError: The header cannot be read.
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
    if not is_delimiter_told(name, options):
        dialect = replace(dialect, delimiter=detect_delimiter(text[at:FIRST_LOOK], dialect))
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
    values = _values(dialect, raw, line, reader.url)
    if not (_names_columns(values, options) if options.header == "auto" else options.header):
        return Start(numbered([""] * len(values)), at, skipped, dialect)
    names = distinct(numbered(values))
    return Start(names, at + record.end, skipped + record.line - 1 + count_lines(raw), dialect)


def _values(dialect: Dialect, record: bytes, line: int, url: object) -> list[str]:
    try:
        return dialect.fields(record)
    except UnicodeDecodeError as error:
        reason = f"invalid UTF-8 in the header (byte 0x{error.object[error.start]:02x})"
        hint = "Set csv.encoding to the file's encoding, for instance latin-1 or utf-16"
        raise DataError(reason, url=url, line=line, hint=hint) from None


def _names_columns(values: Iterable[str], options: ReadOptions) -> bool:
    """Whether no value of the first row is a number, a date or a boolean."""
    types = (infer_type(pa.array([value], pa.string()), nulls_of(options), options) for value in values)
    return all(pt.is_string(t) or pt.is_null(t) for t in types)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before: `a`, `a_2`, `a_3`."""
    found = list[str]()
    for name in names:
        own, number = name, 1
        while own in found or (number > 1 and own in names):
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found


def numbered(names: Iterable[str | None]) -> list[str]:
    """The names; `column_1`, `column_2` and so on where there is none."""
    return [name or f"column_{i}" for i, name in enumerate(names, 1)]


def _more(size: int, reader: ObjectReader) -> int:
    """The size of the next look for the start, if one of `size` bytes was too small."""
    if size >= LONGEST_RECORD:
        raise endless_header(reader.url)
    return size * 4


def endless_header(url: object) -> DataError:
    """The error of a file whose first record does not end."""
    reason = f"the header is longer than {LONGEST_RECORD >> 20} MiB, or a quote in it is never closed"
    return DataError(reason, url=url, line=1)
