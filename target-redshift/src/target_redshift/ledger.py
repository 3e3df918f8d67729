"""The ledger `_sdc_batches`: which batch was loaded into its table, so that none is loaded twice.

A batch's entry is written in the transaction that loads it. That transaction begins by locking the ledger, so a
second run waits, reads what the first has committed, and leaves it out. The lock is the transaction's first
statement, because its snapshot of the ledger must be taken after it.

Entries count for the stream's present table and its present contents: one more entry holds when that table was made. If
the table is empty, it was emptied on purpose, and all are void. If another table has rows, the user decides.

Where a table was emptied, or its rows were replaced, the entries of the last batches (see `LAST`) stay under another
name: a STATE may come after such a batch, of a pipeline that shares the table.

Only entries of batches that a run brings are read; see `BatchLookup`.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from singer_arrow.errors import LoadError, NotFoundError
from singer_arrow.load.method import (
    LAST,
    LOG,
    MADE_ANEW,
    OF_LOG,
    PAGE,
    BatchLookup,
    KnownLog,
    Ledger,
    Proof,
    another_table,
    known_log,
)
from singer_arrow.naming import LEDGER, distinct_table_name, table_name
from target_redshift import sql
from target_redshift.client import Redshift
from target_redshift.connection import Session
from target_redshift.resources import Table
from target_redshift.types import RULES

logger = logging.getLogger("target-redshift")
MARK = "_sdc_load_"
"""Entries of loads, as against batches, begin so: by its own entry a load knows that it was committed."""
TABLE_MARK = f"{MARK}table_"
"""The entry of a stream's table begins so; the time at which it was made follows."""
VOID = "_sdc_void "
"""What the entry of a last batch, see `LAST`, begins with instead once the table was emptied."""
_MARKS_LAST = timedelta(days=1)
_AT_ONCE = 5_000  # entries in one statement, which takes 32,767 values


class _Entry(NamedTuple):
    """When a batch was loaded, and its rows."""

    loaded_at: datetime
    rows: int


