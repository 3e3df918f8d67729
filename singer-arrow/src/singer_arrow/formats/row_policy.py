"""Apply the policy for bad rows (`on_bad_row`, `on_drift`) to a block of text or JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from singer_arrow.casting.to_json import json_text
from singer_arrow.enforcement.mismatches import escape_line
from singer_arrow.enforcement.schema_drift import Rescue
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.read_progress import MAX_LOGGED


class RowError(NamedTuple):
    """An error in a row of a block.

    Attributes:
        row: Number of the row, as `ParsedRows.numbers` has it.
        reason: Cause, without the place.
        column: Column with the error; None if the error is not in one column.
        hint: Action for the user.
        raw: JSON of the value that does not fit its column; None if the row cannot be read.
        text: Text of the row, if the row cannot be read.
        line: Line in the block on which the row begins, from 1; None if not known.
    """

    row: int
    reason: str
    column: str | None = None
    hint: str | None = None
    raw: bytes | None = None
    text: bytes = b""
    line: int | None = None


class UnknownKeys(NamedTuple):
    """Values of a row for which the schema has no column or no member: JSON, by column."""

    row: int
    values: Mapping[str, bytes]

    def as_error(self) -> RowError:
        """Return an error that names the first of these columns."""
        column, raw = next(iter(self.values.items()))
        return RowError(self.row, "the schema has no place for it, or for some members of it", column, raw=raw)


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Rows of a block before the policy is applied.

    Attributes:
        batch: Rows that can be read, in the schema without `RESCUED`; null where a value does not fit.
        numbers: Numbers of these rows, ascending.
        errors: Errors, ascending by row; within a row in the order of the schema.
        unknown: Values to rescue, as the schema has no place for them; ascending by row.
    """

    batch: pa.RecordBatch
    numbers: Sequence[int]
    errors: Sequence[RowError] = ()
    unknown: Sequence[UnknownKeys] = ()


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """A number of rows, and the errors of the first of them (of all rows that JSON skips)."""

    count: int = 0
    errors: Sequence[RowError] = ()


@dataclass(frozen=True, slots=True)
class BlockResult:
    """A block after the policy was applied.

    Attributes:
        batch: Rows to yield; None if `failed`.
        skipped: Rows left out.
        rescued: Rows of which a part is in `RESCUED`.
        failed: Error that ends the reading.
        mismatches: Values that do not fit, for the detection of drift: in text the first one of each column.
        unknown: Values without a place in the schema, for the detection of drift.
        cuts: First value of which digits were cut off, by column.
        bytes: Size of the block, decompressed and in UTF-8.
        lines: Number of lines of the block.
    """

    batch: pa.RecordBatch | None = None
    skipped: RejectedRows = RejectedRows()
    rescued: RejectedRows = RejectedRows()
    failed: RowError | None = None
    mismatches: Sequence[RowError] = ()
    unknown: Sequence[UnknownKeys] = ()
    cuts: Mapping[str, str] = field(default_factory=dict)
    bytes: int = 0
    lines: int = 0


Locate = Callable[[RowError], RowError]


def apply_row_policy(
    rows: ParsedRows,
    schema: pa.Schema,
    options: ReadOptions,
    locate: Locate,
    *,
    most_skipped: int | None = MAX_LOGGED,
    text_of: Callable[[bytes], str] = escape_line,
) -> BlockResult:
    """Return the rows that `options` let through, and the errors of the others.

    Args:
        rows: Rows of a block.
        schema: Schema of the result; with `RESCUED` last or elsewhere, if `options.rescues`.
        options: Options of the reading.
        locate: Adds the line, and an exact reason, to an error that is reported.
        most_skipped: Number of skipped rows whose errors are reported; None for all.
        text_of: Returns the text of a row that cannot be read, for `RESCUED`.
    """
    if not rows.errors and not rows.unknown:
        return BlockResult(_with_rescued(rows.batch, schema, None, options))
    of_values = "rescue" if options.on_drift == "rescue" else options.on_bad_row
    skipped, rescued = dict[int, RowError](), dict[int, RowError | UnknownKeys]()
    for error in rows.errors:
        action = options.on_bad_row if error.raw is None else of_values
        if action == "fail":
            return BlockResult(failed=locate(error))
        (skipped if action == "skip" else rescued).setdefault(error.row, error)
    for keys in rows.unknown:
        rescued.setdefault(keys.row, keys)
    rescued = {row: rescued[row] for row in sorted(rescued) if row not in skipped}
    index = {number: i for i, number in enumerate(rows.numbers) if number not in skipped}
    unread = [row for row in rescued if row not in index]
    batch, kept = rows.batch, sorted([*index, *unread]) if unread else list(index)
    if len(kept) != len(rows.numbers) or unread:
        batch = _take(batch, [index.get(row) for row in kept])
    rescue = _rescue(rows, {row: i for i, row in enumerate(kept)}, text_of) if rescued else None
    return BlockResult(
        _with_rescued(batch, schema, rescue, options),
        _reject(list(skipped.values()), locate, most_skipped),
        _reject(list(rescued.values()), locate, MAX_LOGGED),
    )


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Return a batch that keeps its number of rows even without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    no_columns = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(no_columns).replace_schema_metadata(schema.metadata)


def without_rescued(schema: pa.Schema, options: ReadOptions) -> pa.Schema:
    """Return the schema without the column `RESCUED`, if the reading fills it."""
    return pa.schema([f for f in schema if not (options.rescues and f.name == RESCUED)], metadata=schema.metadata)


def _reject(found: Sequence[RowError | UnknownKeys], locate: Locate, most: int | None) -> RejectedRows:
    errors = (each.as_error() if isinstance(each, UnknownKeys) else each for each in found[:most])
    return RejectedRows(len(found), [locate(error) for error in errors])


def _take(batch: pa.RecordBatch, rows: list[int | None]) -> pa.RecordBatch:
    """Return some rows of a batch; a row of nulls for None."""
    if batch.num_columns == 0:
        return batch_of([], batch.schema, len(rows))
    return batch.take(pa.array(rows, pa.int64()))


def _rescue(rows: ParsedRows, index: Mapping[int, int], text_of: Callable[[bytes], str]) -> Rescue:
    """Collect what `RESCUED` holds of the rows that are kept; `index` has their rows in the batch."""
    rescue = Rescue()
    for keys in rows.unknown:
        if keys.row in index:
            for column, json in keys.values.items():
                rescue.add(index[keys.row], column, json)
    for error in rows.errors:
        if error.row not in index:
            continue
        if error.raw is None:
            reason = error.reason if error.column is None else f"column {error.column!r}: {error.reason}"
            rescue.add(index[error.row], "_raw", json_text(text_of(error.text)))
            rescue.add(index[error.row], "_error", json_text(reason))
        elif error.column is not None:
            rescue.add(index[error.row], error.column, error.raw)
    return rescue


def _with_rescued(
    batch: pa.RecordBatch, schema: pa.Schema, rescue: Rescue | None, options: ReadOptions
) -> pa.RecordBatch:
    """Return the batch with the column `RESCUED`, if the schema has it and the reading fills it."""
    if not options.rescues or RESCUED not in schema.names:
        return batch
    rows = batch.num_rows
    rescued = pa.nulls(rows, pa.string()) if rescue is None else rescue.array(rows)
    columns = [rescued.cast(f.type) if f.name == RESCUED else batch.column(f.name) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
