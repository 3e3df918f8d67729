"""Lines of RECORD messages of one stream -> one record batch, up to the first line that is bad.

A block is read fast, and the rules of its stream's SCHEMA are checked column by column. Where that fails it is halved
until the trouble is in few lines, which are checked and read one by one: that tells which line is bad, and why, or that
none is. Streams without rules are checked one by one, and then read fast. What comes out does not depend on the way.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import collect_truncated, warn_truncated
from singer_arrow.casting.from_json import BadRowError, parse_row, raw_members
from singer_arrow.casting.to_json import check_years
from singer_arrow.errors import DataError
from singer_arrow.formats.json.envelope_reader import EnvelopeReader
from singer_arrow.formats.json.fast_reader import FAST_PATH_ERRORS, FastPathError, from_raw
from singer_arrow.formats.json.strategies import read_strategies
from singer_arrow.formats.row_policy import batch_of
from singer_arrow.records.message import (
    AROUND_VALUES,
    Message,
    NoMessageError,
    constant_in,
    message_of,
    raw_record,
)
from singer_arrow.records.schema_checks import Rules
from singer_arrow.records.validation import all_dates
from singer_arrow.schema.arrow_schema import is_json

logger = logging.getLogger(__name__)
_FEW = 64
_TOO_DEEP = "its values are nested too deeply"
_AROUND = {"type": pa.string(), "stream": pa.string(), "time_extracted": pa.string(), "version": pa.int64()}
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True)
class BadLine:
    """What is wrong with a line, given its index in the block; `line` is its text, if it is a RECORD message at all."""

    index: int
    reason: str
    column: str | None = None
    line: bytes | None = None


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The rows of a block: of all its lines, or of those before the first that is bad.

    `refused` are records before that which are bad too, in order, where the parser goes on after them. `around` is what
    was wanted of the messages around the records: `time_extracted` (text) and `version` (int64).
    """

    rows: pa.RecordBatch
    around: Mapping[str, pa.Array]
    fault: BadLine | None = None
    is_slow: bool = False
    refused: tuple[BadLine, ...] = ()

    def rows_of(self, lines: int) -> int:
        """How many rows the first so many lines of the block make."""
        rows: int = self.rows.num_rows
        return min(lines - sum(f.index < lines for f in self.refused), rows)


