"""What there is: the schema, its tables and their columns. Pure."""

# ruff: noqa: S608 - text is put together here and in its neighbours alone, from quoted names and literals

from __future__ import annotations

SCHEMA_EXISTS = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
TABLE = (
    "SELECT c.relcreationtime, c.relkind, a.attname, d.description FROM pg_class_info c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_description d ON d.objoid = c.reloid "
    "LEFT JOIN pg_attribute_info a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0 "
    "WHERE n.nspname = %s AND c.relname = %s"
)
"""When a table of a schema was created, its kind (`r`, or that of a view), and each comment with its column; the
table's own comment has none."""
COLUMNS = (
    "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale, is_nullable, "
    "column_default FROM svv_columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
"""The columns of a table of a schema, in order."""
LAYOUT = (
    "SELECT column_name, distkey, sortkey FROM svv_redshift_columns "
    "WHERE database_name = current_database() AND schema_name = %s AND table_name = %s"
)
"""The columns of a table of a schema: which is the dist key, and the places of the sort keys."""
TABLES = (
    "SELECT c.relname, c.relcreationtime FROM pg_class_info c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind = 'r'"
)
"""The tables of a schema, and when they were created."""
SLICES = "SELECT COUNT(*) FROM stv_slices"
NOW = "SELECT SYSDATE"
"""The server's time, in UTC."""


def has_rows(table: str) -> str:
    """Return a query for a row if the table has any."""
    return f"SELECT 1 FROM {table} LIMIT 1"
