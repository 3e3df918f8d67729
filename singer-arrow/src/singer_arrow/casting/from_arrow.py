"""Exact casts of Arrow columns to the types of a schema; lossy casts are errors. Pure.

Struct members are matched by name: missing ones are null, extra ones are dropped. Timestamps without a zone are in UTC.
For text, bytes must be UTF-8, UUIDs get their standard form, and other values their JSON text. Integers and decimals
become floats only without loss of digits (`whole_numbers`); wider floats are rounded. Digits beyond microseconds are
cut off within `collect_truncated`, and do not fit otherwise. Nulls fit every type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.extension_types import is_bytes, is_variant, is_wkb, to_wkt
from singer_arrow.casting.from_text import (
    BadValueError,
    are_large,
    display_value,
    from_text,
    holds,
    large_rows,
    type_in_words,
)
from singer_arrow.casting.spelling import (
    beyond_years,
    cast_decimals,
    check_printable,
    is_collecting,
    is_valid_utf8,
    to_microseconds,
    without_exponents,
)
from singer_arrow.casting.to_json import is_list, json_texts, text_as_json, uuid_texts
from singer_arrow.errors import DataError
from singer_arrow.schema.arrow_schema import is_json

CAST_ERRORS = (pa.ArrowException, ValueError, DataError)
"""Errors raised by `convert`."""
JSON_DATE = "a date of the years 1 to 9999, which JSON has"
JSON_MAP = "a map in which each key occurs once, as JSON requires"


def fit(column: pa.Array, field: pa.Field) -> pa.Array:
    """Cast a column to the field's type; BadValueError has the first row whose value does not fit."""
    if column.type == field.type and not is_json(field):
        return column
    try:
        return convert(column, field)
    except BadValueError:
        raise
    except CAST_ERRORS as error:

        def is_bad(low: int, high: int) -> bool:
            try:
                convert(_copied(column.slice(low, high - low)), field)
            except CAST_ERRORS:
                return True
            return False

        row, t = _first(is_bad, len(column)), field.type
        is_other = pt.is_floating(t) and not is_text_type(column.type)
        kind = f"a number that the type {t} holds" if is_other else type_in_words(t)
        kind = f"a value that JSON can hold: {error.reason}" if isinstance(error, DataError) else kind
        raise BadValueError(row, display_value(column, row), kind) from None


def fit_read(column: pa.Array, field: pa.Field, *, json_output: bool = False) -> pa.Array:
    """Cast as `fit` does a column whose reader has not validated its values.

    These do not fit either: text that is not UTF-8, a decimal with too many digits, a time outside the day, and with
    `json_output` a value that JSON cannot hold (`json_fault`).
    """
    if is_valid_utf8(column):
        fitted = fit(column, field)
        if not (json_output and (fault := json_fault(fitted))):
            return fitted
        row = _first(lambda low, high: json_fault(_copied(fitted.slice(low, high - low))) is not None, len(fitted))
        raise BadValueError(row, display_value(column, row), fault)
    column = unwrap(column)
    low = _first(lambda low, high: not is_valid_utf8(_copied(column.slice(low, high - low))), len(column))
    kind = "UTF-8" if is_text_type(column.type) else type_in_words(column.type)
    raise BadValueError(low, display_value(column, low), kind)


def json_fault(column: pa.Array) -> str | None:
    """Return in words what JSON requires of the values of a column and one of them is not; None if JSON holds all."""
    return JSON_DATE if beyond_years(column) else JSON_MAP if _repeats_key(column) else None


def _repeats_key(column: Any) -> bool:
    """Return whether a map, at any depth, has a key twice."""
    t = column.type
    if pt.is_struct(t):
        return any(_repeats_key(part) for part in column.flatten())
    if pt.is_map(t):
        entries = column.cast(pa.list_(pa.struct([("key", t.key_type), ("value", t.item_type)])))
        pairs = pa.table({"row": pc.list_parent_indices(entries), "key": pc.list_flatten(entries).field("key")})
        return pairs.group_by(["row", "key"]).aggregate([]).num_rows < pairs.num_rows or _repeats_key(column.items)
    return is_list(t) and _repeats_key(column.flatten())


