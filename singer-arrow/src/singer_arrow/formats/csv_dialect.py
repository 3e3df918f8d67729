"""The syntax of CSV: where records and fields end. Pure.

The rules are those of Arrow's parser: a field that begins with a quote is quoted up to the next quote that is not
doubled; a quote elsewhere is a character like any other; an escape character makes the next one literal everywhere;
records end with LF, CRLF or CR; empty lines are no records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from singer_arrow.errors import ConfigError
from singer_arrow.formats.protocol import ReadOptions

_DELIMITERS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}


class Record(NamedTuple):
    """Bytes `start` to `end` of a text, its line break included, that begin on `line` (from 1)."""

    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Dialect:
    """Characters with a meaning, each one ASCII character or None."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None

    @classmethod
    def of(cls, name: str, options: ReadOptions) -> Dialect:
        """The dialect of a file called `name` (without the suffix of its compression).

        Raises:
            ConfigError: Something is not one ASCII character, or two are the same.
        """
        suffix = name[name.rfind(".") :].lower()
        found = {
            "delimiter": options.delimiter or _DELIMITERS.get(suffix, ","),
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
        """Where the last whole record probably ends; fast, and wrong only where quotes are irregular.

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
        """Where the last whole record ends; 0 if there is none."""
        end = 0
        for record in self.records(data):
            if record.end < len(data) or data[-1:] != b"\r":  # an LF may follow
                end = record.end
        return end

    def records(self, data: bytes) -> Iterator[Record]:
        """The whole records of a text that begins with one, empty lines and comments left out, torn ones too."""
        at, line, match = 0, 1, self._record.match
        while (found := match(data, at)) is not None:
            end = found.end()
            first = data[at]
            if first not in b"\r\n" and not (self.comment and first == ord(self.comment)):
                yield Record(at, end, line)
            line += count_lines(data[at:end])
            at = end

    def is_whole(self, data: bytes) -> int:
        """-1 if the text is whole records, else the line (from 1) where one begins that does not end."""
        at, match = 0, self._record.match
        while at < len(data):
            found = match(data, at)
            if found is None:
                return count_lines(data[:at]) + 1
            at = found.end()
        return -1

    def fields(self, record: bytes) -> list[str]:
        """The values of one record.

        Raises:
            UnicodeDecodeError: It is not UTF-8.
        """
        values, at = [], -1
        while at < 0 or record[at : at + 1] == self.delimiter.encode():
            found = self._field.match(record, at + 1)
            assert found is not None  # it also matches nothing
            inner, tail = found["inner"], found["tail"]
            if inner is not None and self.quote:
                inner = inner.replace(self.quote.encode() * 2, self.quote.encode())
            raw = (inner or b"") + tail
            values.append((self._escaped.sub(rb"\1", raw) if self.escape else raw).decode())
            at = found.end()
        return values

    def without_comments(self, data: bytes) -> bytes:
        """The text with comments made empty lines, so that line numbers stay."""
        if not self.comment or self.comment.encode() not in data:
            return data
        if self.quote is None or self.quote.encode() not in data:
            return self._comment.sub(b"", data)
        kept, at = [], 0
        for record in self.records(data):
            kept += [b"\n" * count_lines(data[at : record.start]), data[record.start : record.end]]
            at = record.end
        return b"".join((*kept, self._comment.sub(b"", data[at:])))

    def _quotes(self, data: bytes, start: int, end: int) -> int:
        quote = (self.quote or "").encode()
        found = data.count(quote, start, end)
        return found - data.count((self.escape or "").encode() + quote, start, end) if self.escape else found

    @cached_property
    def _comment(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?m)^" + re.escape((self.comment or "").encode()) + rb"[^\r\n]*")

    @cached_property
    def _escaped(self) -> re.Pattern[bytes]:
        return re.compile(re.escape((self.escape or "").encode()) + rb"([\s\S])")

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        inner, tail = self._parts
        quoted = f"{inner[0]}(?P<inner>{inner[1]}){inner[0]}" if inner[0] else "(?P<inner>(?!))"
        return re.compile(f"(?:{quoted})?(?P<tail>{tail})".encode())

    @cached_property
    def _record(self) -> re.Pattern[bytes]:
        (q, inner), tail = self._parts
        field = f"(?:{q}{inner}{q}{tail}|(?!{q}){tail})" if q else tail
        d, line_end = re.escape(self.delimiter), "(?:\\r\\n?|\\n)"
        comment = f"{re.escape(self.comment)}[^\\r\\n]*+{line_end}|" if self.comment else ""
        return re.compile(f"{comment}{field}(?>(?:{d}{field})*){line_end}".encode())

    @property
    def _parts(self) -> tuple[tuple[str, str], str]:
        """Patterns: the quote and what stands between two of them; what stands in a field else.

        Nothing of them is given back: `(?>(?:...)*)` and not `(?:...)*+`, which Python before 3.11.5 matches wrongly.
        """
        d, q, e = (re.escape(c) if c else "" for c in (self.delimiter, self.quote, self.escape))
        escaped = f"|{e}[\\s\\S]" if e else ""
        inner = f"(?>(?:[^{q}{e}]++|{q}{q}{escaped})*)" if q else ""
        return (q, inner), f"(?>(?:[^{d}\\r\\n{e}]++{escaped})*)"


def count_lines(data: bytes) -> int:
    """Line breaks in a text: LF, CRLF, or CR if there is none of those."""
    return data.count(b"\n") or data.count(b"\r")
