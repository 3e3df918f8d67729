"""Changes of one table run one at a time; two at once would fail in DuckDB, as they rarely do in BigQuery."""

import time
from collections.abc import Callable
from typing import Any

import duckdb
from local_bigquery.catalog import metadata, tables
from local_bigquery.engine import database
from local_bigquery.jobs import query, store

_TRIES = 100


def _again(execute: Callable[..., None]) -> Callable[..., None]:
    """Retry a statement that conflicted with another one on the same row ("Conflict on update!").

    The statement has changed nothing then. The server writes its records of tables and jobs by single statements, also
    after a load has added its rows; without a retry such a load would count as failed.
    """

    def run(sql: str, params: list[Any] | None = None) -> None:
        for _ in range(_TRIES):
            try:
                return execute(sql, params)
            except duckdb.TransactionException:
                time.sleep(0.02)
        return execute(sql, params)

    return run


def patch() -> None:
    """Take the server's lock of a table, which its writes take already, for every change of the table itself."""
    create, update, delete, run = tables.create, tables.update, tables.delete, query._run

    def create_in_turn(project_id: str, dataset_id: str, body: Any, translate: Any) -> Any:
        table_id = body.tableReference.tableId if body.tableReference else ""
        with database.writing(project_id, dataset_id, table_id or ""):
            return create(project_id, dataset_id, body, translate)

    def update_in_turn(*arguments: Any) -> Any:
        with database.writing(*arguments[:3]):
            return update(*arguments)

    def delete_in_turn(*reference: str) -> None:
        with database.writing(*reference):
            delete(*reference)

    def run_in_turn(cursor: Any, tree: Any, context: Any, *others: Any) -> Any:
        if isinstance(tree, query.DDL) and (tree.args.get("kind") or "").upper() == "TABLE":
            with database.writing(*query._target(tree, context)):
                return run(cursor, tree, context, *others)
        return run(cursor, tree, context, *others)

    tables.create, tables.update, tables.delete = create_in_turn, update_in_turn, delete_in_turn
    query._run = run_in_turn
    metadata.execute, store.execute = _again(metadata.execute), _again(store.execute)