class StreamLedger(Ledger):
    """The ledger of one stream's table, as it was when the run began with it; safe to use from any thread.

    `replay` is the setting: whether entries of another table count for this one; with None that is an error, with
    `merges` a warning, as no batch is left out.
    """

    def __init__(
        self, client: Redshift, stream: str, table: Table, replay: str | None = None, *, merges: bool = False
    ) -> None:
        super().__init__()
        self.client = client
        # a source may go to several tables of a schema, and what one of them has the others need not have
        own = (table_name(stream, RULES), distinct_table_name(stream, RULES))
        self.stream = stream if table.name in own else f"{stream} in {table.name}"
        self._table, self._replay, self._merges = table, replay, merges
        self._mark = f"{TABLE_MARK}{table.created:%Y%m%dT%H%M%S.%f}" if table.created else None
        self._has_mark = False
        self._quoted = client.quoted(LEDGER)
        self._lock = threading.Lock()
        self._lookup: BatchLookup[_Entry] = BatchLookup(self._find, self._following)
        self._is_checked = False

    def loaded(self, batch_id: str) -> datetime | None:
        """Return when the batch was loaded into the table as it is now, in UTC.

        None if it was not, or if `loaded_of` is to find that out for its whole group; see `BatchLookup.early`.
        """
        self.void_if_emptied()
        found = self._lookup.early(batch_id)
        return found.loaded_at if found else None

    def loaded_of(self, batches: Collection[str]) -> dict[str, datetime]:
        """Return those of the batches that were loaded into the table as it is now, and when, in UTC."""
        self.void_if_emptied()
        return {batch: found.loaded_at for batch, found in self._lookup.of(batches).items()}

    def count_entered(self) -> int:
        what, text = f"Reading {self.client.path(LEDGER)}", sql.count_entered(self._quoted, MARK)
        with self._present():
            return int(self.client.query(text, [self.stream], what=what).value or 0)

    def has_from(self, log: str, place: str) -> bool:
        self.void_if_emptied()
        what, text = f"Reading {self.client.path(LEDGER)}", sql.last_entry_from(self._quoted, LAST)
        with self._present():
            return bool(self.client.query(text, [self.stream, log, place], what=what).rows)

    def logs(self) -> list[KnownLog]:
        self.void_if_emptied()
        what, text = f"Reading {self.client.path(LEDGER)}", sql.log_entries(self._quoted, OF_LOG)
        with self._present():
            rows = self.client.query(text, [self.stream], what=what).rows
        return [known_log(entry, since) for entry, since in rows]

    def rows_of(self, batch_id: str) -> int:
        found = self._lookup.known(batch_id)
        return found.rows if found else 0

    def count_rows(self) -> int:
        name = self._table.name
        text, what = sql.count_rows(self.client.quoted(name)), f"Counting the rows of table {self.client.path(name)}"
        return int(self.client.query(text, what=what).value)

    def proof(self, batch_id: str) -> Proof:
        with self._lock:
            if not self._is_checked and self.client.retried(self._is_rebuilt):
                return Proof.REBUILT
        if self.loaded_of([batch_id]):
            return Proof.LOADED
        what, text = f"Reading {self.client.path(LEDGER)}", sql.void_entry(self._quoted, VOID)
        with self._present():
            found = self.client.query(text, [self.stream, batch_id], what=what).rows
        return Proof.EMPTIED if found else Proof.UNKNOWN

    def void_if_emptied(self) -> None:
        """Remove entries that count no more, once a run, and before it adds rows."""
        with self._lock:
            if not self._is_checked:
                self.client.retried(self._void_if_emptied)
                self._is_checked = True

    def lock(self, session: Session) -> None:
        """Wait for concurrent loads into this schema; must be the first statement of a transaction."""
        with self._present():
            session.execute(sql.lock(self._quoted), what=f"Locking {self.client.path(LEDGER)}")

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Report the ledger as dropped during this run where a statement does not find it."""
        path = self.client.path(LEDGER)
        try:
            yield
        except NotFoundError as error:
            raise LoadError(
                f"{error}. The ledger was dropped during this run, so it is not known any more which batches table "
                f"{self.client.path(self._table.name)} has: before the next run, restore {path} from a snapshot or "
                "empty the table"
            ) from None

    def loaded_meanwhile(self, session: Session, batches: Collection[str]) -> dict[str, _Entry]:
        """Which of the batches are loaded; what is known to a transaction that has the lock is certain."""
        found: dict[str, _Entry] = {}
        for ids in _chunks(batches):
            text, what = sql.ledger_entries_of(self._quoted, len(ids)), f"Reading {self.client.path(LEDGER)}"
            with self._present():
                answer = session.execute(text, [self.stream, *ids], what=what)
            found.update(_entries(answer.rows))
        return found

    def add(self, session: Session, batches: Mapping[str, int]) -> None:
        """Write entries, the number of rows by batch_id, in the transaction that loads the batches and has the lock."""
        if self._mark and not self._has_mark and any(not batch.startswith(MARK) for batch in batches):
            batches, self._has_mark = {**batches, self._mark: 0}, True
        for ids in _chunks(batches):
            values: list[Any] = [v for batch in ids for v in (batch, self.stream, batches[batch])]
            what = f"Writing to {self.client.path(LEDGER)}"
            session.execute(sql.add_ledger_entries(self._quoted, len(ids)), values, what=what)

    def remove_marks(self, session: Session) -> None:
        """Remove the entries of loads that are no longer needed; in a transaction that has the lock."""
        what = f"Removing old marks from {self.client.path(LEDGER)}"
        before = session.execute(sql.NOW, what=what).value - _MARKS_LAST
        session.execute(sql.delete_ledger_marks(self._quoted, MARK, TABLE_MARK), [self.stream, before], what=what)

    def clear(self, session: Session) -> None:
        """Void all entries, in the transaction that replaces the table's contents."""
        what = f"Clearing {self.client.path(LEDGER)} of stream {self.stream!r}"
        session.execute(sql.clear_ledger(self._quoted, LAST, VOID), [self.stream], what=what)
        session.execute(sql.void_last_entries(self._quoted, LAST, VOID), [self.stream], what=what)
        self._has_mark = False

    def _void_if_emptied(self) -> None:
        """Remove void entries, under the lock, so that no other run publishes meanwhile.

        If they are about another table, and this one has rows, `replay` decides, or it is an error.
        """
        what = f"Reading {self.client.path(LEDGER)}"
        oldest, _, mark = self._extent()
        self.has_batches, self._has_mark = oldest is not None, mark is not None and mark == self._mark
        if oldest is not None and (not self._has_mark or self.client.is_empty(self._table.name)):
            what = f"Removing void entries from {self.client.path(LEDGER)}"
            with self.client.session() as session, session.transaction(what):
                self.lock(session)
                oldest, newest, mark = self._extent(session)
                created, is_ours = self._table.created, self._is_ours(newest, mark)
                path = self.client.path(self._table.name)
                if not session.execute(sql.has_rows(self.client.quoted(self._table.name)), what=what).rows:
                    logger.info("Table %s is empty; batches that were loaded before are loaded again", path)
                    self.clear(session)
                    self.has_batches = False
                    return
                if not is_ours and self._replay is None:
                    if not self._merges:
                        raise another_table(path, self.stream)
                    logger.warning(MADE_ANEW, path, self.stream)
                if not is_ours and self._replay != "skip":
                    self.clear(session)
                elif is_ours and created is not None:
                    values = [self.stream, created]
                    session.execute(sql.delete_ledger_entries(self._quoted, TABLE_MARK), values, what=what)
                if self._mark:
                    session.execute(sql.delete_table_mark(self._quoted, TABLE_MARK), [self.stream], what=what)
                    session.execute(sql.add_ledger_entries(self._quoted, 1), [self._mark, self.stream, 0], what=what)
                    self._has_mark = True

    def _extent(self, session: Session | None = None) -> tuple[datetime | None, datetime | None, str | None]:
        """Return the times of the oldest and the newest entry, and the one of the table; each may be None."""
        what, text = f"Reading {self.client.path(LEDGER)}", sql.ledger_extent(self._quoted, (MARK, VOID), TABLE_MARK)
        with self._present():
            answer = (session.execute if session else self.client.query)(text, [self.stream], what=what)
        ((oldest, newest, mark),) = answer.rows
        return oldest, newest, mark

    def _is_ours(self, newest: datetime | None, mark: str | None) -> bool:
        """Return whether the entries are about the table as it is now."""
        return mark == self._mark or (mark is None and not self._is_void(newest))  # earlier versions wrote none

    def _is_rebuilt(self) -> bool:
        """Return whether the entries are about a former table, and this one has rows."""
        oldest, newest, mark = self._extent()
        return oldest is not None and not self._is_ours(newest, mark) and not self.client.is_empty(self._table.name)

    def _find(self, batches: Sequence[str]) -> Mapping[str, _Entry]:
        def find() -> dict[str, _Entry]:
            with self.client.session() as session:
                return self.loaded_meanwhile(session, batches)

        return self.client.retried(find) if batches else {}

    def _following(self, entry: _Entry) -> Mapping[str, _Entry]:
        """Return the entries from the time of the newest of these on, at most a page."""
        what = f"Reading {self.client.path(LEDGER)}"
        text = sql.ledger_entries_from(self._quoted, (MARK, LAST, VOID), PAGE)
        with self._present():
            rows = self.client.query(text, [self.stream, entry.loaded_at], what=what).rows
        return _entries(rows)

    def _is_void(self, loaded_at: datetime | None) -> bool:
        return loaded_at is not None and self._table.created is not None and loaded_at < self._table.created


