"""Strategies to read lines by Arrow's JSON reader: which types it reads, and how unknown keys are detected. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.schema.arrow_schema import DIGITS_OF_128, MOST_DIGITS, is_json


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
    wide = any(part.precision > DIGITS_OF_128 - max(0, part.scale) for f in schema for part in decimals(f.type))
    if wide or any("timestamp" in str(f.type) for f in schema):
        strategies += [ReadStrategy(text_timestamps=True, wide_decimals=wide)]
    if any(pt.is_integer(f.type) for f in schema):
        strategies += [ReadStrategy(text_timestamps=True, wide_decimals=wide, float_integers=True)]
    if loose_text and any(pt.is_string(f.type) for f in schema):
        strategies += [replace(s, text_timestamps=True, wide_decimals=wide, raw_text=True) for s in strategies]
    return strategies


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
        # So few digits that the reader can scale each number that it accepts; safely cast to those of the column later.
        digits, scale = DIGITS_OF_128 - max(0, t.scale), max(0, t.scale)
        is_wide = strategy.wide_decimals or digits <= 0
        return pa.decimal256(max(1, MOST_DIGITS - scale), t.scale) if is_wide else pa.decimal128(digits, t.scale)
    if pt.is_boolean(t) or pt.is_floating(t) or pt.is_null(t):
        return t
    return None if strategy.raw_text and pt.is_string(t) else pa.string()


def decimals(t: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the decimal types within a type, itself included."""
    if pt.is_decimal(t):
        yield t
    for i in range(t.num_fields):
        yield from decimals(t.field(i).type)