def convert(column: pa.Array, field: pa.Field) -> pa.Array:
    """Cast a column to the field's type; raises one of `CAST_ERRORS` if a value does not fit."""
    source, target = column.type, field.type
    if source == target and not is_json(field):
        return column
    if is_variant(source) or is_wkb(source):
        return _of_extension(column, field)
    if is_text_type(target) and isinstance(source, pa.BaseExtensionType) and source.extension_name == "arrow.uuid":
        return convert(uuid_texts(column), field)
    if (stored := unwrap(column)) is not column:
        return convert(stored, field)
    if column.null_count == len(column):
        return pa.nulls(len(column), target)
    if pt.is_list_view(source) or pt.is_large_list_view(source):  # Arrow's cast loses the last offset
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64()))
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
        return convert(pa.LargeListArray.from_arrays(offsets, column.flatten(), mask=_mask(column)), field)
    if pt.is_nested(source) and column.offset:  # Arrow does not accept offsets of a slice with a mask
        column = _copied(column)
    if is_json(field):
        if is_text_type(source) or is_bytes(source):
            return text_as_json(column.cast(pa.string()))
        return _to_text(column, target)
    if is_text_type(target):
        return _to_text(column.cast(pa.binary()) if pt.is_fixed_size_binary(source) else column, target)
    if is_text_type(source):
        return from_text(column.cast(pa.string()), target)
    if pt.is_struct(target) and pt.is_struct(source):
        parts = {f.name: part for f, part in zip(source, column.flatten(), strict=True)}
        members = [convert(parts[f.name], f) if f.name in parts else pa.nulls(len(column), f.type) for f in target]
        return pa.StructArray.from_arrays(members, fields=list(target), mask=_mask(column))
    if is_list(target) and is_list(source) and not pt.is_list(source):  # large and fixed-size lists
        return convert(column.cast(pa.list_(source.value_field)), pa.field("", target))
    if is_list(target) and (is_list(source) or pt.is_map(source)):
        if pt.is_map(source):
            items = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])
        else:
            items = column.values
        items = convert(items, target.value_field)
        return pa.ListArray.from_arrays(column.offsets, items, type=target, mask=_mask(column))
    if pt.is_map(target) and pt.is_map(source):
        keys = convert(column.keys, pa.field("key", target.key_type, nullable=False))
        items = convert(column.items, pa.field("value", target.item_type))
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=target, mask=_mask(column))
    if is_collecting() and (getattr(source, "unit", ""), getattr(target, "unit", "")) == ("ns", "us"):
        column = to_microseconds(column)
        source = column.type
    if pt.is_timestamp(target) and pt.is_timestamp(source) and source.tz is None:
        return column.cast(pa.timestamp(source.unit, target.tz)).cast(target)
    if pt.is_decimal(target) and pt.is_decimal(source):
        return cast_decimals(column, target)
    if (pt.is_decimal(target) and pt.is_floating(source)) or pt.is_boolean(target) or pt.is_date(target):
        there = column.cast(target)
        if not there.cast(source).equals(column):
            raise ValueError("digits would be lost")
        return there
    return _to_float(column, target) if pt.is_floating(target) else column.cast(target)


def _of_extension(column: pa.ExtensionArray, field: pa.Field) -> pa.Array:
    """Cast VARIANT to JSON text or structs, and geometries to well-known text or binary."""
    if is_wkb(column.type):
        if pt.is_binary(field.type):
            return convert(column.storage, field)
        return convert(
            pa.array([v if v is None else to_wkt(v) for v in column.storage.to_pylist()], pa.string()), field
        )
    if pt.is_struct(field.type):
        return convert(column.storage, field)
    texts = pc.if_else(pc.is_valid(column.storage), json_texts(column, pa.field("", column.type)), None)
    return texts if is_json(field) else convert(texts, field)


def unwrap(column: pa.Array) -> pa.Array:
    """Decode dictionaries, runs, extension types and short decimals; other columns are returned unchanged.

    VARIANT and geometries are unchanged, as their text differs from that of their storage.
    """
    t = column.type
    if isinstance(column, pa.ExtensionArray) and not (is_variant(t) or is_wkb(t)):
        return column.storage.cast(pa.bool_()) if t.extension_name == "arrow.bool8" else unwrap(column.storage)
    if pt.is_run_end_encoded(t):
        return unwrap(_without_runs(column))
    if pt.is_decimal32(t) or pt.is_decimal64(t):  # some of Arrow's casts lack them
        return column.cast(pa.decimal128(t.precision, t.scale))
    return unwrap(_taken(column.dictionary, column.indices)) if pt.is_dictionary(t) else column


