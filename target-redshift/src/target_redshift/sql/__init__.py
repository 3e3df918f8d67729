"""Every SQL text that the target sends. Pure; names go in quoted, values as parameters (`%s`).

COPY and what defines tables cannot have parameters; `literal` quotes their values. `docs/redshift-sql.md` lists all
texts, and tests check each against Redshift's rules.

catalog   Queries of the catalog: schemas, tables, columns
tables    Statements that create, change, describe and grant tables
copy      COPY, and the queries of its load errors
rows      Queries of staged rows, INSERT, DELETE and MERGE
ledger    The table `_sdc_batches`
rejected  The table `_sdc_rejected`
session   Transactions and session settings
names     Quoting of names and literals
"""

from __future__ import annotations

from target_redshift.sql.catalog import (
    COLUMNS,
    LAYOUT,
    NOW,
    SCHEMA_EXISTS,
    SLICES,
    TABLE,
    TABLES,
    has_rows,
)
from target_redshift.sql.copy import (
    COPIED_ROWS,
    LOAD_ERRORS,
    NULL_TEXT,
    OLD_LOAD_ERRORS,
    TABLE_ID,
    Access,
    copy_csv,
    copy_json,
    copy_parquet,
    create_staging,
    masked,
    role_of,
)
from target_redshift.sql.ledger import (
    add_ledger_entries,
    clear_ledger,
    create_ledger,
    delete_ledger_entries,
    delete_ledger_marks,
    delete_table_mark,
    ledger_entries_from,
    ledger_entries_of,
    ledger_extent,
    lock,
)
from target_redshift.sql.names import literal, quoted
from target_redshift.sql.rejected import add_rejected, create_rejected, delete_rejected
from target_redshift.sql.rows import (
    create_merged,
    delete_all,
    delete_marked_rows,
    delete_matching,
    delete_superseded,
    delete_versions,
    duplicate_key,
    insert,
    insert_all,
    key_facts,
    longest_texts,
    mark_versions_deleted,
    merge,
)
from target_redshift.sql.session import BEGIN, COMMIT, ROLLBACK, SESSION_ID, SET_UTC, set_query_group
from target_redshift.sql.tables import (
    PRIVILEGES,
    add_column,
    comment,
    comment_column,
    create_schema,
    create_table,
    drop_table,
    grant,
    grant_usage,
    widen_column,
)

__all__ = [
    "BEGIN",
    "COLUMNS",
    "COMMIT",
    "COPIED_ROWS",
    "LAYOUT",
    "LOAD_ERRORS",
    "NOW",
    "NULL_TEXT",
    "OLD_LOAD_ERRORS",
    "PRIVILEGES",
    "ROLLBACK",
    "SCHEMA_EXISTS",
    "SESSION_ID",
    "SET_UTC",
    "SLICES",
    "TABLE",
    "TABLES",
    "TABLE_ID",
    "Access",
    "add_column",
    "add_ledger_entries",
    "add_rejected",
    "clear_ledger",
    "comment",
    "comment_column",
    "copy_csv",
    "copy_json",
    "copy_parquet",
    "create_ledger",
    "create_merged",
    "create_rejected",
    "create_schema",
    "create_staging",
    "create_table",
    "delete_all",
    "delete_ledger_entries",
    "delete_ledger_marks",
    "delete_marked_rows",
    "delete_matching",
    "delete_rejected",
    "delete_superseded",
    "delete_table_mark",
    "delete_versions",
    "drop_table",
    "duplicate_key",
    "grant",
    "grant_usage",
    "has_rows",
    "insert",
    "insert_all",
    "key_facts",
    "ledger_entries_from",
    "ledger_entries_of",
    "ledger_extent",
    "literal",
    "lock",
    "longest_texts",
    "mark_versions_deleted",
    "masked",
    "merge",
    "quoted",
    "role_of",
    "set_query_group",
    "widen_column",
]
