"""COPY in a session: finds the table, gives its rows to PostgreSQL, and records what was loaded."""

from collections.abc import Callable, Iterator

from local_cloud.redshift import copy
from local_cloud.redshift.backend import Backend
from local_cloud.redshift.cluster import Cluster
from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.sql.rewrite import named
from local_cloud.redshift.sql.statement import Copy, Settings
from local_cloud.redshift.sql.tokens import literal, quoted, sql_of, tokens

_COLUMNS = """
SELECT c.name, c.type, c.length, c.precision, c.scale, c.is_nullable, c.is_identity, c.table_id
FROM local_cloud.columns c WHERE c.table_id = to_regclass({table})::oid ORDER BY c.position
"""
_START = """
SELECT nextval('local_cloud.copy_ids'), setval('local_cloud.copy_rows', 0), local_cloud.user_id()
"""
_NOTE_ERROR = """
INSERT INTO local_cloud.load_errors (copy_id, user_id, session_id, table_id, slice, at, file, line, column_name, type,
    length, position, raw_line, raw_value, code, reason)
VALUES (%s, %s, %s, %s, 0, clock_timestamp() AT TIME ZONE 'UTC', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_NOTE_FILE = """
INSERT INTO local_cloud.load_commits (copy_id, user_id, session_id, table_id, slice, at, file, bytes, rows)
VALUES (%s, %s, %s, %s, %s, clock_timestamp() AT TIME ZONE 'UTC', %s, %s, %s)
"""


def run_copy(
    statement: Copy, backend: Backend, cluster: Cluster, settings: Settings, strike: Callable[[], None] | None
) -> tuple[str, int]:
    """Run a COPY; return the table's name and the number of rows. `strike` is called after half of the first rows."""
    command = copy.parse(statement.text)
    table = sql_of(named(tokens(command.table), settings))
    columns, table_id = _columns(table, command.table, backend)
    copy_id, _, user_id = (_number(value) for value in backend.query(_START)[0])
    plan = copy.run(command, columns, slices=cluster.slices)
    names = ", ".join(quoted(cluster.names.short(name)) for name in plan.names)
    chunks = plan.chunks if strike is None else _struck(plan.chunks, strike)
    try:
        backend.copy_in(f"COPY {table} ({names}) FROM STDIN", chunks)
    finally:
        _note(cluster, plan, (copy_id, user_id, backend.pid, table_id))
    backend.query(f"SELECT setval('local_cloud.copy_rows', {plan.rows})")
    return command.table, plan.rows


def _columns(table: str, shown: str, backend: Backend) -> tuple[list[copy.Column], int]:
    rows = backend.query(_COLUMNS.format(table=literal(table)))
    if not rows:
        raise RedshiftError(f"Cannot COPY into nonexistent table {shown}", "42P01")
    columns = [
        copy.Column(
            name or "",
            kind or "",
            length=_number(length),
            precision=_number(precision),
            scale=_number(scale),
            nullable=nullable == "t",
            identity=identity == "t",
        )
        for name, kind, length, precision, scale, nullable, identity, _ in rows
    ]
    return columns, int(rows[0][-1] or 0)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _struck(chunks: Iterator[bytes], strike: Callable[[], None]) -> Iterator[bytes]:
    """Yield the rows, and call `strike` after half of the first chunk."""
    first = next(chunks, b"")
    half = first.rfind(b"\n", 0, len(first) // 2) + 1
    yield first[:half]
    strike()
    yield first[half:]
    yield from chunks


def _note(cluster: Cluster, plan: copy.CopyPlan, whose: tuple[int | None, ...]) -> None:
    """Record what was loaded and what was wrong, independent of the session's transaction."""
    errors = [
        (*whose, e.file, e.line, e.column, e.type, e.length, e.position, e.raw_line, e.raw_value, e.code, e.reason)
        for e in plan.errors
    ]
    cluster.many(_NOTE_ERROR, [tuple(_storable(value) for value in row) for row in errors])
    cluster.many(_NOTE_FILE, [(*whose, file.slice, file.url, file.bytes, file.rows) for file in plan.files])


def _storable(value: object) -> object:
    """Return text without the characters that PostgreSQL cannot store."""
    return value.replace("\0", "?").encode(errors="replace").decode() if isinstance(value, str) else value
