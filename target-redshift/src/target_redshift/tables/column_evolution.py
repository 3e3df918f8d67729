"""Which column each property fills, and what becomes of one whose values do not fit the table's. Pure.

Redshift alters the length of a VARCHAR and no other type. Another type would take a new column, an UPDATE of all rows,
and the old column's end, under a lock that keeps readers out; views, grants, keys and the order of columns would not
survive. So everything else goes into a variant column, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from singer_arrow.errors import SchemaError
from singer_arrow.warehouse.column_owners import columns_named
from singer_arrow.warehouse.variant_columns import type_conflict, variant_names
from target_redshift.long_texts import COLUMN as LONG_TEXTS
from target_redshift.tables.naming import RULES
from target_redshift.tables.types import (
    MAX_COLUMNS,
    MAX_VARCHAR,
    Column,
    TableColumn,
    column_of,
    fitted,
    in_super,
    is_text,
    roomiest,
)

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


@dataclass(frozen=True, slots=True)
class ColumnEvolution:
    """What may be done where values do not fit: whether there may be variants, and properties that have none."""

    evolves: bool = False
    keys: Collection[str] = ()


def columns_of(
    schema: pa.Schema,
    existing: Sequence[TableColumn] = (),
    *,
    varchar_max: int = MAX_VARCHAR,
    super_texts: Collection[str] = (),
    rescued_texts: Collection[str] | None = None,
    drift: ColumnEvolution | None = None,
) -> tuple[Column, ...]:
    """Return the columns of a stream's table, in the order of the schema.

    Where values fit, they have the names and types of the `existing` ones. `super_texts` are properties whose text new
    columns hold as SUPER, which has room for more; `rescued_texts` those whose texts go into the column of long texts
    when they are too long for their own, where that may be null; None if there is no such column. By default nothing
    may be done where values do not fit.
    """
    have = {e.name: e for e in existing}
    names = columns_named(schema.names, existing, RULES)
    taken, may = set(names.values()), drift or ColumnEvolution()
    columns = (column_of(f, names[f.name], varchar_max) for f in schema)
    placed = (_placed(c, schema.field(c.source), have, taken, may) for c in columns)
    made = tuple(
        in_super(c) if c.name not in have and c.source in super_texts and is_text(schema.field(c.source), c) else c
        for c in placed
    )
    if rescued_texts is not None:
        made = _with_long_texts(made, have, rescued_texts)
    if (count := len(have.keys() | {c.name for c in made})) > MAX_COLUMNS:
        msg = f"The table would have {count} columns, and Redshift takes {MAX_COLUMNS}; leave some out by selection"
        raise SchemaError(msg)
    return made


def _with_long_texts(
    columns: Sequence[Column], have: Mapping[str, TableColumn], rescued: Collection[str]
) -> tuple[Column, ...]:
    """Add the column for texts that are too long for theirs."""
    if taken := next((c for c in columns if c.name == LONG_TEXTS), None):
        msg = (
            f"Property {taken.source!r} has the name of the column that long_text: rescue puts long texts into; "
            "rename the property by stream_maps, or set long_text: fail"
        )
        raise SchemaError(msg)
    holder = Column(LONG_TEXTS, LONG_TEXTS, "SUPER", pa.string(), holds_long_texts=True)
    if LONG_TEXTS in have and have[LONG_TEXTS].kind != "SUPER":
        raise type_conflict(LONG_TEXTS, have[LONG_TEXTS], holder)
    may_be_null = {c.name for c in columns if c.name not in have or have[c.name].nullable}
    marked = (
        replace(c, is_rescued=c.kind == "VARCHAR" and c.source in rescued and c.name in may_be_null) for c in columns
    )
    return (*marked, holder)


def _placed(
    column: Column, field: pa.Field, have: Mapping[str, TableColumn], taken: set[str], drift: ColumnEvolution
) -> Column:
    """Return the column that a property fills: the table's, the first variant that the values fit, or a new one.

    `taken` are those of other properties; nor is a column a variant that has the name but not the mark of one.
    """
    if column.name not in have:
        return column
    try:
        return fitted(column, field, have[column.name])
    except SchemaError:
        if not drift.evolves or column.source in drift.keys:
            raise
    for name in variant_names(column.name, _WORDS[column.kind], RULES):
        if name in taken or (name in have and have[name].variant_of != column.name):
            continue
        made = replace(column, name=name, variant_of=column.name)
        try:
            made = fitted(made, field, have[name]) if name in have else roomiest(made)
        except SchemaError:
            continue
        taken.add(name)
        return made
    raise AssertionError
