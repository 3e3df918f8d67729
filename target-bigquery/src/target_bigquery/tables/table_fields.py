"""The columns of tables as BigQuery's API writes them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from singer_arrow.warehouse.descriptions import MOST_OF_COLUMN, Descriptions, Path, shortened
from singer_arrow.warehouse.variant_columns import mark
from target_bigquery.tables.types import Column

NO_DESCRIPTIONS = Descriptions()


def api_field(column: Column, descriptions: Descriptions = NO_DESCRIPTIONS, path: Path = ()) -> dict[str, Any]:
    """Return a column as the API writes it.

    Args:
        column: The column, or the field of a RECORD.
        descriptions: Of all.
        path: The properties that it is in.
    """
    at = (*path, column.source)
    field: dict[str, Any] = {
        "name": column.name,
        "type": column.kind,
        "mode": "REPEATED" if column.repeated else "NULLABLE",
    }
    if column.fields:
        field["fields"] = [api_field(f, descriptions, at) for f in column.fields]
    texts = [*([mark(column.variant_of)] if column.variant_of else []), *filter(None, [descriptions.columns.get(at)])]
    if texts:
        field["description"] = shortened("\n".join(texts), MOST_OF_COLUMN)
    return field


def with_columns(
    fields: Sequence[Mapping[str, Any]], columns: Sequence[Column], descriptions: Descriptions, path: Path = ()
) -> list[dict[str, Any]]:
    """Return a table's fields, with the stream's fields and descriptions that it lacks, at every depth."""
    by_name = {c.name: c for c in columns}
    merged = []
    for field in fields:
        made, column = dict(field), by_name.get(field["name"])
        if column:
            at = (*path, column.source)
            if not field.get("description") and (text := descriptions.columns.get(at)):
                made["description"] = text
            if column.fields:
                made["fields"] = with_columns(field.get("fields") or (), column.fields, descriptions, at)
        merged.append(made)
    have = {f["name"] for f in fields}
    return [*merged, *(api_field(c, descriptions, path) for c in columns if c.name not in have)]


def relaxed(fields: Sequence[Mapping[str, Any]], names: Collection[str], path: str = "") -> list[dict[str, Any]]:
    """Return a table's fields, some NULLABLE instead of REQUIRED; fields of RECORDs are named `record.field`."""
    made = []
    for field in fields:
        at = f"{path}{field['name']}"
        is_meant = field.get("mode") == "REQUIRED" and at in names
        inside = {"fields": relaxed(field["fields"], names, f"{at}.")} if field.get("fields") else {}
        made.append({**field, **inside, **({"mode": "NULLABLE"} if is_meant else {})})
    return made


def lacks_description(
    fields: Sequence[Mapping[str, Any]], columns: Sequence[Column], descriptions: Descriptions, path: Path = ()
) -> bool:
    """Return whether a column that the table has could be given a description."""
    have = {f["name"]: f for f in fields}
    for column in columns if descriptions.columns else ():
        if (field := have.get(column.name)) is None:
            continue
        at = (*path, column.source)
        if not field.get("description") and at in descriptions.columns:
            return True
        if column.fields and lacks_description(field.get("fields") or (), column.fields, descriptions, at):
            return True
    return False
