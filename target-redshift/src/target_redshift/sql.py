"""Every SQL text that the target sends. Pure; names go in quoted, values as parameters (`%s`).

COPY and what defines tables cannot have parameters; `literal` quotes their values. `docs/redshift-sql.md` lists all
texts, and tests check each against Redshift's rules.
"""

# ruff: noqa: S608 - text is put together here and nowhere else, from quoted names and literals alone

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from singer_arrow.errors import SchemaError
from target_redshift.bounds import Bound
from target_redshift.staging import ORDER, Change, StagingColumn
from target_redshift.types import Column, ddl_type

NULL_TEXT = "@_sdc_null@"
"""What stands for null in CSV, where nothing stands for ''."""
ROW = "_sdc_row"
"""Column of a query that numbers the rows of a key, the last one first."""
SOURCE = "_sdc_source"
"""What a query calls the table that it takes rows from; no stream's table is named so."""
_CODECS = {None: "", "gzip": " GZIP", "bzip2": " BZIP2", "zstd": " ZSTD"}
_ROLE = re.compile(r"\bIAM_ROLE '([^'\\]*)'")
_SECRET = re.compile(r"(CREDENTIALS\s+)'(?:[^'\\]|''|\\.)*'", re.IGNORECASE | re.DOTALL)

BEGIN, COMMIT, ROLLBACK = "BEGIN", "COMMIT", "ROLLBACK"
SET_UTC = "SET timezone TO 'UTC'"
SESSION_ID = "SELECT pg_backend_pid()"
COPIED_ROWS = "SELECT pg_last_copy_count()"
SLICES = "SELECT COUNT(*) FROM stv_slices"


def quoted(*parts: str) -> str:
    """A name in double quotes: `quoted("s", "t")` is `"s"."t"`.

    Raises:
        SchemaError: It holds a NUL, which no name may.
    """
    return ".".join('"{}"'.format(_checked(part).replace('"', '""')) for part in parts)


def literal(text: str) -> str:
    """A text in single quotes; Redshift takes a backslash in it as an escape.

    Raises:
        SchemaError: It holds a NUL, which no text may.
    """
    return "'{}'".format(_checked(text).replace("\\", "\\\\").replace("'", "''"))


def _checked(text: str) -> str:
    if "\0" in text:
        msg = f"{text!r} holds a NUL, which Redshift takes in no name and no text; remove it"
        raise SchemaError(msg)
    return text


def set_query_group(group: str) -> str:
    """Say which query group the statements of a session are of."""
    return f"SET query_group TO {literal(group)}"


# What there is


