"""Values that do not fit; the policy for bad rows of all formats; rows as JSON for reports. Pure.

A format finds the errors of the rows of a block or batch (`ParsedRows`). `apply_row_policy` returns the rows that stay
by `on_bad_row` and `on_drift` (fail, skip, dead_letter or rescue), and `report_rows` counts and logs the others.
"""

from __future__ import annotations

import math
import re
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
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import CAST_ERRORS, convert, is_text_type, json_fault, unwrap
from singer_arrow.casting.from_json import BadRowError, parse
from singer_arrow.casting.from_text import BadValueError, display_value, from_text, is_supported, parse_text
from singer_arrow.casting.spelling import is_valid_utf8
from singer_arrow.casting.to_json import json_text, json_texts, text_as_json
from singer_arrow.errors import DataError
from singer_arrow.read_options import MAX_LOGGED, RESCUED, ReadOptions, ReadProgress, Skipped
from singer_arrow.schema.arrow_schema import is_json

# Rows of a column whose values do not fit a type: `mismatched_rows`. Pure.
#
# Values that cannot fit are found by vectorised checks; the rest is bisected until each part fits or is a few rows.

_FEW = 8  # number of rows that are checked one by one instead of bisected
_LIKE_A_NUMBER = r"^(?:\P{L}|[a-fA-FxXiInNtTyY])*$"  # no letters except those of `1e5`, `0xff`, `infinity` and `nan`


def mismatched_rows(column: pa.Array, field: pa.Field, *, json_output: bool = False) -> pa.Array:
    """Return the rows whose value `from_arrow.fit_read` refuses, in order. Nulls always fit."""
    column = unwrap(column)
    valid = pc.indices_nonzero(column.is_valid()).cast(pa.int64())
    present = column.take(valid)
    if is_text_type(column.type) and is_valid_utf8(present):
        distinct = present.unique()
        if 2 * len(distinct) < len(present):  # each text is tried once
            return valid.filter(
                pc.is_in(present, value_set=distinct.take(mismatched_rows(distinct, field, json_output=json_output)))
            )
    certain = _certain_mismatches(present, field)
    open_rows = pc.indices_nonzero(pc.invert(certain)).cast(pa.int64())
    found = open_rows.take(_bisect(present.take(open_rows), field, json_output=json_output))
    rows = pa.concat_arrays([pc.indices_nonzero(certain).cast(pa.int64()), found])
    return valid.take(rows.take(pc.sort_indices(rows)))


