"""CSV: delimiter, quotes, header, and where the rows of a range begin."""

from __future__ import annotations

import builtins
import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.compression import in_pieces, strip_suffix
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats.base import (
    FILE_END,
    SCANNED_PIECE,
    RangeScan,
    TextScan,
    count_byte,
    holds_byte,
    line_starts,
    places_of,
    scan_lines,
    text_point,
)
from singer_arrow.formats.text import distinct, infer_type, nulls_of, numbered
from singer_arrow.read_options import ReadOptions, ResumePoint
from singer_arrow.reading.chunks import MAX_RECORD_BYTES, decoded, read_sample
from singer_arrow.reading.objects import ObjectReader, Span

# Dialects of CSV: the delimiter, and where records and fields end. Pure.
#
# The rules are those of Arrow's parser: a field that begins with a quote is quoted up to the next quote that is not
# doubled; a quote elsewhere is an ordinary character; an escape character makes the next one literal everywhere;
# records end with LF, CRLF or CR; empty lines are no records.
#
# An escape character that is detected escapes quotes and itself only. A row in which it is before another one is bad.
#
# Arrow also accepts text after a closing quote. Here only blanks may follow it: other text shows that the quote that
# opened the field was no quote. The row is then bad, up to the end of the line on which that quote is; the next line
# begins a row again.

BACKSLASH = "\\"
LONG = 1 << 20
"""Bytes of a text from which on numbers of many bits are faster than a pattern."""
_MOST = "{0,1000}"  # repetitions in a match
_LINE_END = re.compile(rb"\r\n?|\n")
_SEP_LINE = re.compile(rb"(?P<mark>\"?)(?i:sep)=(?P<delimiter>[ -/:-@\[-`{-~\t])(?P=mark)(?:\r\n?|\n)")
_DELIMITERS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}


class Record(NamedTuple):
    """Range of bytes of a record in a text, its line break included; `line` is its first line, from 1."""

    start: int
    end: int
    line: int


class Damage(NamedTuple):
    """Range of bytes of a row with a quote that is never closed, or is closed with text after it."""

    start: int
    end: int
    quote: int  # where the quote opens
    closed: int | None  # behind the closing quote; None if there is none


class Scan(NamedTuple):
    """First bytes of the rows of a text; and those, by number, whose quotes are wrong."""

    starts: Sequence[int]
    damage: Mapping[int, Damage]


