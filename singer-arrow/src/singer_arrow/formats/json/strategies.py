"""Strategies to read lines by Arrow's JSON reader: which types it reads, and how unknown keys are detected. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.schema.arrow_schema import is_json

_MOST_DIGITS = {128: 38, 256: 76}


@dataclass(frozen=True, slots=True)
class ReadStrategy:
    """A strategy to read lines by Arrow's JSON reader.

    `key_check` is `infer`: Arrow's reader reads all columns, unknown ones included, which is cheapest but requires that
    each has one kind of values; or `scan`: the keys of each line are compared. Empty: no check.
    """

    text_timestamps: bool = False  # read as text and converted, for spellings that Arrow's reader refuses
    float_integers: bool = False  # read as floats, for files that write integers as 1.0
    wide_decimals: bool = False  # read with any number of digits
    raw_text: bool = False  # read columns of text raw, for files that hold other kinds of values in them
    key_check: str = ""
    suspects: frozenset[str] = frozenset()  # columns to read value by value, as some values do not fit


def read_strategies(schema: pa.Schema, *, loose_text: bool) -> list[ReadStrategy]:
    """Return the strategies for lines of a schema, the cheapest first."""
    strategies = [ReadStrategy()]
    wide = any(_needs_wide(f.type) for f in schema)
    if wide or any("timestamp" in str(f.type) for f in schema):
        strategies += [ReadStrategy(text_timestamps=True, wide_decimals=wide)]
    if any(pt.is_integer(f.type) for f in schema):
        strategies += [ReadStrategy(text_timestamps=True, wide_decimals=wide, float_integers=True)]
    if loose_text and any(pt.is_string(f.type) for f in schema):
        strategies += [replace(s, text_timestamps=True, wide_decimals=wide, raw_text=True) for s in strategies]
    return strategies


def with_key_checks(strategies: Sequence[ReadStrategy]) -> list[ReadStrategy]:
    """Return the strategies with each check of keys, the most expensive check last."""
    return [replace(strategy, key_check=check) for check in ("infer", "scan") for strategy in strategies]


def read_type(field: pa.Field, strategy: ReadStrategy, *, nested: bool = False) -> pa.DataType | None:
    """Return the type in which Arrow's reader reads a column; None if it can read it in none."""
    t = field.type
    if field.name in strategy.suspects and not nested:
        return None
    if is_json(field) or pt.is_map(t) or pt.is_float16(t):
        return None
    if pt.is_struct(t):
        parts = [(f.name, read_type(f, strategy, nested=True)) for f in t]
        return None if any(part is None for _, part in parts) else pa.struct(parts)
    if pt.is_list(t):
        inner = read_type(t.value_field, strategy, nested=True)
        return None if inner is None else pa.list_(inner)
    if pt.is_integer(t):
        return pa.float64() if strategy.float_integers and not nested else t
    if pt.is_timestamp(t) and t.tz == "UTC" and not strategy.text_timestamps:
        return t
    if pt.is_decimal128(t) or pt.is_decimal256(t):
        return _decimal_type(t, wide=strategy.wide_decimals)
    if pt.is_boolean(t) or pt.is_floating(t) or pt.is_null(t):
        return t
    return None if strategy.raw_text and pt.is_string(t) else pa.string()


def decimals(t: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the decimal types within a type, itself included."""
    if pt.is_decimal(t):
        yield t
    for i in range(t.num_fields):
        yield from decimals(t.field(i).type)


def _decimal_type(t: pa.DataType, *, wide: bool) -> pa.DataType:
    """Return a type with so few digits that Arrow's reader can scale each number that it accepts.

    Values are cast safely to the type of the column afterwards. Numbers with more digits (`wide`) take longer.
    """
    if not wide and (digits := _digits(t, 128)) > 0:
        return pa.decimal128(digits, t.scale)
    return pa.decimal256(max(1, _digits(t, 256)), t.scale)


def _needs_wide(t: pa.DataType) -> bool:
    """Return whether the type holds numbers with more digits than are read unless `wide`."""
    return any(_digits(part, 128) < part.precision for part in decimals(t))


def _digits(t: pa.DataType, bits: int) -> int:
    return _MOST_DIGITS[bits] - max(0, int(t.scale))
