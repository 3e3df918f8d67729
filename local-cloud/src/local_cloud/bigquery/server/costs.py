"""The cost of queries: dry runs report it, and a job that exceeds its `maximumBytesBilled` fails, as in BigQuery.

A query is assumed to read all columns of its tables, where BigQuery reads only the columns that it needs. It reads the
partitions that `pruning` leaves. At least 10 MB are billed for each table. INSERT ... VALUES, COUNT(*) of a whole
table, TRUNCATE and statements that create tables cost nothing.
"""

from collections.abc import Iterator
from typing import Any

import duckdb
import sqlglot
from local_bigquery.catalog import tables
from local_bigquery.errors import STATUSES, BigQueryError
from local_bigquery.jobs import query
from local_bigquery.sql.translate import parse
from sqlglot import exp

from local_cloud.bigquery.server.tables import pruning

REASON = "bytesBilledLimitExceeded"
MOST_CHARACTERS = 1 << 20
"""Of a query (https://cloud.google.com/bigquery/quotas#query_jobs), which its error message calls 1024.00K."""
_MB = 1 << 20
_LEAST = 10 * _MB


def _is_count(tree: Any) -> bool:
    """Whether the statement asks only for the number of rows, which the table's metadata answers."""
    only_counts = isinstance(tree, exp.Select) and not any(tree.args.get(k) for k in ("where", "joins", "group"))
    return only_counts and all(isinstance(e.unalias(), exp.Count) for e in tree.expressions)


def _read(tree: Any) -> Iterator[Any]:
    """Yield the tables that a statement reads."""
    if _is_count(tree) or isinstance(tree, exp.TruncateTable):
        return
    target = tree.this.find(exp.Table) if isinstance(tree, exp.Insert | exp.Create) else None
    for table in tree.find_all(exp.Table):
        if table is not target and table.db:
            yield table


def processed(project_id: str, text: str) -> list[int]:
    """Return the bytes that a query reads of each table, or an empty list if the query cannot be parsed."""
    try:
        trees = [tree for tree in parse(text) if tree is not None]
    except (sqlglot.errors.SqlglotError, BigQueryError):
        return []  # the engine reports the error
    found = dict[tuple[str, str, str], int]()
    for tree in trees:
        for table in _read(tree):
            reference = (table.catalog or project_id, table.db, table.name)
            found[reference] = max(found.get(reference, 0), _size(reference, tree, table))
    return [size for _, size in sorted(found.items()) if size]


def _size(reference: tuple[str, str, str], tree: Any, table: Any) -> int:
    try:
        size = int(tables.get(*reference).numBytes or 0)
    except BigQueryError:
        return 0
    condition = pruning.condition(tree, table) if size else None
    if condition is None:
        return size
    try:
        return round(size * pruning.share(reference, table.alias_or_name, condition))
    except duckdb.Error:  # values that cannot be compared; the engine reports the same error
        return size


def billed(sizes: list[int]) -> int:
    """Return the bytes billed for tables of these sizes: whole MB, and at least 10 MB for each."""
    return sum(max(_LEAST, -(-size // _MB) * _MB) for size in sizes)


def patch() -> None:
    """Add costs to queries. Call it after all other functions of queries are replaced."""
    STATUSES[REASON] = (400, "INVALID_ARGUMENT")
    execute = query.execute

    def execute_at_a_cost(cursor: Any, project_id: str, job_id: str | None, config: Any, **options: Any) -> Any:
        if (length := len(config.query or "")) > MOST_CHARACTERS:
            raise BigQueryError(
                "invalid",
                f"The query is too large ({length / 1024:.2f}K characters). The maximum standard SQL query length is "
                "1024.00K characters, including comments and white space characters.",
            )
        sizes = processed(project_id, config.query or "")
        bill, limit = billed(sizes), config.maximumBytesBilled
        if job_id is not None and limit is not None and bill > int(limit):
            raise BigQueryError(REASON, f"Query exceeded limit for bytes billed: {limit}. {bill} or higher required.")
        statistics, *others = execute(cursor, project_id, job_id, config, **options)
        figures = {"totalBytesProcessed": str(sum(sizes)), "totalBytesBilled": str(bill if job_id is not None else 0)}
        return (statistics.replace(**figures), *others)

    query.execute = execute_at_a_cost
