"""MERGE that sets a column NULL: the server's engine takes the assignment for a comparison, whose value is NULL."""

from typing import Any

from local_bigquery.jobs import merge
from sqlglot import exp


def mend() -> None:
    """Let assignments of NULL stay assignments; a comparison with NULL is the same as before."""
    written = merge._sql

    def sql_of(node: Any) -> Any:
        if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Null):
            return f"{written(node.this)} = NULL"
        return written(node)

    merge._sql = sql_of
