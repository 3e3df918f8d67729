"""The ledger `_sdc_batches`. Pure."""

# ruff: noqa: S608 - text is put together here and in its neighbours alone, from quoted names and literals

from __future__ import annotations

from target_redshift.sql.names import literal


def create_ledger(ledger: str) -> str:
    """Create the ledger, unless it exists."""
    return (
        f'CREATE TABLE IF NOT EXISTS {ledger} ("batch_id" VARCHAR(1024) NOT NULL, "stream" VARCHAR(1024) NOT NULL, '
        '"rows" BIGINT, "loaded_at" TIMESTAMP NOT NULL) COMPOUND SORTKEY ("loaded_at")'
    )


def lock(table: str) -> str:
    """Lock a table until the transaction ends; the snapshot is taken after the lock."""
    return f"LOCK TABLE {table}"


def ledger_extent(ledger: str, prefix: str, table_prefix: str) -> str:
    """Return a query for the times of the oldest and the newest entry of stream %s, and the one of its table.

    The ids of the former lack a prefix, that of the latter has `table_prefix`; each is null if there is none.
    """
    loaded = f'CASE WHEN {_lacks(prefix)} THEN "loaded_at" END'
    table = f'CASE WHEN NOT {_lacks(table_prefix)} THEN "batch_id" END'
    return f'SELECT MIN({loaded}), MAX({loaded}), MAX({table}) FROM {ledger} WHERE "stream" = %s'


def ledger_entries_of(ledger: str, count: int) -> str:
    """Return a query for the entries of stream %s for `count` batches %s."""
    ids = ", ".join(["%s"] * count)
    return f'SELECT "batch_id", "loaded_at" FROM {ledger} WHERE "stream" = %s AND "batch_id" IN ({ids})'


def ledger_entries_from(ledger: str, prefix: str, most: int) -> str:
    """Return a query for the first `most` entries of stream %s from %s on whose ids lack a prefix."""
    return (
        f'SELECT "batch_id", "loaded_at" FROM {ledger} WHERE "stream" = %s AND "loaded_at" >= %s AND {_lacks(prefix)} '
        f'ORDER BY "loaded_at" LIMIT {most:d}'
    )


def _lacks(prefix: str) -> str:
    return f'LEFT("batch_id", {len(prefix):d}) <> {literal(prefix)}'


def add_ledger_entries(ledger: str, count: int) -> str:
    """Write `count` entries: batch %s, stream %s, rows %s, and the time at which the transaction began."""
    values = ", ".join(["(%s, %s, %s, SYSDATE)"] * count)
    return f'INSERT INTO {ledger} ("batch_id", "stream", "rows", "loaded_at") VALUES {values}'


def delete_ledger_entries(ledger: str, table_prefix: str, count: int = 1) -> str:
    """Remove the entries of `count` streams %s that are older than %s, except those of their tables."""
    streams = ", ".join(["%s"] * count)
    return f'DELETE FROM {ledger} WHERE "stream" IN ({streams}) AND {_lacks(table_prefix)} AND "loaded_at" < %s'


def delete_ledger_marks(ledger: str, prefix: str, table_prefix: str) -> str:
    """Remove the entries of stream %s that begin with a prefix and are older than %s, except that of its table."""
    return (
        f'DELETE FROM {ledger} WHERE "stream" = %s AND NOT {_lacks(prefix)} AND {_lacks(table_prefix)} '
        'AND "loaded_at" < %s'
    )


def delete_table_mark(ledger: str, table_prefix: str) -> str:
    """Remove the entry of the table of stream %s."""
    return f'DELETE FROM {ledger} WHERE "stream" = %s AND NOT {_lacks(table_prefix)}'


def clear_ledger(ledger: str) -> str:
    """Remove all entries of stream %s."""
    return f'DELETE FROM {ledger} WHERE "stream" = %s'
