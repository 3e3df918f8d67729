"""The table `_sdc_rejected`: rows that are not loaded. Pure."""

# ruff: noqa: S608 - text is put together here and in its neighbours alone, from quoted names and literals

from __future__ import annotations

from target_redshift.sql.names import listed


def create_rejected(table: str) -> str:
    """Create the table of rows that are not loaded, unless it exists."""
    return (
        f'CREATE TABLE IF NOT EXISTS {table} ("stream" VARCHAR(1024) NOT NULL, "batch_id" VARCHAR(1024), '
        '"file" VARCHAR(8192), "position" BIGINT, "column_name" VARCHAR(1024), "reason" VARCHAR(8192), '
        '"record" VARCHAR(65535), "part" INTEGER, "rejected_at" TIMESTAMP NOT NULL) COMPOUND SORTKEY ("rejected_at")'
    )


def delete_rejected(table: str, count: int) -> str:
    """Remove the rows of stream %s and of `count` batches %s, which are written again."""
    return f'DELETE FROM {table} WHERE "stream" = %s AND "batch_id" IN ({", ".join(["%s"] * count)})'


def add_rejected(table: str, count: int) -> str:
    """Write `count` rows: stream, batch, file, position, column, reason, record, part, all %s; and the time."""
    values = ", ".join(["(%s, %s, %s, %s, %s, %s, %s, %s, SYSDATE)"] * count)
    names = listed(("stream", "batch_id", "file", "position", "column_name", "reason", "record", "part", "rejected_at"))
    return f"INSERT INTO {table} ({names}) VALUES {values}"
