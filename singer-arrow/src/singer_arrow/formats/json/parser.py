"""Parse one block of JSON Lines into the rows of a schema.

The order of passes: Arrow's reader by the strategy that worked last (`fast_reader`). If that fails and the first lines
that fail are good, the other strategies. If no strategy succeeds or a line is bad, the exact reader (`exact_reader`),
and the policy for bad rows. The result does not depend on the pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from singer_arrow.casting.cut_digits import collect_truncated
from singer_arrow.casting.from_arrow import json_fault
from singer_arrow.casting.from_json import raw_members
from singer_arrow.enforcement.mismatches import mismatched_rows
from singer_arrow.enforcement.row_policy import (
    BlockResult,
    ParsedRows,
    RowError,
    apply_row_policy,
    batch_of,
    nulled,
    without_rescued,
)
from singer_arrow.formats.json.arrow_checks import LineEnds
from singer_arrow.formats.json.exact_reader import ExactReader, NumberedLines
from singer_arrow.formats.json.fast_reader import FAST_PATH_ERRORS, ArrowJsonReader, FastPathError, ReadRows
from singer_arrow.formats.json.source import LongLine
from singer_arrow.formats.json.strategies import ReadStrategy, read_strategies
from singer_arrow.formats.json.unknown_keys import KnownKeys
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.reading.ordered_map import ROW_LOCK

_OFTEN = 100  # if more than one line in so many is bad, the next block is probably alike
_MOST_SUSPECTS = 8


class JsonBlockParser:
    """Parser of blocks of one schema; safe to call from several threads at once."""

    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._schema, self._options = schema, options
        own, keys = without_rescued(schema, options), None  # None: drift is ignored
        if options.known_columns is not None and options.on_drift != "ignore":
            known = options.known_columns - {RESCUED} if options.rescues else options.known_columns
            keys = KnownKeys(own, known, options.excluded_members)
        strategies = read_strategies(own, loose_text=options.loose_text)
        counted = keys if options.on_drift == "count" else None
        self._read = ArrowJsonReader(
            own, keys, options.excluded_members, loose_text=options.loose_text, counts_unknown=counted is not None
        )
        self._exact = ExactReader(own, None if counted else keys, self._read, strategies, options)
        self._counted = counted
        if keys is not None:  # the most expensive check last
            strategies = [replace(strategy, key_check=check) for check in ("infer", "scan") for strategy in strategies]
        self._strategies = strategies
        self._empty = batch_of([pa.nulls(0, f.type) for f in own], own, 0)
        self._expects_errors = False  # this and the next only save time
        self._suspects: tuple[str, ...] = ()

    def __call__(self, block: memoryview) -> BlockResult:
        """Return the rows of a block of whole lines, or of a view of a LongLine."""
        if isinstance(block.obj, LongLine):
            rows = ParsedRows(self._empty, (), (block.obj.error(),))
            return replace(self._apply_policy(rows, b"", {}), bytes=block.obj.size, lines=1)
        whole = block.obj
        data = whole if isinstance(whole, bytes) and len(whole) == len(block) else bytes(block)
        if data[-1:] != b"\n":
            data += b"\n"
        ends = LineEnds.of(data)
        with collect_truncated() as cuts:
            rows, unknown = self._parse(data, ends)
        if self._options.json_output:
            rows = self._without_faults(rows, data)
        result = self._apply_policy(rows, data, cuts)
        return replace(result, left_out=unknown, bytes=len(block), lines=ends.count)

    def parse_good(self, data: bytes) -> pa.RecordBatch | None:
        """Return the rows of whole lines, one for each line; None unless all lines are good."""
        ends = LineEnds.of(data)
        try:
            with collect_truncated() as cuts:
                batch = self._parse_fast(data, ends).batch
        except FAST_PATH_ERRORS:
            return None
        if cuts or batch.num_rows != ends.count or (self._options.json_output and any(map(json_fault, batch.columns))):
            return None
        return self._apply_policy(ParsedRows(batch, ()), data, {}).batch

    def _parse(self, data: bytes, ends: LineEnds) -> tuple[ParsedRows, Mapping[str, int]]:
        """Return the rows, and how often they hold each unknown key, if that is counted."""
        if not self._expects_errors:
            try:
                read = self._parse_fast(data, ends)
                return ParsedRows(read.batch, ()), read.unknown
            except FAST_PATH_ERRORS:
                pass  # the exact reader finds the lines
        with ROW_LOCK:
            rows = self._exact(data, self._suspects)
        columns = Counter(error.column for error in rows.errors if error.raw is not None and error.column is not None)
        often = [name for name, count in columns.most_common(_MOST_SUSPECTS) if count * _OFTEN > ends.count]
        self._suspects = tuple(sorted(often))
        bad = {error.row for error in rows.errors}.union(keys.row for keys in rows.unknown)
        self._expects_errors = len(bad) * _OFTEN > ends.count
        return rows, self._counted.count(data.split(b"\n")) if self._counted else {}

    def _without_faults(self, rows: ParsedRows, data: bytes) -> ParsedRows:
        """Return the rows with errors for the values that JSON cannot hold, such as a year 10000 in UTC."""
        made, errors = rows.batch.columns, list(rows.errors)
        for i, field in enumerate(rows.batch.schema):
            if (fault := json_fault(made[i])) is None:
                continue
            lines = NumberedLines.of(data)
            texts = dict(zip(lines.numbers, lines.texts, strict=True))
            bad = mismatched_rows(made[i], field, json_output=True)
            for row in bad.to_pylist():
                number = (rows.numbers or lines.numbers)[row]
                raw = self._exact.included(raw_members(texts[number]), field.name)
                errors.append(RowError(number, f"{raw.decode()[:60]} is not {fault}", field.name, raw=raw))
            made[i] = nulled(made[i], bad)
        if len(errors) == len(rows.errors):
            return rows
        numbers = rows.numbers or NumberedLines.of(data).numbers
        batch = batch_of(made, rows.batch.schema, rows.batch.num_rows)
        return replace(rows, batch=batch, numbers=numbers, errors=sorted(errors, key=lambda error: error.row))

    def _parse_fast(self, data: bytes, ends: LineEnds) -> ReadRows:
        """Return the rows of a block of good lines; raises one of `FAST_PATH_ERRORS` if one is bad."""
        strategies = self._strategies
        try:
            return self._read(data, strategies[0], ends)
        except FAST_PATH_ERRORS:
            if len(strategies) == 1 or self._has_bad_line(data, strategies[0]):
                raise
        for strategy in strategies[1:]:
            try:
                rows = self._read(data, strategy, ends)
            except FAST_PATH_ERRORS:
                continue
            self._strategies = [strategy, *(other for other in strategies if other != strategy)]  # for the next block
            return rows
        raise FastPathError

    def _has_bad_line(self, data: bytes, strategy: ReadStrategy) -> bool:
        """Return whether one of the first few lines that a strategy cannot read is bad."""
        lines = NumberedLines.of(data)
        while not lines.are_few:
            first, second = lines.halves()
            text = first.data
            try:
                self._read(text, strategy, LineEnds.of(text))
            except FAST_PATH_ERRORS:
                lines = first
            else:
                lines = second
        return self._exact.has_bad_line(lines)

    def _apply_policy(self, rows: ParsedRows, data: bytes, cuts: Mapping[str, str]) -> BlockResult:
        rescues = self._options.on_drift == "rescue"
        resolved = rows if rescues or not rows.unknown else replace(rows, unknown=())
        lines = list[bytes]()

        def locate(error: RowError) -> RowError:
            """Return an error with the line and the text of its row."""
            if not error.text and not lines:
                lines.extend(data.split(b"\n"))
            return error._replace(line=error.row, text=error.text or lines[error.row - 1])

        def line_text(line: bytes) -> str:
            return line.rstrip(b"\r").decode(errors="replace")

        result = apply_row_policy(resolved, self._schema, self._options, locate, text_of=line_text)
        return replace(result, mismatches=rows.errors, unknown=rows.unknown, cuts=cuts)
