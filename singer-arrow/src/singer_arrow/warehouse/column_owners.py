"""Which property each column of a table belongs to, as the first line of its description or comment names it. Pure.

Several properties may become one column name: `order-id` and `order_id`, in Redshift also `ID` and `id`. So where the
name of a column is not that of its property, its first line is `singer_property: "order-id"`, and the column stays with
that property, whatever SCHEMA brings later. A table records its owners once any of its columns has such a line: then a
column without one belongs to the property of exactly its name. A table without any, made by an earlier version or
copied without descriptions, gets them with its next run, `null` for columns that the stream does not fill; until then
`column_names` has a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from singer_arrow.errors import SchemaError
from singer_arrow.naming import NamingRules, column_names, owner_key, plain_column
from singer_arrow.warehouse.variant_columns import Filled, Placed, mark

MARK = "singer_property: "
UNKNOWN = f"{MARK}null"
"""The line of a column whose owner is not known: the first property that fills it gets it."""


class Owned(Placed, Protocol):
    """A column that a table has, and the `owner_key` of its property; None: not known."""

    @property
    def owner(self) -> str | None: ...


def owner_line(column: Filled, *, always: bool = False) -> str | None:
    """Return the first line of the description of a new column; None if it needs none.

    It has one `always`, or if its name is not that of its property.
    """
    if column.variant_of:
        return mark(column.variant_of)
    return f"{MARK}{owner_key(column.source)}" if always or column.name != column.source else None


def has_line(text: str | None) -> bool:
    """Return whether a description begins with a line of an owner."""
    return (text or "").startswith(MARK)


def is_described(text: str | None) -> bool:
    """Return whether a description has more than the line of an owner."""
    return bool(text and (not has_line(text) or text.rstrip().partition("\n")[2]))


def owner(text: str | None, name: str, *, recorded: bool) -> str | None:
    """Return the owner of a column with this description and name; `recorded`: its table records owners."""
    if not has_line(text):
        return owner_key(name) if recorded else None
    first = (text or "").partition("\n")[0].rstrip()
    return None if first == UNKNOWN else first.removeprefix(MARK)


def columns_named(properties: Sequence[str], existing: Iterable[Owned], rules: NamingRules) -> dict[str, str]:
    """Return the column of each property, see `column_names`; variant columns of the table belong to no property."""
    existing = tuple(existing)
    own = {e.name: e.owner for e in existing if e.variant_of is None}
    return column_names(properties, rules, own, [e.name for e in existing if e.variant_of is not None])


def check_new(
    table: str, columns: Iterable[Filled], existing: Iterable[Owned], rules: NamingRules, keys: Collection[str]
) -> list[str]:
    """Return warnings of new columns whose plain names are those of other properties in the table.

    SchemaError: such a column is one of the `keys`, by which rows are found, so that no row would be.
    """
    have, warnings = {e.name.lower(): e for e in existing}, list[str]()
    for column in columns:
        if inside := getattr(column, "fields", None):  # of a RECORD
            there = have.get(column.name.lower())
            warnings += check_new(f"{table}, {column.name}", inside, getattr(there, "fields", ()), rules, ())
        there = have.get(plain_column(column.source, rules).lower())
        if there is None or column.variant_of or column.name.lower() in have:
            continue
        whose = f"column {there.name!r} belongs to " + (
            f"property {there.owner}" if there.owner else "another property"
        )
        if column.source in keys:
            raise SchemaError(
                f"Table {table}: {whose}, so by key property {column.source!r} no row of the table would be found; "
                f"rename the property by stream_maps, or describe the column by {MARK}{owner_key(column.source)}"
            )
        warnings.append(f"Table {table}: property {column.source!r} goes into column {column.name!r}, because {whose}")
    return warnings
