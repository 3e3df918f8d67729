"""Batches of a file -> exactly a schema; drift; members that are left out."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit, fit_read
from singer_arrow.casting.from_json import BadRowError, parse, to_json_bytes
from singer_arrow.casting.from_text import BadValueError, display_value, from_text
from singer_arrow.casting.spelling import (
    PRINTABLE_YEARS,
    beyond_years,
    collect_truncated,
    is_valid_utf8,
    set_column,
    warn_truncated,
)
from singer_arrow.casting.to_json import is_list, json_text, json_texts
from singer_arrow.enforcement.bad_rows import (
    NO_PLACE,
    ParsedRows,
    RowError,
    apply_row_policy,
    batch_of,
    float_to_json,
    mismatched_rows,
    nulled,
    report_rows,
    row_numbers,
    row_to_json,
    value_policy,
    without_rescued,
)
from singer_arrow.errors import DataError, DriftError
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress, Skipped
from singer_arrow.schema.arrow_schema import UTC_MICROSECONDS, canonical, is_json, merge_fields

# Drift between a file and the schema: columns to read, new columns, changed types, rescued values. Pure.

_NOT_READ = ("ignore", "count")  # values of `ReadOptions.on_drift` with which new columns are not read


def unknown_columns(names: Iterable[str], schema: pa.Schema, options: ReadOptions) -> list[str]:
    """Return the columns of a file that are neither in the schema nor in `known_columns`."""
    if options.known_columns is None or options.on_drift in _NOT_READ:
        return []
    known = options.known_columns.union(schema.names)
    return [name for name in names if name not in known]


@lru_cache(maxsize=64)
def paths_with_exclusions(excluded: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """Map each path above an excluded member to the rests of the members' paths below it."""
    found = defaultdict[str, list[str]](list)
    for path in excluded:
        for end in (end for end, c in enumerate(path) if c == "."):
            found[path[:end]].append(path[end + 1 :])
    return dict(found)


def without_excluded(field: pa.Field, ours: pa.Field | None, excluded: frozenset[str]) -> pa.Field:
    """Return a file's field without excluded members, at any depth; of type null if nothing remains.

    The members of `ours`, the schema's field, are kept. The types are canonical.
    """
    if not pt.is_nested(field.type) or field.name not in paths_with_exclusions(excluded):
        return field
    return field.with_type(_without(field.type, None if ours is None else ours.type, excluded, field.name))


def _without(t: pa.DataType, ours: pa.DataType | None, excluded: frozenset[str], path: str) -> pa.DataType:
    if pt.is_struct(t):
        own = {f.name: f.type for f in ours} if ours is not None and pt.is_struct(ours) else {}
        kept = []
        for f in t:
            at = f"{path}.{f.name}"
            if f.name not in own and at in excluded:
                continue
            inner = _without(f.type, own.get(f.name), excluded, at)
            if pt.is_null(f.type) or not pt.is_null(inner):
                kept.append(f.with_type(inner))
        return pa.struct(kept) if kept else pa.null()
    if pt.is_list(t):
        inner = _without(
            t.value_type, ours.value_type if ours is not None and pt.is_list(ours) else None, excluded, path
        )
        return pa.list_(inner) if pt.is_null(t.value_type) or not pt.is_null(inner) else inner
    if pt.is_map(t):
        inner = _without(t.item_type, ours.item_type if ours is not None and pt.is_map(ours) else None, excluded, path)
        return pa.map_(t.key_type, inner) if pt.is_null(t.item_type) or not pt.is_null(inner) else inner
    return t


def raise_new_columns(found: Iterable[pa.Field], url: object) -> None:
    """Raise DriftError if there are new columns."""
    fields = list(found)
    if fields:
        listed = ", ".join(f"{f.name!r} ({type_name(f)})" for f in fields[:5])
        more = f" and {len(fields) - 5} more" if len(fields) > 5 else ""
        word = "a new column" if len(fields) == 1 else "new columns"
        raise DriftError(f"the file has {word}: {listed}{more}", fields, url=url, column=fields[0].name)


_NUMBER = re.compile(rb'"?[+-]?\d+(?:\.\d+)?"?|[{\[].*', re.DOTALL)


def may_be_inexact(raw: bytes | None) -> bool:
    """Return whether the JSON of a value that does not fit its column is a number, or text of one, or has members."""
    return raw is not None and _NUMBER.fullmatch(raw) is not None


def widened_field(field: pa.Field, found: pa.Field, *, has_misfit: bool = False) -> pa.Field | None:
    """Return the schema's field widened to hold a file's values; None if it already holds them.

    Neither nanoseconds nor microseconds hold all values of the other, so timestamps get the file's unit. `has_misfit`:
    a number of the file did not fit the field. So a large integer makes text of a float64, which does not hold it.
    """
    merged = merge_fields(field, found)
    if has_misfit and merged.type == field.type:
        merged = merge_fields(field, found, exact=True)
    if not is_json(merged):
        merged = merged.with_type(_with_units(merged.type, found.type))
    return None if merged.type == field.type and is_json(merged) == is_json(field) else merged


