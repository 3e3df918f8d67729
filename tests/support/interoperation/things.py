"""The rows that every source contains."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

Row = dict[str, Any]

FIRST: list[Row] = [
    {
        "id": 1,
        "name": "plain",
        "amount": Decimal("1.10"),
        "big": 2**63 - 1,
        "score": 0.125,
        "good": True,
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        "note": None,
    },
    {
        "id": 2,
        "name": 'é☃ "quoted", with a comma',
        "amount": Decimal("-1234567890.99"),
        "big": -(2**63),
        "score": -1e-7,
        "good": False,
        "day": date(1969, 12, 31),
        "at": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        "note": "two\nlines",
    },
]
THINGS: list[Row] = FIRST + [
    {
        "id": number,
        "name": f"thing {number}",
        "amount": Decimal(number * 7919) / 100,
        "big": number * 10**15 + 1,
        "score": number / 8 + 0.1,
        "good": number % 2 == 0,
        "day": date(2026, 1, 1) + timedelta(days=number),
        "at": datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(hours=number, milliseconds=number),
        "note": f"note {number}" if number % 3 == 0 else None,
    }
    for number in range(3, 13)
]

ZONE = timezone(timedelta(hours=2))
TYPED: Row = {
    "wide": Decimal("12345678901234567890.0123456789"),
    "small": -32768,
    "single": 0.5,
    "local": datetime(2026, 1, 2, 3, 4, 5, 500000),  # noqa: DTZ001 - a column without a zone
    "clock": time(13, 14, 15, 250000),
    "zoned_clock": time(13, 14, 15, tzinfo=ZONE),
    "facts": {"a": [1, 2.5, None], "b": {"c": "é"}},
    "tags": ["a", "b c"],
    "numbers": [1, 2**62],
    "code": "11111111-2222-3333-4444-555555555555",
    "raw": b"\x00\xff",
    "short": "x",
}
"""Values of columns that only a database has; set in the row with id 1, null in the others."""


def text(value: Any) -> str:
    """Return a value as it is written in CSV; empty for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


def texts(row: Row) -> Row:
    """Return a row as a tap sends it that treats all CSV values as text."""
    return {name: text(value) for name, value in row.items()}
