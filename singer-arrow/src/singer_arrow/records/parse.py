"""A block of RECORD lines -> Arrow rows; metadata columns."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt
from singer_sdk.exceptions import InvalidRecord, MissingKeyPropertiesError, RecordsWithoutSchemaException

from singer_arrow.casting.from_json import BadRowError, RowReader, json_kind, parse, raw_members, to_json_bytes
from singer_arrow.casting.from_text import shorten
from singer_arrow.casting.spelling import collect_truncated, warn_truncated
from singer_arrow.casting.to_json import check_years
from singer_arrow.enforcement.bad_rows import NON_FINITE, batch_of
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.formats.json_keys import KnownKeys, types_within
from singer_arrow.formats.json_lines import LineParser, raw_reader
from singer_arrow.records.schema import Rules
from singer_arrow.records.validation import all_dates
from singer_arrow.schema.arrow_schema import is_json

# Parse one RECORD line exactly, or find why it is no RECORD message. Pure.

Message = Mapping[str, Any]
_RAW_RECORD: Any = msgspec.json.Decoder(msgspec.defstruct("Raw", [("record", msgspec.Raw)], gc=False))
_LONE = re.compile("[\ud800-\udfff]")


class NoMessageError(BadRowError):
    """A line is not a RECORD message."""


def message_of(line: bytes) -> Message:
    """Parse a RECORD message, or raise NoMessageError."""
    if not line or line.isspace():
        raise NoMessageError("the line is blank")
    try:
        message = parse(line, constants=True)
    except BadRowError as error:
        raise NoMessageError(str(error), error.column) from None
    except ValueError as error:  # an integer of thousands of digits
        raise NoMessageError(str(error)) from None
    if not isinstance(message, dict):
        raise NoMessageError(f"each line must hold a message, this one holds {json_kind(message)}")
    twice: frozenset[str] = message.twice & {"type", "stream", "record"}  # type: ignore[attr-defined]  # of no other dict
    if twice:
        raise NoMessageError(f"the key {min(twice)!r} occurs twice in its message")
    if not isinstance(message.get("record"), dict):
        found = json_kind(message["record"]) if "record" in message else "nothing"
        raise NoMessageError(f"'record' must hold an object, it holds {found}")
    return message


def record_text(line: bytes) -> str:
    """Return the record of a RECORD line as JSON text; numbers that JSON lacks become `"NaN"` or `"Infinity"`."""
    message = message_of(line)
    if constant_in(message["record"], None) is not None:
        return shown_record(message["record"])
    return raw_record(line, message).decode(errors="backslashreplace")


def shown_record(record: Message) -> str:
    """Return a parsed record as JSON text, with the numbers that JSON lacks as in `record_text`."""
    return to_json_bytes(_named(record)).decode(errors="backslashreplace")


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _named(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner) for inner in value]
    return NON_FINITE.get(value, "NaN") if isinstance(value, float) and not math.isfinite(value) else value


def constant_in(value: Any, field: pa.Field | None) -> float | None:
    """Return NaN or an infinity that a value holds in a member of the field, or anywhere without a field; else None."""
    found, ahead = None, [(value, field)]
    while ahead:
        value, field = ahead.pop()
        if isinstance(value, float):
            found = value
        elif isinstance(value, dict):
            if field is None or is_json(field) or not pt.is_struct(field.type):
                ahead += [(v, None) for v in value.values()]
            else:
                ahead += [(value.get(f.name), f) for f in field.type]
        elif isinstance(value, list):
            is_list = field is not None and pt.is_list(field.type) and not is_json(field)
            inner = field.type.value_field if field is not None and is_list else None
            ahead += [(v, inner) for v in value]
    return found


def raw_record(line: bytes, message: Message) -> bytes:
    """Return the record as JSON text, as it is in the line if possible."""
    try:
        return bytes(_RAW_RECORD.decode(line).record)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # it refuses more than `parse`, such as lone surrogates
        return to_json_bytes(message["record"])


def _version(value: Any) -> int | None:
    if value is None:
        return None
    fits = isinstance(value, int | Decimal) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    if not fits or value != int(value):
        raise BadRowError(f"its version {shorten(value)} is no integer of 64 bits")
    return int(value)


def _time_extracted(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and not _LONE.search(value)):
        return value
    raise BadRowError(f"its time_extracted {shorten(value)} is no text")


AROUND_VALUES: dict[str, Callable[[Any], Any]] = {"time_extracted": _time_extracted, "version": _version}
"""Converters of the members of a message beside its record."""


# Parse RECORD lines of one stream into one record batch, up to the first bad line.
#
# A block is first parsed by the fast reader, and checked column by column. If that fails, the block is halved until few
# lines remain; these are checked and parsed one by one, which finds the bad line and its reason, or none. If a SCHEMA
# cannot be checked by column, all records are checked one by one and then parsed fast. The result is the same either
# way.

logger = logging.getLogger(__name__)
_FEW = 64
_TOO_DEEP = "its values are nested too deeply"
_AROUND = {"type": pa.string(), "stream": pa.string(), "time_extracted": pa.string(), "version": pa.int64()}


@dataclass(frozen=True, slots=True)
class BadLine:
    """A bad line: its index in the block, the reason, and its text if it is a RECORD message."""

    index: int
    reason: str
    column: str | None = None
    line: bytes | None = None


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The rows of a block, up to its first bad line."""

    rows: pa.RecordBatch
    around: Mapping[str, pa.Array]  # requested members beside the records: `time_extracted` (text), `version` (int64)
    bad_line: BadLine | None = None  # that ended the parsing
    is_slow: bool = False  # parsed one by one
    refused: tuple[BadLine, ...] = ()  # bad records that were skipped, in order
    unknown: Mapping[str, int] = dataclasses.field(default_factory=dict)  # values that have no place in the SCHEMA

    def rows_of(self, lines: int) -> int:
        """Return the number of rows from the first `lines` lines of the block."""
        rows: int = self.rows.num_rows
        return min(lines - sum(f.index < lines for f in self.refused), rows)


