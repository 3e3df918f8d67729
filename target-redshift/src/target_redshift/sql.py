"""Every SQL text that the target sends. Pure; names go in quoted, values as parameters (`%s`).

COPY and what defines tables cannot have parameters; `literal` quotes their values. `docs/redshift-sql.md` lists all
texts, and tests check each against Redshift's rules.
"""

# ruff: noqa: S608 - text is put together here and nowhere else, from quoted names and literals

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from singer_arrow.batch.message import PLACE, READING
from singer_arrow.errors import SchemaError
from singer_arrow.load.method import BATCH_BEFORE, LAST_BATCH
from target_redshift.columns import OBJECT_COLUMNS, ORDER, Change, StagingColumn
from target_redshift.merge_pruning import Bound
from target_redshift.types import Column, ddl_type

# Names and texts within SQL


def quoted(*parts: str) -> str:
    """Quote a name with double quotes: `quoted("s", "t")` is `"s"."t"`. A NUL in it is an error."""
    return ".".join('"{}"'.format(_checked(part).replace('"', '""')) for part in parts)


def literal(text: str) -> str:
    """Quote a text with single quotes; Redshift takes a backslash in it as an escape. A NUL in it is an error."""
    return "'{}'".format(_checked(text).replace("\\", "\\\\").replace("'", "''"))


def _checked(text: str) -> str:
    if "\0" in text:
        raise SchemaError(f"{text!r} holds a NUL, which Redshift takes in no name and no text; remove it")
    return text


def listed(names: Iterable[str]) -> str:
    """Names in double quotes, with commas between them."""
    return ", ".join(quoted(n) for n in names)


# Transactions and session settings

BEGIN, COMMIT, ROLLBACK = "BEGIN", "COMMIT", "ROLLBACK"
SET_UTC = "SET timezone TO 'UTC'"
SESSION_ID = "SELECT pg_backend_pid()"


def set_query_group(group: str) -> str:
    """Set the query group of a session."""
    return f"SET query_group TO {literal(group)}"


# The catalog: schemas, tables, columns

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


def count_rows(table: str) -> str:
    """Return a query for the number of rows."""
    return f"SELECT COUNT(*) FROM {table}"


# Creating, changing, describing and granting tables


def create_schema(schema: str) -> str:
    """Create a schema, unless it exists."""
    return f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"


def create_table(
    table: str, columns: Sequence[Column], *, dist_key: str | None = None, sort_keys: Sequence[str] = ()
) -> str:
    """Create a table by its quoted name; without a dist key or sort keys, and of encodings, Redshift chooses."""
    dist = f" DISTSTYLE KEY DISTKEY ({quoted(dist_key)})" if dist_key else ""
    sort = f" COMPOUND SORTKEY ({listed(sort_keys)})" if sort_keys else ""
    defined = ", ".join(f"{quoted(c.name)} {ddl_type(c)}" for c in columns)
    return f"CREATE TABLE {table} ({defined}){dist}{sort}"


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


# COPY, and the queries of its load errors

NULL_TEXT = "@_sdc_null@"
"""Text of a null in CSV; an empty field is ''."""
_CODECS = {None: "", "gzip": " GZIP", "bzip2": " BZIP2", "zstd": " ZSTD"}
_ROLE = re.compile(r"\bIAM_ROLE '([^'\\]*)'")
_SECRET = re.compile(r"(CREDENTIALS\s+)'(?:[^'\\]|''|\\.)*'", re.IGNORECASE | re.DOTALL)


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


def copy_parquet(
    table: str, manifest: str, access: Access, *, nested: bool = False, options: Sequence[str] = ()
) -> str:
    """COPY Parquet files into a table whose columns are theirs, in order; `nested` if there are structs or lists.

    The entries of the manifest have `meta.content_length`. Of the `options` it takes STATUPDATE alone. SERIALIZETOJSON
    is a parameter of columnar formats too [copy_json, read 2026-07], though not in their own list; AWS's library
    awswrangler sends it together with MANIFEST, in this order.
    """
    serialized = " SERIALIZETOJSON" if nested else ""
    source = f"FROM {literal(manifest)} {access.clause}"
    statistics = next((option for option in options if option.startswith("STATUPDATE")), "STATUPDATE OFF")
    return f"COPY {table} {source} FORMAT AS PARQUET{serialized} MANIFEST {statistics}"