def _certain_mismatches(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return true for values that certainly do not fit, false for all others."""
    source, target = column.type, field.type
    found = pa.repeat(pa.scalar(value=False), len(column))
    if is_json(field) or pt.is_nested(target) or not is_valid_utf8(column):
        return found
    if pt.is_null(target):
        return column.is_valid()
    if pt.is_string(source) or pt.is_large_string(source):
        patterns = list[str]()  # which every text contains that fits
        if pt.is_boolean(target):
            patterns = [r"(?i)^\s*(true|false|0|1)\s*$"]
        elif pt.is_integer(target) or pt.is_decimal(target) or pt.is_floating(target):
            patterns = [_LIKE_A_NUMBER, r"[0-9]|(?i:inf|nan)" if pt.is_floating(target) else r"[0-9]"]
        elif pt.is_timestamp(target) or pt.is_date(target) or pt.is_time(target):
            patterns = [r"[0-9]{2}"]
        for pattern in patterns:
            found = pc.or_(found, pc.invert(pc.match_substring_regex(column, pattern)))
        return found
    if _is_exact(target) and (_is_exact(source) or pt.is_floating(source)):
        try:
            back = column.cast(target, safe=False).cast(source, safe=False)
        except CAST_ERRORS:
            return found
        return pc.fill_null(pc.not_equal(back, column), fill_value=False)
    return found


def _is_exact(t: pa.DataType) -> bool:
    """Return whether a cast to the type and back preserves every value that fits."""
    return bool(pt.is_integer(t) or pt.is_decimal(t) or pt.is_timestamp(t) or pt.is_date(t) or pt.is_boolean(t))


def _bisect(column: pa.Array, field: pa.Field, *, json_output: bool) -> pa.Array:
    """Return the rows of a column without nulls that `convert` refuses, by bisection."""
    found, pieces = list[int](), [(0, len(column))]
    while pieces:
        low, high = pieces.pop()
        error = _cast_error(column.slice(low, high - low), field, json_output=json_output) if low < high else None
        if error is None:
            continue
        # An error of the types concerns all values; but casts of children depend on the values present.
        of_parts = pt.is_nested(column.type) and (pt.is_nested(field.type) or is_text_type(field.type))
        if high - low == 1 or (isinstance(error, pa.ArrowNotImplementedError) and not of_parts):
            found.extend(range(low, high))
        elif high - low <= _FEW:
            pieces.extend((row, row + 1) for row in range(low, high))
        else:
            middle = (low + high) // 2
            pieces += [(low, middle), (middle, high)]
    return pa.array(sorted(found), pa.int64())


def _cast_error(piece: pa.Array, field: pa.Field, *, json_output: bool) -> Exception | None:
    if pt.is_nested(piece.type):  # slices do not slice children
        piece = piece.take(pa.array(range(len(piece)), pa.int64()))
    if not is_valid_utf8(piece):
        return ValueError("a value is invalid for its type")
    try:
        if is_text_type(piece.type) and not is_text_type(field.type) and is_supported(field.type):
            parse_text(piece.cast(pa.string()), field.type)
        elif (fault := json_fault(convert(piece, field))) and json_output:
            return ValueError(fault)
    except (*CAST_ERRORS, ArithmeticError) as error:
        return error
    return None


_ODD = r"0[xX][0-9a-fA-F]+|[-+0-9.]*[eE][-+0-9]+|(?i:nan|inf|infinity)"  # numbers whose digits do not show their size
_DAY = r"^[0-9]{4}-?(0[1-9]|1[0-2])-?(0[1-9]|[12][0-9]|3[01])"


def fit_text(column: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Array]:
    """Return the column in the field's type, with mismatches as null, and the mismatched rows in order.

    The field is of a type that `from_text.is_supported` accepts.
    """
    none = pa.array([], pa.int64())
    if is_json(field):
        return text_as_json(column), none
    if pt.is_string(field.type) or pt.is_large_string(field.type):
        return column.cast(field.type), none
    try:
        return from_text(column, field.type), none
    except BadValueError:
        pass  # it reports the first mismatch only
    coded = column.dictionary_encode()
    texts = coded.dictionary
    likely = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), _pattern(field.type))
    values, fits = _halve(pc.if_else(likely, texts, None), field.type)
    bad = pc.invert(pc.and_(likely, fits)).take(coded.indices)
    return values.take(coded.indices), pc.indices_nonzero(pc.fill_null(bad, False)).cast(pa.int64())


def _halve(column: pa.Array, t: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return the values that fit, and whether each does, by bisection."""
    parts, fits = [pa.nulls(0, t)], [pa.array([], pa.bool_())]
    todo = [(column, True)]  # parts in reverse order, and whether each may fit
    while todo:
        part, may_fit = todo.pop()
        try:
            parts.append(from_text(part, t) if may_fit and len(part) else pa.nulls(len(part), t))
        except BadValueError as error:
            rest = part.slice(error.row + 1)
            middle = len(rest) // 2
            todo += [(rest.slice(middle), True), (rest.slice(0, middle), True)]
            todo += [(part.slice(error.row, 1), False), (part.slice(0, error.row), True)]
            continue
        fits.append(pa.repeat(may_fit, len(part)))
    return pa.concat_arrays(parts), pa.concat_arrays(fits)


def _pattern(t: pa.DataType) -> str:
    """Return a pattern that all trimmed texts that fit the type match, and few others."""
    if pt.is_integer(t):
        digits = len(str(2 ** (t.bit_width - pt.is_signed_integer(t))))
        return f"^[-+]*(0*[0-9]{{0,{digits}}}(\\.0*)?|{_ODD})$"
    if pt.is_decimal(t):
        before, after = max(0, t.precision - t.scale), max(0, t.scale)
        return f"^[-+]*(0*[0-9]{{0,{before}}}(\\.[0-9]{{0,{after}}}0*)?|{_ODD})$"
    if pt.is_floating(t):
        return f"^[-+]*([0-9]*\\.?[0-9]*|{_ODD})$"
    if pt.is_boolean(t):
        return "^(?i:true|false|0|1)$"
    if pt.is_temporal(t):
        return r"^[0-9]{2}:?[0-9]{2}" if pt.is_time(t) else _DAY
    return "^$" if pt.is_null(t) else ""


def first_invalid(text: bytes) -> int | None:
    """Return the offset of the first invalid UTF-8 byte; None if there is none."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def escape_line(text: bytes) -> str:
    """Decode a line for messages, without its line break and with invalid bytes escaped."""
    return re.sub(r"\r?\n\Z|\r\Z", "", text.decode(errors="backslashreplace"))


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
class CountedErrors:
    """A number of rows, and the errors of the first of them, or of all with `on_bad_row: dead_letter`."""

    count: int = 0
    errors: Sequence[RowError] = ()


@dataclass(frozen=True, slots=True)
class BlockResult:
    """A block after the policy was applied."""

    batch: pa.RecordBatch | None = None  # rows to yield; None if `failed`
    skipped: CountedErrors = CountedErrors()  # rows left out
    rescued: CountedErrors = CountedErrors()  # rows of which a part is in `RESCUED`
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
        CountedErrors(len(skipped), [locate(error) for error in islice(skipped.values(), most)]),
        CountedErrors(len(rescued), [locate(error) for error in islice(rescued.values(), MAX_LOGGED)]),
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
    count: Callable[[DataError, int], None], counted: CountedErrors, error_of: Callable[[RowError], DataError]
) -> None:
    """Count rows one by one as long as they are logged, the rest at once."""
    errors = [error_of(error) for error in counted.errors[:MAX_LOGGED]]
    for error in errors[:-1]:
        count(error, 1)
    if errors:
        count(errors[-1], counted.count - len(errors) + 1)


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Return a batch that keeps its number of rows even without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    no_columns = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(no_columns).replace_schema_metadata(schema.metadata)


def without_rescued(schema: pa.Schema, options: ReadOptions) -> pa.Schema:
    """Return the schema without the column `RESCUED`, if the reading fills it."""
    return pa.schema([f for f in schema if not (f.name == RESCUED and options.rescues)], metadata=schema.metadata)


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


# Rows and values as JSON text for error reports, also if they are invalid. Pure.

NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""Texts of infinities, which JSON lacks; other non-finite numbers are `NaN`."""


def row_to_json(batch: pa.RecordBatch, row: int) -> str:
    """Return a row (from 0) as a JSON object, with nulls, `"NaN"` for NaN, and invalid UTF-8 escaped."""
    pairs = zip(batch.schema, batch.columns, strict=True)
    members = (f"{json_text(f.name)}:{_value(c.take(pa.array([row], pa.int64())), f)}" for f, c in pairs)
    return f"{{{','.join(members)}}}"


def line_to_json(line: bytes) -> str:
    """Return a line of JSON Lines unchanged, or as `{"_raw": ...}` if it is not JSON."""
    line = line.strip()
    try:
        parse(line)
        return line.decode()
    except (BadRowError, ValueError, RecursionError):
        return f'{{"_raw":{json_text(line.decode(errors="backslashreplace"))}}}'


def float_to_json(value: float) -> str:
    """Return a float as JSON, non-finite ones as text."""
    return json_text(value if math.isfinite(value) else NON_FINITE.get(value, "NaN"))


def _value(one: pa.Array, field: pa.Field) -> str:
    """Return the only value of a column as JSON."""
    one = unwrap(one)
    if one.null_count or pt.is_null(one.type):
        return "null"
    try:
        if pt.is_floating(one.type):
            return float_to_json(float(one[0].as_py()))
        if not is_valid_utf8(one):
            return json_text(display_value(one, 0))
        return str(json_texts(one, field.with_type(one.type))[0].as_py())
    except (pa.ArrowException, DataError, ArithmeticError, ValueError, TypeError):
        try:
            return json_text(str(one[0].as_py()))
        except (ArithmeticError, ValueError, TypeError):  # a year outside Python's range
            return json_text(str(one[0]))
