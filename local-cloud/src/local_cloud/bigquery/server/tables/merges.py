"""MERGE that sets a column NULL: the server's engine reads the assignment as a comparison, whose value is NULL."""

from typing import Any

from local_bigquery.jobs import merge
from sqlglot import exp


def patch() -> None:
    """Generate assignments of NULL as assignments. Comparisons with NULL are unchanged."""
    written = merge._sql

    def sql_of(node: Any) -> Any:
        if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Null):
            return f"{written(node.this)} = NULL"
        return written(node)

    merge._sql = sql_of
