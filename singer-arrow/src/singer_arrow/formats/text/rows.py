"""Convert columns of text to batches of a schema; find the values that do not fit, and drift.

Two passes. `convert` takes whole columns and succeeds if all values fit. `examine` finds each value that does not fit,
and applies the policy for bad rows. `read` tries the first and falls back to the second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import collect_truncated, set_column
from singer_arrow.casting.from_arrow import JSON_DATE, json_fault
from singer_arrow.casting.from_text import BadValueError, from_text, shorten, type_in_words
from singer_arrow.casting.spelling import Spelling
from singer_arrow.casting.to_json import text_as_json
from singer_arrow.enforcement.mismatches import fit_text, mismatched_rows
from singer_arrow.enforcement.row_policy import (
    BlockResult,
    ParsedRows,
    RowError,
    UnknownKeys,
    apply_row_policy,
    batch_of,
    nulled,
    row_numbers,
    without_rescued,
)
from singer_arrow.enforcement.schema_drift import raise_new_columns, type_name, unknown_columns, widened_field
from singer_arrow.errors import DriftError
from singer_arrow.formats.delivery import FilePosition
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.reading.ordered_map import ROW_LOCK
from singer_arrow.schema.arrow_schema import is_json


class MismatchError(BadValueError):
    """A value does not fit its column."""

    def __init__(self, error: BadValueError, column: pa.Field) -> None:
        super().__init__(error.row, error.value, type_in_words(column.type))
        self.column = column.name


def nulls_of(options: ReadOptions) -> pa.Array:
    """Return the texts that mean null in columns other than text: those of the options, and empty ones."""
    return pa.array(sorted({*options.null_values, ""}), pa.string())


@dataclass(frozen=True)
class TextRows:
    """Conversion of the rows of one file with the columns `names` to the batches of a schema.

    `nulls` are the texts that mean null in columns other than text.
    """

    names: Sequence[str]
    schema: pa.Schema
    options: ReadOptions
    nulls: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))

    @cached_property
    def spelling(self) -> Spelling:
        """Spelling of dates, numbers and booleans in the file."""
        return Spelling.of(self.options)

    @cached_property
    def selected(self) -> list[pa.Field]:
        """Columns of the schema that are read from the file."""
        names = set(self.names)
        return [f for f in self._own if f.name in names]

    @cached_property
    def rescued_columns(self) -> list[str]:
        """Columns of the file that are rescued whole, as the schema lacks them."""
        new = unknown_columns(self.names, self.schema, self.options) if self.options.on_drift == "rescue" else []
        return [*new, *([RESCUED] if self.options.rescues and RESCUED in self.names else [])]

    @cached_property
    def _own(self) -> pa.Schema:
        return without_rescued(self.schema, self.options)

    def read(
        self,
        columns: Mapping[str, pa.Array],
        rows: int,
        numbers: Callable[[], Sequence[int]],
        unread: Sequence[RowError] = (),
    ) -> BlockResult:
        """Return the rows of a block in which each row is one line, from the texts of the rows that can be read.

        `numbers` returns the numbers of their lines, ascending; `unread` are the errors of the other rows, ascending.
        """
        if not unread:
            try:
                return self.convert(columns, rows)
            except MismatchError:
                pass  # `examine` finds all values that do not fit
        return self.examine(columns, numbers(), unread, int)

    def convert(self, columns: Mapping[str, pa.Array], rows: int) -> BlockResult:
        """Return the rows of columns that are of their types already, or of text.

        Raises MismatchError, which names the first value of a column that does not fit.
        """
        with collect_truncated() as cuts:
            made = {f.name: self._typed(columns[f.name], f) for f in self.selected}
        if self.options.json_output:
            for f in self.selected:
                if json_fault(made[f.name]):
                    raise MismatchError(BadValueError(0, None, ""), f)
        found = ParsedRows(self._batch(made, rows), range(rows), unknown=self._unknown(columns, range(rows)))
        locate = partial(self._locate, line=lambda _: None)
        return replace(apply_row_policy(found, self.schema, self.options, locate), cuts=cuts)

    def examine(
        self,
        columns: Mapping[str, pa.Array],
        numbers: Sequence[int],
        unread: Sequence[RowError],
        line: Callable[[int], int],
    ) -> BlockResult:
        """Return the rows of a block in which some rows cannot be read or some values do not fit.

        `numbers` are those of the rows in `columns`, and `unread` the errors of the others, both ascending. `line`
        returns the line on which the row of a number begins, from 1.
        """

        def locate(error: RowError) -> RowError:
            found = self._locate(error, line)
            if self.options.on_bad_row != "dead_letter":
                return found
            # The row as a JSON object: the texts of its columns, or its own text if it cannot be parsed.
            if error.raw is None:
                record = {"_raw": error.text.rstrip(b"\r\n").decode(errors="backslashreplace")}
            else:
                at = bisect_left(numbers, error.row)
                record = {name: column[at].as_py() for name, column in columns.items()}
            return found._replace(text=msgspec.json.encode(record))

        with ROW_LOCK:
            with collect_truncated() as cuts:
                made, mismatches = self._fit(columns, numbers)
            errors = sorted([*mismatches, *unread], key=attrgetter("row")) if unread else mismatches
            batch = self._batch(made, len(numbers))
            parsed = ParsedRows(batch, numbers, errors, self._unknown(columns, numbers))
            result = apply_row_policy(parsed, self.schema, self.options, locate)
            firsts = dict[str | None, RowError]()
            for error in mismatches if self.options.on_drift == "raise" else ():
                firsts.setdefault(error.column, error)
            return replace(result, mismatches=[self._locate(error, line) for error in firsts.values()], cuts=cuts)

    def _fit(
        self, columns: Mapping[str, pa.Array], numbers: Sequence[int]
    ) -> tuple[dict[str, pa.Array], list[RowError]]:
        """Return the selected columns, null where a value does not fit, and these values, by row."""
        made, mismatches = dict[str, pa.Array](), list[RowError]()
        for f in self.selected:
            set_column(f.name)
            made[f.name], bad = fit_text(self._normalized(columns[f.name], f), f)
            if self.options.json_output and json_fault(made[f.name]):
                beyond = mismatched_rows(made[f.name], f, json_output=True)
                bad = pc.indices_nonzero(pc.is_in(row_numbers(len(made[f.name])), pa.concat_arrays([bad, beyond])))
                made[f.name] = nulled(made[f.name], bad.cast(pa.int64()))
            for row, value in zip(bad.to_pylist(), columns[f.name].take(bad).to_pylist(), strict=True):
                mismatches.append(RowError(numbers[row], "", f.name, raw=msgspec.json.encode(value)))
        mismatches.sort(key=attrgetter("row"))
        return made, mismatches

    def _locate(self, error: RowError, line: Callable[[int], int | None]) -> RowError:
        if error.column in self.rescued_columns:
            return error._replace(reason="the schema lacks the column")
        found = error._replace(line=line(error.row))
        if error.raw is None:
            return found
        value, t = msgspec.json.decode(error.raw), self.schema.field(error.column).type
        try:
            from_text(pa.array([value], pa.string()), t)
        except BadValueError as exact:
            return found._replace(reason=str(exact))
        return found._replace(
            reason=f"{shorten(value)} is not {JSON_DATE if self.options.json_output else type_in_words(t)}"
        )

    def _typed(self, column: pa.Array, f: pa.Field) -> pa.Array:
        set_column(f.name)
        if is_json(f):
            return text_as_json(column)
        if column.type == f.type:
            return column
        if pt.is_large_string(f.type):
            return column.cast(f.type)
        if pt.is_timestamp(column.type):
            return column.cast(pa.timestamp(column.type.unit, "UTC")).cast(f.type)
        try:
            return from_text(self._normalized(column, f), f.type)
        except BadValueError as error:
            raise MismatchError(error, f) from None

    def _normalized(self, column: pa.Array, f: pa.Field) -> pa.Array:
        """Return the values in the spelling of `from_text`, null where they mean null."""
        if is_json(f):
            return column
        if len(self.nulls) and not (pt.is_string(f.type) or pt.is_large_string(f.type)):
            column = pc.if_else(pc.is_in(column, self.nulls), None, column)
        return self.spelling.normalize(column, f.type)

    def _unknown(self, columns: Mapping[str, pa.Array], numbers: Sequence[int]) -> Sequence[UnknownKeys]:
        """Return the values of the columns that are rescued whole, by row."""
        found = dict[int, dict[str, bytes]]()
        for name in self.rescued_columns:
            for number, value in zip(numbers, columns[name].to_pylist(), strict=True):
                if value is not None:
                    found.setdefault(number, {})[name] = msgspec.json.encode(value)
        return [UnknownKeys(number, found[number]) for number in sorted(found)]

    def _batch(self, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """Return the columns as a batch, with nulls in those that the file lacks."""
        made = [columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in self._own]
        return batch_of(made, self._own, rows)


SAMPLE = 1 << 20
"""Bytes at the beginning of a file from which the types of its columns are inferred, to detect drift."""


@dataclass(frozen=True)
class TextDrift:
    """Detection of drift in one file; `infer` returns the types of its columns, inferred from its beginning."""

    rows: TextRows
    infer: Callable[[], pa.Schema]

    def refuse(self, block: BlockResult, position: FilePosition) -> None:
        """Raise DriftError if the schema must change before a block is delivered."""
        has_rows = block.failed is not None or (block.batch is not None and block.batch.num_rows > 0)
        new = unknown_columns(self.rows.names, self.rows.schema, self.rows.options) if has_rows else ()
        raise_new_columns([self._found(pa.field(name, pa.null())) for name in new], position.url)
        drifted = [
            (mismatch, own, merged)
            for mismatch in block.mismatches
            if mismatch.column not in self.rows.options.declared_columns
            for own in [self.rows.schema.field(mismatch.column)]
            if (merged := widened_field(own, self._found(own))) is not None
        ]
        if drifted:
            reason = "; ".join(
                f"{mismatch.reason}, as the file has {own.name!r} as {type_name(self._found(own))}, "
                f"the schema as {type_name(own)}"
                for mismatch, own, _ in drifted
            )
            first = position.error(drifted[0][0])
            fields = [merged for *_, merged in drifted]
            raise DriftError(reason, fields, url=position.url, line=first.line, column=first.column)

    def _found(self, own: pa.Field) -> pa.Field:
        """Return a column with its type in the file; text if neither the file nor the schema has a value of it."""
        at = self._types.get_field_index(own.name)
        found = self._types.field(at) if at >= 0 else pa.field(own.name, pa.null())
        return found.with_type(pa.string()) if pt.is_null(found.type) and pt.is_null(own.type) else found

    @cached_property
    def _types(self) -> pa.Schema:
        return self.infer()
