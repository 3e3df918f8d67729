"""Lines of JSON with some trouble among them -> their rows, and what is wrong with which line.

Lines that are no records are taken out. The others are read fast; where that fails they are halved until the trouble is
in few lines, which are read one by one. What those tell helps with the rest: columns of which a value does not fit are
from then on read value by value, and where all values fit another way is tried. So one bad line does not slow down its
whole block much, and a block of bad lines only takes what its lines take.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_json import BadRowError, parse_row, raw_members
from singer_arrow.enforcement.excluded_members import exclude_from_json
from singer_arrow.enforcement.schema_drift import paths_with_exclusions
from singer_arrow.formats.json.bad_rows import Fault, Rows
from singer_arrow.formats.json.fast_reader import FAILED, ArrowLines, Way, batch_of, from_raw
from singer_arrow.formats.json.line_ends import LineEnds
from singer_arrow.formats.json.unknown_keys import Keys, News
from singer_arrow.read_options import ReadOptions
from singer_arrow.schema.arrow_schema import is_json

_FEW = 64
_MOST_SUSPECTS = 8  # of a line, and of all: where more columns are bad, whole lines one by one are faster
_NOTHING = pa.schema([])
_ANY_OBJECT = msgspec.json.Decoder(msgspec.defstruct("AnyObject", []))


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that are not blank, without their ends, and their numbers (from 1) in their block."""

    numbers: Sequence[int]
    texts: Sequence[bytes]

    @classmethod
    def of(cls, data: bytes) -> Lines:
        """The lines of a block."""
        found = [(n, text) for n, text in enumerate(data.split(b"\n"), 1) if text and not text.isspace()]
        return cls([n for n, _ in found], [text for _, text in found])

    @property
    def data(self) -> bytes:
        """Their text."""
        return b"\n".join([*self.texts, b""])

    @property
    def are_few(self) -> bool:
        """So few that they are read one by one."""
        return len(self.texts) <= _FEW

    def halves(self) -> tuple[Lines, Lines]:
        """The lines in two parts."""
        middle = len(self.texts) // 2
        return (
            Lines(self.numbers[:middle], self.texts[:middle]),
            Lines(self.numbers[middle:], self.texts[middle:]),
        )