class RecordParser:
    """Parses the RECORD lines of one stream; may be called from several threads at once.

    Args:
        schema: The columns to read from the records.
        around: Other members to read from the messages: `time_extracted`, `version`.
        rules: Checks of the SCHEMA; None if it cannot be checked by columns.
        check: Checks a message, the exact way; raises BadRowError.
        checks_types: Whether `check` checks types too, so that the fast way must be as strict.
        stream: Its name, for warnings.
        goes_on: Bad records are left out and reported; only a line that is no RECORD message ends the reading.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        around: Sequence[str],
        rules: Rules | None,
        check: Callable[[Message], None],
        checks_types: bool,
        goes_on: bool = False,
        stream: str = "",
    ) -> None:
        self._schema, self._around, self._rules, self._check = schema, tuple(around), rules, check
        closed = rules is not None and rules.is_closed
        known = pa.schema([(n, t) for n, t in _AROUND.items() if closed or n in (*around, "type", "stream")])
        self._strict = EnvelopeReader(
            schema, under="record", around=known, is_closed=closed, loose_text=not checks_types, fits=_texts_fit
        )
        self._loose = EnvelopeReader(schema, under="record", around=known, loose_text=True)
        self._loose_strategies = read_strategies(schema, loose_text=True)
        self._strict_strategies = [w for w in self._loose_strategies if not (checks_types and w.raw_text)]
        self._raws = [(i, f) for i, f in enumerate(schema) if is_json(f) or pt.is_string(f.type)]
        self._temporal = [(i, f) for i, f in enumerate(schema) if _holds_dates(f.type)]
        self._holds_json = any(is_json(f) for f in schema)
        self._is_wary, self._goes_on = rules is None, goes_on
        self._stream, self._cut = stream, set[str]()

    def __call__(self, data: bytes, lines: int) -> ParsedLines:
        """The rows of so many whole lines, all with their ends."""
        with collect_truncated() as cuts:
            parsed = self._parsed(data, lines)
        warn_truncated(logger, f"stream {self._stream!r}", cuts, self._cut)
        return parsed

    def _parsed(self, data: bytes, lines: int) -> ParsedLines:
        if not self._is_wary:
            try:
                return self._fast(data, lines)
            except FAST_PATH_ERRORS:
                pass  # it is read again by the exact parser, which finds the error
        return self._read_carefully(data.split(b"\n")[:-1])

    def _fast(self, data: bytes, lines: int) -> ParsedLines:
        self._refuse_surrogates(data)
        rows, around = self._strict.rows(data, self._strict_strategies[0])
        if rows.num_rows != lines or self._rules is None or not self._rules.hold(rows, data):
            raise FastPathError
        self._check_years(rows)
        if "time_extracted" in self._around and not all_dates(around["time_extracted"].to_pylist(), "date-time"):
            raise FastPathError
        return ParsedLines(rows, {name: around[name] for name in self._around})

    def _unchecked(self, data: bytes, lines: int) -> ParsedLines:
        self._refuse_surrogates(data)
        rows, around = self._loose.rows(data, self._loose_strategies[0])
        if rows.num_rows != lines:
            raise FastPathError
        self._check_years(rows)
        return ParsedLines(rows, {name: around[name] for name in self._around})

    def _refuse_surrogates(self, data: bytes) -> None:
        """JSON text may hold lone surrogates, escaped, of which only Arrow's reader tells by itself."""
        if self._holds_json and _SURROGATE.search(data) and _SURROGATE.search(_PAIR.sub(b"", data)):
            raise FastPathError

    def _check_years(self, rows: pa.RecordBatch) -> None:
        for i, field in self._temporal:
            _check_dates(rows.column(i), field)

    def _read_carefully(self, lines: list[bytes]) -> ParsedLines:
        fault, refused, is_checked = None, list[BadLine](), self._is_wary
        numbers: Sequence[int] = range(len(lines))
        if is_checked:
            for found in self._faults(lines):
                if not self._can_skip(found):
                    fault = found
                    break
                refused.append(found)
            out = {found.index for found in refused}
            numbers = [n for n in numbers[: None if fault is None else fault.index] if n not in out]
            lines = [lines[n] for n in numbers]
        parts = list(self._parts(lines, numbers, is_checked=is_checked))
        alone = sum(part.rows.num_rows for part in parts if part.is_slow)
        if alone * 2 > len(lines) > 4 * _FEW:  # the next blocks are probably alike
            self._is_wary = True
        if not parts:
            parts = [self._one_by_one([], [], is_checked=True)]
        rows = pa.concat_batches([part.rows for part in parts])
        around = {name: pa.concat_arrays([part.around[name] for part in parts]) for name in self._around}
        refused += [found for part in parts for found in part.refused]
        refused.sort(key=lambda found: found.index)
        return ParsedLines(rows, around, parts[-1].fault or fault, refused=tuple(refused))

    def _can_skip(self, fault: BadLine) -> bool:
        """Whether the reading continues after a bad line."""
        return self._goes_on and fault.line is not None

    def _faults(self, lines: Sequence[bytes]) -> Iterator[BadLine]:
        for index, line in enumerate(lines):
            try:
                self._checked(line)
            except (BadRowError, RecursionError) as error:
                yield _bad_line(index, error, line)

    def _checked(self, line: bytes) -> Message:
        message = message_of(line)
        for field in self._schema:
            if (found := constant_in(message["record"].get(field.name), field)) is not None:
                name = "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
                reason = f"{name} is not JSON; write null"
                raise BadRowError(reason, field.name)
        self._check(message)
        return message

    def _parts(self, lines: Sequence[bytes], numbers: Sequence[int], *, is_checked: bool) -> Iterator[ParsedLines]:
        """The rows of some lines, given their places in the block, up to the first that ends the reading."""
        if not lines:
            return
        try:
            yield (self._unchecked if is_checked else self._fast)(b"\n".join([*lines, b""]), len(lines))
        except FAST_PATH_ERRORS:
            pass  # its halves are read, down to single lines
        else:
            return
        if len(lines) <= _FEW:
            yield self._one_by_one(lines, numbers, is_checked=is_checked)
            return
        middle = len(lines) // 2
        for half, places in ((lines[:middle], numbers[:middle]), (lines[middle:], numbers[middle:])):
            for part in self._parts(half, places, is_checked=is_checked):
                yield part
                if part.fault is not None:
                    return

    def _one_by_one(self, lines: Sequence[bytes], numbers: Sequence[int], *, is_checked: bool) -> ParsedLines:
        rows, around = list[list[Any]](), list[list[Any]]()
        fault, refused = None, list[BadLine]()
        for index, line in zip(numbers, lines, strict=True):
            try:
                message = message_of(line) if is_checked else self._checked(line)
                values = self._row(line, message)
                members = [AROUND_VALUES[name](message.get(name)) for name in self._around]
            except (BadRowError, RecursionError) as error:
                found = _bad_line(index, error, line)
                if not self._can_skip(found):
                    fault = found
                    break
                refused.append(found)
            else:
                rows.append(values)
                around.append(members)
        if fault is None and not refused:
            self._rotate_strategies(is_checked=is_checked)
        columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self._schema)]
        made = {n: pa.array([a[i] for a in around], _AROUND[n]) for i, n in enumerate(self._around)}
        batch = batch_of(columns, self._schema, len(rows))
        return ParsedLines(batch, made, fault, is_slow=True, refused=tuple(refused))

    def _rotate_strategies(self, *, is_checked: bool) -> None:
        """Lines that are not bad could not be read fast: the next ones are tried another way."""
        if is_checked:
            self._loose_strategies = [*self._loose_strategies[1:], self._loose_strategies[0]]
        else:
            self._strict_strategies = [*self._strict_strategies[1:], self._strict_strategies[0]]

    def _row(self, line: bytes, message: Message) -> list[Any]:
        raw = raw_record(line, message)
        values, misfits = parse_row(raw, self._schema, loose_text=True)
        if misfits:
            raise misfits[0]
        if self._raws:
            raws = raw_members(raw)
            for i, field in self._raws:
                if field.name in raws:
                    values[i] = from_raw(raws[field.name], field, loose_text=True)
        for i, field in self._temporal:
            _check_dates(pa.array(values[i : i + 1], field.type), field)
        return values