@dataclass(frozen=True)
class Dialect:
    """Special characters of a file, each one ASCII character or None; `is_detected`: no setting has the escape."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None
    is_detected: bool = False

    @classmethod
    def of(cls, name: str, options: ReadOptions) -> Dialect:
        """Return the dialect of a file by its name (without the suffix of its compression).

        Raises ConfigError if a value is not one ASCII character, or two values are equal.
        """
        found = {
            "delimiter": options.delimiter or _DELIMITERS.get(_suffix(name), ","),
            "quote": options.quote or None,
            "escape": options.escape or None,
            "comment": options.comment or None,
        }
        for key, value in found.items():
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n\0"):
                raise ConfigError(f"csv.{key} must be one ASCII character, it is {value!r}")
        given = [v for v in found.values() if v is not None]
        if len(set(given)) != len(given):
            raise ConfigError(f"csv.delimiter, quote, escape and comment must differ; they are {found}")
        return cls(**found)  # type: ignore[arg-type]  # the delimiter is never None

    def with_escape(self) -> Dialect:
        """Return the dialect in which a backslash is detected to escape quotes."""
        return replace(self, escape=BACKSLASH, is_detected=True)

    def has_odd_escape(self, data: bytes) -> bool:
        """Return whether a detected escape character is before something else than a quote or itself."""
        return self.is_detected and BACKSLASH.encode() in data and self._patterns.odd_escape.search(data) is not None

    def likely_cut(self, data: bytes) -> int:
        """Return where the last whole record probably ends; fast, and wrong only if quotes are irregular.

        A line break after an even number of quotes ends a record if no unquoted field holds a quote.
        """
        at = data.rfind(b"\n")
        if self.quote is None:
            return at + 1 if at >= 0 else self.exact_cut(data)
        odd = self._quotes(data, 0, at) & 1 if at >= 0 else 0
        while odd and at >= 0:
            before = data.rfind(b"\n", 0, at)
            odd ^= self._quotes(data, max(0, before), at) & 1
            at = before
        return at + 1 if at >= 0 else self.exact_cut(data)

    def exact_cut(self, data: bytes) -> int:
        """Return where the last whole record ends; 0 if there is none."""
        if b"\r" not in data and not any(c and c.encode() in data for c in (self.quote, self.escape, self.comment)):
            text = data[: data.rfind(b"\n") + 1].rstrip(b"\n")
            return len(text) + 1 if text else 0
        end = at = 0
        empty = b"\r\n" + (self.comment or "").encode()
        while (found := self._row_end(data, at)) is not None:
            start, at = at, found
            if data[start] not in empty and (at < len(data) or data[-1:] != b"\r"):  # an LF may follow
                end = at
        return end

    def checked_cut(self, data: bytes) -> int:
        """Return the likely cut if it is right, else the exact one.

        So where a block ends depends only on where it begins.
        """
        likely = self.likely_cut(data)
        return likely if self.whole(data[:likely]) == likely else self.exact_cut(data)

    def records(self, data: bytes) -> Iterator[Record]:
        """Yield the whole records of a text that begins with one, bad rows too, but no empty lines and comments."""
        at, line = 0, 1
        while (end := self._row_end(data, at)) is not None:
            first = data[at]
            if first not in b"\r\n" and not (self.comment and first == ord(self.comment)):
                yield Record(at, end, line)
            line += count_lines(data[at:end])
            at = end

    def whole(self, data: bytes) -> int:
        """Return the number of bytes of whole records; after them a quote opens and is never closed."""
        at, match = 0, self._patterns.record.match
        while at < len(data):
            if (found := match(data, at)) is not None:
                at = found.end()
            elif (end := self._row_end(data, at)) is not None:
                at = end
            else:
                break
        return at

    def is_regular(self, data: bytes | pa.Buffer) -> bool:
        """Return whether each quote of a text without comments that opens a field is closed, without text after it."""
        if self.quote is None or not holds_byte(data, self.quote.encode()):  # far faster than the pattern
            return True
        if len(data) >= LONG and not self.escape and self._is_surely_regular(data):
            return True
        size = pa.py_buffer(struct.pack("=ii", 0, len(data)))
        text = pa.Array.from_buffers(pa.binary(), 1, [None, size, pa.py_buffer(data)])
        return bool(pc.match_substring_regex(text, self._patterns.regular)[0].as_py())

    def _is_surely_regular(self, data: bytes | pa.Buffer) -> bool:
        """Return whether `is_regular` is certain by the bytes next to quotes, which takes half as long.

        Each quote opens a field (a delimiter or line break is before it) or closes one (it is behind it); if each opens
        outside of a field and closes within, the difference of the two as numbers has a bit for each byte within.
        """
        quotes = places_of(data, (self.quote or "").encode())
        edges = places_of(data, f"{self.delimiter}\r\n".encode())
        opens, closes = quotes & (edges << 1 | 1), quotes & (edges >> 1)
        within = closes - opens
        is_plain = not quotes & (quotes << 1) and not opens & closes  # none is doubled, and none may be both
        return is_plain and within >= 0 and not (opens & ~within) and not ((quotes ^ opens ^ closes) & within)

    def scan(self, data: bytes) -> Scan:
        """Return where the rows of a text begin, those with wrong quotes included; comments must be empty lines."""
        starts, damage, at = list[int](), dict[int, Damage](), 0
        while at < len(data):
            if data[at] not in b"\r\n":
                starts.append(at)
            if (end := self._record_end(data, at)) is not None:
                at = end
            else:
                found = self._damage(data, at)
                damage[len(starts) - 1] = found
                at = found.end
        return Scan(starts, damage)

    def end(self, data: bytes, start: int) -> int:
        """Return where the whole record at `start` ends."""
        end = self._record_end(data, start)
        assert end is not None
        return end

    def is_whole(self, record: bytes) -> bool:
        """Return whether the quotes of a record, with its line break, are right."""
        return self._record_end(record, 0) is not None

    def damaged(self, data: bytes, start: int) -> int:
        """Return where the line ends on which the record at `start` opens a quote that is not closed."""
        return self._damage(data, start).end

    def _damage(self, data: bytes, start: int) -> Damage:
        """Return the damage of a record that has no end."""
        quote = self._whole_fields(data, start)
        line_end = _LINE_END.search(data, quote)
        closed = self._quote_end(data, quote + 1) if self._opens(data, quote) else None
        return Damage(start, line_end.end() if line_end else len(data), quote, closed)

    def _row_end(self, data: bytes, start: int) -> int | None:
        """Return where the row at `start` ends, also if text follows a closing quote in it; None if that is open."""
        if (end := self._record_end(data, start)) is not None:
            return end
        found = self._damage(data, start)
        if found.closed is None or self._blanks_end(data, found.closed) == len(data):
            return None
        return found.end if data[found.end - 1 : found.end] in (b"\r", b"\n") else None

    def fields(self, record: bytes) -> list[str]:
        """Return the values of one record; raises UnicodeDecodeError."""
        return [value.decode() for value in self.raw_fields(record)]

    def raw_fields(self, record: bytes) -> list[bytes]:
        """Return the values of one record as bytes."""
        values, at = list[bytes](), -1
        while at < 0 or record[at : at + 1] == self.delimiter.encode():
            start, quote = at + 1, (self.quote or "").encode()
            opened = bool(quote) and record.startswith(quote, start)
            closed = self._quote_end(record, start + 1) if opened else None
            at = self._tail_end(record, start if closed is None else closed)
            inner = b"" if closed is None else record[start + 1 : closed - 1].replace(quote * 2, quote)
            raw = inner + record[start if closed is None else closed : at]
            values.append(self._patterns.escaped.sub(rb"\1", raw) if self.escape else raw)
        return values

    def _record_end(self, data: bytes, start: int) -> int | None:
        """Return where the record at `start` ends; None if it does not."""
        if (found := self._patterns.record.match(data, start)) is not None:
            return found.end()
        end = self._field_end(data, self._whole_fields(data, start))  # it has many fields or quotes, or no end
        line_end = None if end is None else _LINE_END.match(data, end)
        return None if line_end is None else line_end.end()

    def _whole_fields(self, data: bytes, start: int) -> int:
        """Return where the fields of a record end that a delimiter follows, that delimiter included."""
        at, delimiter = start, self.delimiter.encode()
        while True:
            found = self._patterns.fields.match(data, at)
            assert found is not None  # it also matches nothing
            end = self._field_end(data, found.end()) if found.end() == at else None
            if found.end() == at and (end is None or data[end : end + 1] != delimiter):
                return at
            at = found.end() if end is None else end + 1

    def _field_end(self, data: bytes, start: int) -> int | None:
        """Return where a field ends; None if its quote is not closed, or text follows its closing quote."""
        if not self._opens(data, start):
            return self._tail_end(data, start)
        if (closed := self._quote_end(data, start + 1)) is None:
            return None
        end = self._blanks_end(data, closed)
        return end if data[end : end + 1] in (b"\r", b"\n", self.delimiter.encode()) else None

    def _opens(self, data: bytes, start: int) -> bool:
        return self.quote is not None and data.startswith(self.quote.encode(), start)

    def _quote_end(self, data: bytes, at: int) -> int | None:
        """Return where the text after an opening quote ends, its closing quote included; None if it does not."""
        quote = (self.quote or "").encode()
        end = self._pieces_end(self._patterns.inner, data, at)
        return end + 1 if data.startswith(quote, end) else None

    def _tail_end(self, data: bytes, at: int) -> int:
        return self._pieces_end(self._patterns.tail, data, at)

    def _blanks_end(self, data: bytes, at: int) -> int:
        return self._pieces_end(self._patterns.blanks, data, at)

    @staticmethod
    def _pieces_end(pieces: re.Pattern[bytes], data: bytes, at: int) -> int:
        while (found := pieces.match(data, at)) is not None and found.end() > at:
            at = found.end()
        return at

    def without_comments(self, data: Any) -> Any:
        """Return the text with comments replaced by empty lines, which keeps the line numbers."""
        if not self.comment or self.comment.encode() not in (data := bytes(data)):
            return data
        if self.quote is None or self.quote.encode() not in data:
            return self._patterns.comment.sub(b"", data)
        kept, at = [], 0
        for record in self.records(data):
            kept += [b"\n" * count_lines(data[at : record.start]), data[record.start : record.end]]
            at = record.end
        return b"".join((*kept, self._patterns.comment.sub(b"", data[at:])))

    def _quotes(self, data: bytes, start: int, end: int) -> int:
        quote = (self.quote or "").encode()
        if data.find(quote, start, end) < 0:  # far faster than to count
            return 0
        found = count_byte(data, quote, start, end)
        return found - data.count((self.escape or "").encode() + quote, start, end) if self.escape else found

    @cached_property
    def _patterns(self) -> _Patterns:
        """Patterns that do not backtrack.

        `(?>(?:...)*)` and not `(?:...)*+`, which Python before 3.11.5 matches wrongly. A state is there for each
        repetition, so that these are limited: what is longer takes several matches.
        """
        d, q, e, c = (re.escape(x) if x else "" for x in (self.delimiter, self.quote, self.escape, self.comment))
        escaped, line_end = f"|{e}[\\s\\S]" if e else "", "(?:\\r\\n?|\\n)"
        inner = f"(?>(?:[^{q}{e}]++|{q}{q}{escaped}){_MOST})" if q else ""
        tail = f"(?>(?:[^{d}\\r\\n{e}]++{escaped}){_MOST})" if e else f"[^{d}\\r\\n]*+"
        blanks = "".join(c for c in " \t" if c not in (self.delimiter, self.escape))
        blanks = f"[{blanks}]*"
        field = f"(?:{q}{inner}{q}(?!{q}){blanks}+|(?!{q}){tail})" if q else tail
        comment = f"{c}[^\\r\\n]*+{line_end}|" if c else ""
        # In the syntax of RE2, which compares a text with it in one pass.
        plain = f"(?:[^{d}\r\n{e}]{escaped})*"
        quoted = f"(?:[^{q}{e}]|{q}{q}{escaped})*"
        unquoted = f"(?:[^{d}\r\n{q}{e}]{escaped}){plain}"
        whole_field = f"(?:{q}{quoted}{q}{blanks}|{unquoted}|)"
        regular = f"\\A{whole_field}(?:[{d}\r\n]{whole_field})*\\z"
        texts = (
            f"{comment}{field}(?>(?:{d}{field}){_MOST}){line_end}",
            f"(?>(?:{field}{d}){_MOST})",
            inner,
            tail,
            f"(?m)^{c}[^\\r\\n]*",
            f"{e}([\\s\\S])",
            f"{blanks}+",
            f"(?<!{e})(?:{e}{e})*{e}[^{e}{q}]" if e else "(?!)",
        )
        return _Patterns(regular, *(re.compile(text.encode()) for text in texts))


class _Patterns(NamedTuple):
    """Patterns of a record, of fields that a delimiter follows, and of parts of one.

    `regular` is a whole text, `inner` is text between two quotes, `tail` other text of a field.
    """

    regular: str
    record: re.Pattern[bytes]
    fields: re.Pattern[bytes]
    inner: re.Pattern[bytes]
    tail: re.Pattern[bytes]
    comment: re.Pattern[bytes]
    escaped: re.Pattern[bytes]
    blanks: re.Pattern[bytes]
    odd_escape: re.Pattern[bytes]


def _suffix(name: str) -> str:
    return name[name.rfind(".") :].lower()


def count_lines(data: bytes) -> int:
    """Return the number of line breaks in a text: LF, CRLF, or CR if there is none of those."""
    return data.count(b"\n") or data.count(b"\r")


CANDIDATES = (",", ";", "\t", "|")
_ROWS = 1000
_LEAST_SHARE = 0.5  # share of the rows that must have as many fields as the first one


def detect_delimiter(text: bytes, dialect: Dialect) -> str:
    """Return the delimiter of a text that begins with a record, from its first 1000 rows, without one that is cut off.

    It is the candidate that gives most rows as many fields as the first row, and the first row at least two; among
    equals the one with more fields, then the first candidate. If none fits more than half of the rows, it is a comma.
    The other characters of `dialect` are no candidates.
    """
    taken = (dialect.quote, dialect.escape, dialect.comment)
    tried = [replace(dialect, delimiter=c) for c in CANDIDATES if c not in taken]
    likely = [d for d in tried if _fields(d, text, 1)[0] > 1]
    if not likely or likely == [dialect]:
        return dialect.delimiter
    found = list[tuple[float, int, int, str]]()
    for rank, likely_one in enumerate(likely):
        first, *others = _fields(likely_one, text, _ROWS)
        share = (1 + sum(n == first for n in others)) / (1 + len(others))
        found.append((share, first, -rank, likely_one.delimiter))
    share, *_, delimiter = max(found)
    return delimiter if share > _LEAST_SHARE else dialect.delimiter


def detect_escape(text: bytes, dialect: Dialect, *, detects_delimiter: bool) -> Dialect:
    """Return the dialect of a text that begins with a record: with a backslash that escapes quotes, if the text has it.

    Its first 1000 rows must have wrong quotes or different numbers of fields otherwise, and none of that with it. It
    must not be before another character than a quote or itself, as in `C:\\new`.
    """
    taken = (dialect.delimiter, dialect.quote, dialect.comment)
    if dialect.quote is None or BACKSLASH in taken or f"{BACKSLASH}{dialect.quote}".encode() not in text:
        return dialect
    escaped = dialect.with_escape()
    if escaped.has_odd_escape(text):
        return dialect
    if detects_delimiter:
        escaped = replace(escaped, delimiter=detect_delimiter(text, escaped))
    return escaped if _regular_until(escaped, text) > _regular_until(dialect, text) else dialect


def _regular_until(dialect: Dialect, text: bytes) -> int:
    """Return where the first rows of a text end, without one that is cut off; -1 if they are not all alike."""
    rows = list(islice(dialect.records(text), _ROWS))
    texts = [text[row.start : row.end] for row in rows]
    is_regular = all(map(dialect.is_whole, texts)) and len({len(dialect.raw_fields(row)) for row in texts}) <= 1
    return (rows[-1].end if rows else 0) if is_regular else -1


def _fields(dialect: Dialect, text: bytes, rows: int) -> list[int]:
    """Return the number of fields of each of the first rows; of the text, if not even one row is whole."""
    found = [text[r.start : r.end] for r in islice(dialect.records(text), rows)]
    return [len(dialect.raw_fields(row)) for row in found or [text]]


# Find the header of a CSV file: the names of its columns, and where its rows begin.

QUOTE_HINT = "Check csv.quote and csv.escape"
HEAD_BYTES = 64 << 10
"""Bytes at the beginning of a file in which the header is searched first."""
_FIRST_BYTES = 16 << 10
"""Of the text of the first rows."""


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """Header of a file: the names of its columns, the bytes and lines before its first row, and its dialect.

    `first_rows` is the text of the first rows, of some kilobytes: the same wherever a reading of the file begins.
    `values` are the fields of the header line, and empty if the file has none.
    """

    names: list[str]
    bytes: int
    lines: int
    dialect: Dialect
    first_rows: builtins.bytes = b""
    values: tuple[str, ...] = ()


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
    named = _named_delimiter(text, at, dialect)
    at = named.end() if named else at
    skipped = count_lines(text[:at])
    if named and not options.delimiter:
        dialect = replace(dialect, delimiter=named["delimiter"].decode())
    elif not options.delimiter and _suffix(name) not in _DELIMITERS:
        dialect = replace(dialect, delimiter=detect_delimiter(text[at:HEAD_BYTES], dialect))
    if options.escape is None:
        detects_delimiter = not named and not options.delimiter and _suffix(name) not in _DELIMITERS
        dialect = detect_escape(text[at:HEAD_BYTES], dialect, detects_delimiter=detects_delimiter)
    record = next(dialect.records(text[at:]), None)
    if record is None:
        whole = dialect.whole(text[at:])
        if final and at + whole < len(text):
            reason = "a quote is opened in the header and never closed"
            line = skipped + count_lines(text[at : at + whole]) + 1
            raise DataError(reason, url=reader.url, line=line, hint=QUOTE_HINT)
        return None
    if not final and at + record.end == len(text) and text.endswith(b"\r"):
        return None  # an LF may follow
    line = skipped + record.line
    raw = text[at + record.start : at + record.end]
    if b"\0" in raw:
        hint = "Leave the file out, or set csv.encoding, for instance to utf-16-le"
        raise DataError(
            "the header has the character NUL, so it is no text in this encoding", url=reader.url, line=line, hint=hint
        )
    if not dialect.is_whole(raw):
        raise DataError("text follows a closing quote in the header", url=reader.url, line=line, hint=QUOTE_HINT)
    try:
        values = dialect.fields(raw)
    except UnicodeDecodeError as error:
        reason = f"invalid UTF-8 in the header (byte 0x{error.object[error.start]:02x})"
        hint = "Set csv.encoding to the file's encoding, for instance latin-1 or utf-16"
        raise DataError(reason, url=reader.url, line=line, hint=hint) from None
    names_columns = options.header is not False
    if options.header == "auto":  # no value is a number, a date or a boolean
        types = [infer_type(pa.array([value], pa.string()), nulls_of(options), options) for value in values]
        names_columns = all(pt.is_string(t) or pt.is_null(t) for t in types)
    if not names_columns:
        return CsvHeader(numbered([""] * len(values)), at, skipped, dialect, text[at:HEAD_BYTES][:_FIRST_BYTES])
    names, lines = distinct(numbered(values)), skipped + record.line - 1 + count_lines(raw)
    rows = text[at + record.end : HEAD_BYTES][:_FIRST_BYTES]
    return CsvHeader(names, at + record.end, lines, dialect, rows, tuple(values))


def _named_delimiter(text: bytes, at: int, dialect: Dialect) -> re.Match[bytes] | None:
    """Return the match of a first line such as `sep=;`, with which files for Excel name their delimiter."""
    found, others = _SEP_LINE.match(text, at), (dialect.quote, dialect.escape, dialect.comment)
    return None if found is None or found["delimiter"].decode() in others else found


def _more(size: int, reader: ObjectReader) -> int:
    """Return the next number of bytes to search for the header, if `size` bytes were too few."""
    if size >= MAX_RECORD_BYTES:
        raise endless_header(reader.url)
    return size * 4


def endless_header(url: object) -> DataError:
    """Return the error for a file whose first record does not end."""
    reason = f"the header is longer than {MAX_RECORD_BYTES >> 20} MiB, or a quote in it is never closed"
    return DataError(reason, url=url, line=1, hint=QUOTE_HINT)


# Find where rows begin in ranges of CSV, which depends on the quotes before them.
#
# A range is scanned as if it began outside quotes, then as if it began within. Where all quotes are regular in one of
# the two (one opens at the beginning of a field and closes at its end), their number decides, which is fast. Otherwise
# both scans are done by the rules of the parser. Behind a row in which text follows a closing quote the file is not
# divided: how that row is read depends on all before it.
#
# The end of a range never divides a run of quotes: the whole run belongs to the range before it.

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
    """Scan a range; None if very many quotes follow each other, or text follows a closing quote in an exact scan."""
    scan = _QuotedScan(dialect, span[1] - span[0], is_within=is_within, exact=exact)
    start = max(0, span[0] - 1)  # the byte before shows whether a quote opens a field
    pieces = map(bytes, in_pieces(text(start, span[1] + LONGEST_RUN), SCANNED_PIECE))
    return scan if scan.add_all(pieces if span[0] else chain([b"\n"], pieces)) and not scan.is_damaged else None


class _QuotedScan:
    """A scan of a range that begins within quotes or outside of them.

    It `is_regular` if each quote opens or closes a field; always, if the scan is exact. Then it may be `is_damaged`.
    """

    def __init__(self, dialect: Dialect, size: int, *, is_within: bool, exact: bool) -> None:
        assert dialect.quote is not None
        quote, delimiter = dialect.quote.encode(), dialect.delimiter.encode()
        self._quote, self._left, self._exact = quote, size, exact
        self._edges = pa.array([*b"\r\n", *delimiter, *quote], pa.uint8())
        q, d = re.escape(quote), re.escape(delimiter)
        text, opens = rb"[^%b]*+(?:%b%b[^%b]*+)*+" % (q, q, q, q), rb"[\r\n%b]%b" % (d, q)
        blanks = b"".join(c for c in (b" ", b"\t") if c != delimiter)
        self._after = re.compile(rb"[%b]*+[\r\n%b]" % (blanks, d))
        self._rest = re.compile(rb"%b(%b?)" % (text, q))
        # The quote comes first, so that it is searched for fast; then the byte before it is examined.
        self._field = re.compile(rb"%b(?<=%b)%b" % (q, opens, self._rest.pattern))
        closed = rb"(?<=%b)%b%b(?=%b)" % (opens, text, q, self._after.pattern)
        self._closed = re.compile(rb"(?:[^%b]++|%b(?:%b|(?<!%b)))*+" % (q, q, closed, opens))
        self.is_regular, self.is_damaged, self._is_within, self._before = True, False, is_within, b""
        self._at = self._lines = 0
        self._row_start: tuple[int, int] | None = None

    @property
    def result(self) -> TextScan:
        return TextScan(self._lines, self._row_start, self._is_within)

    def add_all(self, text: Iterator[bytes]) -> bool:
        """Scan a text from the byte before the range on; return False if very many quotes follow each other.

        It ends at the first quote that is not regular, or in an exact scan where text follows a closing quote.
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
            self._add(held[:end], held[end : end + 1] or b"\n")
        return True

    def _add(self, body: bytes, after: bytes) -> bool:
        """Scan bytes that end with no quote, or else have `after` behind them; return whether they are regular."""
        lines = count_byte(body, b"\n")
        if self._quote not in body:
            end = 0 if self._is_within else body.rfind(b"\n") + 1
        elif self._exact:
            end = self._exact_row_end(self._before + body, after)
        else:
            end = self._regular_row_end(b"".join((self._before, body, after or b"\n")), len(body))
        if end:
            self._row_start = (self._at + end, self._lines + lines - body.count(b"\n", end))
        self._at, self._left, self._lines = self._at + len(body), self._left - len(body), self._lines + lines
        self._before = body[-1:]
        return self.is_regular and not self.is_damaged

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

    def _exact_row_end(self, data: bytes, after: bytes) -> int:
        """Return where the last row ends in the bytes after the first, by the rules of the parser; 0 if none does.

        Text behind a closing quote is looked for up to the byte `after`.
        """
        begin = 1
        if self._is_within:
            rest = self._rest.match(data, begin)
            assert rest is not None  # it also matches nothing
            begin, self._is_within = rest.end(), not rest[1]
            self._check(data, rest, after)
        # Skip to the last line break before the tail, or to the field that holds it.
        cut = data.rfind(b"\n", begin, max(begin, len(data) - TAIL_BYTES)) + 1
        closed = self._closed.match(data, begin, cut) if cut else None
        end = self._last_row_end(data, closed.end(), after) if closed is not None else 0
        return end or self._last_row_end(data, begin, after)

    def _last_row_end(self, data: bytes, begin: int, after: bytes) -> int:
        """Return where the last row ends after a byte that is outside quotes; 0 if none does."""
        fields = list(self._field.finditer(data, begin))
        if fields:
            self._is_within = not fields[-1][1]
        for field in fields:
            self._check(data, field, after)
        at = len(data)
        while (at := data.rfind(b"\n", begin, at)) >= 0:
            number = bisect_left(fields, at, key=re.Match.start)
            if not number or fields[number - 1].end() <= at:
                return at
            at = fields[number - 1].start()
        return 0

    def _check(self, data: bytes, quoted: re.Match[bytes], after: bytes) -> None:
        """Look for text after the closing quote of a match; if blanks hide what follows, it counts as text."""
        if self.is_damaged or not quoted[1] or self._after.match(data, quoted.end()):
            return
        self.is_damaged = self._after.fullmatch(data[quoted.end() :] + after) is None
