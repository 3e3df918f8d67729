"""COPY and UNLOAD in a session: rows of S3 for PostgreSQL, with a record of what was loaded, and a query's for S3."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from local_cloud.redshift import copy, wire
from local_cloud.redshift.backend import Backend
from local_cloud.redshift.cluster import Cluster
from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.sql.rewrite import named, rewrite
from local_cloud.redshift.sql.statement import Copy, Plain, Settings, Unload
from local_cloud.redshift.sql.tokens import literal, quoted, sql_of, tokens
from local_cloud.redshift.sql.unload import ResultColumn, files, rows_of

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


# UNLOAD in a session: reads the query's rows from PostgreSQL and writes them to S3.

_DENIED = "-denied"


def run_unload(command: Unload, backend: Backend, cluster: Cluster, settings: Settings) -> int:
    """Run an UNLOAD and return the number of rows."""
    found = rewrite(command.query, settings)
    if len(found) != 1 or not isinstance(found[0], Plain):
        raise RedshiftError("UNLOAD takes one query", "42601")
    sql = found[0].sql
    described, _ = backend.result(f"SELECT * FROM ({sql}) q LIMIT 0")  # noqa: S608 - the client's own query
    columns = _result_columns(described, cluster)
    _, copied = backend.result(f"COPY ({sql}) TO STDOUT")
    rows = rows_of(copied)
    _write(command, files(command, columns, rows, cluster.slices))
    return len(rows)


def _result_columns(body: bytes, cluster: Cluster) -> list[ResultColumn]:
    found, position = list[ResultColumn](), 2
    for _ in range(wire.int16(body, 0)):
        name, after = wire.split_text(body, position)
        found.append(ResultColumn(cluster.names.full(name), wire.int32(body, after + 6), wire.int32(body, after + 12)))
        position = after + 18
    return found


def _write(command: Unload, made: list[tuple[str, bytes]]) -> None:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    if command.options.get("iam_role", "").endswith(_DENIED):
        raise RedshiftError("S3ServiceException:Access Denied,Status 403,Error AccessDenied,Rid LOCAL,CanRetry 1")
    bucket, _, prefix = command.target.removeprefix("s3://").partition("/")
    client = boto3.client("s3", endpoint_url=os.environ.get("AWS_ENDPOINT_URL"))
    try:
        _make_room(client, command, bucket, prefix)
        for name, data in made:
            client.put_object(Bucket=bucket, Key=prefix + name, Body=data)
        if "manifest" in command.options:
            entries = [
                {"url": command.target + name, "meta": {"content_length": len(data)}, "mandatory": True}
                for name, data in made
            ]
            client.put_object(Bucket=bucket, Key=f"{prefix}manifest", Body=json.dumps({"entries": entries}))
    except (ClientError, BotoCoreError) as error:
        raise RedshiftError(f"S3ServiceException:{error}") from None


def _make_room(client: Any, command: Unload, bucket: str, prefix: str) -> None:
    """Check that no objects exist, or remove them if the statement asks for it."""
    if "allowoverwrite" in command.options:
        return
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [found["Key"] for page in pages for found in page.get("Contents", [])]
    if keys and "cleanpath" not in command.options:
        raise RedshiftError(
            "Specified unload destination on S3 is not empty. Consider using a different bucket / prefix, manually "
            "removing the target files in S3, or using the ALLOWOVERWRITE option."
        )
    for key in keys:
        client.delete_object(Bucket=bucket, Key=key)