SCHEMA_EXISTS = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
TABLE = (
    "SELECT c.relcreationtime, d.description FROM pg_class_info c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "LEFT JOIN pg_description d ON d.objoid = c.reloid AND d.objsubid = 0 WHERE n.nspname = %s AND c.relname = %s"
)
"""When a table of a schema was created, and its comment."""
COLUMNS = (
    "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale, is_nullable, "
    "column_default FROM svv_columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
"""The columns of a table of a schema, in order."""
COLUMN_COMMENTS = (
    "SELECT a.attname, d.description FROM pg_description d JOIN pg_class_info c ON c.reloid = d.objoid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid "
    "WHERE n.nspname = %s AND c.relname = %s AND d.objsubid > 0"
)
"""The columns of a table of a schema that have a comment, and the comment."""
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


def has_rows(table: str) -> str:
    """A row if the table has any."""
    return f"SELECT 1 FROM {table} LIMIT 1"


# Tables


def create_schema(schema: str) -> str:
    """Create a schema, unless it exists."""
    return f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"


def create_table(
    table: str, columns: Sequence[Column], *, dist_key: str | None = None, sort_keys: Sequence[str] = ()
) -> str:
    """Create a table.

    Args:
        table: Quoted name.
        columns: Its columns; encodings are left to Redshift.
        dist_key: Column that says on which slice a row is; without, Redshift chooses.
        sort_keys: Columns that rows are sorted by, in order; without, Redshift chooses.
    """
    dist = f" DISTSTYLE KEY DISTKEY ({quoted(dist_key)})" if dist_key else ""
    sort = f" COMPOUND SORTKEY ({_names(sort_keys)})" if sort_keys else ""
    return f"CREATE TABLE {table} ({_defined(columns)}){dist}{sort}"


def add_column(table: str, column: Column) -> str:
    """Add a column; Redshift takes one a statement, and has no IF NOT EXISTS for it."""
    return f"ALTER TABLE {table} ADD COLUMN {quoted(column.name)} {ddl_type(column)}"


def widen_column(table: str, column: str, length: int) -> str:
    """Give a VARCHAR column more bytes; not in a transaction."""
    return f"ALTER TABLE {table} ALTER COLUMN {quoted(column)} TYPE VARCHAR({length:d})"


def comment(table: str, text: str) -> str:
    """Say what a table is for."""
    return f"COMMENT ON TABLE {table} IS {literal(text)}"


def comment_column(table: str, column: str, text: str) -> str:
    """Say what a column is for."""
    return f"COMMENT ON COLUMN {table}.{quoted(column)} IS {literal(text)}"


def grant(privilege: str, table: str, grantee: str) -> str:
    """Let somebody use a table.

    Args:
        privilege: One of `PRIVILEGES`.
        table: Quoted name.
        grantee: `public`, `group:name`, `role:name` or the name of a user.
    """
    return f"GRANT {PRIVILEGES[privilege]} ON TABLE {table} TO {_grantee(grantee)}"


def grant_usage(schema: str, grantee: str) -> str:
    """Let somebody use a schema, without which grants on its tables have no effect."""
    return f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {_grantee(grantee)}"


PRIVILEGES = {name: name.upper() for name in ("select", "insert", "update", "delete", "references", "all")}


def _grantee(given: str) -> str:
    kind, _, name = given.partition(":")
    if kind.lower() in ("group", "role") and name:
        return f"{kind.upper()} {quoted(name)}"
    return "PUBLIC" if given.lower() == "public" else quoted(given)


def drop_table(table: str) -> str:
    """Remove a table, if there is one."""
    return f"DROP TABLE IF EXISTS {table}"


# Staging


def create_staging(name: str, columns: Sequence[StagingColumn]) -> str:
    """Create a temporary table, which goes with the session."""
    defined = ", ".join(f"{quoted(c.name)} {c.type}" for c in columns if c.constant is None)
    return f"CREATE TEMP TABLE {name} ({defined})"


@dataclass(frozen=True, slots=True)
class Access:
    """By what right COPY reads files: a role (or a chain of them, with commas), or keys."""

    role: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def clause(self) -> str:
        """The clause of COPY."""
        if (self.role or "").lower() == "default":
            return "IAM_ROLE default"
        if self.role:
            return f"IAM_ROLE {literal(self.role)}"
        token = f";token={self.session_token}" if self.session_token else ""
        keys = f"aws_access_key_id={self.access_key_id};aws_secret_access_key={self.secret_access_key}{token}"
        return f"CREDENTIALS {literal(keys)}"


def copy_parquet(table: str, manifest: str, access: Access, *, nested: bool = False) -> str:
    """COPY Parquet files into a table whose columns are theirs, in order.

    Args:
        table: Quoted name.
        manifest: URL of the manifest, whose entries have `meta.content_length`.
        access: By what right.
        nested: Whether there are structs or lists.
    """
    serialized = " SERIALIZETOJSON" if nested else ""
    source = f"FROM {literal(manifest)} {access.clause}"
    return f"COPY {table} {source} FORMAT AS PARQUET{serialized} MANIFEST STATUPDATE OFF"


def copy_json(
    table: str,
    manifest: str,
    access: Access,
    *,
    compression: str | None = "gzip",
    ignore_case: bool = False,
    region: str | None = None,
) -> str:
    """COPY JSON Lines into a table whose columns have the names of their keys.

    Args:
        table: Quoted name.
        manifest: URL of the manifest.
        access: By what right.
        compression: `gzip`, `bzip2`, `zstd` or None.
        ignore_case: Whether keys may differ from columns in case.
        region: Where the bucket is, if not where the cluster is.
    """
    keys = literal("auto ignorecase" if ignore_case else "auto")
    return f"COPY {table} FROM {literal(manifest)} {access.clause} FORMAT AS JSON {keys}{_text(compression, region)}"


def copy_csv(
    table: str, manifest: str, access: Access, *, compression: str | None = "gzip", region: str | None = None
) -> str:
    """COPY CSV without a header, in which `NULL_TEXT` is null; the arguments are those of `copy_json`."""
    null = f" NULL AS {literal(NULL_TEXT)}"
    return f"COPY {table} FROM {literal(manifest)} {access.clause} FORMAT AS CSV{null}{_text(compression, region)}"


def _text(compression: str | None, region: str | None) -> str:
    where = f" REGION AS {literal(region)}" if region else ""
    formats = "DATEFORMAT 'auto' TIMEFORMAT 'auto'"
    return f"{_CODECS[compression]} MANIFEST {formats} COMPUPDATE OFF STATUPDATE OFF{where}"


def role_of(text: str) -> str | None:
    """The role that a COPY reads with; None if it has keys, or is no COPY."""
    match = _ROLE.search(text) if text.startswith("COPY ") else None
    return match[1] if match else None


def masked(text: str) -> str:
    """The text of a statement without its secrets, for logs and messages."""
    return _SECRET.sub(r"\1'***'", text)


def longest_texts(staging: str, columns: Sequence[str]) -> str:
    """The bytes of the longest text in each of some columns; null where there is none."""
    return f"SELECT {', '.join(f'MAX(OCTET_LENGTH({quoted(c)}))' for c in columns)} FROM {staging}"


def key_facts(staging: str, keys: Sequence[str], *, bounded: Sequence[str] = (), deleted: str | None = None) -> str:
    """How many rows have a null in each of some columns, and more of them.

    Args:
        staging: Quoted name of the table.
        keys: The columns.
        bounded: Those of which the least and the greatest value are asked for, as texts.
        deleted: A column of which is asked how many rows have a value.
    """
    asked = [f"COUNT(*) - COUNT({quoted(k)})" for k in keys]
    asked += [f"CAST({word}({quoted(k)}) AS VARCHAR(64))" for k in bounded for word in ("MIN", "MAX")]
    asked += [f"COUNT({quoted(deleted)})"] if deleted else []
    return f"SELECT {', '.join(asked)} FROM {staging}"


Staged = Mapping[str, Sequence[StagingColumn]]
"""Staging tables by quoted name, and their columns."""


def duplicate_key(staged: Staged, columns: Sequence[Column], keys: Sequence[str]) -> str:
    """A row if two staged rows have the same key."""
    rows = _rows(staged, [c for c in columns if c.name in keys])
    return f"SELECT 1 FROM ({rows}) AS s GROUP BY {_names(keys)} HAVING COUNT(*) > 1 LIMIT 1"


# From staging into tables


def insert(table: str, staging: str, staged: Sequence[StagingColumn], columns: Sequence[Column]) -> str:
    """Add the staged rows to a table, in its own types; columns that were not staged are null."""
    return f"INSERT INTO {table} ({_names([c.name for c in columns])}) SELECT {_values(staged, columns)} FROM {staging}"


def create_merged(name: str, staged: Staged, columns: Sequence[Column], keys: Sequence[str], *, ordered: bool) -> str:
    """Create a temporary table of the staged rows in the table's own types, for `merge`, which takes no query.

    Args:
        name: Its quoted name.
        staged: The staging tables.
        columns: The columns that it gets.
        keys: Names of the key columns.
        ordered: Of several rows with a key, keep the last one by `ORDER`, which all staging tables have; else there are
            no such rows.
    """
    names = _names([c.name for c in columns])
    if not ordered:
        return f"CREATE TEMP TABLE {name} AS {_rows(staged, columns)}"
    numbered = f"ROW_NUMBER() OVER (PARTITION BY {_names(keys)} ORDER BY {quoted(ORDER)} DESC) AS {quoted(ROW)}"
    rows = _rows(staged, columns, ordered=True)
    return (
        f"CREATE TEMP TABLE {name} AS SELECT {names} FROM (SELECT {names}, {numbered} FROM ({rows}) AS s) AS r "
        f"WHERE {quoted(ROW)} = 1"
    )


def merge(
    schema: str,
    table: str,
    source: str,
    columns: Sequence[Column],
    keys: Sequence[str],
    *,
    emptied: Sequence[str] = (),
    bounds: Sequence[Bound] = (),
) -> str:
    """Bring rows into a table: they take the place of those with the same key, or are added.

    Args:
        schema: The table's schema, not quoted.
        table: Its name, not quoted.
        source: Quoted name of another table, which has no two rows of a key.
        columns: The columns of both; some are no keys.
        keys: Names of the key columns; their values are never null.
        emptied: Columns of the table that become null in rows that were there.
        bounds: What the rows of the table are in that have such keys.
    """
    names = [c.name for c in columns]
    matches = _matches(table, SOURCE, keys, bounds)
    set_to = {n: f"{SOURCE}.{quoted(n)}" for n in names if n not in keys} | dict.fromkeys(emptied, "NULL")
    updates = ", ".join(f"{quoted(n)} = {value}" for n, value in set_to.items())
    values = ", ".join(f"{SOURCE}.{quoted(n)}" for n in names)
    return (
        f"MERGE INTO {quoted(schema, table)} USING {source} AS {SOURCE} ON {matches} "
        f"WHEN MATCHED THEN UPDATE SET {updates} WHEN NOT MATCHED THEN INSERT ({_names(names)}) VALUES ({values})"
    )


def delete_matching(
    schema: str,
    table: str,
    source: str,
    keys: Sequence[str],
    *,
    bounds: Sequence[Bound] = (),
    deleted: str | None = None,
) -> str:
    """Remove the rows whose keys another table has.

    Args:
        schema: The table's schema, not quoted.
        table: Its name, not quoted.
        source: Quoted name of the other table.
        keys: Names of the key columns.
        bounds: What the rows of the table are in that have such keys.
        deleted: A column of the other table; only those of its rows count that have a value there.
    """
    only = f" AND {source}.{quoted(deleted)} IS NOT NULL" if deleted else ""
    return f"DELETE FROM {quoted(schema, table)} USING {source} WHERE {_matches(table, source, keys, bounds)}{only}"


def delete_said(source: str, deleted: str) -> str:
    """Remove the rows that have a value in a column which says that their keys are deleted."""
    return f"DELETE FROM {source} WHERE {quoted(deleted)} IS NOT NULL"


def insert_all(table: str, source: str, columns: Sequence[Column]) -> str:
    """Add all rows of another table that has the same columns."""
    names = _names([c.name for c in columns])
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {source}"


def delete_all(table: str) -> str:
    """Remove all rows; unlike TRUNCATE it does not commit, and readers keep the old ones until the transaction does."""
    return f"DELETE FROM {table}"


def delete_versions(table: str, version_column: str) -> str:
    """Remove the rows of versions before %s; rows without a version stay."""
    return f"DELETE FROM {table} WHERE {quoted(version_column)} < %s"


def mark_versions_deleted(table: str, version_column: str, deleted_column: str) -> str:
    """Give the rows of versions before %s the time of their deletion, if they have none."""
    version, deleted = quoted(version_column), quoted(deleted_column)
    return f"UPDATE {table} SET {deleted} = SYSDATE WHERE {version} < %s AND {deleted} IS NULL"


# The ledger


def create_ledger(ledger: str) -> str:
    """Create the ledger, unless it exists."""
    return (
        f'CREATE TABLE IF NOT EXISTS {ledger} ("batch_id" VARCHAR(1024) NOT NULL, "stream" VARCHAR(1024) NOT NULL, '
        '"rows" BIGINT, "loaded_at" TIMESTAMP NOT NULL) COMPOUND SORTKEY ("loaded_at")'
    )


def lock(table: str) -> str:
    """Wait until nobody else has the table, and keep it until the transaction ends; its snapshot is taken after."""
    return f"LOCK TABLE {table}"


def ledger_entries(ledger: str, prefix: str, most: int) -> str:
    """The newest entries of stream %s but for those that begin with a prefix, at most so many."""
    return (
        f'SELECT "batch_id", "loaded_at" FROM {ledger} WHERE "stream" = %s AND LEFT("batch_id", {len(prefix):d}) <> '
        f'{literal(prefix)} ORDER BY "loaded_at" DESC LIMIT {most:d}'
    )


def ledger_entries_of(ledger: str, count: int) -> str:
    """The entries of stream %s for `count` batches %s."""
    ids = ", ".join(["%s"] * count)
    return f'SELECT "batch_id", "loaded_at" FROM {ledger} WHERE "stream" = %s AND "batch_id" IN ({ids})'


def add_ledger_entries(ledger: str, count: int) -> str:
    """Write `count` entries: batch %s, stream %s, rows %s, and the time at which the transaction began."""
    values = ", ".join(["(%s, %s, %s, SYSDATE)"] * count)
    return f'INSERT INTO {ledger} ("batch_id", "stream", "rows", "loaded_at") VALUES {values}'


def delete_ledger_entries(ledger: str) -> str:
    """Remove the entries of stream %s that are older than %s."""
    return f'DELETE FROM {ledger} WHERE "stream" = %s AND "loaded_at" < %s'


def delete_ledger_marks(ledger: str, prefix: str) -> str:
    """Remove the entries of stream %s that begin with a prefix and are older than %s."""
    return (
        f'DELETE FROM {ledger} WHERE "stream" = %s AND LEFT("batch_id", {len(prefix):d}) = {literal(prefix)} '
        'AND "loaded_at" < %s'
    )


def clear_ledger(ledger: str) -> str:
    """Remove all entries of stream %s."""
    return f'DELETE FROM {ledger} WHERE "stream" = %s'


# Rows that are not loaded


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
    names = _names(("stream", "batch_id", "file", "position", "column_name", "reason", "record", "part", "rejected_at"))
    return f"INSERT INTO {table} ({names}) VALUES {values}"


NOW = "SELECT SYSDATE"
"""The server's time, in UTC."""

# Why a COPY failed


TABLE_ID = "SELECT oid FROM pg_class WHERE relname = %s"
"""The number by which system tables know a temporary table; its name is the only one of its kind."""
LOAD_ERRORS = (
    "SELECT TRIM(file_name), line_number, TRIM(column_name), CAST(NULL AS VARCHAR(1)), TRIM(error_message) "
    "FROM sys_load_error_detail WHERE session_id = %s AND table_id = %s ORDER BY start_time DESC LIMIT 5"
)
"""File, line, column, no value and reason of the newest load errors of session %s and table %s."""
OLD_LOAD_ERRORS = (
    "SELECT TRIM(filename), line_number, TRIM(colname), TRIM(raw_field_value), TRIM(err_reason) FROM stl_load_errors "
    "WHERE session = %s AND tbl = %s ORDER BY starttime DESC LIMIT 5"
)
"""The same with values, from a table that not everybody may read and that serverless does not have."""


def _names(names: Sequence[str]) -> str:
    return ", ".join(quoted(n) for n in names)


def _matches(table: str, source: str, keys: Sequence[str], bounds: Sequence[Bound]) -> str:
    """The rows of a table, not quoted, that have the keys of a source."""
    met = [f"{quoted(table, k)} = {source}.{quoted(k)}" for k in keys]
    for bound in bounds:
        low, high = ((text if bound.is_number else literal(text)) for text in (bound.low, bound.high))
        met.append(f"{quoted(table, bound.column)} BETWEEN {low} AND {high}")
    return " AND ".join(met)


def _defined(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quoted(c.name)} {ddl_type(c)}" for c in columns)


def _rows(staged: Staged, columns: Sequence[Column], *, ordered: bool = False) -> str:
    """A query for the rows of all staging tables, in the table's own types."""
    order = f", {quoted(ORDER)}" if ordered else ""
    parts = [f"SELECT {_values(have, columns, named=True)}{order} FROM {name}" for name, have in staged.items()]
    return " UNION ALL ".join(parts)


def _values(staged: Sequence[StagingColumn], columns: Sequence[Column], *, named: bool = False) -> str:
    have = {c.column.name: c for c in staged if c.column}
    values = [_changed(have[c.name], c) if c.name in have else f"CAST(NULL AS {ddl_type(c)})" for c in columns]
    if not named:
        return ", ".join(values)
    return ", ".join(f"{v} AS {quoted(c.name)}" for v, c in zip(values, columns, strict=True))


def _changed(staged: StagingColumn, column: Column) -> str:
    value = quoted(staged.name) if staged.constant is None else literal(staged.constant)
    match staged.change:
        case Change.CAST:
            return f"CAST({value} AS {ddl_type(column)})"
        case Change.UTC:
            return f"{value} AT TIME ZONE 'UTC'"
        case Change.JSON:
            return f"JSON_PARSE({value})"
        case Change.BASE64:
            return f"TO_VARBYTE({value}, 'base64')"
        case Change.NONE:
            return value