def _without_runs(column: Any) -> pa.Array:
    """Return the values of runs; Arrow decodes only runs of plain values."""
    numbers = pa.array(range(len(column.values)), pa.int64())
    t = pa.run_end_encoded(column.run_ends.type, numbers.type)
    children = [column.run_ends, numbers]
    runs = pa.RunEndEncodedArray.from_buffers(t, len(column), [None], 0, column.offset, children)
    return _taken(column.values, pc.run_end_decode(runs))


def _taken(values: pa.Array, numbers: pa.Array) -> pa.Array:
    """Return values by their numbers; Arrow's `take` lacks views."""
    if pt.is_string_view(values.type) or pt.is_binary_view(values.type):
        values = values.cast(pa.string() if pt.is_string_view(values.type) else pa.binary())
    return values.take(numbers)


def _copied(column: pa.Array) -> pa.Array:
    return column.take(pa.array(range(len(column)), pa.int64()))


def _mask(column: pa.Array) -> pa.Array | None:
    return pc.is_null(column) if column.null_count else None


def _to_float(column: pa.Array, target: pa.DataType) -> pa.Array:
    is_decimal = pt.is_decimal(column.type)
    there, rows = column.cast(target, safe=False), pa.array([], pa.int64())
    if is_decimal:  # the shortest text of a float has its significant digits
        rows = pc.indices_nonzero(pc.not_equal(from_text(there.cast(pa.string()), column.type), column))
    elif pt.is_integer(column.type) and are_large(there):
        rows = large_rows(there)
    if not all(holds(target, v) and v == int(v) for v in column.take(rows).to_pylist()):
        raise ValueError("digits would be lost")
    given = pc.is_inf(column) if pt.is_floating(column.type) else pa.scalar(value=False)
    if pc.any(pc.and_not(pc.is_inf(there), given)).as_py():
        msg = "a number is too large"  # Arrow makes it infinite
        raise ValueError(msg)
    return there


def _to_text(column: pa.Array, target: pa.DataType) -> pa.Array:
    source = column.type
    if is_text_type(source) or is_bytes(source):
        return column.cast(target)  # validates UTF-8 of binary
    check_printable(column)
    if pt.is_timestamp(source):
        moment = column.cast(pa.timestamp(source.unit, "UTC")).cast(pa.string())
        return pc.replace_substring(moment, " ", "T", max_replacements=1).cast(target)
    if pt.is_nested(source) or pt.is_fixed_size_binary(source):
        return pc.if_else(pc.is_valid(column), json_texts(column, pa.field("", source)), None).cast(target)
    text = column.cast(pa.string())
    return (without_exponents(text) if pt.is_decimal(source) else text).cast(target)


def _first(is_bad: Callable[[int, int], bool], rows: int) -> int:
    """Return the first bad row, by bisection; `is_bad` tests a range of rows."""
    low, high = 0, rows  # the first bad row lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_bad(low, middle) else (middle, high)
    return low


def is_text_type(t: pa.DataType) -> bool:
    """Return whether a type is text of any layout."""
    return bool(pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t))


# Layouts of Arrow -> plain ones, which all of Arrow's functions take: `plain_type`, `to_plain`. Pure.


def plain_type(t: pa.DataType) -> pa.DataType:
    """Return the type of the same values without dictionaries, runs, views and decimals of 32 and 64 bits."""
    if isinstance(t, pa.BaseExtensionType):
        stored = plain_type(t.storage_type)
        return t if stored == t.storage_type else stored
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return plain_type(t.value_type)
    if pt.is_string_view(t) or pt.is_binary_view(t):
        return pa.string() if pt.is_string_view(t) else pa.binary()
    if pt.is_decimal32(t) or pt.is_decimal64(t):
        return pa.decimal128(t.precision, t.scale)
    if pt.is_struct(t):
        return pa.struct([_plain(f) for f in t])
    if pt.is_map(t):
        return pa.map_(_plain(t.key_field), _plain(t.item_field))
    if is_list(t):
        inner = _plain(t.value_field)
        is_view = pt.is_list_view(t) or pt.is_large_list_view(t)
        return pa.list_(inner) if is_view or inner.type != t.value_type else t
    return t


def to_plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with columns of plain types."""
    fields = [_plain(f) for f in batch.schema]
    if all(f.type == c.type for f, c in zip(fields, batch.columns, strict=True)):
        return batch
    arrays = [convert(c, pa.field(f.name, f.type)) for c, f in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, batch.schema.metadata))


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))
