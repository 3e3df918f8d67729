"""Writes the table `_sdc_rejected`: the rows that were not loaded, and why.

They are written in the transaction that loads the other rows of their batches, and replace those of earlier loads of
the same batches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from singer_arrow.load.dead_letters import BatchRejects, cut, parts_of
from singer_arrow.naming import REJECTED
from target_redshift import sql
from target_redshift.connection.client import Redshift
from target_redshift.connection.connection import Session
from target_redshift.connection.resources import AlreadyExistsError
from target_redshift.tables.types import MAX_VARCHAR

_AT_ONCE_ROWS, _AT_ONCE_BYTES = 1_000, 4 << 20
"""In one statement, which takes 32,767 values and 16 MB."""


class DeadLetterTable:
    """The table of rows that are not loaded; safe to use from any thread, and created when there is the first."""

    def __init__(self, client: Redshift) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._exists = False

    def prepare(self) -> None:
        """Make sure that there is the table; not in a transaction."""
        with self._lock:
            if not self._exists:
                what = f"Creating table {self._client.path(REJECTED)}"
                with suppress(AlreadyExistsError):
                    self._client.query(sql.create_rejected(self._client.quoted(REJECTED)), what=what)
                self._exists = True

    def write(self, session: Session, stream: str, batches: Sequence[BatchRejects]) -> None:
        """Write rows, in the transaction that loads the others."""
        table, what = self._client.quoted(REJECTED), f"Writing to {self._client.path(REJECTED)}"
        known = sorted({b.batch_id for b in batches if b.batch_id})
        if known:
            session.execute(sql.delete_rejected(table, len(known)), [stream, *known], what=what)
        for rows in row_chunks(stream, batches):
            session.execute(sql.add_rejected(table, len(rows)), [v for row in rows for v in row], what=what)


def row_chunks(stream: str, batches: Sequence[BatchRejects]) -> Iterator[list[tuple[Any, ...]]]:
    rows, size = list[tuple[Any, ...]](), 0
    for row in _rows(stream, batches):
        rows.append(row)
        size += len(row[6].encode())
        if len(rows) >= _AT_ONCE_ROWS or size >= _AT_ONCE_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _rows(stream: str, batches: Sequence[BatchRejects]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        for rejected in batch.rows:
            file, column = cut(rejected.file, 8192), cut(rejected.column, 1024)
            for number, part in enumerate(parts_of(rejected, MAX_VARCHAR), 1):
                place = (stream, batch.batch_id, file, part.position, column)
                yield (*place, cut(part.reason, 8192), part.record, number)
