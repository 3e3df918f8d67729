"""Statements that the server's engine refuses or misreads: SET DATA TYPE by BigQuery's coercions, MERGE with NULL."""

from typing import Any

from local_bigquery.catalog import names, row_access, tables
from local_bigquery.engine import database, types
from local_bigquery.engine.database import quote
from local_bigquery.errors import BigQueryError
from local_bigquery.jobs import merge, query
from sqlglot import exp

from local_cloud.bigquery.server.files import files

Reference = tuple[str, ...]
# https://cloud.google.com/bigquery/docs/reference/standard-sql/conversion_rules, column "Coerce to"
_COERCED = {
    "INT64": {"NUMERIC", "BIGNUMERIC", "FLOAT64"},
    "NUMERIC": {"BIGNUMERIC", "FLOAT64"},
    "BIGNUMERIC": {"FLOAT64"},
    "DATE": {"DATETIME"},
}


def _changes(tree: Any) -> list[tuple[str, str]]:
    """Return the columns and their new types, if the statement does nothing else."""
    if not isinstance(tree, exp.Alter) or (tree.args.get("kind") or "").upper() != "TABLE":
        return []
    actions = tree.args.get("actions") or []
    typed = [a for a in actions if isinstance(a, exp.AlterColumn) and a.args.get("dtype")]
    if typed and len(typed) < len(actions):
        raise files.unsupported("SET DATA TYPE together with other changes")
    return [(a.this.name, a.args["dtype"].sql(dialect="bigquery").upper()) for a in typed]


def _alter(cursor: Any, reference: Reference, changes: list[tuple[str, str]]) -> None:
    existing = {field.name.casefold(): field for field in tables.columns(*reference)}
    casts = []
    for name, kind in changes:
        field = existing.get(name.casefold())
        if field is None:
            raise BigQueryError("invalidQuery", f"Column not found: {name}")
        had = types.bigquery_type(field, quoted=False)
        if kind != had and kind not in _COERCED.get(had, set()):
            raise BigQueryError(
                "invalidQuery",
                f"ALTER TABLE ALTER COLUMN SET DATA TYPE requires that the existing column type ({had}) is assignable "
                f"to the new type ({kind})",
            )
        casts.append(f"CAST({quote(field.name)} AS {types.TO_DUCKDB[kind]}) AS {quote(field.name)}")
    table = tables.name(*reference)
    required = [field.name for field in existing.values() if field.mode == "REQUIRED"]
    cursor.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * REPLACE ({', '.join(casts)}) FROM {table}")  # noqa: S608 - quoted there
    for name in required:
        cursor.execute(f"ALTER TABLE {table} ALTER COLUMN {quote(name)} SET NOT NULL")


def patch() -> None:
    """Add to the server: ALTER COLUMN SET DATA TYPE, MERGE that sets NULL, MERGE where a policy shows all rows.

    The caller of a statement holds the table's lock. The engine reads an assignment of NULL as a comparison, whose
    value is NULL; comparisons with NULL are unchanged. It joins a table with policies as a query, which has no row ids.
    """
    run, written, predicate = query._run, merge._sql, row_access.predicate

    def run_or_alter(cursor: Any, tree: Any, context: Any, *others: Any) -> Any:
        changes = _changes(tree)
        if not changes:
            return run(cursor, tree, context, *others)
        statistics = query._ddl(tree, context).replace(statementType=query.statement_type(tree))
        reference = names.reference(tree.find(exp.Table), context.project_id, context.dataset_id)
        if not tables.exists(*reference):
            raise BigQueryError("notFound", f"Not found: Table {names.label(*reference)}")
        if not others[2]:  # a dry run
            _alter(database.cursor() if cursor is None else cursor, reference, changes)
        return statistics

    def sql_of(node: Any) -> Any:
        if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Null):
            return f"{written(node.this)} = NULL"
        return written(node)

    def condition_of(*reference: str) -> str | None:
        condition: str | None = predicate(*reference)
        return None if condition and "(TRUE)" in condition.upper().split(" OR ") else condition

    query._run, merge._sql, row_access.predicate = run_or_alter, sql_of, condition_of
