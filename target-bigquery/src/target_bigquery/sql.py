"""Every SQL text that the target sends. Pure; names go in quoted, values as parameters, bounds as literals."""

# ruff: noqa: S608 - text is put together here and nowhere else, from quoted names alone

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from singer_arrow.batch.message import PLACE, READING
from singer_arrow.load.convert import ORDER
from singer_arrow.load.method import BATCH_BEFORE, LAST, LAST_BATCH, LOG, OF_LOG, PAGE
from target_bigquery.types import Column

MOST_BYTES = 1_000_000
"""Of the UTF-8 text of a query: BigQuery takes 1 MB, or 1,024k characters, and values of parameters do not count
(https://cloud.google.com/bigquery/quotas#query_jobs, read 2026-08-22)."""


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """The ranges of a column that hold all values which a MERGE looks for: their ends, as SQL literals."""

    column: str
    spans: tuple[tuple[str, str], ...]


def quoted(*parts: str) -> str:
    """Quote a name with backticks: `quoted("p", "d", "t")` is `` `p`.`d`.`t` ``."""
    return ".".join(f"`{part.replace(chr(92), chr(92) * 2).replace('`', chr(92) + '`')}`" for part in parts)


def count_rows(table: str, filtered_by: str | None = None) -> str:
    """Return a query for the number of rows; without a condition BigQuery answers from metadata and bills nothing.

    `filtered_by`, here and below: the column by which each query of the table must choose partitions, if that is so; it
    is read then.
    """
    return f"SELECT COUNT(*) AS `rows` FROM {table}{_all_partitions(' WHERE ', filtered_by)}"


def _all_partitions(word: str, column: str | None, of: str = "") -> str:
    """Return a condition that all rows meet, and that BigQuery accepts as a filter on the partitioning column, if any.

    It follows the word.
    """
    return f"{word}({of}{quoted(column)} IS NULL OR {of}{quoted(column)} IS NOT NULL)" if column else ""


_ENTRIES = "SELECT batch_id, job_id, `rows`, started_at FROM {ledger} WHERE stream = @stream AND "
LEDGER_ENTRIES_OF = f"{_ENTRIES}batch_id IN UNNEST(@ids) ORDER BY started_at"
"""The entries of @stream for the batches @ids; `{ledger}`, here and below: the quoted name of the ledger."""
LEDGER_ENTRIES_BETWEEN = (
    f"{_ENTRIES}STARTS_WITH(job_id, @prefix) AND NOT STARTS_WITH(batch_id, '{LAST}') "
    f"AND started_at BETWEEN @first AND @last ORDER BY started_at LIMIT {PAGE:d}"
)
"""The first entries of @stream from @first to @last for the table of @prefix."""
LEDGER_LASTS_FROM = (
    f"{_ENTRIES}STARTS_WITH(batch_id, CONCAT('{LAST}', @log, ' ')) "
    "AND SPLIT(batch_id, ' ')[SAFE_OFFSET(2)] >= @place ORDER BY started_at DESC"
)
"""The entries of @stream of last batches of plan log @log, at @place in it or behind."""
LEDGER_LOGS = (
    f"{_ENTRIES}STARTS_WITH(batch_id, '{OF_LOG}') AND STARTS_WITH(job_id, @prefix) AND started_at >= @since "
    "ORDER BY started_at"
)
"""The entries of @stream since @since of the objects of plan logs for the table of @prefix."""
LEDGER_ENTRIES_OF_JOB = f"{_ENTRIES}started_at = @at AND job_id = @job"
"""The entries of @stream for @job, which were written together at @at."""
HAS_LEDGER_ENTRIES = (
    "SELECT 1 AS found FROM {ledger} WHERE stream = @stream AND batch_id != '' AND started_at >= @since "
    "AND STARTS_WITH(job_id, @prefix) LIMIT 1"
)
"""A row if @stream has entries of batches since @since for the table of @prefix."""
COUNT_ENTERED = (
    "SELECT SUM(entered) AS entered FROM (SELECT MAX(`rows`) AS entered FROM {ledger} WHERE stream = @stream "
    "AND batch_id != '' AND started_at >= @since AND STARTS_WITH(job_id, @prefix) GROUP BY batch_id)"
)
"""The rows of all batches of @stream since @since for the table of @prefix, also of those whose job failed."""
FORGET_ENTRIES = "DELETE FROM {ledger} WHERE job_id = '{job}'"
"""Take the entries of a job away; for people, who decide where the target cannot."""
RENAME_ENTRIES = "UPDATE {ledger} SET job_id = '{now}' WHERE job_id = '{job}'"
"""Give the entries of a job another one's id; for people."""