def _bad_line(index: int, error: BadRowError | RecursionError, line: bytes) -> BadLine:
    text = None if isinstance(error, NoMessageError) else line
    if isinstance(error, RecursionError):
        return BadLine(index, _TOO_DEEP, line=text)
    return BadLine(index, str(error), error.column, text)


def _holds_dates(t: pa.DataType) -> bool:
    nested = any(_holds_dates(t.field(i).type) for i in range(t.num_fields))
    return nested or bool(pt.is_date(t) or pt.is_timestamp(t))


def _check_dates(column: pa.Array, field: pa.Field) -> None:
    """Arrow has more years than Python and JSON, where also the shift to UTC may lead.

    Raises:
        BadRowError: A date is of none of theirs.
    """
    try:
        check_years(column, field.name)
    except DataError:
        reason = "it holds a date out of range; dates must be, in UTC, of the years 1 to 9999"
        raise BadRowError(reason, field.name) from None


def _texts_fit(column: pa.Array, field: pa.Field) -> bool:
    """Whether all texts are dates also for Python."""
    if not pa.types.is_string(column.type) or not pt.is_temporal(field.type):
        return True
    if pt.is_date(field.type) and pc.all(pc.equal(pc.utf8_length(column), 10)).as_py() is not False:
        return True
    kind = "date" if pt.is_date(field.type) else "time" if pt.is_time(field.type) else "date-time"
    return all_dates(column.to_pylist(), kind)
