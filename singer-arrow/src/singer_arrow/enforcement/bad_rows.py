"""Policies for values that do not fit: raise an error, report drift, skip rows, or rescue values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import JSON_DATE, fit
from singer_arrow.casting.from_json import BadRowError
from singer_arrow.casting.from_text import BadValueError, display_value, type_in_words
from singer_arrow.casting.temporal_text import PRINTABLE_YEARS, beyond_years
from singer_arrow.casting.to_json import json_text, json_texts
from singer_arrow.casting.utf8 import is_valid_utf8
from singer_arrow.enforcement.excluded_members import exclude_from_column
from singer_arrow.enforcement.mismatches import mismatched_rows
from singer_arrow.enforcement.row_json import float_to_json, row_to_json
from singer_arrow.enforcement.schema_drift import (
    Rescue,
    has_new_members,
    included_field,
    paths_with_exclusions,
    raise_if_incompatible,
    rows_with_new_members,
    unknown_columns,
    widened_field,
)
from singer_arrow.errors import DataError, DriftError
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.read_progress import MAX_LOGGED, ReadProgress, Skipped


@dataclass(frozen=True, slots=True)
class EnforcementInput:
    """A batch of a file, the schema to enforce, and its position: `first_row` counts from 1 within the row group."""

    batch: pa.RecordBatch
    schema: pa.Schema
    url: object
    row_group: int | None
    options: ReadOptions
    progress: ReadProgress
    first_row: int = 1

    def error(self, reason: str, column: str, *, row: int | None = None, hint: str | None = None) -> DataError:
        """Return an error for a column, or for its value in a row of the batch (from 0)."""
        number = None if row is None or self.row_group is None else self.first_row + row
        return DataError(reason, url=self.url, row_group=self.row_group, row=number, column=column, hint=hint)

    def included_field(self, column: str) -> pa.Field:
        """Return the file's column without excluded members."""
        return included_field(self.batch.schema.field(column), self.schema, self.options)

    def exclude(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Remove excluded members from the JSON texts of a column."""
        try:
            return exclude_from_column(column, field, self.options.excluded_members)
        except BadRowError as error:
            raise self.error(str(error), field.name) from None

    def mismatch_error(self, column: str, row: int) -> DataError:
        """Return the error for a value that does not fit."""
        values, kind = self.batch.column(column).slice(row, 1), type_in_words(self.schema.field(column).type)
        kind = JSON_DATE if self.options.json_output and beyond_years(values) else kind
        if column in paths_with_exclusions(self.options.excluded_members):
            values = _included_values(self, column, pa.array([row], pa.int64()))
        return self.error(str(BadValueError(row, display_value(values, 0), kind)), column, row=row)

    def to_batch(self, rows: int, fitted: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return a batch of `rows` rows from fitted columns."""
        if fitted:
            arrays = [self.exclude(fitted[field.name], field) for field in self.schema]
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        empty = pa.StructArray.from_buffers(pa.struct([]), rows, [None])  # rows without columns
        return pa.RecordBatch.from_struct_array(empty).replace_schema_metadata(self.schema.metadata)


def apply_policy(
    fitting: EnforcementInput, fitted: dict[str, pa.Array], bad: Mapping[str, DataError]
) -> pa.RecordBatch:
    """Return the batch after applying `on_drift` and `on_bad_row` to its mismatches.

    Args:
        fitting: The batch.
        fitted: Columns whose values all fit.
        bad: Columns with mismatches, and the error of the first one.

    Raises:
        DataError: `on_bad_row` is `fail`; names the first mismatch.
        DriftError: `on_drift` is `raise`, and the file has such a column in another type.
    """
    options, batch = fitting.options, fitting.batch
    if options.on_drift == "raise":
        _refuse_drift(fitting, bad)
    policy = "rescue" if options.on_drift == "rescue" else options.on_bad_row
    if bad and policy == "fail":
        raise next(iter(bad.values()))
    rows = {
        name: mismatched_rows(batch.column(name), fitting.schema.field(name), json_output=options.json_output)
        for name in bad
    }
    if bad and policy == "skip":
        return _without(fitting, fitted, rows)
    rescue = Rescue()
    for name, mismatched in rows.items():
        _rescue_values(rescue, fitting, name, mismatched)
        fitted[name] = _fitted(fitting, _nulled(batch.column(name), mismatched), fitting.schema.field(name))
    reported = _report(fitting, fitting.progress.rescue, rows)
    if options.on_drift == "rescue":
        _rescue_new(rescue, fitting)
    fitting.progress.rescued += len(rescue) - reported
    if RESCUED in fitting.schema.names:
        fitted[RESCUED] = rescue.array(batch.num_rows) if len(rescue) else pa.nulls(batch.num_rows, pa.string())
    return fitting.to_batch(batch.num_rows, fitted)


def _refuse_drift(fitting: EnforcementInput, bad: Iterable[str]) -> None:
    found = {name: fitting.included_field(name) for name in bad if name not in fitting.options.declared_columns}
    merged = [w for name, own in found.items() if (w := widened_field(fitting.schema.field(name), own)) is not None]
    if not merged:
        return
    where = {} if fitting.row_group is None else {"row_group": fitting.row_group}
    first = merged[0].name
    try:
        raise_if_incompatible(fitting.schema.field(first), found[first], fitting.url, **where)
    except DriftError as error:
        if len(merged) == 1:
            raise
        reason = f"{error.reason}, and so {len(merged) - 1} more"
        raise DriftError(reason, merged, url=fitting.url, column=first, **where) from None


def _without(fitting: EnforcementInput, fitted: Mapping[str, pa.Array], rows: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return the rows whose values all fit; count and report the others."""
    if fitting.progress.on_skip is None:
        _report(fitting, fitting.progress.skip, rows)
    else:
        _report_skipped(fitting, fitting.progress.on_skip, rows)
    every = _numbers(fitting.batch)
    kept = every.filter(pc.invert(pc.is_in(every, value_set=pa.concat_arrays(rows.values()))))
    good = {name: column.take(kept) for name, column in fitted.items()}
    for name in rows:
        good[name] = _fitted(fitting, fitting.batch.column(name).take(kept), fitting.schema.field(name))
    return fitting.to_batch(len(kept), good)


def _report(fitting: EnforcementInput, count: Callable[[DataError, int], None], rows: Mapping[str, pa.Array]) -> int:
    """Count and log rows with mismatches, naming the first column of each; return their number."""
    first = _first_columns(rows)
    logged = sorted(first)[:MAX_LOGGED]
    for row in logged:
        count(fitting.mismatch_error(first[row], row), 1)
    if len(first) > MAX_LOGGED:
        count(fitting.mismatch_error(first[logged[-1]], logged[-1]), len(first) - MAX_LOGGED)
    return len(first)


def _report_skipped(
    fitting: EnforcementInput, on_skip: Callable[[Skipped], None], rows: Mapping[str, pa.Array]
) -> None:
    """Count rows with mismatches and pass them to the callback."""
    first, before = _first_columns(rows), fitting.progress.rows_read
    for row in sorted(first):
        reason = fitting.mismatch_error(first[row], row).reason
        on_skip(Skipped(before + row + 1, first[row], reason, row_to_json(fitting.batch, row)))
    fitting.progress.skipped += len(first)


def _first_columns(rows: Mapping[str, pa.Array]) -> dict[int, str]:
    """Return the first mismatched column by row."""
    first = dict[int, str]()
    for name, mismatched in rows.items():
        for row in mismatched.to_pylist():
            first.setdefault(row, name)
    return first


def _rescue_new(rescue: Rescue, fitting: EnforcementInput) -> None:
    batch, options = fitting.batch, fitting.options
    for name in unknown_columns(batch.schema.names, fitting.schema, options):
        _rescue_values(rescue, fitting, name, pc.indices_nonzero(batch.column(name).is_valid()))
    known = set(fitting.schema.names)
    for field in batch.schema:
        if field.name in known and has_new_members(field, fitting.schema, options):
            ours = fitting.schema.field(field.name)
            grown = rows_with_new_members(batch.column(field.name), fitting.included_field(field.name), ours)
            _rescue_values(rescue, fitting, field.name, pc.indices_nonzero(grown))


def _rescue_values(rescue: Rescue, fitting: EnforcementInput, name: str, rows: pa.Array) -> None:
    """Rescue the values of a column in some rows."""
    own, values = fitting.included_field(name), _included_values(fitting, name, rows)
    for row, text in zip(rows.to_pylist(), _texts(values, own), strict=True):
        rescue.add(row, name, text)


def _included_values(fitting: EnforcementInput, name: str, rows: pa.Array) -> pa.Array:
    """Return the values of a column in some rows, without excluded members."""
    own = fitting.included_field(name)
    if pt.is_null(own.type):
        return pa.nulls(len(rows))
    return fitting.exclude(_fitted(fitting, fitting.batch.column(name).take(rows), own), own)


def _texts(values: pa.Array, field: pa.Field) -> list[str]:
    """Return values as JSON, with non-finite numbers as text (`"NaN"`) and invalid UTF-8 escaped."""
    if pt.is_floating(field.type):
        return [float_to_json(v) for v in values.to_pylist()]
    if not is_valid_utf8(values) or beyond_years(values, PRINTABLE_YEARS):
        return [json_text(display_value(values, row)) for row in range(len(values))]
    texts: list[str] = json_texts(values, field).to_pylist()
    return texts


def _nulled(column: pa.Array, rows: pa.Array) -> pa.Array:
    every = _numbers(column)
    return column.take(pc.if_else(pc.is_in(every, value_set=rows), None, every))


def _fitted(fitting: EnforcementInput, column: pa.Array, field: pa.Field) -> pa.Array:
    """Cast values that fit one by one; split the column where Arrow cannot cast them together."""
    try:
        return fit(column, field)  # text is UTF-8, or escaped by `_texts`
    except BadValueError as error:
        if len(column) < 2:
            raise fitting.error(str(error), field.name) from None
    every, middle = _numbers(column), len(column) // 2
    return pa.concat_arrays(
        [_fitted(fitting, column.take(half), field) for half in (every.slice(0, middle), every.slice(middle))]
    )


def _numbers(rows: pa.Array | pa.RecordBatch) -> pa.Array:
    return pa.array(range(len(rows)), pa.int64())
