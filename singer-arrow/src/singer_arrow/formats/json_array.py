"""Convert a JSON document that is a list to JSON Lines, one element a line, in bounded memory.

A piece of the text is cut after its last whole element. The cut is where a record probably begins (with the same key as
the first record), if the parser confirms it; otherwise by the exact rules, at a twentieth of the speed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from singer_arrow.errors import DataError
from singer_arrow.reading.chunks import MAX_RECORD_BYTES

_BLANK = b" \t\r\n"
_FIRST_KEY = re.compile(rb'[ \t\r\n]*(\{[ \t\r\n]*"(?>(?:[^"\\]|\\.)*)"[ \t\r\n]*:)', re.DOTALL)
_TOKEN = re.compile(rb'"(?>(?:[^"\\]|\\.)*)"|[\[\]{},"]', re.DOTALL)  # a lone quote: its string does not end
_LINE = re.compile(rb"[ \t\r\n]*\{[^\r\n]*(?=\r[^\n])")
_TRIES = 3
MAX_BLANK = 64 << 10
"""Bytes of blanks before a list, at most; a text with more blanks is read as lines."""
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_DECODED = (msgspec.DecodeError, RecursionError)


def with_line_feeds(chunks: Iterator[Any], *, resumes: bool = False) -> Iterator[Any]:
    """Return a text of lines, with LF in place of each CR if its lines end with CR alone.

    A text that `resumes` begins with the last byte of a line. Within a record, CR is a blank.
    """
    head = _beginning(chunks, lambda head: resumes or b"\n" in head or b"\r" in head[:-1])
    text = chain([head], chunks)
    if head[:1] == b"\r" if resumes else has_cr_lines(head):
        return (bytes(chunk).replace(b"\r", b"\n") for chunk in text)
    return text


def has_cr_lines(head: bytes) -> bool:
    """Return whether the first line of a text is a record, and ends with CR alone."""
    found = _LINE.match(head)
    return found is not None and _is_one(found[0])


def take_list(chunks: Iterator[Any]) -> tuple[bool, Iterator[Any]]:
    """Return whether a text is a list, and the text; without the first bracket of a list.

    A text of lines that are lists is none.
    """
    head = _beginning(chunks, lambda head: head.lstrip(_BLANK)[:1] not in (b"", b"[") or _are_lists(head) is not None)
    text = head.lstrip(_BLANK)
    if text[:1] != b"[" or len(head) - len(text) > MAX_BLANK or _are_lists(head):
        return False, chain([head], chunks)
    return True, chain([head.replace(b"[", b" ", 1)], chunks)


def _beginning(chunks: Iterator[Any], is_enough: Callable[[bytes], bool]) -> bytes:
    """Return the beginning of a text, up to a chunk with which it is enough, or longer than `MAX_BLANK` bytes."""
    head = b""
    for chunk in chunks:
        head += bytes(chunk)
        if len(head) > MAX_BLANK or is_enough(head):
            break
    return head


def _are_lists(head: bytes) -> bool | None:
    """Return whether the first line of a text is a whole list, and another list follows; None if it is too short."""
    line, end, rest = head.lstrip(_BLANK).partition(b"\n")
    if not (end and (rest := rest.lstrip(_BLANK))):
        return None
    return rest[:1] == b"[" and line[:1] == b"[" and _is_one(line)


def _is_one(text: bytes) -> bool:
    """Return whether a text is one value of JSON."""
    return len(_decoded(text, len(text)) or ()) == 1


def take_rest(chunks: Iterator[Any]) -> tuple[bool, bool, Iterator[Any]]:
    """Return whether a text is the rest of a list, whether elements follow, and the text without its first byte.

    That is the last byte of a line, or of an element of a list.
    """
    head = b""
    for chunk in chunks:
        head += bytes(chunk)
        if head[:1] == b"\n":
            return False, False, chain([head[1:]], chunks)
        if rest := head[1:].lstrip(_BLANK):
            comma = rest[:1] == b","
            return True, comma, chain([head[1:].replace(b",", b" ", 1) if comma else head[1:]], chunks)
    return False, False, iter([head[1:]])


class ListElements:
    """Lines of the elements of a list, and the positions of the elements; an iterable.

    The text begins behind the bracket or comma that `at` bytes and `lines` lines precede, and may be cut anywhere.
    Where it `follows` a comma, an element must follow. Unless it is `whole`, an element that is cut off at its end is
    ignored. A piece has `size` bytes, more if an element is larger. Text that is no list of JSON values, and an element
    of more than 64 MiB, is a DataError that names the line.
    """

    def __init__(
        self,
        chunks: Iterable[Any],
        url: object,
        *,
        size: int = 4 << 20,
        whole: bool = True,
        at: int = 0,
        lines: int = 0,
        follows: bool = False,
    ) -> None:
        self._chunks, self._url, self._size, self._whole = chunks, url, size, whole
        self._line, self._at, self._follows = lines + 1, at, follows
        # Of elements that were yielded and not yet dropped: first line, and bytes and lines before the end.
        self._first_lines, self._ends, self._end_lines = array("q"), array("q"), array("q")
        self._first_key: bytes | None = None

    def line_of(self, number: int) -> int:
        """Return the line on which an element begins, by its number from 1 among those not yet dropped."""
        return self._first_lines[number - 1]

    def drop(self, count: int) -> tuple[int, int]:
        """Drop the positions of the first elements; returns bytes and lines before the end of the last of them."""
        last = self._ends[count - 1], self._end_lines[count - 1]
        for held in (self._first_lines, self._ends, self._end_lines):
            del held[:count]
        return last

    def __iter__(self) -> Iterator[bytes]:
        held, follows, size = b"", self._follows, self._size
        for chunk in self._chunks:
            held += bytes(chunk)
            while len(held) >= size:
                elements, end = self._cut(held)
                if elements is None and size >= MAX_RECORD_BYTES:
                    raise self._error(f"an element of the list is longer than {MAX_RECORD_BYTES >> 20} MiB", held)
                if elements is None:
                    size *= 2
                    continue
                yield self._lines_of(elements, held[:end])
                held, follows, size = held[end + 1 :], True, self._size
        if not self._whole:
            elements, end = self._cut(held)
            if elements is None and held.rstrip(_BLANK)[-1:] != b"]":
                return
            if elements is not None:
                yield self._lines_of(elements, held[:end])
                return
        yield from self._end(held, follows=follows)

    def _end(self, held: bytes, *, follows: bool) -> Iterator[bytes]:
        text = held.rstrip(_BLANK)
        try:
            elements = _ELEMENTS.decode(b"[" + text)
        except _NOT_DECODED as error:
            commas = list_commas(text)
            if commas and text[commas[-1] :] == b"]" and (good := _split(text, commas)):
                yield self._lines_of(good, text)
                return
            good, end = self._cut(held)
            if good is not None:
                yield self._lines_of(good, held[:end])
                held = held[end + 1 :]
            reason = str(error).partition(" (byte")[0]
            raise self._error(f"the list is not closed, or not valid JSON ({reason})", held) from None
        if not elements and follows:
            raise self._error("the list ends with a comma", held)
        yield self._lines_of(elements, text)

    def _cut(self, data: bytes) -> tuple[list[Any] | None, int]:
        """Return the whole elements at the beginning of a text, and the end of the last one; None if there is none."""
        if self._first_key is None:
            found = _FIRST_KEY.match(data)
            self._first_key = found[1] if found else b""
        at = len(data)
        for _ in range(_TRIES if self._first_key else 0):
            at = data.rfind(self._first_key, 0, at)
            comma = at - 1
            while comma > 0 and data[comma] in _BLANK:
                comma -= 1
            if comma <= 0:
                break
            if data[comma] == ord(",") and (elements := _decoded(data, comma)) is not None:
                return elements, comma
        commas = list_commas(data)
        if commas and data[commas[-1] :][:1] == b"]":
            commas.pop()
        if not commas:
            return None, 0
        return _decoded(data, commas[-1]) or _split(data, commas), commas[-1]

    def _lines_of(self, elements: list[Any], text: bytes) -> bytes:
        """Return the lines of the elements of a text that ends at a comma or a bracket."""
        lines, at = [], 0
        for element in elements:
            raw = bytes(element)
            start = text.find(raw, at)  # only blanks and a comma precede it
            self._line += text.count(b"\n", at, start)
            begins, at = self._line, start + len(raw)
            if b"\n" in raw or b"\r" in raw:
                self._line += raw.count(b"\n")
                if isinstance(element, _Unparsed):
                    raw = raw.replace(b"\n", b"\r")
                else:  # between tokens only
                    raw = raw.replace(b"\n", b" ").replace(b"\r", b" ")
            self._first_lines.append(begins)
            self._ends.append(self._at + at)
            self._end_lines.append(self._line - 1)
            lines.append(raw)
        self._line += text.count(b"\n", at)
        self._at += len(text) + 1  # the comma
        return b"".join(line + b"\n" for line in lines)

    def _error(self, reason: str, held: bytes) -> DataError:
        """Return an error on the line on which the first element that was not yielded begins."""
        line = self._line + held[: len(held) - len(held.lstrip(_BLANK))].count(b"\n")
        return DataError(reason, url=self._url, line=line)


def element_reason(reason: str) -> str:
    """Return the reason of an error of a line, reworded for an element of a list."""
    return reason.replace("each line must hold", "each element of the list must be")


def _decoded(data: bytes, end: int) -> list[Any] | None:
    try:
        return _ELEMENTS.decode(b"[%b]" % data[:end])
    except _NOT_DECODED:
        return None


def _split(data: bytes, ends: Sequence[int]) -> list[Any] | None:
    """Return the elements that end at the given commas, some of which are not JSON; None if one is empty.

    These become bad rows. A line break within a string, which JSON does not allow, is kept as CR.
    """
    begins = [0, *(end + 1 for end in ends)]
    found = [data[begin:end].strip(_BLANK) for begin, end in zip(begins, ends, strict=False)]
    return [_Unparsed(element) for element in found] if all(found) else None


class _Unparsed(bytes):
    """An element that may not be JSON."""


def list_commas(data: bytes) -> list[int]:
    """Return the commas of the list itself, and the bracket that closes the list, if it is closed.

    Stops where a comma is missing.
    """
    depth, begin, found = 0, 0, []
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[":
                if depth == 0 and data[begin : token.start()].strip(_BLANK):
                    break
                depth += 1
            case b"}" | b"]":
                depth -= 1
            case b"," if depth == 0:
                found.append(token.start())
                begin = token.end()
            case b'"':
                break
        if depth < 0:
            found.append(token.start())
            break
    return found
