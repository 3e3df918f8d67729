"""The columns of tables as BigQuery's API writes them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from singer_arrow.naming import owner_key
from singer_arrow.warehouse import column_owners
from singer_arrow.warehouse.descriptions import MOST_OF_COLUMN, Descriptions, Path, shortened
from singer_arrow.warehouse.variant_columns import marked
from target_bigquery.tables.types import Column

NO_DESCRIPTIONS = Descriptions()


def records_owners(fields: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the description of a column, at any depth, has the line of its owner."""
    return any(column_owners.has_line(f.get("description")) or records_owners(f.get("fields") or ()) for f in fields)


def api_field(column: Column, descriptions: Descriptions = NO_DESCRIPTIONS, path: Path = ()) -> dict[str, Any]:
    """Return a column, or the field of a RECORD of the properties `path`, as the API writes it."""
    at = (*path, column.source)
    field: dict[str, Any] = {
        "name": column.name,
        "type": column.kind,
        "mode": "REPEATED" if column.repeated else "NULLABLE",
    }
    if column.fields:
        field["fields"] = [api_field(f, descriptions, at) for f in column.fields]
    if text := _text(column_owners.owner_line(column), descriptions.columns.get(at)):
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
        made[0]["description"] = _text(f"{column_owners.MARK}{owner_key(made[0]['name'])}", made[0].get("description"))
    return made


def _is_named_otherwise(columns: Iterable[Column]) -> bool:
    return any((c.name != c.source and not c.variant_of) or _is_named_otherwise(c.fields) for c in columns)


def _merged(
    fields: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    descriptions: Descriptions,
    path: Path,
    *,
    adopts: bool,
) -> list[dict[str, Any]]:
    by_name = {c.name: c for c in columns}
    merged = []
    for field in fields:
        made, column, text = dict(field), by_name.get(field["name"]), field.get("description")
        at = (*path, column.source if column else field["name"])
        if column and not column_owners.is_described(text):
            text = _text(text, descriptions.columns.get(at))
        if adopts and marked(text) is None:
            text = _text(column_owners.owner_line(column) if column else column_owners.UNKNOWN, text)
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
