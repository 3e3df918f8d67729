"""Columns in the representation of the API; the column for values that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from singer_arrow.errors import SchemaError
from singer_arrow.naming import owner_key
from singer_arrow.warehouse import table
from singer_arrow.warehouse.settings import marked, variant_names
from singer_arrow.warehouse.table import MOST_OF_COLUMN, Descriptions, PropertyPath, columns_named, shortened
from target_bigquery.types import (
    MAX_COLUMNS,
    RULES,
    Column,
    TableColumn,
    as_bignumeric,
    column_of,
    count_of,
    fitted,
    named_as,
    with_fields,
)

# The columns of tables as BigQuery's API writes them. Pure.

NO_DESCRIPTIONS = Descriptions()


def records_owners(fields: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the description of a column, at any depth, has the line of its owner."""
    return any(table.has_line(f.get("description")) or records_owners(f.get("fields") or ()) for f in fields)


def api_field(column: Column, descriptions: Descriptions = NO_DESCRIPTIONS, path: PropertyPath = ()) -> dict[str, Any]:
    """Return a column, or the field of a RECORD of the properties `path`, as the API writes it."""
    at = (*path, column.source)
    field: dict[str, Any] = {
        "name": column.name,
        "type": column.kind,
        "mode": "REPEATED" if column.repeated else "NULLABLE",
    }
    if column.fields:
        field["fields"] = [api_field(f, descriptions, at) for f in column.fields]
    if text := _text(table.owner_line(column), descriptions.columns.get(at)):
        field["description"] = text
    return field


def with_columns(
    fields: Sequence[Mapping[str, Any]], columns: Sequence[Column], descriptions: Descriptions, *, is_ours: bool = False
) -> list[dict[str, Any]]:
    """Return a table's fields, with the stream's fields, descriptions and owners that it lacks, at every depth.

    A table that this target did not make records owners once a name is not that of its property.
    """
    adopts = not records_owners(fields) and (is_ours or _is_named_otherwise(columns))
    made = _merged(fields, columns, descriptions, (), adopts=adopts)
    if adopts and not records_owners(made):
        made[0]["description"] = _text(f"{table.MARK}{owner_key(made[0]['name'])}", made[0].get("description"))
    return made


def _is_named_otherwise(columns: Iterable[Column]) -> bool:
    return any((c.name != c.source and not c.variant_of) or _is_named_otherwise(c.fields) for c in columns)


def _merged(
    fields: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    descriptions: Descriptions,
    path: PropertyPath,
    *,
    adopts: bool,
) -> list[dict[str, Any]]:
    by_name = {c.name: c for c in columns}
    merged = []
    for field in fields:
        made, column, text = dict(field), by_name.get(field["name"]), field.get("description")
        at = (*path, column.source if column else field["name"])
        if column and not table.is_described(text):
            text = _text(text, descriptions.columns.get(at))
        if adopts and marked(text) is None:
            text = _text(table.owner_line(column) if column else table.UNKNOWN, text)
        if text:
            made["description"] = text
        if (column and column.fields) or (adopts and field.get("fields")):
            inside = column.fields if column and not column.is_empty else ()
            made["fields"] = _merged(field.get("fields") or (), inside, descriptions, at, adopts=adopts)
        merged.append(made)
    have = {f["name"] for f in fields}
    return [*merged, *(api_field(c, descriptions, path) for c in columns if c.name not in have)]


def _text(*lines: str | None) -> str:
    return shortened("\n".join(filter(None, lines)), MOST_OF_COLUMN)


def relaxed(fields: Sequence[Mapping[str, Any]], names: Collection[str], path: str = "") -> list[dict[str, Any]]:
    """Return a table's fields, some NULLABLE instead of REQUIRED; fields of RECORDs are named `record.field`."""
    made = []
    for field in fields:
        at = f"{path}{field['name']}"
        is_meant = field.get("mode") == "REQUIRED" and at in names
        inside = {"fields": relaxed(field["fields"], names, f"{at}.")} if field.get("fields") else {}
        made.append({**field, **inside, **({"mode": "NULLABLE"} if is_meant else {})})
    return made


# Chooses the column for a property whose values do not fit the column of the table. Pure.
#
# It is widened where BigQuery can and no value changes: INTEGER to NUMERIC and BIGNUMERIC, NUMERIC to BIGNUMERIC. Not
# so INTEGER to FLOAT, in which integers beyond 2^53 become others. Everything else goes into a variant column.