def _with_units(t: pa.DataType, found: pa.DataType) -> pa.DataType:
    """Return the type with the units of the file's timestamps, at any depth."""
    if pt.is_timestamp(t) and (pt.is_timestamp(found) or pt.is_date(found)):
        return UTC_MICROSECONDS if pt.is_date(found) else found
    if pt.is_struct(t) and pt.is_struct(found):
        own = {f.name: f.type for f in found}
        return pa.struct([f.with_type(_with_units(f.type, own.get(f.name, f.type))) for f in t])
    if pt.is_list(t) and pt.is_list(found):
        return pa.list_(_with_units(t.value_type, found.value_type))
    if pt.is_map(t) and pt.is_map(found):
        return pa.map_(t.key_type, _with_units(t.item_type, found.item_type))
    return t


def type_name(field: pa.Field) -> str:
    """Return the type of a field for messages."""
    return "json" if is_json(field) else str(field.type)


def columns_to_read(file: pa.Schema, schema: pa.Schema, options: ReadOptions, url: object) -> list[str]:
    """Return the columns of a file to read, in its order: those of the schema, and new ones to rescue.

    A column of type null is never new, as it has no values. Raises DriftError if the file has new columns or object
    members and `options.on_drift` is `raise`, and DataError if it has one of the columns twice.
    """
    new = unknown_columns([f.name for f in file if not pt.is_null(f.type)], schema, options)
    if options.excluded_members:
        new = [name for name in new if not pt.is_null(included_field(file.field(name), schema, options).type)]
    names = {*schema_columns(schema, options), *new}
    found = [name for name in file.names if name in names]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise DataError("the file has it twice", url=url, column=twice, hint="Rename one of them at the source")
    known = set[str]() if options.on_drift in _NOT_READ else set(schema.names)
    grown = [f for f in file if pt.is_nested(f.type) and f.name in known and has_new_members(f, schema, options)]
    if options.on_drift == "raise":
        if new:
            raise_new_columns([included_field(file.field(name), schema, options) for name in new], url)
        fields = [included_field(f, schema, options) for f in grown]
        if merged := [w for f in fields if (w := widened_field(schema.field(f.name), f)) is not None]:
            first = fields[0]
            reason = f"the file has it as {type_name(first)}, the schema as {type_name(schema.field(first.name))}"
            raise DriftError(reason, merged, url=url, column=first.name)
        return found
    if new or grown:
        listed = ", ".join(repr(name) for name in [*new, *(f"{f.name} (members)" for f in grown)][:10])
        logger.warning(f"{url}: the file has what the schema lacks: {listed}; its values go to {RESCUED}")
    return found


def schema_columns(schema: pa.Schema, options: ReadOptions) -> list[str]:
    """Return the columns of a schema that come from files."""
    return [name for name in schema.names if name != RESCUED or not options.rescues]


def included_field(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> pa.Field:
    """Return a field of a file with canonical types, without excluded members; of type null if nothing remains."""
    at = schema.get_field_index(field.name)
    found = canonical(pa.schema([field])).field(0)
    return without_excluded(found, schema.field(at) if at >= 0 else None, options.excluded_members)


def has_new_members(field: pa.Field, schema: pa.Schema, options: ReadOptions) -> bool:
    """Return whether a file's column has object members that the schema lacks, apart from excluded ones."""
    ours = schema.field(field.name)
    if options.known_columns is None or is_json(ours) or not (pt.is_nested(ours.type) and pt.is_nested(field.type)):
        return False
    return _has_more(included_field(field, schema, options).type, ours.type)


def _has_more(found: pa.DataType, ours: pa.DataType) -> bool:
    if pt.is_struct(found) and pt.is_struct(ours):
        own = {f.name: f.type for f in ours}
        some = [f for f in found if not pt.is_null(f.type)]
        return any(f.name not in own or _has_more(f.type, own[f.name]) for f in some)
    if (is_list(found) and is_list(ours)) or (pt.is_map(found) and pt.is_map(ours)):
        return _has_more(_item(found), _item(ours))
    return False


def _item(t: pa.DataType) -> pa.DataType:
    return t.item_type if pt.is_map(t) else t.value_type


def _new_member_rows(column: pa.Array, ours: pa.DataType) -> pa.Array:
    """Return true for rows with a value in a new object member; the column has canonical types."""
    found = pa.repeat(pa.scalar(value=False), len(column))
    t = column.type
    if pt.is_struct(t) and pt.is_struct(ours):
        own = {f.name: f.type for f in ours}
        for member, part in zip(t, column.flatten(), strict=True):
            found_here = _new_member_rows(part, own[member.name]) if member.name in own else part.is_valid()
            found = pc.or_(found, found_here)
    elif (is_list(t) and is_list(ours)) or (pt.is_map(t) and pt.is_map(ours)):
        items = _new_member_rows(column.items if pt.is_map(t) else column.values, _item(ours))
        before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(items.cast(pa.int64()))])
        ends = column.offsets.cast(pa.int64())  # counts of such items before each offset
        counted = before.take(ends)
        found = pc.and_(column.is_valid(), pc.not_equal(counted.slice(1), counted.slice(0, len(column))))
    return found


