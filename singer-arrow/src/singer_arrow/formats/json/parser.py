"""One block of JSON Lines -> one record batch, and what is wrong with the rest of it.

A block is read fast. Where that fails, a few lines at the first trouble tell why: either the file writes its values in
another way, which is then tried for the whole block; or there is trouble indeed, and the block is read with care. What
comes out does not depend on which way that took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import collect_truncated
from singer_arrow.formats.json.bad_rows import Fault, Rows, Settled, settle
from singer_arrow.formats.json.fast_reader import FAILED, ArrowLines, NotPlainError, Way, batch_of
from singer_arrow.formats.json.line_blocks import LongLine
from singer_arrow.formats.json.line_ends import LineEnds
from singer_arrow.formats.json.numbers import needs_wide
from singer_arrow.formats.json.slow_reader import CarefulReading, Lines
from singer_arrow.formats.json.unknown_keys import Keys, News
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.reading.ordered_map import ROW_LOCK

_OFTEN = 100  # a block of which more than one line in so many is bad: the next one is probably alike
_MOST_SUSPECTS = 8


@dataclass(frozen=True, slots=True)
class Parsed:
    """A block's rows.

    Attributes:
        lines: How many lines it has.
        size: Its bytes of text.
        settled: The rows as the options want them, and what became of the others.
        faults: What is wrong, by line.
        news: What is new, by line.
        cuts: By column, the first value of which digits were cut off.
    """

    lines: int
    size: int
    settled: Settled
    faults: Sequence[Fault] = ()
    news: Sequence[News] = ()
    cuts: Mapping[str, str] = field(default_factory=dict)


class BlockParser:
    """Parses the blocks of files of one schema; may be called from several threads at once.

    Args:
        schema: The columns that are wanted.
        options: How they are read.
    """

    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._wanted, self._options = schema, options
        own = pa.schema([f for f in schema if not (options.rescues and f.name == RESCUED)])
        known = options.known_columns if options.on_drift != "ignore" else None
        keys = (
            None
            if known is None
            else Keys(own, known - {RESCUED} if options.rescues else known, options.excluded_members)
        )
        ways = ways_for(own, loose_text=options.loose_text)
        self._own = own
        self._read = ArrowLines(own, keys, options.excluded_members, loose_text=options.loose_text)
        self._ways = ways if keys is None else _watched(ways)
        self._careful = CarefulReading(own, keys, self._read, ways, options)
        self._wary = False  # both are only about speed
        self._suspects: tuple[str, ...] = ()

    def __call__(self, block: memoryview) -> Parsed:
        """Parse a block of whole lines, or the stand-in of one that is too long."""
        if isinstance(block.obj, LongLine):
            rows = Rows(self._empty(), (), (block.obj.fault(),))
            return Parsed(1, block.obj.size, settle(rows, self._wanted, self._options), rows.faults)
        whole = block.obj
        data = whole if isinstance(whole, bytes) and len(whole) == len(block) else bytes(block)
        if data[-1:] != b"\n":
            data += b"\n"
        ends = LineEnds.of(data)
        with collect_truncated() as cuts:
            rows = self._rows(data, ends)
        return Parsed(ends.count, len(block), self._settled(rows, data), rows.faults, rows.news, cuts)

    def plain(self, data: bytes) -> pa.RecordBatch | None:
        """The rows of whole lines, one for each line, if they are all as they should be."""
        ends = LineEnds.of(data)
        try:
            with collect_truncated() as cuts:
                batch = self._quick(data, ends)
        except FAILED:
            return None
        if cuts or batch.num_rows != ends.count:
            return None
        return settle(Rows(batch, ()), self._wanted, self._options).batch

    def _settled(self, rows: Rows, data: bytes) -> Settled:
        """The rows as the options want them; whatever is left out has its line."""
        settled = settle(rows, self._wanted, self._options)
        if not settled.skipped:
            return settled
        lines = data.split(b"\n")
        return replace(settled, skipped=[replace(f, text=f.text or lines[f.line - 1]) for f in settled.skipped])

    def _empty(self) -> pa.RecordBatch:
        return batch_of([pa.nulls(0, f.type) for f in self._own], self._own, 0)

    def _rows(self, data: bytes, ends: LineEnds) -> Rows:
        if not self._wary:
            try:
                return Rows(self._quick(data, ends), ())
            except FAILED:
                pass  # it is read again, row by row, which tells what is wrong
        with ROW_LOCK:
            rows = self._careful(data, self._suspects)
        columns = Counter(fault.column for fault in rows.faults if fault.raw is not None and fault.column is not None)
        often = [name for name, count in columns.most_common(_MOST_SUSPECTS) if count * _OFTEN > ends.count]
        self._suspects = tuple(sorted(often))
        bad = {fault.line for fault in rows.faults}.union(new.line for new in rows.news)
        self._wary = len(bad) * _OFTEN > ends.count
        return rows

    def _quick(self, data: bytes, ends: LineEnds) -> pa.RecordBatch:
        """The rows of a block without trouble.

        Raises:
            Exception: One of `FAILED`: it has some.
        """
        ways = self._ways
        try:
            return self._read(data, ways[0], ends)[0]
        except FAILED:
            if len(ways) == 1 or self._has_trouble(data, ways[0]):
                raise
        for way in ways[1:]:
            try:
                batch, _ = self._read(data, way, ends)
            except FAILED:
                continue
            self._ways = [way, *(other for other in ways if other != way)]  # the next blocks are probably alike
            return batch
        raise NotPlainError

    def _has_trouble(self, data: bytes, way: Way) -> bool:
        """Whether the first few lines that cannot be read in some way cannot be read in any."""
        lines = Lines.of(data)
        while not lines.are_few:
            first, second = lines.halves()
            text = first.data
            try:
                self._read(text, way, LineEnds.of(text))
            except FAILED:
                lines = first
            else:
                lines = second
        return self._careful.has_trouble(lines)


def ways_for(schema: pa.Schema, *, loose_text: bool) -> list[Way]:
    """The ways to read lines of a schema, the cheapest first."""
    ways = [Way()]
    wide = any(needs_wide(f.type) for f in schema)
    if wide or any("timestamp" in str(f.type) for f in schema):
        ways += [Way(text_times=True, wide_decimals=wide)]
    if any(pt.is_integer(f.type) for f in schema):
        ways += [Way(text_times=True, wide_decimals=wide, float_integers=True)]
    if loose_text and any(pt.is_string(f.type) for f in schema):
        ways += [replace(way, text_times=True, wide_decimals=wide, raw_text=True) for way in ways]
    return ways


def _watched(ways: list[Way]) -> list[Way]:
    """The ways with a watch on keys; the dearest watch last."""
    return [replace(way, watch=watch) for watch in ("infer", "scan") for way in ways]
