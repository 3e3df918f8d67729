"""The policy for bad rows (`on_bad_row`, `on_drift`) of all formats: fail, skip, dead_letter or rescue. Pure.

A format finds the errors of the rows of a block or batch (`ParsedRows`). `apply_row_policy` returns the rows that stay,
and `report_rows` counts and logs the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.casting.to_json import json_text
from singer_arrow.enforcement.mismatches import escape_line
from singer_arrow.errors import DataError
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.read_progress import MAX_LOGGED, ReadProgress, Skipped

NO_PLACE = "the schema has no place for it, or for some members of it"


class RowError(NamedTuple):
    """An error in a row of a block."""

    row: int  # its number, as `ParsedRows.numbers` has it
    reason: str  # without the place
    column: str | None = None  # None if the error is not in one column
    hint: str | None = None  # what the user can do
    raw: bytes | None = None  # JSON of the value that does not fit its column; None if the row cannot be read
    text: bytes = b""  # of the row, if it cannot be read
    line: int | None = None  # on which the row begins in the block, from 1; None if not known


class UnknownKeys(NamedTuple):
    """Values of a row for which the schema has no column or no member: JSON, by column."""

    row: int
    values: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Rows of a block before the policy is applied."""

    batch: pa.RecordBatch  # rows that can be read, in the schema without `RESCUED`; null where a value does not fit
    numbers: Sequence[int]  # of these rows, ascending
    errors: Sequence[RowError] = ()  # ascending by row; within a row in the order of the schema
    unknown: Sequence[UnknownKeys] = ()  # values to rescue, as the schema has no place for them; ascending by row


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """A number of rows, and the errors of the first of them, or of all with `on_bad_row: dead_letter`."""

    count: int = 0
    errors: Sequence[RowError] = ()


@dataclass(frozen=True, slots=True)
class BlockResult:
    """A block after the policy was applied."""

    batch: pa.RecordBatch | None = None  # rows to yield; None if `failed`
    skipped: RejectedRows = RejectedRows()  # rows left out
    rescued: RejectedRows = RejectedRows()  # rows of which a part is in `RESCUED`
    failed: RowError | None = None  # error that ends the reading
    mismatches: Sequence[RowError] = ()  # to detect drift: values that do not fit; in text the first one of each column
    unknown: Sequence[UnknownKeys] = ()  # to detect drift: values without a place in the schema
    cuts: Mapping[str, str] = field(default_factory=dict)  # first value of which digits were cut off, by column
    left_out: Mapping[str, int] = field(default_factory=dict)  # how many values have no place, by path, if counted
    bytes: int = 0  # decompressed and in UTF-8
    lines: int = 0


Locate = Callable[[RowError], RowError]


def apply_row_policy(
    rows: ParsedRows,
    schema: pa.Schema,
    options: ReadOptions,
    locate: Locate,
    *,
    text_of: Callable[[bytes], str] = escape_line,
) -> BlockResult:
    """Return the rows that `options` let through, and the errors of the others.

    `schema` is that of the result; with `RESCUED` last or elsewhere, if `options.rescues`. `locate` adds the line, and
    an exact reason, to an error that is reported. `text_of` returns the text of a row that cannot be read, for
    `RESCUED`.
    """
    if not rows.errors and not rows.unknown:
        return BlockResult(_with_rescued(rows.batch, schema, None, options))
    of_values = value_policy(options)
    skipped, rescued = dict[int, RowError](), dict[int, RowError]()
    for error in rows.errors:
        action = options.on_bad_row if error.raw is None else of_values
        if action == "fail":
            return BlockResult(failed=locate(error))
        (rescued if action == "rescue" else skipped).setdefault(error.row, error)
    for keys in rows.unknown:  # an error names the first of the columns
        if keys.row not in rescued:
            column, raw = next(iter(keys.values.items()))
            rescued[keys.row] = RowError(keys.row, NO_PLACE, column, raw=raw)
    rescued = {row: rescued[row] for row in sorted(rescued) if row not in skipped}
    kept, batch = rows.numbers, rows.batch
    unread = [row for row in rescued if _index(kept, row) is None]
    if unread:
        found: list[tuple[int, int | None]] = [(row, i) for i, row in enumerate(kept) if row not in skipped]
        found = sorted([*found, *((row, None) for row in unread)], key=itemgetter(0))
        kept, batch = [row for row, _ in found], _take(batch, [i for _, i in found])
    elif lost := [i for row in skipped if (i := _index(kept, row)) is not None]:
        stay = rows_except(len(kept), pa.array(lost, pa.int64()))
        kept, batch = [kept[i] for i in stay.to_pylist()] if rescued else (), _take(batch, stay)
    found_values = _rescued_column(rows, kept, batch.num_rows, text_of) if rescued else None
    most = None if options.on_bad_row == "dead_letter" else MAX_LOGGED
    return BlockResult(
        _with_rescued(batch, schema, found_values, options),
        RejectedRows(len(skipped), [locate(error) for error in islice(skipped.values(), most)]),
        RejectedRows(len(rescued), [locate(error) for error in islice(rescued.values(), MAX_LOGGED)]),
    )


