"""Tap from the SDK's template, with the SDK's encoders; tests run it as a process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from singer_sdk import Stream, Tap
from singer_sdk import typing as th

ROWS = 25


def row(number: int) -> dict[str, Any]:
    """Return row `number`; every seventh lacks `note`, and the first has it, as the SDK's Parquet encoder requires."""
    return {
        "id": number,
        "name": f"name {number} é☃",
        "score": number / 8,
        "at": f"2026-01-{number % 28 + 1:02d}T03:04:05.000006+00:00",
        "good": number % 2 == 0,
        "note": None if number % 7 == 6 else "",
    }


class Numbers(Stream):
    """A stream of numbered rows."""

    name = "numbers"
    primary_keys = ("id",)
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType),
        th.Property("name", th.StringType),
        th.Property("score", th.NumberType),
        th.Property("at", th.DateTimeType),
        th.Property("good", th.BooleanType),
        th.Property("note", th.StringType),
    ).to_dict()

    def get_records(self, context: object) -> Iterable[dict[str, Any]]:
        """Return all rows."""
        return (row(n) for n in range(ROWS))


class StockTap(Tap):
    """The tap."""

    name = "tap-stock"

    def discover_streams(self) -> list[Stream]:
        """Return the one stream."""
        return [Numbers(self)]


if __name__ == "__main__":
    StockTap.cli()