WIDENED: dict[str, tuple[str, ...]] = {"INTEGER": ("NUMERIC", "BIGNUMERIC"), "NUMERIC": ("BIGNUMERIC",)}
"""Types into which ALTER COLUMN SET DATA TYPE changes a column without changing its values."""
_WORDS = {
    "INTEGER": "integer",
    "NUMERIC": "decimal",
    "BIGNUMERIC": "decimal",
    "FLOAT": "float",
    "BOOLEAN": "boolean",
    "STRING": "string",
    "BYTES": "binary",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "JSON": "json",
    "RECORD": "record",
}


@dataclass(frozen=True, slots=True)
class ColumnEvolution:
    """How columns may change so that values fit: whether there may be variants, but not of keys.

    `fixed` are the columns that BigQuery has refused to widen.
    """

    evolves: bool = False
    keys: Collection[str] = ()
    fixed: Collection[str] = ()

    def column_for(self, column: Column, have: dict[str, TableColumn], taken: set[str], path: str = "") -> Column:
        """Return the column that a property fills: the table's, possibly widened, or a variant of it.

        `have` are the columns of the table, or of the RECORD at `path` (`record.`); `taken` the names, in lower case,
        of columns that properties fill, to which a variant is added.
        """
        existing = have.get(column.name)
        if existing is None:
            return column
        try:
            return self._within(column, existing, path)
        except SchemaError:
            if not self.evolves or (not path and column.source in self.keys):
                raise
        # the first variant that the values fit, or a new one
        by_name = {e.name.lower(): e for e in have.values()}
        word = f"array_{_WORDS[column.kind]}" if column.repeated else _WORDS[column.kind]
        for name in variant_names(column.name, word, RULES):
            existing = by_name.get(name.lower())
            if name.lower() in taken or (existing and existing.variant_of != column.name):
                continue
            made = replace(column, name=existing.name if existing else name, variant_of=column.name)
            if existing is None:
                # nothing widens a column of a RECORD, nor one of lists
                made = as_bignumeric(made) if made.kind == "NUMERIC" and (path or made.repeated) else made
            else:
                try:
                    made = self._within(named_as(made, existing), existing, path)
                except SchemaError:
                    continue
            taken.add(name.lower())
            return made
        raise AssertionError

    def _within(self, column: Column, existing: TableColumn, path: str) -> Column:
        """Return the column as one of the table's own, which may be widened for it; else values do not fit."""
        if column.kind == existing.kind == "RECORD" and column.repeated == (existing.mode == "REPEATED"):
            inside, names = {f.name: f for f in existing.fields}, {f.name.lower() for f in column.fields}
            at = f"{path}{existing.name}."
            return with_fields(column, tuple(self.column_for(f, inside, names, at) for f in column.fields))
        try:
            return fitted(column, existing, path)
        except SchemaError:
            if not path and column.name not in self.fixed and widens(column, existing):
                return column
            raise


def columns_of(
    schema: pa.Schema,
    *,
    nested: str = "record",
    existing: Sequence[TableColumn] = (),
    drift: ColumnEvolution | None = None,
) -> tuple[Column, ...]:
    """Return the columns of a stream's table, in the order of the schema; some may be new, or wider than the table's.

    Where values fit, they have the names and types of the `existing` ones; by default columns may be widened.
    """
    have = {e.name: e for e in existing}
    names = columns_named(schema.names, existing, RULES)
    taken = {name.lower() for name in names.values()}
    columns = []
    for field in schema:
        name = names[field.name]
        column = column_of(field, name, nested, have.get(name))
        columns.append((drift or ColumnEvolution()).column_for(column, have, taken))
    if (count := count_of(columns, existing)) > MAX_COLUMNS:
        raise SchemaError(
            f"The table would have {count} columns, those of RECORDs counted, and BigQuery takes {MAX_COLUMNS}; "
            "leave some out by selection, or set nested: json"
        )
    return tuple(columns)


def widens(column: Column, existing: TableColumn) -> bool:
    """Return whether the table's column can be widened for the stream's."""
    is_list = column.repeated or existing.mode == "REPEATED"
    return not is_list and column.kind in WIDENED.get(existing.kind, ())


def widened(columns: Sequence[Column], existing: Sequence[TableColumn]) -> list[Column]:
    have = {e.name: e for e in existing}
    return [c for c in columns if c.name in have and widens(c, have[c.name])]


def new_variants(columns: Sequence[Column], existing: Sequence[TableColumn], path: str = "") -> list[tuple[str, str]]:
    """Return the variants that the table lacks, and the columns that they are of, at every depth; as texts."""
    have, found = {e.name: e for e in existing}, list[tuple[str, str]]()
    for column in columns:
        if column.name in have:
            found += new_variants(column.fields, have[column.name].fields, f"{path}{column.name}.")
        elif column.variant_of:
            found.append((f"{path}{column.name}", f"{path}{column.variant_of}"))
    return found
