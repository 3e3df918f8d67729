"""Variant columns: where the values of a property go that do not fit the type its column has. Pure.

A property `price` whose column holds whole numbers and that brings text gets a second column `price__string`. Each
value is in one of the two, and the other one is null in that row.
"""

from __future__ import annotations

from collections.abc import Collection

from singer_arrow.singer.names import Rules, digest

EVOLVE, FAIL = "evolve", "fail"
CHOICES = (EVOLVE, FAIL)
"""Values of the setting `on_drift` of targets."""


def variant_name(column: str, word: str, rules: Rules, *, existing: Collection[str], taken: Collection[str]) -> str:
    """The name of a column's variant, which is the same on every run: `column__word`.

    Args:
        column: The column that values do not fit.
        word: What they are, in words that all warehouses share: `integer`, `decimal`, `float`, `string`, `json`, ...
        rules: The warehouse's.
        existing: Columns that the table has.
        taken: Columns that other properties of the stream have; then the name ends in some digits.
    """
    plain = f"{column[: rules.column_length - len(word) - 2]}__{word}"
    if len(column) + len(word) + 2 > rules.column_length:
        plain = f"{plain[: rules.column_length - 9]}_{digest(column)}"
    have = {name.lower(): name for name in existing}
    if plain.lower() in {name.lower() for name in taken}:
        plain = f"{plain[: rules.column_length - 9]}_{digest(f'{column}.{word}')}"
    return have.get(plain.lower(), plain)
