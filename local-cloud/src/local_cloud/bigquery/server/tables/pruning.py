"""Partition pruning: which partitions of a table a statement reads, by its constant conditions.

As in BigQuery, a MERGE leaves out the partitions of its target in which the constants of its ON clause cannot be met,
unless it looks for rows that are not in its source. DELETE, UPDATE and a SELECT of one table use their WHERE clause.
Conditions that do not refer to the partitioning column, or compare it with anything but a constant, prune nothing.
"""

from typing import Any

import sqlglot
from local_bigquery.catalog import tables
from local_bigquery.engine import database
from local_bigquery.engine.database import quote
from local_bigquery.sql.dialect import DuckDBDialect
from local_bigquery.sql.translate import Context, translate
from sqlglot import exp

_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}
_ANY = "TRUE"


def condition(tree: Any, table: Any) -> Any | None:
    """Return the condition on the rows of a table that a statement reads, or None if there is none."""
    if isinstance(tree, exp.Merge):
        if tree.this is not table or any(w.args.get("source") for w in tree.args["whens"].expressions):
            return None
        return tree.args["on"]
    if isinstance(tree, exp.Delete | exp.Update | exp.Select) and len(list(tree.find_all(exp.Table))) == 1:
        where = tree.args.get("where")
        return where.this if where else None
    return None


def share(reference: tuple[str, str, str], alias: str, condition: Any) -> float:
    """Return the share (0 to 1) of a table's rows in partitions where a condition on it as `alias` may be met."""
    resource = tables.get(*reference)
    partitioning = resource.timePartitioning or resource.rangePartitioning
    if not partitioning or not partitioning.field:
        return 1.0
    column: str = partitioning.field
    rule = _may(condition, column, alias, Context(*reference[:2]))
    if rule == _ANY:
        return 1.0
    low, high = _ends(resource, column)
    counted = (
        f"SELECT sum(n) FILTER (WHERE {rule}), sum(n) FROM (SELECT {low} AS lo, {high} AS hi, count(*) AS n "  # noqa: S608 - names are quoted, constants the engine's own
        f"FROM {tables.name(*reference)} GROUP BY ALL)"
    )
    with database.cursor() as cursor:
        row = cursor.execute(counted).fetchone()
    met, all_rows = row or (0, 0)
    return float(met or 0) / float(all_rows) if all_rows else 1.0


def _ends(resource: Any, column: str) -> tuple[str, str]:
    """Return the first and the last value of a row's partition, as SQL; both are null for the null partition."""
    name = quote(column)
    if found := resource.rangePartitioning:
        start, end, width = (int(n) for n in (found.range.start, found.range.end, found.range.interval))
        inside = f"{name} >= {start} AND {name} < {end}"
        low = f"CASE WHEN {inside} THEN {start} + (({name} - {start}) // {width}) * {width} ELSE {name} END"
        return low, f"CASE WHEN {inside} THEN {low} + {width} - 1 ELSE {name} END"
    unit = (resource.timePartitioning.type or "DAY").lower()
    low = f"date_trunc('{unit}', {name})"
    kinds = {f.name: f.type for f in tables.fields(resource)}
    if kinds.get(column) == "DATE":
        return low, f"CAST({low} + INTERVAL 1 {unit} - INTERVAL 1 DAY AS DATE)"
    return low, f"{low} + INTERVAL 1 {unit} - INTERVAL 1 MICROSECOND"


def _may(node: Any, column: str, alias: str, context: Any) -> str:
    """Return SQL that is true for a partition from lo to hi in which a condition may be met."""

    def inner(part: Any) -> str:
        return _may(part, column, alias, context)

    def is_column(part: Any) -> bool:
        return isinstance(part, exp.Column) and part.name == column and part.table in ("", alias)

    if isinstance(node, exp.Paren):
        return inner(node.this)
    if isinstance(node, exp.And | exp.Or):
        left, right = inner(node.this), inner(node.expression)
        is_and = isinstance(node, exp.And)
        if _ANY in (left, right):
            return (right if left == _ANY else left) if is_and else _ANY
        return f"({left} {'AND' if is_and else 'OR'} {right})"
    if isinstance(node, exp.Is) and is_column(node.this) and isinstance(node.expression, exp.Null):
        return "(lo IS NULL)"
    if isinstance(node, exp.Between) and is_column(node.this):
        ends = [_constant(node.args[name], context) for name in ("low", "high")]
        return f"(hi >= {ends[0]} AND lo <= {ends[1]})" if all(ends) else _ANY
    if type(node) in _MIRRORED:
        kind, of, to = type(node), node.this, node.expression
        if is_column(to):
            kind, of, to = _MIRRORED[kind], to, of
        constant = _constant(to, context) if is_column(of) else None
        return _compared(kind, constant) if constant else _ANY
    return _ANY


def _compared(kind: type, constant: str) -> str:
    sign = {exp.GT: "hi >", exp.GTE: "hi >=", exp.LT: "lo <", exp.LTE: "lo <="}.get(kind)
    return f"({sign} {constant})" if sign else f"(lo <= {constant} AND hi >= {constant})"


def _constant(node: Any, context: Any) -> str | None:
    """Return a constant as the engine's SQL, or None if the node is not a constant or is a parameter."""
    if node.find(exp.Column, exp.Parameter, exp.Placeholder, exp.Subquery, exp.Select):
        return None
    select, bound = translate(exp.select(node.copy()), context)
    if bound:
        return None
    (constant,) = sqlglot.parse_one(select, dialect=DuckDBDialect).expressions  # as a literal, not as a query of one
    return f"({constant.unalias().sql(dialect=DuckDBDialect)})"