def copy_json(
    table: str,
    manifest: str,
    access: Access,
    *,
    compression: str | None = "gzip",
    ignore_case: bool = False,
    options: Sequence[str] = (),
) -> str:
    """COPY JSON Lines into a table whose columns are named as their keys, with `ignore_case` but for case."""
    keys = literal("auto ignorecase" if ignore_case else "auto")
    text = _text(compression, options)
    return f"COPY {table} FROM {literal(manifest)} {access.clause} FORMAT AS JSON {keys}{text}"


def copy_csv(
    table: str, manifest: str, access: Access, *, compression: str | None = "gzip", options: Sequence[str] = ()
) -> str:
    """COPY CSV without a header, in which `NULL_TEXT` is null; the arguments are those of `copy_json`."""
    null, text = f" NULL AS {literal(NULL_TEXT)}", _text(compression, options)
    return f"COPY {table} FROM {literal(manifest)} {access.clause} FORMAT AS CSV{null}{text}"


def _text(compression: str | None, options: Sequence[str]) -> str:
    by_name = {option.partition(" ")[0]: option for option in ("COMPUPDATE OFF", "STATUPDATE OFF", *options)}
    return f"{_CODECS[compression]} MANIFEST DATEFORMAT 'auto' TIMEFORMAT 'auto' {' '.join(by_name.values())}"


def role_of(text: str) -> str | None:
    """Return the role that a COPY reads with; None if it has keys, or is no COPY."""
    match = _ROLE.search(text) if text.startswith("COPY ") else None
    return match[1] if match else None


def masked(text: str) -> str:
    """Return the text of a statement without its secrets, for logs and messages."""
    return _SECRET.sub(r"\1'***'", text)


COPIED_ROWS = "SELECT pg_last_copy_count()"
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


# Staged rows: queries of them, INSERT, DELETE and MERGE

ROW = "_sdc_row"
"""Column of a query that numbers the rows of a key, the last one first."""
SOURCE = "_sdc_source"
"""What a query calls the table that it takes rows from; no stream's table is named so."""
Staged = Mapping[str, Sequence[StagingColumn]]
"""Staging tables by quoted name, and their columns."""


def longest_texts(staging: str, columns: Sequence[str]) -> str:
    """Return a query for the bytes of the longest text in each of some columns; null where there is none."""
    return f"SELECT {', '.join(f'MAX(OCTET_LENGTH({quoted(c)}))' for c in columns)} FROM {staging}"


def key_facts(staging: str, keys: Sequence[str], *, bounded: Sequence[str] = (), deleted: str | None = None) -> str:
    """Return a query for the number of rows with a null in each of some columns, and further facts.

    These are the least and the greatest value of each `bounded` column, as texts, and how many rows have a value in
    column `deleted`.
    """
    asked = [f"COUNT(*) - COUNT({quoted(k)})" for k in keys]
    asked += [f"CAST({word}({quoted(k)}) AS VARCHAR(64))" for k in bounded for word in ("MIN", "MAX")]
    asked += [f"COUNT({quoted(deleted)})"] if deleted else []
    return f"SELECT {', '.join(asked)} FROM {staging}"


def duplicate_key(staged: Staged, columns: Sequence[Column], keys: Sequence[str]) -> str:
    """Return a query for a row if two staged rows have the same key."""
    rows = _rows(staged, [c for c in columns if c.name in keys])
    return f"SELECT 1 FROM ({rows}) AS s GROUP BY {listed(keys)} HAVING COUNT(*) > 1 LIMIT 1"


def insert(table: str, staging: str, staged: Sequence[StagingColumn], columns: Sequence[Column]) -> str:
    """Add the staged rows to a table, in its own types; columns that were not staged are null."""
    return f"INSERT INTO {table} ({listed([c.name for c in columns])}) SELECT {_values(staged, columns)} FROM {staging}"


