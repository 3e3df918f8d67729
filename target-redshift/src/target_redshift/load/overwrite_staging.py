"""Replaces the rows of a table at the end of a run by those of a staging table."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from singer_arrow.errors import SingerArrowError
from singer_arrow.load.dead_letters import BatchRejects, HeldBack, Rejected
from singer_arrow.naming import staging_name
from target_redshift import sql
from target_redshift.connection.client import Redshift
from target_redshift.connection.resources import AlreadyExistsError
from target_redshift.ledger import MARK, StreamLedger
from target_redshift.load.dead_letter_table import DeadLetterTable
from target_redshift.tables import migrate
from target_redshift.tables.migrate import Destination
from target_redshift.tables.types import MAX_VARCHAR, Column

logger = logging.getLogger("target-redshift")


class OverwriteStaging:
    """The staging table whose rows replace those of a stream's table; it lasts for the run.

    It is created by the first load, or by an ACTIVATE_VERSION; a stream that brings neither leaves its table alone. The
    table itself stays, with its grants and views, and readers see its former rows until the new ones are all there.
    """

    def __init__(self, client: Redshift) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._name: str | None = None
        self._columns: dict[str, Column] = {}
        self._newest: Destination | None = None
        self.rejected = HeldBack()  # the rows that are not loaded, of the loads into it

    def staging(self, destination: Destination) -> str:
        """Return the name of the staging table, which has all columns of the stream, with room for any text."""
        with self._lock:
            if self._newest is None or destination.lengths.keys() > self._newest.lengths.keys():
                self._newest = destination  # loads of older ones may come later
            columns = {
                c.name: replace(c, length=MAX_VARCHAR) if c.kind == "VARCHAR" else c for c in destination.columns
            }
            if self._name is None:
                migrate.remove_leftovers(self._client, destination.name)
                now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ").lower()
                name = staging_name(destination.name, now, uuid.uuid4().hex[:12])
                text = sql.create_table(self._client.quoted(name), list(columns.values()))
                self._done(text, f"Creating table {self._client.path(name)}")
                self._name = name
            else:
                for column in (c for c in columns.values() if c.name not in self._columns):
                    what = f"Adding column {column.name!r} to table {self._client.path(self._name)}"
                    self._done(sql.add_column(self._client.quoted(self._name), column), what)
            self._columns |= columns
            return self._name

    def replace(self, ledger: StreamLedger, rejections: DeadLetterTable) -> list[Rejected]:
        """Put the rows of the staging table, if there is one, in the place of the table's.

        Return the rows that were not loaded, which are written now.
        """
        with self._lock:
            client, rejected = self._client, self.rejected.take()
            if rejected:
                rejections.prepare()
            if self._name is None or self._newest is None:
                if rejected:
                    client.retried(lambda: self._write(rejections, ledger.stream, rejected))
                return [row for batch in rejected for row in batch.rows]
            destination, mark = self._newest, f"{MARK}{uuid.uuid4().hex}"
            table, staging = client.quoted(destination.name), client.quoted(self._name)
            names = [name for name, c in self._columns.items() if c.kind == "VARCHAR"]
            names = [name for name in names if destination.lengths.get(name, 0) < MAX_VARCHAR]
            if names:
                text, measuring = sql.longest_texts(staging, names), f"Measuring texts of {client.path(self._name)}"
                (found,) = client.query(text, what=measuring).rows
                needed = {name: int(length or 0) for name, length in zip(names, found, strict=True)}
                migrate.widen(client, destination, needed)
            what = f"Replacing the rows of table {client.path(destination.name)}"

            def swap() -> None:
                with client.session() as session, session.transaction(what):
                    ledger.lock(session)
                    if ledger.loaded_meanwhile(session, [mark]):
                        return  # the answer to the COMMIT was lost
                    session.execute(sql.delete_all(table), what=what)
                    session.execute(sql.insert_all(table, staging, list(self._columns.values())), what=what)
                    if rejected:
                        rejections.write(session, ledger.stream, rejected)
                    ledger.clear(session)
                    ledger.add(session, {mark: 0})

            client.retried(swap)
            client.drop_table(self._name)
            self._name, self._columns, self._newest = None, {}, None
            return [row for batch in rejected for row in batch.rows]

    def _write(self, rejections: DeadLetterTable, stream: str, rejected: Sequence[BatchRejects]) -> None:
        with self._client.session() as session, session.transaction("Writing down rows that are not loaded"):
            rejections.write(session, stream, rejected)

    def close(self) -> None:
        """Drop the staging table of a run that failed; if that fails too, a later run does it."""
        with self._lock:
            name, self._name = self._name, None
        if name is None:
            return
        try:
            self._client.drop_table(name)
        except SingerArrowError as error:
            logger.warning("%s; a run of the stream drops it when it is a day old", error)

    def _done(self, text: str, what: str) -> None:
        """Run a statement on the staging table of this run; an object that exists is the result of a lost response."""
        with suppress(AlreadyExistsError):
            self._client.query(text, what=what)
