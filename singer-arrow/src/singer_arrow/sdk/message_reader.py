"""Read the messages of a target's input in chunks of whole lines; errors name the line.

RECORD lines of streams that need no single records are passed on without parsing: they are recognized by the prefix
that consecutive RECORD lines of a stream share. All other lines are parsed one by one.

The privates used here are listed in `tests/unit/singer_arrow/sdk/test_target.py`, which fails when an SDK changes them.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Protocol

import msgspec
from singer_sdk.exceptions import RecordsWithoutSchemaException
from singer_sdk.io_base import SingerReader
from singer_sdk.singerlib.json import deserialize_json

from singer_arrow.casting.from_json import BadRowError, json_kind, parse
from singer_arrow.casting.from_text import shorten
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.reading import chunks as limits
from singer_arrow.reading.chunks import LongRecordError
from singer_arrow.records.parse import BAD_INPUT, NoSchemaError, bad_record, input_place
from singer_arrow.records.queue import InputLines
from singer_arrow.records.schema import is_unicode_text

_VERSION = rb'(?:"version"\s*:\s*\d+\s*,\s*)?'
_TYPE, _STREAM = rb'"type"\s*:\s*"RECORD"', rb'"stream"\s*:\s*"[^"\\]*"'
_PREFIX = re.compile(
    rb"\{\s*%b(?:%b\s*,\s*%b%b|%b\s*,\s*%b%b)\s*," % (_VERSION, _TYPE, _VERSION, _STREAM, _STREAM, _VERSION, _TYPE)
)


class _Head(msgspec.Struct, gc=False):
    """The members of a message that decide its destination."""

    type: str
    stream: str = ""


_HEADS = msgspec.json.Decoder(_Head)
_HARD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_OF_STREAMS = frozenset({"SCHEMA", "RECORD", "BATCH", "ACTIVATE_VERSION"})


class RecordLines(Protocol):
    """Receives RECORD lines of some streams without parsing; see `target.RecordLineRouter`."""

    def takes(self, stream: str) -> bool: ...
    def take(self, stream: str, lines: bytes, first: int, count: int) -> None: ...
    def flush(self) -> None: ...


class LineReader(SingerReader):
    """Reads messages; the error of an invalid message names its line of the input."""

    record_lines: RecordLines | None = None
    """Receives RECORD lines without parsing; if None, all lines are parsed."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0  # number of the current line, from 1
        self._lines = InputLines()
        self._callbacks: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._stats: Counter[str] = Counter()
        self._prefix, self._stream = b"", ""

    def process_lines(self, file_input: IO[str] | None, callbacks: dict[str, Callable[[dict[str, Any]], None]]) -> Any:
        """Read all lines; the error of a line that is no message, or that was passed to `interrupt`, is raised."""
        given = file_input or self.default_input
        if given is None:
            raise DataError("There is no input: standard input is closed; pipe the messages of a tap into the target")
        self._callbacks, self._stats = callbacks, Counter()
        try:
            with contextlib.closing(self._lines.of(given)) as chunks:
                for chunk in chunks:
                    self._take(chunk)
            if self.record_lines is not None:
                self.record_lines.flush()
        except LongRecordError:
            self.number += 1
            most = limits.MAX_RECORD_BYTES >> 20
            raise self._bad(f"is longer than {most} MiB; does the tap end each message with a line break?") from None
        return self._stats

    def interrupt(self, error: BaseException) -> None:
        """Raise an error in `process_lines` at once, also while it waits for a line; safe to call from any thread."""
        self._lines.interrupt(error)

    def deserialize_json(self, line: str | bytes) -> dict[str, Any]:
        try:
            message = deserialize_json(line, parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            raise self._bad(f"is no UTF-8 (byte 0x{error.object[error.start]:02x}); the tap must write UTF-8") from None
        except (ValueError, RecursionError) as error:
            what = "is blank" if not line.strip() else f"is no JSON ({error}): {_shortened(line)}"
            if line.strip() and isinstance(line, bytes) and not line.endswith(b"\n"):
                what += "; the input ends there: has the tap failed?"
            raise self._bad(what) from None
        if not isinstance(message, dict):
            raise self._bad(f"is no Singer message: {_shortened(line)}")
        return message

    def _bad(self, what: str) -> DataError:
        return DataError(f"Line {self.number} of the input {what}")

    def _take(self, chunk: bytes) -> None:
        lines = chunk.count(b"\n")
        prefix = self._prefix
        if (
            prefix
            and chunk.startswith(prefix)
            and chunk.count(b"\n" + prefix) == lines - 1
            and chunk.endswith(b"\n")
            and self._takes(self._stream)
        ):
            self._take_records(self._stream, chunk, lines)
        else:
            self._take_mixed(chunk)

    def _takes(self, stream: str) -> bool:
        return self.record_lines is not None and self.record_lines.takes(stream)

    def _take_records(self, stream: str, lines: bytes, count: int) -> None:
        assert self.record_lines is not None
        first, self.number = self.number + 1, self.number + count
        self._stats["RECORD"] += count
        self.record_lines.take(stream, lines, first, count)

    def _take_mixed(self, chunk: bytes) -> None:
        """Process lines of any messages; runs of RECORD lines of one stream are passed on together."""
        lines = _split(chunk)
        heads, at, end = list(self._heads(chunk, lines)), 0, len(lines)
        while at < end:
            head, stop = heads[at], at + 1
            if head is None or head.type != "RECORD" or not self._takes(head.stream):
                self.number += 1
                self._take_message(lines[at], head)
            else:
                stream = head.stream
                while stop < end and (h := heads[stop]) is not None and h.type == "RECORD" and h.stream == stream:
                    stop += 1
                if found := _PREFIX.match(lines[stop - 1]):
                    self._prefix, self._stream = found[0], stream
                run = b"".join(lines[at:stop])
                self._take_records(stream, run if run.endswith(b"\n") else run + b"\n", stop - at)
            at = stop

    def _take_message(self, line: bytes, head: _Head | None) -> None:
        if head is None:  # msgspec cannot parse it; it may be a RECORD line nevertheless
            try:
                given = json.loads(line)
            except (ValueError, RecursionError):
                given = None
            stream = given.get("stream") if isinstance(given, dict) and given.get("type") == "RECORD" else None
            if isinstance(stream, str) and self._takes(stream):
                self.number -= 1
                self._take_records(stream, line if line.endswith(b"\n") else line + b"\n", 1)
                return
        message = self.deserialize_json(line)
        self._check_keys(line, message)
        try:
            self.assert_line_requires(message, {"type"})
            kind = message["type"]
            named, stream = isinstance(kind, str) and kind in _OF_STREAMS, message.get("stream", "x")
            if named and not (isinstance(stream, str) and 0 < len(stream) <= 1000 and is_unicode_text(stream)):
                fault = f"must be text, it is {json_kind(stream)}"
                if isinstance(stream, str):
                    fault = "is no Unicode" if 0 < len(stream) <= 1000 else "must have 1 to 1,000 characters"
                raise DataError(f"The 'stream' of a {kind} message {fault}; this is an error of the tap")
            callback = self._callbacks.get(kind) if isinstance(kind, str) else None
            if callback is None:
                self._process_unknown_message(message)
            else:
                callback(message)
        except BAD_INPUT as error:
            raise self._placed(error, message) from None
        except RecursionError:
            raise self._placed(DataError("its values are nested too deeply"), message) from None
        self._stats[kind] += 1

    def _check_keys(self, line: bytes, message: dict[str, Any]) -> None:
        """Raise DataError if a message has a key twice: readers differ in which of the two values they take."""
        may_be_escaped = b"\\u" in line and message.get("type") != "RECORD"
        if may_be_escaped or any(line.count(b'"%b"' % key.encode(errors="replace")) > 1 for key in message):
            with contextlib.suppress(BadRowError):  # of a record, whose own checks name it
                if twice := parse(line, constants=True).twice:
                    raise self._bad(f"has the key {min(twice)!r} twice; this is an error of the tap")

    def _placed(self, error: Exception, message: dict[str, Any]) -> Exception:
        """Return the error of a message with its line; errors of other causes are returned unchanged."""
        if error is self._lines.error:
            return error
        kind, stream = message.get("type"), message.get("stream")
        where = input_place(self.number, kind, stream)
        if isinstance(error, SchemaError):
            return type(error)(f"{where}: {error}") if kind == "SCHEMA" else error
        if isinstance(error, RecordsWithoutSchemaException) and not isinstance(error, DataError):
            return NoSchemaError("it comes before the SCHEMA of its stream; the tap must send that first", url=where)
        if not isinstance(error, DataError):
            return DataError(" ".join(str(error).split()), url=where)
        if error.url is not None or error.reason.startswith("Line "):
            return error
        if kind == "RECORD" and isinstance(stream, str):
            return bad_record(self.number, stream, error.reason, error.column)
        return error.placed(where)

    @staticmethod
    def _heads(chunk: bytes, lines: Sequence[bytes]) -> Iterator[_Head | None]:
        """Yield the head of each line; None if msgspec cannot parse it."""
        try:
            heads = _HEADS.decode_lines(chunk)
        except _HARD:
            heads = []
        if len(heads) == len(lines) and not any(line.isspace() for line in lines):
            yield from heads
            return
        for line in lines:  # a line is bad or blank
            try:
                yield _HEADS.decode(line)
            except _HARD:
                yield None

    def _process_unknown_message(self, message_dict: dict[str, Any]) -> None:
        raise self._bad(f"is a message of type {shorten(message_dict['type'])}, which Singer does not know")

    @staticmethod
    def assert_line_requires(line_dict: dict[str, Any], requires: set[str]) -> None:
        """Check that a message has its required keys, as the SDK does, without its text in the error."""
        if missing := requires - line_dict.keys():
            kind = line_dict.get("type", "")
            of = f" of stream {shorten(line_dict['stream'], 200)}" if "stream" in line_dict else ""
            msg = (
                f"A {kind} message{of} lacks {', '.join(repr(m) for m in sorted(missing))}; this is an error of the tap"
            )
            raise DataError(" ".join(msg.split()))


def _split(chunk: bytes) -> list[bytes]:
    """Return the lines of a chunk with their line breaks."""
    if b"\r" not in chunk:
        return chunk.splitlines(keepends=True)
    *lines, rest = chunk.split(b"\n")
    return [*(line + b"\n" for line in lines), *([rest] if rest else [])]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON; the tap must write null")


def _shortened(line: str | bytes) -> str:
    text = line if isinstance(line, str) else line.decode(errors="replace")
    text = text.rstrip("\n")
    return repr(text[:80] + ("..." if len(text) > 80 else ""))