def create_merged(
    name: str, staged: Staged, columns: Sequence[Column], keys: Sequence[str], *, rank: str, ordered: bool
) -> str:
    """Create a temporary table of the staged rows in the table's own types, for `merge`, which takes no query.

    If `ordered`, of several rows with a key keep the one of the greatest rank, of these the last one by `ORDER`, which
    all staging tables have; else there are no such rows.
    """
    names = listed([c.name for c in columns])
    if not ordered:
        return f"CREATE TEMP TABLE {name} AS {_rows(staged, columns)}"
    last = f"{quoted(rank)} DESC NULLS LAST, {quoted(ORDER)} DESC"
    numbered = f"ROW_NUMBER() OVER (PARTITION BY {listed(keys)} ORDER BY {last}) AS {quoted(ROW)}"
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

    The names of the schema and the table are not quoted, that of the source is, which has no two rows of a key; keys
    are never null. Columns `emptied` become null in rows that were there; `bounds` hold the rows of the table with such
    keys.
    """
    names = [c.name for c in columns]
    matches = _matches(table, SOURCE, keys, bounds)
    set_to = {n: f"{SOURCE}.{quoted(n)}" for n in names if n not in keys} | dict.fromkeys(emptied, "NULL")
    updates = ", ".join(f"{quoted(n)} = {value}" for n, value in set_to.items())
    values = ", ".join(f"{SOURCE}.{quoted(n)}" for n in names)
    return (
        f"MERGE INTO {quoted(schema, table)} USING {source} AS {SOURCE} ON {matches} "
        f"WHEN MATCHED THEN UPDATE SET {updates} WHEN NOT MATCHED THEN INSERT ({listed(names)}) VALUES ({values})"
    )


def delete_matching(
    schema: str,
    table: str,
    source: str,
    keys: Sequence[str],
    *,
    bounds: Sequence[Bound] = (),
    deleted: str,
) -> str:
    """Remove the rows whose keys another table has in rows that mark them as deleted, by a value in column `deleted`.

    Arguments are as those of `merge`.
    """
    matches = f"{_matches(table, source, keys, bounds)} AND {source}.{quoted(deleted)} IS NOT NULL"
    return f"DELETE FROM {quoted(schema, table)} USING {source} WHERE {matches}"


def delete_superseded(
    schema: str, table: str, source: str, keys: Sequence[str], *, rank: str, bounds: Sequence[Bound] = ()
) -> str:
    """Remove the rows of a source whose keys a table has with a greater rank, which begins with the same word.

    Ranks of other readings of the same object have no order; see `singer_arrow.batch.message`. Arguments are as those
    of `merge`.
    """
    old, new = quoted(table, rank), f"{source}.{quoted(rank)}"
    objects = (f"REGEXP_REPLACE({of}, {literal(PLACE)}, '')" for of in (old, new))
    readings = (f"LEFT(RIGHT({of}, {READING[0]}), {READING[1]})" for of in (old, new))
    newer = f"{old} > {new} AND SPLIT_PART({old}, ' ', 1) = SPLIT_PART({new}, ' ', 1)"
    newer += f" AND ({' <> '.join(objects)} OR {' = '.join(readings)})"
    return (
        f"DELETE FROM {source} USING {quoted(schema, table)} WHERE {_matches(table, source, keys, bounds)} AND {newer}"
    )


def delete_marked_rows(source: str, deleted: str) -> str:
    """Remove the rows whose value in a column marks their keys as deleted."""
    return f"DELETE FROM {source} WHERE {quoted(deleted)} IS NOT NULL"


def insert_all(table: str, source: str, columns: Sequence[Column]) -> str:
    """Add all rows of another table that has the same columns."""
    names = listed([c.name for c in columns])
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


def _matches(table: str, source: str, keys: Sequence[str], bounds: Sequence[Bound]) -> str:
    """Return a query for the rows of a table, not quoted, that have the keys of a source."""
    met = [f"{quoted(table, k)} = {source}.{quoted(k)}" for k in keys]
    for bound in bounds:
        low, high = ((text if bound.is_number else literal(text)) for text in (bound.low, bound.high))
        met.append(f"{quoted(table, bound.column)} BETWEEN {low} AND {high}")
    return " AND ".join(met)


def _rows(staged: Staged, columns: Sequence[Column], *, ordered: bool = False) -> str:
    """Return a query for a query for the rows of all staging tables, in the table's own types."""
    order = f", {quoted(ORDER)}" if ordered else ""
    parts = [f"SELECT {_values(have, columns, named=True)}{order} FROM {name}" for name, have in staged.items()]
    return " UNION ALL ".join(parts)


def _values(staged: Sequence[StagingColumn], columns: Sequence[Column], *, named: bool = False) -> str:
    have = {c.column.name: c for c in staged if c.column}
    values = [_changed(have[c.name], c) if c.name in have else f"CAST(NULL AS {ddl_type(c)})" for c in columns]
    for place, ranked in enumerate(have.get(c.name) for c in columns):
        if ranked is not None and ranked.change is Change.RANK:
            values[place] = _rank(ranked, [c for c in staged if c.column])
    if not named:
        return ", ".join(values)
    return ", ".join(f"{v} AS {quoted(c.name)}" for v, c in zip(values, columns, strict=True))


