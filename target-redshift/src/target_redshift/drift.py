"""What becomes of a property whose values do not fit the column that the table has. Pure.

Redshift alters the length of a VARCHAR and no other type. Another type would take a new column, an UPDATE of all rows,
and the old column's end, under a lock that keeps readers out; views, grants, keys and the order of columns would not
survive. So everything else goes into a variant column, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from singer_arrow.singer.variants import variant_names
from target_redshift.names import RULES

_WORDS = {
    "SMALLINT": "integer",
    "INTEGER": "integer",
    "BIGINT": "integer",
    "DECIMAL": "decimal",
    "REAL": "float",
    "DOUBLE PRECISION": "float",
    "BOOLEAN": "boolean",
    "VARCHAR": "string",
    "VARBYTE": "binary",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMPTZ": "timestamp",
    "SUPER": "json",
}
ROOMIEST = {"SMALLINT": "BIGINT", "INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION"}
"""The types of new variants, which can never be widened."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What may be done where values do not fit: whether there may be variants, and properties that have none."""

    evolves: bool = False
    keys: Collection[str] = ()


def variants(column: str, kind: str) -> Iterator[str]:
    """The names that a column's variant for values of a type may have; see `variant_names`."""
    return variant_names(column, _WORDS[kind], RULES)