_LAST_BATCH, _BEFORE = (f"SPLIT(batch_id, ' ')[SAFE_OFFSET({part - 1:d})]" for part in (LAST_BATCH, BATCH_BEFORE))
"""The batch of an entry of the last batch of a load, and the one before the STATE of that run."""
_LASTS = f"FROM {{ledger}} WHERE stream IN UNNEST(@streams) AND STARTS_WITH(batch_id, '{LAST}')"
_PASSED = (
    f"({_LAST_BATCH} IN UNNEST(@passed) OR ({_LAST_BATCH} IN (SELECT IFNULL({_BEFORE}, '') {_LASTS}) "
    f"AND {_LAST_BATCH} NOT IN UNNEST(@kept)))"
)
DELETE_LEDGER_ENTRIES = (
    "DELETE FROM {ledger} WHERE stream IN UNNEST(@streams) AND SUBSTR(job_id, 1, {length:d}) IN UNNEST(@prefixes) "
    f"AND ((STARTS_WITH(batch_id, '{LAST}') AND {_PASSED}) OR (NOT STARTS_WITH(batch_id, '{LAST}') "
    f"AND batch_id != '' AND NOT STARTS_WITH(batch_id, '{LOG}') "
    "AND started_at < TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL {days:d} DAY) "
    f"AND batch_id NOT IN (SELECT IFNULL({_LAST_BATCH}, '') {_LASTS} AND NOT {_PASSED})))"
)
"""Remove the entries of @streams that are older than some days, of jobs whose ids begin as one of @prefixes, each of a
length. The marks of tables and the entries of plan logs stay; so do those of last batches that a STATE may come after,
and of these batches: not of those @passed, nor of those before the STATEs of later runs, except @kept."""


def add_ledger_entries(count: int, commits: int = 0) -> str:
    """Write `count` entries of @stream and @job: @batch_0, @rows_0, @batch_1, ...

    With them `commits` ones of jobs and times of their own: @settled_batch_0, @settled_job_0, @settled_rows_0,
    @settled_at_0, ...
    """
    values = [f"(@batch_{i}, @stream, @job, @rows_{i}, CURRENT_TIMESTAMP())" for i in range(count)]
    of_one = "(@settled_batch_{0}, @stream, @settled_job_{0}, @settled_rows_{0}, @settled_at_{0})"
    values += [of_one.format(i) for i in range(commits)]
    return f"INSERT INTO {{ledger}} (batch_id, stream, job_id, `rows`, started_at) VALUES {', '.join(values)}"


def merge(
    table: str,
    staging: str,
    columns: Sequence[Column],
    keys: Sequence[str],
    *,
    rank: str,
    emptied: Sequence[str] = (),
    bounds: Sequence[ColumnRanges] = (),
    deleted: str | None = None,
    filtered_by: str | None = None,
) -> str:
    """Bring the rows of a staging table into a table, of each key the one of the greatest rank, of these the last.

    A row of the table stays where its rank is greater, and of the same kind: begins with the same word, and is not of
    another reading of the same object; see `singer_arrow.batch.message`. The names of both tables are quoted; the
    staging table has the columns and `ORDER`; keys are never null. Columns `emptied` become null in rows that were
    there; `bounds` hold the rows of the table that have the key of a staged row; a value in column `deleted` marks the
    row of the key as deleted.

    Each name is written four times, with little around it: 10,000 columns fit if their names have 20 bytes.
    """
    names = [quoted(c.name) for c in columns]
    kinds = {c.name: c.kind for c in columns}
    partition = ", ".join(f"CAST({quoted(k)} AS STRING)" if kinds[k] == "FLOAT" else quoted(k) for k in keys)
    conditions = [*(f"t.{quoted(k)} = s.{quoted(k)}" for k in keys), *map(_within, bounds)]
    if filtered_by and filtered_by not in (bound.column for bound in bounds):
        conditions.append(_all_partitions("", filtered_by, "t."))
    matches = " AND ".join(conditions)
    updates = [f"{quoted(c.name)}=s.{quoted(c.name)}" for c in columns if c.name not in keys]
    updates += [f"{quoted(name)}=NULL" for name in emptied]
    old, new = (f"{of}.{quoted(rank)}" for of in "ts")
    objects = (f"REGEXP_REPLACE({of}, '{PLACE}', '')" for of in (old, new))
    readings = (f"LEFT(RIGHT({of}, {READING[0]}), {READING[1]})" for of in (old, new))
    matched = (
        f"WHEN MATCHED AND ({old} > {new} AND SPLIT({old}, ' ')[OFFSET(0)] = SPLIT({new}, ' ')[OFFSET(0)] "
        f"AND ({' <> '.join(objects)} OR {' = '.join(readings)})) IS NOT TRUE"
    )
    update = f"{matched} THEN UPDATE SET {','.join(updates)} "
    delete = f"{matched} AND s.{quoted(deleted)} IS NOT NULL THEN DELETE " if deleted else ""
    missing = f"WHEN NOT MATCHED AND s.{quoted(deleted)} IS NULL" if deleted else "WHEN NOT MATCHED"
    last = f"{quoted(rank)} DESC, {quoted(ORDER)} DESC"
    return (
        f"MERGE {table} AS t USING (SELECT * EXCEPT ({quoted(ORDER)}) FROM {staging} WHERE TRUE "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {last}) = 1) AS s "
        f"ON {matches} {delete}{update}"
        f"{missing} THEN INSERT ({','.join(names)}) VALUES ({','.join(f's.{n}' for n in names)})"
    )


