"""A group of rows -> a write stream that holds all of them, and can be committed."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from datetime import UTC, datetime

from singer_arrow.errors import LoadError
from singer_arrow.load.backoff import Waiting, pauses
from target_bigquery.connection import connection
from target_bigquery.connection.connection import logger
from target_bigquery.storage_write.client import WriteApi
from target_bigquery.storage_write.error_kinds import WriteError, WriteErrorKind
from target_bigquery.storage_write.requests import PreparedRows, Sent

_HINTS = "the table was changed during this run: run again, or set load_via: load_job"


def fill(api: WriteApi, table: str, parts: Sequence[PreparedRows]) -> str:
    """Write all rows of a group to a new write stream, end it, and return its name.

    It holds all rows and no other, and waits to be committed.
    """
    waiting = Waiting(logger)
    for pause in pauses(connection.DEADLINE_SECONDS):
        try:
            return _fill_once(api, table, parts)
        except WriteError as error:
            if error.kind not in (WriteErrorKind.NEW_STREAM, WriteErrorKind.UNKNOWN_STREAM):
                raise
            if pause is None:
                msg = f"{error}; {_HINTS}"
                raise LoadError(msg) from None
            waiting.before_again(pause, error)
    raise AssertionError


def _fill_once(api: WriteApi, table: str, parts: Sequence[PreparedRows]) -> str:
    name = api.create(table)
    requests, total = list[Sent](), 0
    for part in parts:
        with part.path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for span in part.spans:
            requests.append(Sent(total, span, view))
            total += span.rows
    api.append(name, parts[0].schema, requests)  # a thread of gRPC may hold them a little longer, and then lets go
    taken = api.finalize(name)
    if taken != total:
        msg = f"Writing to table {table}: BigQuery took {taken} of {total} rows"
        raise WriteError(msg, WriteErrorKind.NEW_STREAM)
    return name


def commit(api: WriteApi, name: str) -> datetime:
    """Commit a write stream that this process has filled, and return when that was done."""
    try:
        return api.commit(name) or api.committed(name) or datetime.now(UTC)
    except WriteError as error:
        msg = f"{error}; run again"
        raise LoadError(msg) from None