def value_policy(options: ReadOptions) -> str:
    """Return the policy for values that do not fit their columns: fail, skip, dead_letter or rescue."""
    return "rescue" if options.on_drift == "rescue" else options.on_bad_row


def report_rows(
    result: BlockResult,
    progress: ReadProgress,
    error_of: Callable[[RowError], DataError],
    record_of: Callable[[RowError], Skipped],
) -> None:
    """Count and log the rows that were skipped and rescued; `record_of` makes what `progress.on_skip` takes."""
    if progress.on_skip is not None:
        for error in result.skipped.errors:
            progress.on_skip(record_of(error))
        progress.skipped += result.skipped.count
    else:
        _count(progress.skip, result.skipped, error_of)
    _count(progress.rescue, result.rescued, error_of)


def _count(
    count: Callable[[DataError, int], None], rejected: RejectedRows, error_of: Callable[[RowError], DataError]
) -> None:
    """Count rows one by one as long as they are logged, the rest at once."""
    errors = [error_of(error) for error in rejected.errors[:MAX_LOGGED]]
    for error in errors[:-1]:
        count(error, 1)
    if errors:
        count(errors[-1], rejected.count - len(errors) + 1)


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Return a batch that keeps its number of rows even without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    no_columns = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(no_columns).replace_schema_metadata(schema.metadata)


def without_rescued(schema: pa.Schema, options: ReadOptions) -> pa.Schema:
    """Return the schema without the column `RESCUED`, if the reading fills it."""
    return pa.schema([f for f in schema if not (options.rescues and f.name == RESCUED)], metadata=schema.metadata)


def row_numbers(count: int) -> pa.Array:
    """Return the numbers of `count` rows, from 0."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=-1)


def nulled(column: pa.Array, rows: pa.Array) -> pa.Array:
    """Return the column with nulls in some rows."""
    every = row_numbers(len(column))
    return column.take(pc.if_else(pc.is_in(every, value_set=rows), None, every))


def rows_except(count: int, rows: pa.Array) -> pa.Array:
    """Return the numbers of `count` rows, from 0, without some."""
    every = row_numbers(count)
    return every.filter(pc.invert(pc.is_in(every, value_set=rows)))


def _take(batch: pa.RecordBatch, rows: Sequence[int | None] | pa.Array) -> pa.RecordBatch:
    """Return some rows of a batch; a row of nulls for None."""
    if batch.num_columns == 0:
        return batch_of([], batch.schema, len(rows))
    return batch.take(rows if isinstance(rows, pa.Array) else pa.array(rows, pa.int64()))


def _index(numbers: Sequence[int], number: int) -> int | None:
    """Return the index of a number in an ascending sequence; None if it is not there."""
    i = bisect_left(numbers, number)
    return i if i < len(numbers) and numbers[i] == number else None


def _rescued_column(rows: ParsedRows, kept: Sequence[int], count: int, text_of: Callable[[bytes], str]) -> pa.Array:
    """Return the column `RESCUED` of the rows with the numbers `kept`: JSON objects, or null.

    A row that cannot be read has its text as `_raw`, and the reason as `_error`.
    """
    found = defaultdict[int, dict[str, msgspec.Raw]](dict)
    for keys in rows.unknown:
        if (i := _index(kept, keys.row)) is not None:
            found[i].update((column, msgspec.Raw(json)) for column, json in keys.values.items())
    for error in rows.errors:
        if (i := _index(kept, error.row)) is None:
            continue
        if error.raw is None:
            reason = error.reason if error.column is None else f"column {error.column!r}: {error.reason}"
            found[i]["_raw"] = msgspec.Raw(json_text(text_of(error.text)).encode())
            found[i]["_error"] = msgspec.Raw(json_text(reason).encode())
        elif error.column is not None:
            found[i][error.column] = msgspec.Raw(error.raw)
    return pa.array([msgspec.json.encode(found[i]).decode() if i in found else None for i in range(count)], pa.string())


def _with_rescued(
    batch: pa.RecordBatch, schema: pa.Schema, rescued: pa.Array | None, options: ReadOptions
) -> pa.RecordBatch:
    """Return the batch with the column `RESCUED`, if the schema has it and the reading fills it."""
    if not options.rescues or RESCUED not in schema.names:
        return batch
    if rescued is None:
        rescued = pa.nulls(batch.num_rows, pa.string())
    columns = [rescued.cast(f.type) if f.name == RESCUED else batch.column(f.name) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