def _rank(staged: StagingColumn, columns: Sequence[StagingColumn]) -> str:
    """Return the rank of a row of tap-s3-files, as `tap_s3_files.plan_model.rank` writes it."""
    of = {c.column.source: _changed(c, c.column) for c in columns if c.column}
    modified, bucket, file = (f"({of[name]})" for name in OBJECT_COLUMNS)
    before, behind = (staged.constant or "").split("\n")
    moment = f"TO_CHAR({modified} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    return f"{literal(before)} || {moment} || ' ' || {bucket} || '/' || {file} || {literal(behind)}"


def _changed(staged: StagingColumn, column: Column) -> str:
    value = quoted(staged.name) if staged.constant is None else literal(staged.constant)
    match staged.change:
        case Change.CAST:
            return f"CAST({value} AS {ddl_type(column)})"
        case Change.UTC if staged.constant is not None:
            return f"CAST({value} AS {staged.type}) AT TIME ZONE 'UTC'"
        case Change.UTC:
            return f"{value} AT TIME ZONE 'UTC'"
        case Change.JSON:
            return f"JSON_PARSE({value})"
        case Change.BASE64:
            return f"TO_VARBYTE({value}, 'base64')"
        case Change.NONE | Change.RANK:
            return value


# The table `_sdc_batches`


def create_ledger(ledger: str) -> str:
    """Create the ledger, unless it exists."""
    return (
        f'CREATE TABLE IF NOT EXISTS {ledger} ("batch_id" VARCHAR(1024) NOT NULL, "stream" VARCHAR(1024) NOT NULL, '
        '"rows" BIGINT, "loaded_at" TIMESTAMP NOT NULL) COMPOUND SORTKEY ("loaded_at")'
    )


def lock(table: str) -> str:
    """Lock a table until the transaction ends; the snapshot is taken after the lock."""
    return f"LOCK TABLE {table}"


def ledger_extent(ledger: str, prefixes: Sequence[str], table_prefix: str) -> str:
    """Return a query for the times of the oldest and the newest entry of stream %s, and the one of its table.

    The ids of the former lack the prefixes, that of the latter has `table_prefix`; each is null if there is none.
    """
    loaded = f'CASE WHEN {_lacks(*prefixes)} THEN "loaded_at" END'
    table = f'CASE WHEN NOT {_lacks(table_prefix)} THEN "batch_id" END'
    return f'SELECT MIN({loaded}), MAX({loaded}), MAX({table}) FROM {ledger} WHERE "stream" = %s'


def count_entered(ledger: str, prefix: str) -> str:
    """Return a query for the rows of all batches of stream %s; entries that begin with a prefix are none of batches."""
    return f'SELECT SUM("rows") FROM {ledger} WHERE "stream" = %s AND {_lacks(prefix)}'


def ledger_entries_of(ledger: str, count: int) -> str:
    """Return a query for the entries of stream %s for `count` batches %s, the newest last."""
    ids = ", ".join(["%s"] * count)
    found = f'SELECT "batch_id", "loaded_at", "rows" FROM {ledger} WHERE "stream" = %s AND "batch_id" IN ({ids})'
    return f'{found} ORDER BY "loaded_at"'


def ledger_entries_from(ledger: str, prefixes: Sequence[str], most: int) -> str:
    """Return a query for the first `most` entries of stream %s from %s on whose ids lack some prefixes."""
    return (
        f'SELECT "batch_id", "loaded_at", "rows" FROM {ledger} WHERE "stream" = %s AND "loaded_at" >= %s '
        f'AND {_lacks(*prefixes)} ORDER BY "loaded_at" LIMIT {most:d}'
    )


def void_entry(ledger: str, void: str) -> str:
    """Return a query for a row if stream %s has the entry of the last batch %s of a load as a void one."""
    return f'SELECT 1 FROM {ledger} WHERE "stream" = %s AND NOT {_lacks(void)} AND {_part(LAST_BATCH)} = %s LIMIT 1'


def last_entry_from(ledger: str, last: str) -> str:
    """Return a query for a row if stream %s has the entry of a last batch of plan log %s, at place %s or behind."""
    found = f'SELECT 1 FROM {ledger} WHERE "stream" = %s AND NOT {_lacks(last)}'
    return f"{found} AND {_part(2)} = %s AND {_part(3)} >= %s LIMIT 1"


