"""Look-ups of one table in constant time, and a bounded number of kept query results.

The server lists all columns of all databases to find those of one table, and keeps the result of each query as a table
without end, so each request would take longer than the one before.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
from local_bigquery.catalog import datasets, names, tabledata, tables
from local_bigquery.engine import database, results, types
from local_bigquery.errors import not_found
from local_bigquery.jobs import query
from local_bigquery.jobs.storage import literal
from local_bigquery.sql.rules import partitions

from local_cloud.bigquery.server.tables.capitals import stored_name, without_positions

KEPT_RESULTS = 100  # number of newer queries after which the rest of a query's rows is no longer found


def _columns(project_id: str, dataset_id: str, table_id: str) -> list[Any]:
    """Return the fields of a table or a view, in order."""
    table = tables.name(project_id, dataset_id, table_id)
    with database.cursor() as cursor:
        try:
            relation = cursor.sql(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - quoted there
            required = {name for name, not_null in _listed(cursor, table) if not_null}
        except duckdb.CatalogException:
            raise not_found("Table", names.label(project_id, dataset_id, table_id)) from None
        return [
            types.field(name, kind, name in required)
            for name, kind in zip(relation.columns, relation.types, strict=True)
            if name != tables.INGESTION_TIME or dataset_id == tables.RESULTS
        ]


def _listed(cursor: Any, table: str) -> list[tuple[str, bool]]:
    """Return the columns of a table: name, and whether the column is NOT NULL."""
    found: list[tuple[str, bool]] = cursor.execute(
        f'SELECT name, "notnull" FROM pragma_table_info({literal(table)})'  # noqa: S608 - quoted there
    ).fetchall()
    return found


def _is_hidden(table: Any) -> bool:
    """Whether a table of a query has a column for the time of ingestion."""
    if not (table.catalog and table.db) or not isinstance(table.this, partitions.exp.Identifier):
        return False
    with database.cursor() as cursor:
        try:
            listed = _listed(cursor, database.quote(table.catalog, table.db, stored_name(table.name)))
        except (duckdb.CatalogException, duckdb.BinderException):
            return False  # the error is reported where the query is read
    return any(name == tables.INGESTION_TIME for name, _ in listed)


class _Objects:
    """Tables and views by name, without listing all of them. A name seen before is checked by binding it in a query.

    DuckDB's names of projects and datasets are case-insensitive and BigQuery's are not, so only the list of names shows
    whether a name is exact.
    """

    def __init__(self, listed: Callable[..., list[tuple[str, str, int]]]) -> None:
        self._listed = listed
        self._seen = dict[tuple[str, str, str], str]()

    def __call__(self, project_id: str, dataset_id: str, table_id: str | None = None) -> Sequence[tuple[str, str, int]]:
        if table_id is None:
            listed = self._listed(project_id, dataset_id)
            return [(without_positions(name), kind, count) for name, kind, count in listed]
        key = (project_id, dataset_id, table_id if dataset_id == tables.RESULTS else stored_name(table_id))
        with database.cursor() as cursor:
            kind = _kind(cursor, *key)
            if kind != self._seen.get(key):
                self._seen.pop(key, None)
                found = self._listed(*key) if kind else []
                if not found:
                    return []
                self._seen[key] = kind = found[0][1]
            if kind is None:
                return []
            if kind != "TABLE":
                return [(table_id, kind, 0)]
            counted = cursor.execute(f"SELECT count(*) FROM {database.quote(*key)}").fetchone()  # noqa: S608 - quoted
            return [(table_id, kind, int(counted[0]))]


def _kind(cursor: Any, project_id: str, dataset_id: str, table_id: str) -> str | None:
    """Return TABLE or VIEW, or None if there is no table of that name."""
    try:
        cursor.sql(f"SELECT rowid FROM {database.quote(project_id, dataset_id, table_id)} LIMIT 0")  # noqa: S608 - quoted
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        lacks = (f"Table with name {table_id} does not exist", "does not exist because schema", 'Error: Catalog "')
        return None if any(words in str(error) for words in lacks) else "VIEW"  # perhaps of a dropped table
    return "TABLE"


class _Datasets:
    """A set-like test for the existence of datasets, without listing all of them; see `_Objects`."""

    def __init__(self, listed: Callable[[str, str], bool]) -> None:
        self._listed = listed
        self._seen = set[tuple[str, str]]()

    def __call__(self, project_id: str, dataset_id: str) -> bool:
        key = (project_id, dataset_id)
        with database.cursor() as cursor:
            try:
                cursor.execute(f"USE {database.quote(*key)}")
            except (duckdb.BinderException, duckdb.CatalogException):
                self._seen.discard(key)
                return False
        if key not in self._seen and self._listed(*key):
            self._seen.add(key)
        return key in self._seen


def patch() -> None:
    """Replace the server's functions that look tables up, and the one that keeps results."""
    datasets.exists = _Datasets(datasets.exists)
    database.objects = _Objects(database.objects)
    materialise, kept = results.materialise, deque[str]()
    prefix = database.quote("emulator", tables.RESULTS) + "."

    def materialise_last(cursor: Any, query: str, table: str, *others: Any) -> Any:
        made = materialise(cursor, query, table, *others)
        if table.startswith(prefix):
            kept.append(table)
            if len(kept) > KEPT_RESULTS:
                database.execute(f"DROP TABLE IF EXISTS {kept.popleft()}")
        return made

    from_duckdb = query.from_duckdb

    def of_dropped(error: Exception, context: Any = None, tree: Any = None) -> Any:
        """Report a qualified table that was dropped while the query was bound as missing, as BigQuery does."""
        found = from_duckdb(error, context, tree)
        missing = re.match(r'Table "(.+)" must be qualified', found.message)
        for table in tree.find_all(partitions.exp.Table) if missing is not None and tree is not None else ():
            if missing is not None and table.name == missing[1] and table.db:
                return not_found("Table", f"{table.catalog or context.project_id}:{table.db}.{table.name}")
        return found

    query.from_duckdb = of_dropped
    results.materialise = materialise_last
    tables.columns = tabledata.columns = _columns
    partitions._hidden = _is_hidden
