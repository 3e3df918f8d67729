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


def is_of(column: str, name: str | None) -> bool:
    """Whether a column is the one of that name, whatever its case, or a variant of it."""
    return name is not None and (column.lower() == name.lower() or column.lower().startswith(f"{name.lower()}__"))


def variant_name(column: str, word: str, rules: Rules, *, existing: Collection[str], taken: Collection[str]) -> str:
    """The name of a column's variant, which is the same on every run: `column__word`.

    Args:
        column: The column that values do not fit.
        word: What they are, in words that all warehouses share: `integer`, `decimal`, `float`, `string`, `json`, ...
        rules: The warehouse's.
        existing: Columns that the table has.
        taken: Columns that other properties of the stream have; where one has the name, or where that is too long, it
            ends in some digits.
    """
    name = f"{column}__{word}"
    if len(name) > rules.column_length or name.lower() in {other.lower() for other in taken}:
        name = f"{name[: rules.column_length - 9]}_{digest(name)}"
    return {other.lower(): other for other in existing}.get(name.lower(), name)