def _within(bound: ColumnRanges) -> str:
    """Return a condition of constants alone, by which BigQuery skips partitions and blocks."""
    column = f"t.{quoted(bound.column)}"
    terms = [f"{column} = {low}" if low == high else f"{column} BETWEEN {low} AND {high}" for low, high in bound.spans]
    return terms[0] if len(terms) == 1 else f"({' OR '.join(terms)})"


def replace_rows(table: str, staging: str, names: Sequence[str]) -> str:
    """Put all rows of a staging table in the place of a table's, which stays the same table; readers see it at once."""
    columns = ",".join(map(quoted, names))
    return (
        f"BEGIN TRANSACTION; TRUNCATE TABLE {table}; "
        f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging}; COMMIT TRANSACTION"
    )


def replace_streamed_rows(table: str, staging: str, names: Sequence[str], filtered_by: str | None = None) -> str:
    """Do what `replace_rows` does, also with rows that came by the Storage Write API within the last 30 minutes.

    They can be changed by DELETE, UPDATE and MERGE, but in no transaction
    (https://cloud.google.com/bigquery/docs/write-api-grpc, read 2026-08-22). BigQuery bills both tables.
    """
    columns = ",".join(map(quoted, names))
    return (
        f"MERGE {table} AS t USING {staging} AS s ON FALSE "
        f"WHEN NOT MATCHED BY SOURCE{_all_partitions(' AND ', filtered_by, 't.')} THEN DELETE "
        f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({','.join(f's.{quoted(n)}' for n in names)})"
    )


def delete_versions(table: str, version_column: str, filtered_by: str | None = None) -> str:
    """Remove the rows of versions before @version; rows without a version stay."""
    return f"DELETE FROM {table} WHERE {quoted(version_column)} < @version{_all_partitions(' AND ', filtered_by)}"


def mark_versions_deleted(table: str, version_column: str, deleted_column: str, filtered_by: str | None = None) -> str:
    """Give the rows of versions before @version the time of their deletion, if they have none."""
    deleted = quoted(deleted_column)
    return (
        f"UPDATE {table} SET {deleted} = CURRENT_TIMESTAMP() "
        f"WHERE {quoted(version_column)} < @version AND {deleted} IS NULL{_all_partitions(' AND ', filtered_by)}"
    )


def add_rejected(table: str, staging: str) -> str:
    """Add rejected rows, except those that the table has already."""
    names = ("stream", "batch_id", "file", "position", "column_name", "reason", "record", "part")
    keys = ("stream", "batch_id", "file", "position", "part")
    listed = ", ".join(quoted(n) for n in names)
    return (
        f"MERGE {table} AS t USING (SELECT {listed} FROM {staging}) AS s "
        f"ON {' AND '.join(f't.{quoted(k)} = s.{quoted(k)}' for k in keys)} "
        f"WHEN NOT MATCHED THEN INSERT ({listed}, `rejected_at`) "
        f"VALUES ({', '.join(f's.{quoted(n)}' for n in names)}, CURRENT_TIMESTAMP())"
    )


def widen_column(table: str, column: str, kind: str) -> str:
    """Give a column another type, into which BigQuery coerces the values that it has."""
    return f"ALTER TABLE {table} ALTER COLUMN {quoted(column)} SET DATA TYPE {kind}"


NOW = "SELECT CURRENT_TIMESTAMP() AS now"
NOTHING = "SELECT 1"
"""Query of a job that does nothing, at no cost."""
CLAIM = re.compile(r"SELECT '(projects/[\w./:-]+)' AS write_stream")
"""What `claim` returns; its group is the write stream."""


def claim(write_stream: str) -> str:
    """Return the query of a job that does nothing but name a write stream."""
    text = f"SELECT '{write_stream}' AS write_stream"
    assert CLAIM.fullmatch(text)
    return text