def log_entries(ledger: str, prefix: str) -> str:
    """Return a query for the entries of stream %s that begin with a prefix, the oldest first."""
    found = f'SELECT "batch_id", "loaded_at" FROM {ledger} WHERE "stream" = %s AND NOT {_lacks(prefix)}'
    return f'{found} ORDER BY "loaded_at"'


def _part(number: int) -> str:
    """Return a part of an entry of the last batch of a load: see `singer_arrow.load.method.LAST`."""
    return f"""SPLIT_PART("batch_id", ' ', {number:d})"""


def _lacks(*prefixes: str) -> str:
    return " AND ".join(f'LEFT("batch_id", {len(prefix):d}) <> {literal(prefix)}' for prefix in prefixes)


def add_ledger_entries(ledger: str, count: int) -> str:
    """Write `count` entries: batch %s, stream %s, rows %s, and the time at which the transaction began."""
    values = ", ".join(["(%s, %s, %s, SYSDATE)"] * count)
    return f'INSERT INTO {ledger} ("batch_id", "stream", "rows", "loaded_at") VALUES {values}'


def delete_ledger_entries(ledger: str, table_prefix: str) -> str:
    """Remove the entries of stream %s that are older than %s, except that of its table."""
    return f'DELETE FROM {ledger} WHERE "stream" = %s AND {_lacks(table_prefix)} AND "loaded_at" < %s'


def delete_ledger_marks(ledger: str, prefix: str, table_prefix: str) -> str:
    """Remove the entries of stream %s that begin with a prefix and are older than %s, except that of its table."""
    return (
        f'DELETE FROM {ledger} WHERE "stream" = %s AND NOT {_lacks(prefix)} AND {_lacks(table_prefix)} '
        'AND "loaded_at" < %s'
    )


def delete_table_mark(ledger: str, table_prefix: str) -> str:
    """Remove the entry of the table of stream %s."""
    return f'DELETE FROM {ledger} WHERE "stream" = %s AND NOT {_lacks(table_prefix)}'


def clear_ledger(ledger: str, last: str, void: str) -> str:
    """Remove all entries of stream %s but those of the last batches of loads; void ones stay too."""
    return f'DELETE FROM {ledger} WHERE "stream" = %s AND {_lacks(last, void)}'


def void_last_entries(ledger: str, last: str, void: str) -> str:
    """Make void the entries of stream %s of the last batches of loads, by another prefix."""
    id_of_void = f'{literal(void)} || SUBSTRING("batch_id", {len(last) + 1:d})'
    return f'UPDATE {ledger} SET "batch_id" = {id_of_void} WHERE "stream" = %s AND NOT {_lacks(last)}'


def delete_last_entries(ledger: str, last: str, count: int, kept: int) -> str:
    """Remove entries of last batches of stream %s that no STATE comes after any more.

    These are the ones of `count` batches %s, and of those before the STATEs (of stream %s) of later runs, except `kept`
    ones %s.
    """
    of_stream = f'"stream" = %s AND NOT {_lacks(last)}'
    before = f"{_part(LAST_BATCH)} IN (SELECT {_part(BATCH_BEFORE)} FROM {ledger} WHERE {of_stream})"
    before += f" AND {_part(LAST_BATCH)} NOT IN ({', '.join(['%s'] * kept)})" if kept else ""
    passed = f"{_part(LAST_BATCH)} IN ({', '.join(['%s'] * count)}) OR " if count else ""
    return f"DELETE FROM {ledger} WHERE {of_stream} AND ({passed}{before})"


def delete_old_entries(ledger: str, prefixes: Sequence[str], last: str, count: int) -> str:
    """Remove the entries of `count` streams %s that are older than %s, of them again %s.

    Entries with some prefixes stay, and those of batches that have an entry as the last one of a load.
    """
    streams = ", ".join(["%s"] * count)
    needed = f'SELECT {_part(LAST_BATCH)} FROM {ledger} WHERE "stream" IN ({streams}) AND NOT {_lacks(last)}'
    return (
        f'DELETE FROM {ledger} WHERE "stream" IN ({streams}) AND {_lacks(*prefixes)} AND "loaded_at" < %s '
        f'AND "batch_id" NOT IN ({needed})'
    )


# The table `_sdc_rejected`


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
