"""Compare source values with loaded values; expected values are stored as JSON in a capture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
_READERS: Mapping[str, Any] = {
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "bytes": bytes.fromhex,
}


def to_json(value: Any) -> Any:
    """Return a value as JSON for `from_json`; types that JSON lacks become `{"decimal": "1.10"}` and so on."""
    if isinstance(value, dict):
        return {key: to_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [to_json(member) for member in value]
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    for name, kind in (("timestamp", datetime), ("date", date), ("time", time)):
        if isinstance(value, kind):
            return {name: value.isoformat()}
    return value


def from_json(value: Any) -> Any:
    """Return the value that `to_json` encoded."""
    if isinstance(value, list):
        return [from_json(member) for member in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (name := next(iter(value))) in _READERS:
        return _READERS[name](value[name])
    return {key: from_json(member) for key, member in value.items()}


def differences(expected: Sequence[Row], found: Sequence[Row], key: str) -> str:
    """Return the first difference as one line, or an empty text if there is none.

    Args:
        expected: Rows of the source; columns that they do not name are not compared.
        found: Loaded rows, in any order; their columns may be in lower case.
        key: The column that identifies rows.
    """
    if len(expected) != len(found):
        return f"{len(found)} rows instead of {len(expected)}"
    lowered = [{name.lower(): value for name, value in row.items()} for row in found]
    by_key = {str(row[key.lower()]): row for row in lowered}
    for row in expected:
        if (arrived := by_key.get(str(row[key]))) is None:
            return f"row {row[key]!r} is missing"
        for name, value in row.items():
            there = arrived.get(name.lower())
            if not same(value, there) and (value, there) != (None, []):  # BigQuery has no null arrays
                return f"{name} of row {row[key]!r} is {there!r} instead of {value!r}"
    return ""


def same(expected: Any, found: Any) -> bool:
    """Whether a value is unchanged: decimals and floats exactly, times as the same moment."""
    if expected is None or found is None:
        return expected is None and found is None
    if isinstance(expected, list | dict):
        return _same_nested(expected, json.loads(found) if isinstance(found, str) else found)
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, float):
        return isinstance(found, int | float | Decimal) and float(found) == expected
    if isinstance(expected, int | Decimal):
        return isinstance(found, int | Decimal) and found == expected
    if isinstance(expected, datetime):
        return isinstance(found, datetime) and _in_utc(found) == _in_utc(expected)
    return type(found) is type(expected) and bool(found == expected)


def _same_nested(expected: Any, found: Any) -> bool:
    """Whether two JSON values are equal; 1 equals 1.0, and a missing member equals null."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(_same_nested(expected.get(name), found.get(name)) for name in expected.keys() | found.keys())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_same_nested, expected, found))
    return isinstance(expected, bool) == isinstance(found, bool) and bool(expected == found)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
