"""Statements that create, change, describe and grant tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from target_redshift.sql.names import listed, literal, quoted
from target_redshift.tables.types import Column, ddl_type


def create_schema(schema: str) -> str:
    """Create a schema, unless it exists."""
    return f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"


def create_table(
    table: str, columns: Sequence[Column], *, dist_key: str | None = None, sort_keys: Sequence[str] = ()
) -> str:
    """Create a table by its quoted name; without a dist key or sort keys, and of encodings, Redshift chooses."""
    dist = f" DISTSTYLE KEY DISTKEY ({quoted(dist_key)})" if dist_key else ""
    sort = f" COMPOUND SORTKEY ({listed(sort_keys)})" if sort_keys else ""
    return f"CREATE TABLE {table} ({_defined(columns)}){dist}{sort}"


def _defined(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quoted(c.name)} {ddl_type(c)}" for c in columns)


def add_column(table: str, column: Column) -> str:
    """Add a column; Redshift takes one a statement, and has no IF NOT EXISTS for it."""
    return f"ALTER TABLE {table} ADD COLUMN {quoted(column.name)} {ddl_type(column)}"


def widen_column(table: str, column: str, length: int) -> str:
    """Give a VARCHAR column more bytes; not in a transaction."""
    return f"ALTER TABLE {table} ALTER COLUMN {quoted(column)} TYPE VARCHAR({length:d})"


def comment(table: str, text: str) -> str:
    """Set the comment of a table."""
    return f"COMMENT ON TABLE {table} IS {literal(text)}"


def comment_column(table: str, column: str, text: str) -> str:
    """Set the comment of a column."""
    return f"COMMENT ON COLUMN {table}.{quoted(column)} IS {literal(text)}"


def drop_table(table: str) -> str:
    """Remove a table, if there is one."""
    return f"DROP TABLE IF EXISTS {table}"


PRIVILEGES = {name: name.upper() for name in ("select", "insert", "update", "delete", "references", "all")}


def grant(privilege: str, table: str, grantee: str) -> str:
    """Grant one of `PRIVILEGES` on a table to `public`, `group:name`, `role:name` or the name of a user."""
    return f"GRANT {PRIVILEGES[privilege]} ON TABLE {table} TO {_grantee(grantee)}"


def grant_usage(schema: str, grantee: str) -> str:
    """Grant USAGE of a schema, without which grants on its tables have no effect."""
    return f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {_grantee(grantee)}"


def _grantee(given: str) -> str:
    kind, _, name = given.partition(":")
    if kind.lower() in ("group", "role") and name:
        return f"{kind.upper()} {quoted(name)}"
    return "PUBLIC" if given.lower() == "public" else quoted(given)
