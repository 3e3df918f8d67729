"""Which rows of a table a MERGE need not read, by constants in its ON clause. Pure.

Redshift knows the least and the greatest value of each block of a column, and reads no block in which no value can meet
a constant condition. A row that is to be updated has the key of a staged row, so a bound on a key column holds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from target_redshift.types import Column

_WHOLE, _MOMENT = r"-?\d+", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?"
_NUMBERS = {"SMALLINT": _WHOLE, "INTEGER": _WHOLE, "BIGINT": _WHOLE, "DECIMAL": r"-?\d+(?:\.\d+)?"}
_WRITTEN = {**_NUMBERS, "DATE": r"\d{4}-\d\d-\d\d", "TIMESTAMP": _MOMENT, "TIMESTAMPTZ": rf"{_MOMENT}\+00"}
"""How values are written, of the types in which equal values are the same ones. Texts are none: blanks at their end do
not count where they are compared, nor does case in a case-insensitive column or database."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and the greatest value of a column among the rows that are looked for, as Redshift writes them."""

    column: str
    low: str
    high: str
    is_number: bool


def can_bound(column: Column) -> bool:
    """Return whether a column may have a bound."""
    return column.kind in _WRITTEN


def bound(column: Column, low: str | None, high: str | None) -> Bound | None:
    """Return the bound of a column that `can_bound`; None if a value is missing, or not written as expected."""
    written = _WRITTEN[column.kind]
    if low is None or high is None or not all(re.fullmatch(written, text, re.ASCII) for text in (low, high)):
        return None
    return Bound(column.name, low, high, column.kind in _NUMBERS)
