"""The ledger `_sdc_batches`: which batch was loaded into its table, so that none is loaded twice.

A batch's entry is written in the transaction that loads it. That transaction begins by locking the ledger, so whoever
comes second waits, reads what the first has committed, and leaves it out. The lock is the transaction's first
statement, because its snapshot of the ledger must be taken after it.

Entries count for the stream's present table and its present contents: those older than the table are void, and so are
all if the table is empty, which was then emptied on purpose.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from singer_arrow.singer.names import LEDGER, distinct_table_name, table_name
from target_redshift import sql
from target_redshift.answers import Table
from target_redshift.client import Redshift
from target_redshift.connection import Session
from target_redshift.names import RULES

logger = logging.getLogger("target-redshift")
MARK = "_sdc_load_"
"""Entries of loads, as against batches, begin so: by its own entry a load knows that it was committed."""
_MARKS_LAST = timedelta(days=1)
KEPT = 100_000
"""Entries of a stream that are read at once, the newest; older ones are asked for one by one."""
_AT_ONCE = 5_000
"""Entries in one statement, which takes 32,767 values."""


class StreamLedger:
    """The ledger of one stream's table; safe to use from any thread.

    Args:
        client: The schema, in which there is a ledger.
        stream: Name of the stream.
        table: Its table, as it was when the run began with it.

    Attributes:
        stream: What its entries, and those of its rows that are not loaded, call it; see `entry_name`.
    """

    def __init__(self, client: Redshift, stream: str, table: Table) -> None:
        self._client = client
        self.stream = entry_name(stream, table.name)
        self._table = table
        self._quoted = client.quoted(LEDGER)
        self._lock = threading.Lock()
        self._entries: dict[str, datetime] | None = None
        self._has_all = False

    def loaded(self, batch_id: str) -> datetime | None:
        """When the batch was loaded into the table as it is now, in UTC; None if it was not."""
        when = self.tidy().get(batch_id)
        return when if when or self._has_all else self._client.retried(lambda: self._ask(batch_id))

    def tidy(self) -> Mapping[str, datetime]:
        """The newest entries, after those that count no more were removed, once a run, and before it adds rows."""
        with self._lock:
            if self._entries is None:
                self._entries = self._client.retried(self._open)
            return self._entries

    def lock(self, session: Session) -> None:
        """Wait for whoever is publishing in this schema; the first statement of a transaction that publishes."""
        session.execute(sql.lock(self._quoted), what=f"Locking {self._client.path(LEDGER)}")

    def loaded_meanwhile(self, session: Session, batches: Collection[str]) -> dict[str, datetime]:
        """Which of the batches are loaded, and when; what is known to a transaction that has the lock is certain."""
        found: dict[str, datetime] = {}
        for ids in _chunks(batches):
            answer = session.execute(
                sql.ledger_entries_of(self._quoted, len(ids)),
                [self.stream, *ids],
                what=f"Reading {self._client.path(LEDGER)}",
            )
            found.update({str(batch): at for batch, at in answer.rows if not self._is_void(at)})
        return found

    def add(self, session: Session, batches: Mapping[str, int]) -> None:
        """Write entries, in the transaction that loads the batches.

        Args:
            session: The transaction's, which has the lock.
            batches: Number of rows by batch_id.
        """
        for ids in _chunks(batches):
            values: list[Any] = [v for batch in ids for v in (batch, self.stream, batches[batch])]
            what = f"Writing to {self._client.path(LEDGER)}"
            session.execute(sql.add_ledger_entries(self._quoted, len(ids)), values, what=what)

    def remove_marks(self, session: Session) -> None:
        """Remove the entries of loads that nobody asks for any more; in a transaction that has the lock."""
        what = f"Removing old marks from {self._client.path(LEDGER)}"
        before = session.execute(sql.NOW, what=what).value - _MARKS_LAST
        session.execute(sql.delete_ledger_marks(self._quoted, MARK), [self.stream, before], what=what)

    def clear(self, session: Session) -> None:
        """Remove all entries, in the transaction that replaces the table's contents."""
        what = f"Clearing {self._client.path(LEDGER)} of stream {self.stream!r}"
        session.execute(sql.clear_ledger(self._quoted), [self.stream], what=what)

    def _open(self) -> dict[str, datetime]:
        """Read the entries; void ones are removed, under the lock, so that nobody is publishing meanwhile."""
        entries = self._read()
        if not entries:
            return entries
        if any(self._is_void(at) for at in entries.values()) or self._client.is_empty(self._table.name):
            with self._client.session() as session:
                self._remove_void(session)
            entries = self._read()
        return entries

    def _remove_void(self, session: Session) -> None:
        what = f"Removing void entries from {self._client.path(LEDGER)}"
        with session.transaction(what):
            self.lock(session)
            table = self._client.quoted(self._table.name)
            if not session.execute(sql.has_rows(table), what=what).rows:
                path = self._client.path(self._table.name)
                logger.info("Table %s is empty; batches that were loaded before are loaded again", path)
                self.clear(session)
            elif self._table.created is not None:
                values = [self.stream, self._table.created]
                session.execute(sql.delete_ledger_entries(self._quoted), values, what=what)

    def _read(self) -> dict[str, datetime]:
        """The newest entries; void ones that are older than those stay, and count for nothing."""
        what = f"Reading {self._client.path(LEDGER)}"
        rows = self._client.query(sql.ledger_entries(self._quoted, MARK, KEPT), [self.stream], what=what).rows
        self._has_all = len(rows) < KEPT
        return {str(batch): at for batch, at in reversed(rows)}

    def _ask(self, batch_id: str) -> datetime | None:
        with self._client.session() as session:
            return self.loaded_meanwhile(session, [batch_id]).get(batch_id)

    def _is_void(self, loaded_at: datetime) -> bool:
        return self._table.created is not None and loaded_at < self._table.created


def _chunks(batches: Collection[str]) -> Iterator[list[str]]:
    ids = iter(batches)
    while chunk := list(itertools.islice(ids, _AT_ONCE)):
        yield chunk


def entry_name(stream: str, table: str) -> str:
    """What entries call a stream: by its own name; where settings gave it another table, by that one's too.

    A source may go to several tables of a schema, and what one of them has the others need not have.
    """
    own = (table_name(stream, RULES), distinct_table_name(stream, RULES))
    return stream if table in own else f"{stream} in {table}"
