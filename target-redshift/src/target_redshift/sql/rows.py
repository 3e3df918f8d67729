"""Rows: what is asked about those that are staged, and how they get into their table. Pure."""

# ruff: noqa: S608 - text is put together here and in its neighbours alone, from quoted names and literals

from __future__ import annotations

from collections.abc import Mapping, Sequence

from singer_arrow.batch.message import PLACE, READING
from target_redshift.merge_pruning import Bound
from target_redshift.sql.names import listed, literal, quoted
from target_redshift.tables.staging_columns import OBJECT_COLUMNS, ORDER, Change, StagingColumn
from target_redshift.tables.types import Column, ddl_type

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
    """Return the rank of a row of tap-s3-files, as `tap_s3_files.plan.model.rank` writes it."""
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
