"""Encoding of the columns of a Parquet file, chosen from its first rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

_SAMPLE = 1 << 14  # number of rows
_WORTH = 0.5  # maximum ratio of distinct values for a dictionary
_PAGE_BYTES = 1 << 20  # approximate size of a data page or dictionary
_LONG = 1 << 10  # average bytes from which texts are long
_PAGE_VALUES = 1 << 10  # values between two checks of the page size


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """Encoding of the leaf columns.

    Attributes:
        dictionaries: Paths of columns with a dictionary.
        statistics: Paths of columns with minimum and maximum; not long texts, whose copies take memory and which are
            useless for pruning.
        page_values: Number of values between two checks of the page size; few if values are long.
    """

    dictionaries: list[str]
    statistics: list[str]
    page_values: int


def choose_encoding(group: pa.Table) -> ColumnEncoding:
    """Return the encoding for a file that starts with these rows."""
    some = group.slice(0, _SAMPLE)
    dictionaries, statistics, longest = list[str](), list[str](), 0.0
    for field, column in zip(some.schema, some.columns, strict=True):
        mean = _mean_bytes(column)
        longest = max(longest, mean)
        if pt.is_nested(field.type):  # examining leaves is too costly, so all get a dictionary
            paths = [f"{field.name}.{rest}" for rest in _leaves(field.type)]
            dictionaries += paths if mean < _PAGE_BYTES else []
            statistics += paths if mean < _PAGE_BYTES else []
            continue
        if mean < _LONG:
            statistics.append(field.name)
        if mean < _PAGE_BYTES // 8 and _is_worth(field.type, column):
            dictionaries.append(field.name)
    values = max(1, min(_PAGE_VALUES, int(_PAGE_BYTES / max(1.0, longest))))
    return ColumnEncoding(dictionaries, statistics, values)


def _is_worth(t: pa.DataType, column: pa.ChunkedArray) -> bool:
    if pt.is_boolean(t) or pt.is_null(t):
        return False
    if pt.is_dictionary(t):
        return True
    present = len(column) - column.null_count
    return bool(pc.count_distinct(column, mode="only_valid").as_py() <= _WORTH * present)


def _mean_bytes(column: pa.ChunkedArray) -> float:
    """Return the average bytes of a value that is not null."""
    t = column.type
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_binary(t) or pt.is_large_binary(t):
        return float(pc.mean(pc.binary_length(column)).as_py() or 0.0)
    return float(column.nbytes / max(1, len(column) - column.null_count))


def _leaves(t: pa.DataType) -> list[str]:
    """Return the paths of the leaves of a nested type."""
    if pt.is_struct(t):
        return [path for f in t for path in _below(f.name, f.type)]
    if pt.is_map(t):
        return [*_below("key_value.key", t.key_type), *_below("key_value.value", t.item_type)]
    return _below("list.element", t.value_type)


def _below(name: str, t: pa.DataType) -> list[str]:
    return [f"{name}.{rest}" for rest in _leaves(t)] if pt.is_nested(t) else [name]
