"""What a session begins with, and transactions. Pure."""

from __future__ import annotations

from target_redshift.sql.names import literal

BEGIN, COMMIT, ROLLBACK = "BEGIN", "COMMIT", "ROLLBACK"
SET_UTC = "SET timezone TO 'UTC'"
SESSION_ID = "SELECT pg_backend_pid()"


def set_query_group(group: str) -> str:
    """Set the query group of a session."""
    return f"SET query_group TO {literal(group)}"