class RecordParser:
    """Parses the RECORD lines of one stream; may be called from several threads at once.

    Of the messages it also reads the members `around`: `time_extracted`, `version`. `rules` check the SCHEMA by column;
    without them, `check` checks each message exactly, and raises BadRowError. If that `checks_types`, fast parsing is
    as strict. With `skips_bad_records` only a line that is no RECORD message ends the parsing. `known` are members that
    need no place in the schema; `exact` ones must keep all their digits.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        around: Sequence[str],
        rules: Rules | None,
        check: Callable[[Message], None],
        checks_types: bool,
        skips_bad_records: bool = False,
        known: Iterable[str] = (),
        exact: Collection[str] = (),
        stream: str = "",
    ) -> None:
        self._schema, self._around, self._rules, self._check = schema, tuple(around), rules, check
        closed = rules is not None and rules.is_closed
        self._keys = KnownKeys(schema, frozenset(known), frozenset())
        shown = pa.schema(list(_AROUND.items()))  # all of them, as other keys are looked for in each line
        # by whether each record was checked before
        self._parsers = {
            False: LineParser(
                schema,
                self._keys,
                loose_text=not checks_types,
                around=shown,
                is_closed=closed,
                fits=_texts_fit,
                unquoted=frozenset() if rules is None else rules.numbers,
            ),
            True: LineParser(schema, self._keys, loose_text=True, around=shown),
        }
        self._read_row = RowReader(schema, loose_text=True)
        self._raws = [
            (i, f.name, raw_reader(f, loose_text=True))
            for i, f in enumerate(schema)
            if is_json(f) or pt.is_string(f.type)
        ]
        self._temporal = [
            (i, f)
            for i, f in enumerate(schema)
            if any(pt.is_date(t) or pt.is_timestamp(t) for t in types_within(f.type))
        ]
        self._is_closed = closed
        self._checks_first, self._skips_bad_records = rules is None, skips_bad_records
        self._stream, self._cut, self._exact = stream, set[str](), exact

    def __call__(self, data: bytes, lines: int) -> ParsedLines:
        """Parse whole lines, each with its line break; `lines` is their number."""
        with collect_truncated(self._exact) as cuts:
            parsed = None if self._checks_first else self._fast(data, lines, is_checked=False)
            if parsed is None:
                parsed = self._read_carefully(data.split(b"\n")[:-1])
        warn_truncated(logger, f"stream {self._stream!r}", cuts, self._cut)
        return parsed

    def _fast(self, data: bytes, lines: int, *, is_checked: bool) -> ParsedLines | None:
        """Parse lines at once, and check them by columns unless each record was checked before; None if that fails."""
        with contextlib.suppress(pa.ArrowException, ValueError, RecursionError):
            read = self._parsers[is_checked](data)
            rows, around = read.batch, read.around
            is_whole = rows.num_rows == lines and not read.unread and not read.mismatches
            if not is_whole or (self._is_closed and read.drifted):
                return None
            if not (is_checked or (self._rules is not None and self._rules.hold(rows))):
                return None
            for i, field in self._temporal:
                _check_dates(rows.column(i), field)
            has_moments = "time_extracted" in self._around and not is_checked
            if has_moments and not all_dates(around["time_extracted"].to_pylist(), "date-time"):
                return None
            unknown = read.unknown
            if unknown is None:
                split = data.split(b"\n")
                unknown = self._keys.count(raw_members(split[n - 1])["record"] for n in read.drifted)
            return ParsedLines(rows, {name: around[name] for name in self._around}, unknown=unknown)
        return None

    def _read_carefully(self, lines: list[bytes]) -> ParsedLines:
        bad_line, refused, is_checked = None, list[BadLine](), self._checks_first
        numbers: Sequence[int] = range(len(lines))
        if is_checked:
            for index, line in enumerate(lines):
                try:
                    self._checked(line)
                except (BadRowError, RecursionError) as error:
                    found = _bad_line(index, error, line)
                    if not self._skips_bad_records or found.line is None:
                        bad_line = found
                        break
                    refused.append(found)
            out = {found.index for found in refused}
            numbers = [n for n in numbers[: None if bad_line is None else bad_line.index] if n not in out]
            lines = [lines[n] for n in numbers]
        parts = list(self._parts(lines, numbers, is_checked=is_checked))
        alone = sum(part.rows.num_rows for part in parts if part.is_slow)
        if alone * 2 > len(lines) > 4 * _FEW:  # the next blocks are probably alike
            self._checks_first = True
        if not parts:
            parts = [self._one_by_one([], [], is_checked=True)]
        rows = pa.concat_batches([part.rows for part in parts])
        around = {name: pa.concat_arrays([part.around[name] for part in parts]) for name in self._around}
        refused += [found for part in parts for found in part.refused]
        refused.sort(key=lambda found: found.index)
        unknown = sum((Counter(part.unknown) for part in parts), Counter[str]())
        return ParsedLines(rows, around, parts[-1].bad_line or bad_line, refused=tuple(refused), unknown=unknown)

    def _checked(self, line: bytes) -> Message:
        message = message_of(line)
        for field in self._schema:
            if (found := constant_in(message["record"].get(field.name), field)) is not None:
                name = "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
                raise BadRowError(f"{name} is not JSON; write null", field.name)
        self._check(message)
        return message

    def _parts(self, lines: Sequence[bytes], numbers: Sequence[int], *, is_checked: bool) -> Iterator[ParsedLines]:
        """Yield the rows of lines, given their indexes in the block, up to the first bad line that is not skipped."""
        if not lines:
            return
        if (part := self._fast(b"\n".join([*lines, b""]), len(lines), is_checked=is_checked)) is not None:
            yield part
            return
        if len(lines) <= _FEW:
            yield self._one_by_one(lines, numbers, is_checked=is_checked)
            return
        middle = len(lines) // 2
        for half, places in ((lines[:middle], numbers[:middle]), (lines[middle:], numbers[middle:])):
            for part in self._parts(half, places, is_checked=is_checked):
                yield part
                if part.bad_line is not None:
                    return

    def _one_by_one(self, lines: Sequence[bytes], numbers: Sequence[int], *, is_checked: bool) -> ParsedLines:
        rows, around, unknown = list[list[Any]](), list[list[Any]](), Counter[str]()
        bad_line, refused = None, list[BadLine]()
        for index, line in zip(numbers, lines, strict=True):
            try:
                message = message_of(line) if is_checked else self._checked(line)
                values = self._row(line, message)
                members = [AROUND_VALUES[name](message.get(name)) for name in self._around]
            except (BadRowError, RecursionError) as error:
                found = _bad_line(index, error, line)
                if not self._skips_bad_records or found.line is None:
                    bad_line = found
                    break
                refused.append(found)
            else:
                rows.append(values)
                unknown += self._keys.count([raw_record(line, message)])
                around.append(members)
        columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self._schema)]
        made = {n: pa.array([a[i] for a in around], _AROUND[n]) for i, n in enumerate(self._around)}
        batch = batch_of(columns, self._schema, len(rows))
        return ParsedLines(batch, made, bad_line, is_slow=True, refused=tuple(refused), unknown=unknown)

    def _row(self, line: bytes, message: Message) -> list[Any]:
        raw = raw_record(line, message)
        values, errors = self._read_row(raw)
        if errors:
            raise errors[0]
        if self._raws:
            raws = raw_members(raw)
            for i, name, read in self._raws:
                if name in raws:
                    values[i] = read(raws[name])
        for i, field in self._temporal:
            _check_dates(pa.array(values[i : i + 1], field.type), field)
        return values


def _bad_line(index: int, error: BadRowError | RecursionError, line: bytes) -> BadLine:
    text = None if isinstance(error, NoMessageError) else line
    if isinstance(error, RecursionError):
        return BadLine(index, _TOO_DEEP, line=text)
    return BadLine(index, str(error), error.column, text)


def _check_dates(column: pa.Array, field: pa.Field) -> None:
    """Refuse dates outside the years 1 to 9999 in UTC, which Arrow can hold, but Python and JSON cannot."""
    try:
        check_years(column, field.name)
    except DataError:
        reason = "it holds a date out of range; dates must be, in UTC, of the years 1 to 9999"
        raise BadRowError(reason, field.name) from None


def _texts_fit(column: pa.Array, field: pa.Field) -> bool:
    """Return whether Python also accepts all texts as dates."""
    if not pa.types.is_string(column.type) or not pt.is_temporal(field.type):
        return True
    if pt.is_date(field.type) and pc.all(pc.equal(pc.utf8_length(column), 10)).as_py() is not False:
        return True
    kind = "date" if pt.is_date(field.type) else "time" if pt.is_time(field.type) else "date-time"
    return all_dates(column.to_pylist(), kind)


# Errors of messages, with the line of the input; also of the SDK's class where it has one.

BAD_INPUT = (DataError, SchemaError, InvalidRecord, MissingKeyPropertiesError, RecordsWithoutSchemaException)
"""What is raised where a message is at fault, rather than what is done with it."""

LACKS_KEY = "it lacks the key property"
"""The reason for a record without a key."""
_HINT = "Correct it in the tap, change the SCHEMA that the tap sends, or set on_bad_row: dead_letter to put it aside"


class MissingKeyError(DataError, MissingKeyPropertiesError):
    """A record lacks a key property."""

    code = "missing-key"


class NoSchemaError(DataError, RecordsWithoutSchemaException):
    """A message came before the SCHEMA of its stream."""

    code = "no-schema"


def input_place(number: int, kind: object, stream: object) -> str:
    """Return the position of a message in words; `number` is that of its line in the input, from 1."""
    of = f", a {kind} of stream {shorten(stream, 200)}" if isinstance(stream, str) else ""
    return f"Line {number} of the input{of}"


def bad_record(number: int, stream: str, reason: str, column: str | None = None) -> DataError:
    kind = MissingKeyError if reason == LACKS_KEY else DataError
    return kind(reason, url=input_place(number, "RECORD", stream), column=column, hint=_HINT)


# The `_sdc_` columns of a stream: which of them it has, and their values for batches and for records.

VERSION_COLUMN = "_sdc_table_version"
DELETED_COLUMN = "_sdc_deleted_at"
METADATA_COLUMNS = (
    "_sdc_extracted_at",
    "_sdc_received_at",
    "_sdc_batched_at",
    DELETED_COLUMN,
    "_sdc_sequence",
    VERSION_COLUMN,
    "_sdc_sync_started_at",
)
"""What `add_record_metadata` adds, as the SDK names it."""


class MetadataColumns:
    """The metadata columns of one stream while its SCHEMA stays the same.

    `given` are the properties of the tap's SCHEMA; to `properties`, those of the stream, are added the columns that are
    kept without `add_record_metadata`. `sync_started_at` is in milliseconds.
    """

    def __init__(
        self,
        given: Collection[str],
        properties: dict[str, Any],
        *,
        are_added: bool,
        tracks_versions: bool,
        hard_delete: bool,
        sync_started_at: int,
    ) -> None:
        self.are_added = are_added
        self.tracks_versions = tracks_versions
        self.marks_deletions = DELETED_COLUMN in given  # whether a column of the tap marks the rows that are deleted
        self.keeps_deletions = self.marks_deletions and hard_delete
        """Whether that column is kept although no metadata is added; the SDK removes it."""
        self._sync_started_at = sync_started_at
        if tracks_versions:
            properties.setdefault(VERSION_COLUMN, {"type": ["null", "integer"]})
        if self.keeps_deletions:
            properties[DELETED_COLUMN] = {"type": ["null", "string"], "format": "date-time"}
        self.constants = tuple(c for c in METADATA_COLUMNS if c in properties and c not in given)
        """The columns that batch files do not hold."""
        self.of_records: tuple[str, ...] = (VERSION_COLUMN,) if VERSION_COLUMN in self.constants else ()
        """The columns that records get from their message, or from the target."""
        if are_added:
            self.of_records = tuple(c for c in METADATA_COLUMNS if c != DELETED_COLUMN)
        version = ("version",) if self.of_records else ()
        self.of_messages = ("time_extracted", *version) if "_sdc_extracted_at" in self.of_records else version
        """The keys of RECORD messages, beside the record, that fill a column."""

    def values(self, version: int | None) -> dict[str, Any]:
        """Return the values of `constants` for a BATCH message that was received now."""
        now = datetime.now(UTC)
        values = {**self._now(now), "_sdc_extracted_at": now, "_sdc_batched_at": now, VERSION_COLUMN: version}
        return {name: values.get(name) for name in self.constants}

    def completed(
        self, parsed: ParsedLines, start: int, count: int, schema: pa.Schema, batched_at: datetime
    ) -> pa.RecordBatch:
        """Return rows of parsed RECORD messages with the columns of `of_records`."""
        rows = parsed.rows.slice(start, count)
        if not self.of_records:
            return rows
        around = {name: array.slice(start, count) for name, array in parsed.around.items()}
        values = {**self._now(datetime.now(UTC)), "_sdc_batched_at": batched_at}
        columns = []
        for field in schema:
            if field.name not in self.of_records:
                columns.append(rows.column(field.name))
            elif field.name == VERSION_COLUMN:
                columns.append(around["version"].cast(field.type))
            elif field.name == "_sdc_extracted_at":
                moments = [None if t is None else _in_utc(t) for t in around["time_extracted"].to_pylist()]
                columns.append(pa.array(moments, field.type))
            else:
                columns.append(pa.repeat(pa.scalar(values[field.name], field.type), count))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _now(self, now: datetime) -> dict[str, Any]:
        return {
            "_sdc_received_at": now,
            "_sdc_sequence": round(time.time() * 1000),
            "_sdc_sync_started_at": self._sync_started_at,
        }


def _in_utc(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
