"""Rows of text -> record batches; and where something does not fit, what becomes of each row.

Where all fits, columns are converted as they are. Only else are rows looked at one by one: those that cannot be read
and those with a value that does not fit are left out, or kept with what does not fit in `RESCUED`, or the first of them
is the error to raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from heapq import nsmallest
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import name_column, noting_cuts
from singer_arrow.casting.from_text import BadValueError, describe, from_text, shorten
from singer_arrow.casting.spelling import Spelling
from singer_arrow.casting.to_json import as_json
from singer_arrow.enforcement.schema_drift import Rescue, new_columns
from singer_arrow.enforcement.text_mismatches import fit_text, printable
from singer_arrow.errors import DataError
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.read_progress import MAX_LOGGED
from singer_arrow.reading.ordered_map import ROW_BY_ROW
from singer_arrow.schema.arrow_schema import is_json


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a row; `line` counts from 1 within the block, and is None where nobody counted."""

    line: int | None
    reason: str
    column: str | None = None
    hint: str | None = None

    def error(self, url: object, lines_before: int) -> DataError:
        """The error to raise, given how many lines of the file stand before the block."""
        line = None if self.line is None else lines_before + self.line
        return DataError(self.reason, url=url, line=line, column=self.column, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Unread:
    """A row that cannot be read: its number in the block, why, its text, and what the user can do."""

    number: int
    reason: str
    raw: bytes
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """So many rows, and what was wrong with the first of them."""

    rows: int = 0
    first: Sequence[Problem] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a block's rows.

    Attributes:
        batch: The rows that are given.
        skipped: Rows that were left out.
        rescued: Rows of which something is in `RESCUED`.
        misfits: The first value of each column that does not fit it.
        failed: The first row that must not be, if any: then there is no batch.
        cuts: By column, the first value of which digits were cut off.
    """

    batch: pa.RecordBatch | None = None
    skipped: Tally = Tally()
    rescued: Tally = Tally()
    misfits: Sequence[Problem] = ()
    failed: Problem | None = None
    cuts: Mapping[str, str] = field(default_factory=dict)


class MisfitError(BadValueError):
    """A value does not fit its column."""

    def __init__(self, error: BadValueError, column: pa.Field) -> None:
        super().__init__(error.row, error.value, describe(column.type))
        self.column = column.name


def nulls_of(options: ReadOptions) -> pa.Array:
    """The texts that mean null in columns other than text: those of the options, and empty ones."""
    return pa.array(sorted({*options.null_values, ""}), pa.string())


@dataclass(frozen=True)
class TextRows:
    """How the rows of one file become batches.

    Attributes:
        names: The file's columns.
        schema: What is wanted of it.
        options: How it is read.
        nulls: Texts that mean null in columns other than text.
    """

    names: Sequence[str]
    schema: pa.Schema
    options: ReadOptions
    nulls: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))

    @cached_property
    def spelling(self) -> Spelling:
        """How the file writes its values."""
        return Spelling.of(self.options)

    @property
    def wanted(self) -> list[pa.Field]:
        """The columns of the schema that are read from the file."""
        names = set(self.names) - ({RESCUED} if self.options.rescues else set())
        return [f for f in self.schema if f.name in names]

    @property
    def rescued_columns(self) -> list[str]:
        """The columns of the file that are news, and rescued whole."""
        new = new_columns(self.names, self.schema, self.options) if self.options.on_drift == "rescue" else []
        return [*new, *([RESCUED] if self.options.rescues and RESCUED in self.names else [])]

    def convert(self, columns: Mapping[str, pa.Array], rows: int) -> Outcome:
        """The batch of columns that are of their types already, or of text.

        Raises:
            MisfitError: A value does not fit; the first one of a column.
        """
        with noting_cuts() as cuts:
            made = {f.name: self._typed(columns[f.name], f) for f in self.wanted}
        saved = _Saved()
        if self.rescued_columns:
            self._save_new(saved, columns, range(rows))
        return Outcome(self._batch(made, saved, rows), rescued=saved.tally(), cuts=cuts)

    def sort_out(
        self,
        columns: Mapping[str, pa.Array],
        numbers: Sequence[int],
        unread: Sequence[Unread],
        line: Callable[[int], int],
    ) -> Outcome:
        """What becomes of rows of which some cannot be read, or hold what does not fit.

        Args:
            columns: Of text, of the rows that could be read.
            numbers: The numbers of these rows in the block, ascending.
            unread: The other rows, ascending too.
            line: The line on which the row of a number begins, from 1.
        """
        with ROW_BY_ROW:
            with noting_cuts() as cuts:
                made, misfits = self._fitted(columns, numbers)
            bad, keeps = self.options.on_bad_row, "rescue" in (self.options.on_drift, self.options.on_bad_row)
            firsts = [_misfit(misfit, line) for misfit in _first_of_columns(misfits)]
            failed = [*(_unread(u, line) for u in unread[:1]), *([] if keeps else firsts[:1])]
            if bad == "fail" and failed:
                return Outcome(misfits=firsts, failed=min(failed, key=lambda p: p.line or 0))
            order = [(number, row) for row, number in enumerate(numbers) if keeps or row not in misfits]
            if bad == "rescue" and unread:
                order = sorted([*order, *((u.number, -1) for u in unread)])
            at = {number: i for i, (number, _) in enumerate(order)}
            saved = _Saved()
            for values in misfits.values() if keeps else ():
                for misfit in values:
                    saved.add(at[misfit.number], misfit.field.name, misfit.value, partial(_misfit, values[0], line))
            for u in unread if bad == "rescue" else ():
                saved.add(at[u.number], "_raw", printable(u.raw), partial(_unread, u, line))
                saved.add(at[u.number], "_error", u.reason, partial(_unread, u, line))
            if self.rescued_columns:
                self._save_new(saved, columns, [at.get(number, -1) for number in numbers])
            taken = pa.array([row if row >= 0 else None for _, row in order], pa.int64())
            batch = self._batch({name: c.take(taken) for name, c in made.items()}, saved, len(order))
            skipped = [(v[0].number, partial(_misfit, v[0], line)) for v in misfits.values() if not keeps]
            skipped += [(u.number, partial(_unread, u, line)) for u in unread if bad != "rescue"]
            return Outcome(batch, _tally(skipped), saved.tally(), firsts, cuts=cuts)

    def _fitted(
        self, columns: Mapping[str, pa.Array], numbers: Sequence[int]
    ) -> tuple[dict[str, pa.Array], dict[int, list[_Misfit]]]:
        """The wanted columns, null where a value does not fit; and these values by row, ascending."""
        made, misfits = dict[str, pa.Array](), dict[int, list[_Misfit]]()
        for f in self.wanted:
            name_column(f.name)
            made[f.name], bad = fit_text(self._plain(columns[f.name], f), f)
            for row, value in zip(bad.to_pylist(), columns[f.name].take(bad).to_pylist(), strict=True):
                misfits.setdefault(row, []).append(_Misfit(numbers[row], f, value))
        return made, dict(sorted(misfits.items()))

    def _typed(self, column: pa.Array, f: pa.Field) -> pa.Array:
        name_column(f.name)
        if is_json(f):
            return as_json(column)
        if column.type == f.type:
            return column
        if pt.is_large_string(f.type):
            return column.cast(f.type)
        if pt.is_timestamp(column.type):
            return column.cast(pa.timestamp(column.type.unit, "UTC")).cast(f.type)
        try:
            return from_text(self._plain(column, f), f.type)
        except BadValueError as error:
            raise MisfitError(error, f) from None

    def _plain(self, column: pa.Array, f: pa.Field) -> pa.Array:
        """The values as `from_text` takes them."""
        present = self._without_nulls(column, f)
        return present if is_json(f) else self.spelling.plain(present, f.type)

    def _without_nulls(self, column: pa.Array, f: pa.Field) -> pa.Array:
        if not len(self.nulls) or is_json(f) or pt.is_string(f.type) or pt.is_large_string(f.type):
            return column
        return pc.if_else(pc.is_in(column, self.nulls), None, column)

    def _save_new(self, saved: _Saved, columns: Mapping[str, pa.Array], rows: Sequence[int]) -> None:
        """Rescue the values of columns that are news; `rows` says where in the batch a row stands, -1: nowhere."""
        for name in self.rescued_columns:
            problem = partial(Problem, None, "the schema lacks the column", name)
            for row, value in enumerate(columns[name].to_pylist()):
                if value is not None and rows[row] >= 0:
                    saved.add(rows[row], name, value, problem)

    def _batch(self, columns: Mapping[str, pa.Array], saved: _Saved, rows: int) -> pa.RecordBatch:
        made = []
        for f in self.schema:
            if f.name == RESCUED and self.options.rescues:
                made.append(saved.rescue.array(rows).cast(f.type) if saved.rescue else pa.nulls(rows, f.type))
            else:
                made.append(columns[f.name] if f.name in columns else pa.nulls(rows, f.type))
        if made:
            return pa.RecordBatch.from_arrays(made, schema=self.schema)
        rows_only = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
        return pa.RecordBatch.from_struct_array(rows_only).replace_schema_metadata(self.schema.metadata)


class _Misfit(NamedTuple):
    """A text that does not fit its column, and the number of its row."""

    number: int
    field: pa.Field
    value: str


class _Saved:
    """What is rescued of a batch, and the first problem of each of its rows."""

    def __init__(self) -> None:
        self.rescue = Rescue()
        self._problems = dict[int, Callable[[], Problem]]()

    def add(self, row: int, column: str, text: str, problem: Callable[[], Problem]) -> None:
        self.rescue.add_text(row, {column: text})
        self._problems.setdefault(row, problem)

    def tally(self) -> Tally:
        return _tally(self._problems.items())


def _misfit(misfit: _Misfit, line: Callable[[int], int]) -> Problem:
    reason, f = f"{shorten(misfit.value)} is not {describe(misfit.field.type)}", misfit.field
    try:
        from_text(pa.array([misfit.value], pa.string()), f.type)
    except BadValueError as error:  # knows best
        reason = str(error)
    return Problem(line(misfit.number), reason, f.name)


def _unread(row: Unread, line: Callable[[int], int]) -> Problem:
    return Problem(line(row.number), row.reason, hint=row.hint)


def _first_of_columns(misfits: Mapping[int, Sequence[_Misfit]]) -> list[_Misfit]:
    firsts = dict[str, _Misfit]()
    for values in misfits.values():
        for misfit in values:
            firsts.setdefault(misfit.field.name, misfit)
    return list(firsts.values())


def _tally(problems: Iterable[tuple[int, Callable[[], Problem]]]) -> Tally:
    """How many there are, and the first of them, by their numbers."""
    found = list(problems)
    return Tally(len(found), [problem() for _, problem in nsmallest(MAX_LOGGED, found, key=itemgetter(0))])
