"""Batches of a columnar file -> batches of exactly a schema: `fit_batch`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import collect_truncated, set_column, warn_truncated
from singer_arrow.casting.from_arrow import fit, fit_read
from singer_arrow.casting.from_json import BadRowError
from singer_arrow.casting.from_text import BadValueError, display_value, from_text
from singer_arrow.casting.temporal_text import PRINTABLE_YEARS, beyond_years
from singer_arrow.casting.to_json import json_text, json_texts
from singer_arrow.casting.utf8 import is_valid_utf8
from singer_arrow.enforcement.excluded_members import exclude_from_column
from singer_arrow.enforcement.mismatches import mismatched_rows
from singer_arrow.enforcement.row_json import float_to_json, row_to_json
from singer_arrow.enforcement.row_policy import (
    NO_PLACE,
    ParsedRows,
    RowError,
    apply_row_policy,
    batch_of,
    nulled,
    report_rows,
    row_numbers,
    value_policy,
    without_rescued,
)
from singer_arrow.enforcement.schema_drift import (
    has_new_members,
    included_field,
    paths_with_exclusions,
    rows_with_new_members,
    schema_columns,
    type_name,
    unknown_columns,
    widened_field,
)
from singer_arrow.errors import DataError, DriftError
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, Skipped

logger = logging.getLogger(__name__)
_PLAIN = ReadOptions()


@dataclass(frozen=True, slots=True)
class EnforcementInput:
    """A batch of a file, the schema to enforce, and its position: see `fit_batch`."""

    batch: pa.RecordBatch
    schema: pa.Schema
    url: object
    row_group: int | None
    options: ReadOptions
    progress: ReadProgress
    first_row: int | None = None

    def error(self, reason: str, column: str, *, row: int | None = None, hint: str | None = None) -> DataError:
        """Return an error for a column, or for its value in a row of the batch (from 0)."""
        number = None if row is None or self.first_row is None else self.first_row + row
        return DataError(reason, url=self.url, row_group=self.row_group, row=number, column=column, hint=hint)

    def row_error(self, error: RowError) -> DataError:
        """Return the error to log for a row."""
        assert error.column is not None
        return self.error(error.reason, error.column, row=error.row)

    def locate(self, error: RowError) -> RowError:
        """Return the error of a row with its reason."""
        if error.reason or error.column is None:
            return error
        return error._replace(reason=self.mismatch_error(error.column, error.row).reason)

    def record(self, error: RowError) -> Skipped:
        """Return a skipped row for `ReadProgress.on_skip`."""
        row = row_to_json(self.batch, error.row)
        return Skipped(self.progress.rows_read + error.row + 1, error.column, error.reason, row, str(self.url))

    def included_field(self, column: str) -> pa.Field:
        """Return the file's column without excluded members."""
        return included_field(self.batch.schema.field(column), self.schema, self.options)

    def mismatch_error(self, column: str, row: int) -> DataError:
        """Return the error for a value that does not fit."""
        values, kind = self.batch.column(column).take(pa.array([row], pa.int64())), "of its type"
        try:
            fit_read(values, self.schema.field(column), json_output=self.options.json_output)
        except BadValueError as error:
            kind = error.kind
        if column in paths_with_exclusions(self.options.excluded_members):
            values = _included_values(self, column, pa.array([row], pa.int64()))
        return self.error(str(BadValueError(row, display_value(values, 0), kind)), column, row=row)

    def exclude(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Remove excluded members from the JSON texts of a column."""
        try:
            return exclude_from_column(column, field, self.options.excluded_members)
        except BadRowError as error:
            raise self.error(str(error), field.name) from None

    def without_excluded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Remove excluded members from the JSON texts of a batch of the schema."""
        if not self.options.excluded_members:
            return batch
        columns = [self.exclude(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]
        return batch_of(columns, batch.schema, batch.num_rows)


def fit_batch(
    batch: pa.RecordBatch,
    schema: pa.Schema,
    url: object,
    *,
    row_group: int | None = None,
    first_row: int | None = None,
    options: ReadOptions = _PLAIN,
    progress: ReadProgress | None = None,
) -> pa.RecordBatch:
    """Cast a batch to exactly `schema`; columns are matched by name, missing ones are null.

    The batch has the file's types: columns of the schema, and new ones to rescue. Its first row is `first_row` (from 1)
    in the row group or else in the file, if known. All rows are returned unless `options.on_bad_row` drops some.
    `RESCUED` maps column names to values; for an object with new members, to the whole object without excluded members.

    Raises DataError if a value does not fit, or the file has a column of the schema twice; DriftError instead if the
    file has the column in another type, it is not one of `options.declared_columns`, and `options.on_drift` is `raise`.
    """
    progress = progress or ReadProgress()
    if options.rounds_decimals:
        names = {f.name: f.type for f in schema}
        rounded = [_rounded(c, names.get(f.name, f.type)) for f, c in zip(batch.schema, batch.columns, strict=True)]
        batch = batch_of(rounded, batch.schema, batch.num_rows)
    fitting = EnforcementInput(batch, schema, url, row_group, options, progress, first_row)
    with collect_truncated() if options.cuts_digits else nullcontext(dict[str, str]()) as cuts:
        fitted, bad = dict[str, pa.Array](), dict[str, DataError]()
        for name in schema_columns(schema, options):
            set_column(name)
            at = batch.schema.get_all_field_indices(name)
            if len(at) > 1:
                raise fitting.error("the file has it twice", name, hint="Rename one of them at the source")
            field = schema.field(name)
            if not at:
                fitted[name] = pa.nulls(batch.num_rows, field.type)
                continue
            try:
                fitted[name] = fit_read(batch.column(at[0]), field, json_output=options.json_output)
            except BadValueError as error:
                if name in paths_with_exclusions(options.excluded_members):  # which an error must not show
                    bad[name] = fitting.mismatch_error(name, error.row)
                else:
                    bad[name] = fitting.error(str(error), name, row=error.row)
        if bad or options.rescues:
            result = _with_policy(fitting, fitted, bad)
        else:
            result = batch_of(list(fitted.values()), schema, batch.num_rows)
        result = fitting.without_excluded(result)
    warn_truncated(logger, url, cuts, progress.warned)
    return result


def _with_policy(
    fitting: EnforcementInput, fitted: dict[str, pa.Array], bad: Mapping[str, DataError]
) -> pa.RecordBatch:
    """Return the batch after applying `on_drift` and `on_bad_row` to the values that do not fit.

    `fitted` are the columns whose values all fit; `bad` has the error of the first other value of each of the others.
    """
    options, batch, schema = fitting.options, fitting.batch, fitting.schema
    if options.on_drift == "raise":
        found = {name: fitting.included_field(name) for name in bad if name not in options.declared_columns}
        merged = [w for name, own in found.items() if (w := widened_field(schema.field(name), own)) is not None]
        if merged:
            first, more = merged[0].name, f", and so {len(merged) - 1} more" if len(merged) > 1 else ""
            ours = type_name(schema.field(first))
            reason = f"the file has it as {type_name(found[first])}, the schema as {ours}{more}"
            where = {} if fitting.row_group is None else {"row_group": fitting.row_group}
            raise DriftError(reason, merged, url=fitting.url, column=first, **where)
    policy = value_policy(options)
    if bad and policy == "fail":
        raise next(iter(bad.values()))
    errors = list[RowError]()
    for name in bad:
        column, field = batch.column(name), schema.field(name)
        rows = mismatched_rows(column, field, json_output=options.json_output)
        errors += _row_errors(fitting, name, rows, "", with_json=policy == "rescue")
        fitted[name] = _fitted(fitting, nulled(column, rows), field)
    if options.on_drift == "rescue":  # values for which the schema has no column or no member
        for name in unknown_columns(batch.schema.names, schema, options):
            rows = pc.indices_nonzero(batch.column(name).is_valid())
            errors += _row_errors(fitting, name, rows, NO_PLACE, with_json=True)
        for field in batch.schema:
            if schema.get_field_index(field.name) >= 0 and has_new_members(field, schema, options):
                ours = schema.field(field.name)
                grown = rows_with_new_members(batch.column(field.name), fitting.included_field(field.name), ours)
                errors += _row_errors(fitting, field.name, pc.indices_nonzero(grown), NO_PLACE, with_json=True)
    errors.sort(key=lambda error: error.row)
    source, progress = without_rescued(schema, options), fitting.progress
    parsed = ParsedRows(batch_of([fitted[n] for n in source.names], source, len(batch)), range(len(batch)), errors)
    result = apply_row_policy(parsed, schema, options, fitting.locate)
    report_rows(result, progress, fitting.row_error, fitting.record)
    return result.batch


def _row_errors(
    fitting: EnforcementInput, name: str, rows: pa.Array, reason: str, *, with_json: bool
) -> Iterator[RowError]:
    """Yield an error for the value of a column in each of some rows."""
    texts: Iterable[str] = [""] * len(rows)
    if with_json:
        texts = _texts(_included_values(fitting, name, rows), fitting.included_field(name))
    for row, text in zip(rows.to_pylist(), texts, strict=True):
        yield RowError(row, reason, name, raw=text.encode())


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
    try:
        texts: list[str] = json_texts(values, field).to_pylist()
    except DataError:  # a map has a key twice: its pairs are kept
        return [json_text(display_value(values, row)) for row in range(len(values))]
    return texts


def _fitted(fitting: EnforcementInput, column: pa.Array, field: pa.Field) -> pa.Array:
    """Cast values that fit one by one; split the column where Arrow cannot cast them together."""
    try:
        return fit(column, field)  # text is UTF-8, or escaped by `_texts`
    except BadValueError as error:
        if len(column) < 2:
            raise fitting.error(str(error), field.name) from None
    every, middle = row_numbers(len(column)), len(column) // 2
    return pa.concat_arrays(
        [_fitted(fitting, column.take(half), field) for half in (every.slice(0, middle), every.slice(middle))]
    )


def _rounded(column: pa.Array, t: pa.DataType) -> pa.Array:
    """Return the column with each fraction among its decimals as the float of a type prints it, at any depth."""
    source = column.type
    if pt.is_decimal(source) and pt.is_floating(t):
        near = from_text(column.cast(t, safe=False).cast(pa.string()), source)
        exact = column.cast(pa.decimal256(min(source.precision + 1, 76), source.scale))  # small ones have no trunc
        return pc.if_else(pc.equal(pc.trunc(exact), exact), column, near)
    if pt.is_struct(source) and pt.is_struct(t):
        own = {f.name: f.type for f in t}
        parts = [_rounded(c, own.get(f.name, f.type)) for f, c in zip(source, column.flatten(), strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(source), mask=column.is_null())
    if pt.is_list(source) and pt.is_list(t):
        column = column.take(row_numbers(len(column))) if column.offset else column
        values = _rounded(column.values, t.value_type)
        return pa.ListArray.from_arrays(column.offsets, values, type=source, mask=column.is_null())
    return column