# Removal of `ReadOptions.excluded_members` from JSON values. Pure.
#
# Members that the schema has are kept. Where the schema holds JSON text, or lacks the column, objects are never maps:
# their keys are members.


def exclude_members(value: Any, ours: pa.Field | None, excluded: frozenset[str], path: str) -> Any:
    """Return a value of `from_json.parse` without excluded members; `ours` is the schema's field at its path."""
    if path not in paths_with_exclusions(excluded):
        return value
    t = None if ours is None or is_json(ours) else ours.type
    if isinstance(value, list):
        inner = t.value_field if t is not None and pt.is_list(t) else None
        return [exclude_members(item, inner, excluded, path) for item in value]
    if not isinstance(value, dict):
        return value
    if t is not None and pt.is_map(t):
        return {key: exclude_members(item, t.item_field, excluded, path) for key, item in value.items()}
    own = {f.name: f for f in t} if t is not None and pt.is_struct(t) else {}
    return {
        name: exclude_members(member, own.get(name), excluded, f"{path}.{name}")
        for name, member in value.items()
        if name in own or f"{path}.{name}" not in excluded
    }


def exclude_from_json(raw: bytes, ours: pa.Field | None, excluded: frozenset[str], path: str) -> bytes:
    """Return the JSON of a value without excluded members; unchanged if it has none."""
    if raw.lstrip()[:1] not in (b"{", b"[") or path not in paths_with_exclusions(excluded):
        return raw
    value = parse(raw)
    kept = exclude_members(value, ours, excluded, path)
    return raw if kept == value else to_json_bytes(kept)


def exclude_from_column(
    column: pa.Array, field: pa.Field, excluded: frozenset[str], path: str | None = None
) -> pa.Array:
    """Remove excluded members from the JSON texts of a column of a field with canonical types, at any depth."""
    path = field.name if path is None else path
    if path not in paths_with_exclusions(excluded) or not _has_json(field):
        return column
    if is_json(field):
        texts = (None if text is None else text.encode() for text in column.to_pylist())
        return pa.array(
            [None if raw is None else exclude_from_json(raw, None, excluded, path).decode() for raw in texts],
            field.type,
        )
    column = column.take(row_numbers(len(column)))  # Arrow does not accept offsets of a slice with a mask
    t, mask = field.type, pc.is_null(column) if column.null_count else None
    if pt.is_struct(t):
        parts = [
            exclude_from_column(part, f, excluded, f"{path}.{f.name}")
            for f, part in zip(t, column.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(t), mask=mask)
    if pt.is_map(t):
        items = exclude_from_column(column.items, t.item_field, excluded, path)
        return pa.MapArray.from_arrays(column.offsets, column.keys, items, type=t, mask=mask)
    values = exclude_from_column(column.values, t.value_field, excluded, path)
    return pa.ListArray.from_arrays(column.offsets, values, type=t, mask=mask)


def _has_json(field: pa.Field) -> bool:
    t = field.type
    return is_json(field) or (pt.is_nested(t) and any(_has_json(t.field(i)) for i in range(t.num_fields)))


# Batches of a columnar file -> batches of exactly a schema: `fit_batch`.

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
    with collect_truncated(options.exact_columns) if options.cuts_digits else nullcontext(dict[str, str]()) as cuts:
        fitted, bad = dict[str, pa.Array](), dict[str, DataError]()
        own = schema_columns(schema, options)
        for name in own:
            if options.cuts_digits:
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
        if bad or len(own) < len(schema) or options.on_drift == "rescue":
            result = _with_policy(fitting, fitted, bad)
        else:
            result = batch_of(list(fitted.values()), schema, batch.num_rows)
        if options.excluded_members:
            columns = [fitting.exclude(c, f) for c, f in zip(result.columns, result.schema, strict=True)]
            result = batch_of(columns, result.schema, result.num_rows)
    if cuts:
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
        wider = (widened_field(schema.field(name), own, has_misfit=True) for name, own in found.items())
        merged = [field for field in wider if field is not None]
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
                column = fit(batch.column(field.name), fitting.included_field(field.name))
                grown = _new_member_rows(column, schema.field(field.name).type)
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
    if is_valid_utf8(values) and not beyond_years(values, PRINTABLE_YEARS):
        with suppress(DataError):  # a map has a key twice: its pairs are kept
            texts: list[str] = json_texts(values, field).to_pylist()
            return texts
    return [json_text(display_value(values, row)) for row in range(len(values))]


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
