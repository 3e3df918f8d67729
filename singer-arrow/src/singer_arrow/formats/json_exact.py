"""Read lines of JSON of which some are bad, and find the error of each.

Lines that are not objects are removed first. The others are read by Arrow's reader; where that fails they are halved
until the failing lines are few, which are read one by one. Columns with a value that does not fit are from then on read
value by value, and if all values fit the next strategy is used. So the time depends on the number of bad lines, not on
the size of the block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_json import BadRowError, parse_row, raw_members
from singer_arrow.enforcement.bad_rows import ParsedRows, RowError, UnknownKeys, batch_of
from singer_arrow.enforcement.enforce import exclude_from_json, paths_with_exclusions
from singer_arrow.formats.json_checks import KnownKeys
from singer_arrow.formats.json_fast import FAST_PATH_ERRORS, ArrowJsonReader, LineEnds, ReadStrategy, from_raw
from singer_arrow.read_options import ReadOptions
from singer_arrow.schema.arrow_schema import is_json

FEW_LINES = 64
"""Number of lines that are read one by one instead of being halved, at most."""
_MOST_SUSPECTS = 8  # of a line, and in total: with more bad columns, reading line by line is faster
_NOTHING = pa.schema([])
_ANY_OBJECT = msgspec.json.Decoder(msgspec.defstruct("AnyObject", []))


@dataclass(frozen=True, slots=True)
class NumberedLines:
    """Lines that are not blank, without line ends, and their numbers in the block, from 1."""

    numbers: Sequence[int]
    texts: Sequence[bytes]

    @classmethod
    def of(cls, data: bytes) -> NumberedLines:
        """Return the lines of a block."""
        found = [(n, text) for n, text in enumerate(data.split(b"\n"), 1) if text and not text.isspace()]
        return cls([n for n, _ in found], [text for _, text in found])

    @property
    def data(self) -> bytes:
        """Text of the lines."""
        return b"\n".join([*self.texts, b""])

    @property
    def are_few(self) -> bool:
        """Whether the lines are read one by one."""
        return len(self.texts) <= FEW_LINES

    def halves(self) -> tuple[NumberedLines, NumberedLines]:
        """Return the lines in two parts."""
        middle = len(self.texts) // 2
        return (
            NumberedLines(self.numbers[:middle], self.texts[:middle]),
            NumberedLines(self.numbers[middle:], self.texts[middle:]),
        )


class ExactReader:
    """Reader of lines of one schema; safe to call from several threads at once. `keys` are None to ignore drift."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: KnownKeys | None,
        read: ArrowJsonReader,
        strategies: Iterable[ReadStrategy],
        options: ReadOptions,
    ) -> None:
        self._schema, self._keys, self._read, self._strategies = schema, keys, read, tuple(strategies)
        self._excluded, self._loose_text = options.excluded_members, options.loose_text
        paths = (
            paths_with_exclusions(self._excluded) if self._excluded else {}
        )  # in these columns may be JSON with excluded members
        self._raws = [  # columns that the fast reader makes from their raw JSON
            (i, f)
            for i, f in enumerate(schema)
            if f.name in paths or is_json(f) or (self._loose_text and pt.is_string(f.type))
        ]

    def __call__(self, data: bytes) -> ParsedRows:
        """Return the rows of a block of whole lines."""
        lines, unread, unknown = self._scan(NumberedLines.of(data))
        strategies, parts = deque(self._strategies), list[ParsedRows]()
        suspects = list[str]()  # columns in which values probably do not fit

        def read(lines: NumberedLines) -> None:
            strategy, text = replace(strategies[0], suspects=frozenset(suspects)), lines.data
            try:
                rows = self._read(text, strategy, LineEnds.of(text))
            except FAST_PATH_ERRORS:
                if not lines.are_few:
                    for half in lines.halves():
                        read(half)
                    return
                parts.append(self.read_one_by_one(lines))
                learn(parts[-1].errors)
            else:
                mismatches = [m._replace(row=lines.numbers[m.row]) for m in rows.mismatches]
                parts.append(ParsedRows(rows.batch, lines.numbers, mismatches))

        def learn(errors: Sequence[RowError]) -> None:
            """Choose strategy and suspects for the next lines by the errors of lines that were read one by one."""
            if not errors:
                strategies.rotate(-1)
            for number in {error.row for error in errors}:
                own = (e for e in errors if e.row == number and e.raw is not None)
                found = {error.column: None for error in own if error.column is not None}
                new = [column for column in found if column not in suspects]
                if len(found) <= _MOST_SUSPECTS >= len(suspects) + len(new):
                    suspects.extend(new)

        if lines.texts:
            read(lines)
        errors = [*unread, *(error for part in parts for error in part.errors)]
        no_records = {error.row for error in errors if error.raw is None}
        empty = batch_of([pa.nulls(0, f.type) for f in self._schema], self._schema, 0)
        return ParsedRows(
            pa.concat_batches([part.batch for part in parts]) if parts else empty,
            [number for part in parts for number in part.numbers],
            sorted(errors, key=lambda error: error.row),
            [keys for keys in unknown if keys.row not in no_records],
        )

    def has_bad_line(self, lines: NumberedLines) -> bool:
        """Return whether one of a few lines is bad, or has unknown keys."""
        return bool(self.read_one_by_one(lines).errors) or bool(self._scan(lines)[2])

    def _scan(self, lines: NumberedLines) -> tuple[NumberedLines, list[RowError], list[UnknownKeys]]:
        """Return the lines that are JSON objects, the errors of the others, and the unknown keys."""
        kept, unread, unknown = list[tuple[int, bytes]](), list[RowError](), list[UnknownKeys]()
        for number, text in zip(lines.numbers, lines.texts, strict=True):
            if self._keys is not None and self._keys.all_known(text):
                kept.append((number, text))
                continue
            try:
                try:
                    _ANY_OBJECT.decode(text)
                except (msgspec.MsgspecError, RecursionError):  # it may be an object by the exact rules
                    parse_row(text, _NOTHING)
                found = {} if self._keys is None else self._keys.unknown(text)
            except BadRowError as error:
                unread.append(RowError(number, str(error), error.column, text=text))
                continue
            if found:
                unknown.append(UnknownKeys(number, found))
            kept.append((number, text))
        return NumberedLines([n for n, _ in kept], [text for _, text in kept]), unread, unknown

    def read_one_by_one(self, lines: NumberedLines) -> ParsedRows:
        """Return the rows of lines, each parsed by the exact rules."""
        rows, numbers, errors = list[list[object]](), list[int](), list[RowError]()
        for number, text in zip(lines.numbers, lines.texts, strict=True):
            try:
                values, mismatches = parse_row(text, self._schema, loose_text=self._loose_text)
            except BadRowError as error:
                errors.append(RowError(number, str(error), error.column, text=text))
                continue
            raws = raw_members(text) if mismatches or self._raws else {}
            for mismatch in mismatches:
                raw = self.included(raws, mismatch.column or "")
                errors.append(RowError(number, str(mismatch), mismatch.column, raw=raw))
            wrong = {mismatch.column for mismatch in mismatches}
            for i, field in self._raws:
                if field.name in raws and field.name not in wrong:
                    values[i] = from_raw(self.included(raws, field.name), field, loose_text=self._loose_text)
            rows.append(values)
            numbers.append(number)
        columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self._schema)]
        return ParsedRows(batch_of(columns, self._schema, len(rows)), numbers, errors)

    def included(self, raws: Mapping[str, bytes], name: str) -> bytes:
        """Return the JSON of a member of a record without excluded members."""
        return exclude_from_json(raws[name], self._schema.field(name), self._excluded, name)
