"""Infer the types of the columns of JSON Lines from a sample. Pure.

- integers: int64; decimal(38, 0) if one lies beyond; text if one has more digits.
- other numbers, integers among them: float64; if it does not hold all integers, decimal(38, 9), or text if that does
  not hold all numbers.
- text: date if all values are YYYY-MM-DD; timestamp in microseconds, UTC, if all are ISO 8601 dates with times (dates
  may be among them); else text.
- objects: struct; arrays: list; those without any member or item, and mixed kinds: JSON text.
- a column of more than 32 levels of objects and arrays: JSON text.

A column without a value is of type null. The order is that in which the columns first appear.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from math import isinf
from typing import Any

import pyarrow as pa

from singer_arrow.casting.from_json import BadRowError, json_kind, parse
from singer_arrow.casting.from_text import TIMESTAMP, BadValueError, from_text
from singer_arrow.casting.whole_numbers import DIGITS_OF_ALL_FLOATS, holds, nearest_float, type_of
from singer_arrow.errors import DataError
from singer_arrow.schema.arrow_schema import json_field

_MOST_KEYS = 200  # an object with more keys is used as a map
_MOST_LEVELS = 32  # Arrow IPC refuses types of 64 levels, BigQuery those of 15
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(TIMESTAMP)
_TEMPORAL = ((_DATE, pa.date32()), (_TIMESTAMP, pa.timestamp("us", "UTC")))


def infer_lines(data: bytes, *, url: object, strict: bool = True) -> pa.Schema:
    """Return the types of the columns in a text of whole lines.

    A line without an object is a DataError if `strict`, and ignored otherwise.
    """
    columns = dict[str, _Seen]()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse(line)
            if not isinstance(record, dict):
                reason = f"each line must hold an object, this one holds {json_kind(record)}"
                raise BadRowError(reason)
        except BadRowError as error:
            if not strict:
                continue
            raise DataError(str(error), url=url, line=number) from None
        for name, value in record.items():
            if name not in columns:
                columns[name] = _Seen()
            columns[name].add_column(value)
    return pa.schema([seen.field(name) for name, seen in columns.items()])


class _DeepError(Exception):
    """A value of more levels than a type may have."""


class _Seen:
    """Values seen under one path of the records."""

    def __init__(self) -> None:
        self.kinds: set[type] = set()
        self.members: dict[str, _Seen] = {}
        self.items: _Seen | None = None
        self._texts: list[str] | None = []  # None once they cannot all be dates or timestamps
        self._is_deep = False
        self._low, self._high = 0, 0
        self._before = self._after = 0  # most digits before and after the point
        self._is_held = True  # by a float64

    def add_column(self, value: Any) -> None:
        """Take the value of a column into account."""
        try:
            self._add(value, 0)
        except _DeepError:
            self._is_deep = True

    def _add(self, value: Any, levels: int) -> None:
        if value is None:
            return
        if levels == _MOST_LEVELS and isinstance(value, dict | list):
            raise _DeepError
        kind = dict if isinstance(value, dict) else Decimal if isinstance(value, Decimal) else type(value)
        self.kinds.add(kind)
        if kind is dict:
            for key, member in value.items():
                if key not in self.members:
                    self.members[key] = _Seen()
                self.members[key]._add(member, levels + 1)
        elif kind is list:
            self.items = self.items or _Seen()
            for item in value:
                self.items._add(item, levels + 1)
        elif kind is int or kind is Decimal:
            if isinstance(value, int):
                self._low, self._high = min(self._low, value), max(self._high, value)
            exact = Decimal(value)
            if exact.adjusted() >= DIGITS_OF_ALL_FLOATS and not isinf(nearest_float(pa.float64(), value)):
                self._is_held = self._is_held and holds(pa.float64(), value)
            exponent = exact.as_tuple().exponent
            self._before = max(self._before, exact.adjusted() + 1)
            self._after = max(self._after, -exponent if isinstance(exponent, int) else 0)
        elif kind is str and self._texts is not None:
            if _TIMESTAMP.fullmatch(value):
                self._texts.append(value)
            else:
                self._texts = None

    def field(self, name: str) -> pa.Field:
        """Return the field for the values seen."""
        t = self._type()
        return json_field(name) if t is None else pa.field(name, t)

    def _type(self) -> pa.DataType | None:
        """Return the type; None for JSON text."""
        if self._is_deep:
            return None
        if self.kinds in ({Decimal}, {int, Decimal}):
            return type_of(before=self._before, after=self._after, is_held=self._is_held)
        if len(self.kinds) > 1:
            return None
        match next(iter(self.kinds), None):
            case None:
                return pa.null()
            case kind if kind is bool:
                return pa.bool_()
            case kind if kind is int:
                if self._low >= -(2**63) and self._high < 2**63:
                    return pa.int64()
                return pa.decimal128(38, 0) if max(-self._low, self._high) < 10**38 else pa.string()
            case kind if kind is str:
                texts = pa.array(self._texts or [], pa.string())
                for pattern, t in _TEMPORAL:
                    if self._texts and all(pattern.fullmatch(text) for text in self._texts):
                        with suppress(BadValueError):
                            from_text(texts, t)
                            return t
                return pa.string()
            case kind if kind is list:
                assert self.items is not None
                inner = self.items.field("item")
                return None if inner.metadata else pa.list_(inner.type)
        if not 0 < len(self.members) <= _MOST_KEYS:
            return None
        return pa.struct([seen.field(key) for key, seen in self.members.items()])