class CarefulReading:
    """Reads lines of one schema; may be called from several threads at once.

    Args:
        schema: The columns that are wanted.
        keys: The keys that are known, where others are to be noticed.
        read: Reads them fast.
        ways: In which ways.
        options: Of the reading.
    """

    def __init__(
        self, schema: pa.Schema, keys: Keys | None, read: ArrowLines, ways: Iterable[Way], options: ReadOptions
    ) -> None:
        self._schema, self._keys, self._read, self._ways = schema, keys, read, tuple(ways)
        self._excluded, self._loose_text = options.excluded_members, options.loose_text
        self._raws = [(i, f) for i, f in enumerate(schema) if self._is_raw(f)]

    def _is_raw(self, field: pa.Field) -> bool:
        """Whether a column's values are made of their JSON as it stands there, as the fast way makes them."""
        if field.name in paths_with_exclusions(
            self._excluded
        ):  # with JSON within, perhaps, of which members are left out
            return True
        return is_json(field) or (self._loose_text and pt.is_string(field.type))

    def __call__(self, data: bytes, suspects: Iterable[str]) -> Rows:
        """The rows of a block.

        Args:
            data: Whole lines.
            suspects: Columns of which values probably do not fit.
        """
        lines, unread, news = self._scan(Lines.of(data))
        parts = list(self._parts(lines, _Hints(deque(self._ways), list(suspects))))
        faults = [*unread, *(fault for part in parts for fault in part.faults)]
        no_records = {fault.line for fault in faults if fault.raw is None}
        empty = batch_of([pa.nulls(0, f.type) for f in self._schema], self._schema, 0)
        return Rows(
            pa.concat_batches([part.batch for part in parts]) if parts else empty,
            [number for part in parts for number in part.lines],
            sorted(faults, key=lambda fault: fault.line),
            [new for new in news if new.line not in no_records],
        )

    def has_trouble(self, lines: Lines) -> bool:
        """Whether one of a few lines is bad, or holds news."""
        return bool(self._one_by_one(lines).faults) or bool(self._scan(lines)[2])

    def _scan(self, lines: Lines) -> tuple[Lines, list[Fault], list[News]]:
        """The lines without those that are no JSON objects; what is wrong with these; and what is new."""
        kept, unread, news = list[tuple[int, bytes]](), list[Fault](), list[News]()
        for number, text in zip(lines.numbers, lines.texts, strict=True):
            if self._keys is not None and self._keys.all_known(text):
                kept.append((number, text))
                continue
            try:
                if not _is_object(text):  # it may be one by the exact rules
                    parse_row(text, _NOTHING)
                found = {} if self._keys is None else self._keys.news(text)
            except BadRowError as error:
                unread.append(Fault(number, str(error), error.column, text=text))
                continue
            if found:
                news.append(News(number, found))
            kept.append((number, text))
        return Lines([n for n, _ in kept], [text for _, text in kept]), unread, news

    def _parts(self, lines: Lines, hints: _Hints) -> Iterator[Rows]:
        if not lines.texts:
            return
        try:
            yield self._fast(lines, hints.way)
        except FAILED:
            if lines.are_few:
                rows = self._one_by_one(lines)
                hints.learn(rows)
                yield rows
                return
            for half in lines.halves():
                yield from self._parts(half, hints)

    def _fast(self, lines: Lines, way: Way) -> Rows:
        data = lines.data
        batch, misfits = self._read(data, way, LineEnds.of(data))
        faults = [Fault(lines.numbers[m.row], m.reason, m.column, m.raw) for m in misfits]
        return Rows(batch, lines.numbers, faults)

    def _one_by_one(self, lines: Lines) -> Rows:
        rows, numbers, faults = list[list[object]](), list[int](), list[Fault]()
        for number, text in zip(lines.numbers, lines.texts, strict=True):
            try:
                values, misfits = parse_row(text, self._schema, loose_text=self._loose_text)
            except BadRowError as error:
                faults.append(Fault(number, str(error), error.column, text=text))
                continue
            raws = raw_members(text) if misfits or self._raws else {}
            for misfit in misfits:
                faults.append(Fault(number, str(misfit), misfit.column, self._cut(raws, misfit.column or "")))
            wrong = {misfit.column for misfit in misfits}
            for i, field in self._raws:
                if field.name in raws and field.name not in wrong:
                    values[i] = from_raw(self._cut(raws, field.name), field, loose_text=self._loose_text)
            rows.append(values)
            numbers.append(number)
        columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self._schema)]
        return Rows(batch_of(columns, self._schema, len(rows)), numbers, faults)

    def _cut(self, raws: Mapping[str, bytes], name: str) -> bytes:
        return exclude_from_json(raws[name], self._schema.field(name), self._excluded, name)


@dataclass(slots=True)
class _Hints:
    """What the lines that were read one by one tell about the others."""

    ways: deque[Way]
    suspects: list[str]

    @property
    def way(self) -> Way:
        return replace(self.ways[0], suspects=frozenset(self.suspects))

    def learn(self, rows: Rows) -> None:
        if not rows.faults:
            self.ways.rotate(-1)
            return
        for line in {fault.line for fault in rows.faults}:
            found = {
                f.column: None for f in rows.faults if f.line == line and f.raw is not None and f.column is not None
            }
            new = [column for column in found if column not in self.suspects]
            if len(found) <= _MOST_SUSPECTS >= len(self.suspects) + len(new):
                self.suspects += new


def _is_object(text: bytes) -> bool:
    """Whether a line is an object, as a quick look tells."""
    try:
        _ANY_OBJECT.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True
