"""Dialects of CSV: the delimiter, and where records and fields end. Pure.

The rules are those of Arrow's parser: a field that begins with a quote is quoted up to the next quote that is not
doubled; a quote elsewhere is an ordinary character; an escape character makes the next one literal everywhere; records
end with LF, CRLF or CR; empty lines are no records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from singer_arrow.errors import ConfigError
from singer_arrow.formats.range_scan import count_byte
from singer_arrow.read_options import ReadOptions

_MOST = "{0,1000}"  # repetitions in a match
_LINE_END = re.compile(rb"\r\n?|\n")
_DELIMITERS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}


class Record(NamedTuple):
    """Range of bytes of a record in a text, its line break included; `line` is its first line, from 1."""

    start: int
    end: int
    line: int


class Scan(NamedTuple):
    """First bytes of the rows of a text; and the byte range, by number, of each row with an open quote."""

    starts: Sequence[int]
    damage: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Dialect:
    """Special characters of a file, each one ASCII character or None."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None

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
                msg = f"csv.{key} must be one ASCII character, it is {value!r}"
                raise ConfigError(msg)
        given = [v for v in found.values() if v is not None]
        if len(set(given)) != len(given):
            msg = f"csv.delimiter, quote, escape and comment must differ; they are {found}"
            raise ConfigError(msg)
        return cls(**found)  # type: ignore[arg-type]  # the delimiter is never None

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
        end = at = 0
        empty = b"\r\n" + (self.comment or "").encode()
        while (found := self._record_end(data, at)) is not None:
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
        """Yield the whole records of a text that begins with one, without empty lines and comments."""
        at, line = 0, 1
        while (end := self._record_end(data, at)) is not None:
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
            elif (end := self._record_end(data, at)) is not None:
                at = end
            else:
                break
        return at

    def scan(self, data: bytes) -> Scan:
        """Return where the rows of a text begin, rows with an open quote included; comments must be empty lines."""
        starts, damage, at = list[int](), dict[int, tuple[int, int]](), 0
        while at < len(data):
            if data[at] not in b"\r\n":
                starts.append(at)
            if (end := self._record_end(data, at)) is not None:
                at = end
            else:
                damage[len(starts) - 1] = (at, self.damaged(data, at))
                at = damage[len(starts) - 1][1]
        return Scan(starts, damage)

    def end(self, data: bytes, start: int) -> int:
        """Return where the whole record at `start` ends."""
        end = self._record_end(data, start)
        assert end is not None
        return end

    def damaged(self, data: bytes, start: int) -> int:
        """Return where the line ends on which the record at `start` opens a quote that is not closed."""
        line_end = _LINE_END.search(data, self._whole_fields(data, start))
        return line_end.end() if line_end else len(data)

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
        """Return where a field ends; None if its quote is not closed."""
        if self.quote and data.startswith(self.quote.encode(), start):
            closed = self._quote_end(data, start + 1)
            return None if closed is None else self._tail_end(data, closed)
        return self._tail_end(data, start)

    def _quote_end(self, data: bytes, at: int) -> int | None:
        """Return where the text after an opening quote ends, its closing quote included; None if it does not."""
        quote = (self.quote or "").encode()
        end = self._pieces_end(self._patterns.inner, data, at)
        return end + 1 if data.startswith(quote, end) else None

    def _tail_end(self, data: bytes, at: int) -> int:
        return self._pieces_end(self._patterns.tail, data, at)

    @staticmethod
    def _pieces_end(pieces: re.Pattern[bytes], data: bytes, at: int) -> int:
        while (found := pieces.match(data, at)) is not None and found.end() > at:
            at = found.end()
        return at

    def without_comments(self, data: bytes) -> bytes:
        """Return the text with comments replaced by empty lines, which keeps the line numbers."""
        if not self.comment or self.comment.encode() not in data:
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
        field = f"(?:{q}{inner}{q}(?!{q}){tail}|(?!{q}){tail})" if q else tail
        comment = f"{c}[^\\r\\n]*+{line_end}|" if c else ""
        texts = (
            f"{comment}{field}(?>(?:{d}{field}){_MOST}){line_end}",
            f"(?>(?:{field}{d}){_MOST})",
            inner,
            tail,
            f"(?m)^{c}[^\\r\\n]*",
            f"{e}([\\s\\S])",
        )
        return _Patterns(*(re.compile(text.encode()) for text in texts))


class _Patterns(NamedTuple):
    """Patterns of a record, of fields that a delimiter follows, and of parts of one.

    `inner` is text between two quotes, `tail` other text of a field.
    """

    record: re.Pattern[bytes]
    fields: re.Pattern[bytes]
    inner: re.Pattern[bytes]
    tail: re.Pattern[bytes]
    comment: re.Pattern[bytes]
    escaped: re.Pattern[bytes]


def has_known_delimiter(name: str, options: ReadOptions) -> bool:
    """Return whether the options or the name of a file determine its delimiter."""
    return bool(options.delimiter) or _suffix(name) in _DELIMITERS


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


def _fields(dialect: Dialect, text: bytes, rows: int) -> list[int]:
    """Return the number of fields of each of the first rows; of the text, if not even one row is whole."""
    found = [text[r.start : r.end] for r in islice(dialect.records(text), rows)]
    return [len(dialect.raw_fields(row)) for row in found or [text]]