def _entries(rows: Iterable[Sequence[Any]]) -> dict[str, _Entry]:
    return {str(batch): _Entry(at, int(count or 0)) for batch, at, count in rows}


def _chunks(batches: Collection[str]) -> Iterator[list[str]]:
    ids = iter(batches)
    while chunk := list(itertools.islice(ids, _AT_ONCE)):
        yield chunk


def remove_old(client: Redshift, ledgers: Sequence[StreamLedger], days: int) -> None:
    """Remove the entries of some ledgers that are older than some days, except those that later runs need.

    These are the entries of plan logs, and those of batches that a STATE may come after. An entry is committed with the
    rows of its batch, so none of them belongs to a load that is not finished.
    """
    what, ledger = f"Removing old entries from {client.path(LEDGER)}", client.quoted(LEDGER)
    with client.session() as session, session.transaction(what):
        session.execute(sql.lock(ledger), what=what)
        before = session.execute(sql.NOW, what=what).value - timedelta(days=days)
        for each in ledgers:
            for ids in [*_chunks(each.passed)] or [[]]:
                text = sql.delete_last_entries(ledger, LAST, len(ids), len(each.proved))
                session.execute(text, [each.stream, *ids, each.stream, *each.proved], what=what)
        for names in _chunks([each.stream for each in ledgers]):
            text = sql.delete_old_entries(ledger, (TABLE_MARK, LOG, LAST), LAST, len(names))
            session.execute(text, [*names, before, *names], what=what)
