"""Variant columns: where the values of a property go that do not fit the type its column has. Pure.

A property `price` whose column holds whole numbers and that brings text gets a second column `price__string`. Each
value is in one of the two, and the other one is null in that row. A variant is known by its mark, not by its name,
which a property of the stream may have too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Protocol

from singer_arrow.errors import SchemaError
from singer_arrow.naming import NamingRules, digest

EVOLVE, FAIL = "evolve", "fail"
CHOICES = (EVOLVE, FAIL)
"""Values of the setting `on_drift` of targets."""
MARK = "singer_variant: "


class Placed(Protocol):
    """A column that a property fills, or that a table has, and the column of which it is a variant."""

    @property
    def name(self) -> str: ...
    @property
    def variant_of(self) -> str | None: ...


class Filled(Placed, Protocol):
    """A column that a property fills."""

    @property
    def source(self) -> str: ...


def type_conflict(name: str, existing: object, column: object) -> SchemaError:
    """Return the error for a column whose type does not fit the type of the table's column."""
    msg = (
        f"Column {name!r} is of type {existing} in the table, and {column} in the stream's SCHEMA; "
        "rename or drop the table or the column, or set the column's type in the tap"
    )
    return SchemaError(msg)


def mark(column: str) -> str:
    """Return the description or comment of a variant column."""
    return f"{MARK}{column}"


def marked(text: str | None) -> str | None:
    """Return the column of which one with that description is a variant; None if it is none."""
    first = (text or "").partition("\n")[0].rstrip()
    return first.removeprefix(MARK) if first.startswith(MARK) else None


def variant_names(column: str, word: str, rules: NamingRules) -> Iterator[str]:
    """Yield the names that a column's variant may have, in the order in which they are tried; endless.

    The first is `column__word`, with a word that all warehouses share: `integer`, `decimal`, `float`, `string`, `json`,
    ...; the others, for when that is another property's or does not hold the values either, end in some digits.
    """
    name = f"{column}__{word}"
    for number in count():
        if number or len(name) > rules.column_length:
            yield f"{name[: rules.column_length - 9]}_{digest(f'{name} {number}')}"
        else:
            yield name


def siblings(columns: Iterable[Placed], existing: Iterable[Placed]) -> tuple[str, ...]:
    """Return columns of a table that no property fills, and that may hold an earlier value of one that does."""
    columns = tuple(columns)
    filled, bases = {c.name for c in columns}, {base(c).lower() for c in columns}
    return tuple(e.name for e in existing if e.name not in filled and base(e).lower() in bases)


def is_or_was(column: Placed, name: str | None) -> bool:
    """Return whether a column is the one of that name, whatever its case, or a variant of it."""
    return name is not None and name.lower() in (column.name.lower(), base(column).lower())


def base(column: Placed) -> str:
    """Return the column that a property had first."""
    return column.variant_of or column.name
