"""Changes of a table's schema: appended columns, added nested fields and relaxed required columns."""

from collections.abc import Iterator, Sequence
from typing import Any

from local_bigquery.catalog import tables
from local_bigquery.engine import database, types
from local_bigquery.engine.database import quote

from local_cloud.bigquery.server.files import files

Reference = tuple[str, str, str]
Addition = tuple[tuple[str, ...], Any]


def _kind(field: Any) -> str:
    name = types.STANDARD.get(field.type.upper(), field.type.upper())
    name = {"STRUCT": "RECORD", "INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN"}.get(name, name)
    return f"ARRAY<{name}>" if field.mode == "REPEATED" else name


def _nested_additions(
    existing: Sequence[Any], given: Sequence[Any], prefix: str, parents: tuple[str, ...] = (), shown: str = ""
) -> Iterator[Addition]:
    """Return what `given` adds inside the columns of `existing`, as DuckDB paths, and refuse other types."""
    by_name = {field.name.casefold(): field for field in existing}
    for field in given:
        had = by_name.get(field.name.casefold())
        if had is None:
            if parents:
                yield (*parents, field.name), field
            continue
        if _kind(had) != _kind(field):
            raise files.refuse(
                f"{prefix}Field {shown}{field.name} has changed type from {_kind(had)} to {_kind(field)}"
            )
        if field.fields:
            inside = (*parents, had.name, *(["element"] if had.mode == "REPEATED" else []))
            yield from _nested_additions(had.fields or [], field.fields, prefix, inside, f"{shown}{field.name}.")


def _add_nested(reference: Reference, additions: Sequence[Addition], cursor: Any) -> None:
    for path, field in additions:
        kind = types.duckdb_type(field)
        cursor.execute(f"ALTER TABLE {tables.name(*reference)} ADD COLUMN {'.'.join(map(quote, path))} {kind}")


def _refuse_rounding(reference: Reference, relation: Any) -> None:
    """Refuse decimals with more digits after the point than a BIGNUMERIC column of this server keeps."""
    with database.cursor() as cursor:
        table = cursor.sql(f"SELECT * FROM {tables.name(*reference)} LIMIT 0")  # noqa: S608 - quoted there
        existing = {name.casefold(): kind for name, kind in zip(table.columns, table.types, strict=True)}
    for name, kind in zip(relation.columns, relation.types, strict=True):
        had = existing.get(name.casefold(), kind)
        if had.id == kind.id == "decimal" and had.children[1][1] < kind.children[1][1] > files.NUMERIC_SCALE:
            raise files.unsupported(f"{name} has {kind.children[1][1]} digits after the point, BIGNUMERIC here fewer")


def relax(reference: Reference, columns: Sequence[str]) -> None:
    """Make required columns nullable."""
    for column in columns:
        database.execute(f"ALTER TABLE {tables.name(*reference)} ALTER COLUMN {quote(column)} DROP NOT NULL")


def patch() -> None:
    """Replace the server's functions that change a table's schema."""
    evolve, alter = tables.evolve, tables._alter

    def evolve_checked(cursor: Any, reference: Reference, relation: Any, options: Any, prefix: str) -> None:
        _refuse_rounding(reference, relation)
        given = [types.field(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True)]
        additions = list(_nested_additions(tables.columns(*reference), given, prefix))
        if additions and "ALLOW_FIELD_ADDITION" not in (options or []):
            path = ".".join(part for part in additions[0][0] if part != "element")
            raise files.refuse(f"{prefix}Cannot add fields (field: {path})")
        _add_nested(reference, additions, cursor)
        evolve(cursor, reference, relation, options, prefix)

    def alter_nested(project_id: str, dataset_id: str, table_id: str, fields: Sequence[Any]) -> None:
        reference = (project_id, dataset_id, table_id)
        prefix = f"Provided Schema does not match Table {project_id}:{dataset_id}.{table_id}. "
        additions = list(_nested_additions(tables.columns(*reference), fields, prefix))
        with database.cursor() as cursor:
            _add_nested(reference, additions, cursor)
        alter(project_id, dataset_id, table_id, fields)

    tables.evolve, tables._alter = evolve_checked, alter_nested
