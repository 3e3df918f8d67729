"""Rows that Redshift refuses; the table `_sdc_rejected`; overwrite's staging; widths of texts."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from singer_arrow.errors import DataError, LoadError, SingerArrowError
from singer_arrow.load import row_spool as spool
from singer_arrow.load.convert import Refusal, TooManyRefusedError, refused_of_each, refused_rows, without_refused
from singer_arrow.load.dead_letters import BatchRejects, HeldBack, Rejected, cut, parts_of
from singer_arrow.load.method import LoadContext
from singer_arrow.naming import REJECTED, staging_name
from target_redshift import columns, copy, sql, tables
from target_redshift.client import Redshift
from target_redshift.columns import REMOVE, REPLACE, SYMBOL
from target_redshift.connection import Session
from target_redshift.conversion import ConvertibleTextError, LongTextError
from target_redshift.copy import CopyBatch, Group
from target_redshift.ledger import MARK, StreamLedger
from target_redshift.resources import AlreadyExistsError, CopyRefusedError, RefusedDataError
from target_redshift.tables import Destination
from target_redshift.types import MAX_VARCHAR, Column
from target_redshift.uploads import Files, PreparedItem, S3StagingFolder

# Writes the table `_sdc_rejected`: the rows that were not loaded, and why.
#
# They are written in the transaction that loads the other rows of their batches, and replace those of earlier loads of
# the same batches.

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


# Replaces the rows of a table at the end of a run by those of a staging table.

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
                tables.remove_leftovers(self._client, destination.name)
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
                tables.widen(client, destination, needed)
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


# What the load methods of one stream use.


@dataclass(frozen=True, slots=True, kw_only=True)
class RedshiftContext(LoadContext):
    """What the load methods of one stream use, besides what `LoadContext` holds."""

    client: Redshift
    files: Files
    staging_folder: S3StagingFolder
    upload_format: str
    destination: Destination
    ledger: StreamLedger
    overwrite_staging: OverwriteStaging
    dead_letter_table: DeadLetterTable


# Finds the rows because of which Redshift refuses a group, by trying ranges of the group.
#
# A trial loads the rows in a transaction that is rolled back. If COPY names a line, that row is tried first.


def drop_rejected(
    context: RedshiftContext,
    group: Group,
    error: LoadError | DataError,
    *,
    try_group: Callable[[Group], None],
    forget: Callable[[Group], None],
) -> None:
    """Remove from a group of converted rows, which Redshift has refused with `error`, those that it refuses.

    `try_group` loads a group in a transaction that is rolled back, and raises as the load would; `forget` removes the
    staging tables and staged files of a group. The error is raised if no single row is the reason.
    """
    parts = [p for p in group.parts if p.spool and p.rows]
    spools = [p.spool for p in parts if p.spool]
    if not parts:
        raise error
    context.logger.info("Stream %r: %s; looking for the rows that are refused", context.stream, error)

    def probe(low: int, high: int) -> Refusal | None:
        path = context.files.temporary(".arrow")
        rows = spool.write(spool.read(spools, low, high), spools[0].schema, path)
        long = any(p.has_long_json for p in parts)
        trial = Group([PreparedItem(parts[0].item, rows.rows, rows.bytes, spool=rows, has_long_json=long)])
        try:
            return _refusal(context, trial, low, try_group)
        finally:
            try:
                forget(trial)
            finally:
                context.files.discard(*trial.parts)

    try:
        count = sum(p.rows for p in parts)
        found = refused_rows(count, probe, first=Refusal(str(error)))
    except TooManyRefusedError as many:
        raise many.of_load(error, "Redshift") from None
    if not found or (len(found) == count and not all(why.is_of_value for _, why in found)):
        raise error  # no row was taken, so it may be for what they share: a right, a region, a full disk
    forget(group)
    each = zip(parts, refused_of_each(found, [p.rows for p in parts]), strict=True)
    without = dict[int, PreparedItem]()
    for part, mine in each:
        if mine and part.spool and part.rejects is not None:
            rest = without_refused(part.spool, mine, part.rejects, context.files.temporary(".arrow"))
            without[id(part)] = replace(part, rows=rest.rows, bytes=rest.bytes, spool=rest)
    group.parts = [without.get(id(part), part) for part in group.parts]


def _refusal(context: RedshiftContext, trial: Group, first: int, try_group: Callable[[Group], None]) -> Refusal | None:
    """Return why Redshift refuses some rows, if it does; `first` is the number of their first row among all."""
    sources = {c.name: c.source for c in context.destination.columns}
    try:
        try_group(trial)
    except CopyRefusedError as error:
        bad, at = error.bad, first
        for file in (file for copy_batch in trial.copy_batches for file in copy_batch.files):
            if file.url == bad.file and bad.line:
                return Refusal(bad.reason, sources.get(bad.column), at + bad.line - 1)
            at += file.rows
        return Refusal(bad.reason, sources.get(bad.column))
    except (LoadError, DataError) as error:
        reason = error.reason if isinstance(error, DataError) else str(error)
        column = error.column if isinstance(error, DataError) else None
        return Refusal(reason, column, is_of_value=isinstance(error, DataError | RefusedDataError))
    return None


# Warns of changed NUL characters and rescued long texts: once per stream and kind, with a count of all.


def warn_of_values(context: RedshiftContext, part: PreparedItem) -> PreparedItem:
    """Log a warning and count the NUL characters and long texts of an item; return the item."""
    source = "RECORD messages" if part.item.is_temporary else None
    if part.nuls.count:
        if context.files.is_first(context.stream, "NUL"):
            context.logger.warning(
                "Stream %r: %s, %s holds a NUL character, which Redshift does not take; such characters are %s, "
                "set nul_text to choose otherwise",
                context.stream,
                source or part.nuls.url,
                part.nuls.place,
                {REPLACE: f"replaced by {SYMBOL}", REMOVE: "removed"}[context.files.nul_text],
            )
        context.tally.add(nul_characters=part.nuls.count)
    if part.long_texts.count:
        if context.files.is_first(context.stream, "long texts"):
            context.logger.warning(
                "Stream %r: %s, %s holds a text that is too long for its column; such texts are null there, and "
                "are kept in column %s of their row; of more than 65,535 bytes it takes them only where the cluster's "
                "enable_large_strings_opt_in is on",
                context.stream,
                source or part.long_texts.url,
                part.long_texts.place,
                columns.COLUMN,
            )
        context.tally.add(long_texts=part.long_texts.count)
    return part


# Widens VARCHAR columns for staged texts; a text that is too long for any width is an error with its place.


def fit_texts(
    context: RedshiftContext, session: Session, staged: Mapping[str, Sequence[str]], copy_batches: Sequence[CopyBatch]
) -> None:
    """Widen the table's columns for the texts that were staged in a session; outside of any transaction.

    `staged` has the quoted names of the staging tables, and their columns. If a text is longer than its column may get,
    the error names file, row and column.
    """
    tables.widen(context.client, context.destination, needed_bytes(context, session, staged, copy_batches))


def needed_bytes(
    context: RedshiftContext, session: Session, staged: Mapping[str, Sequence[str]], copy_batches: Sequence[CopyBatch]
) -> dict[str, int]:
    """Return the bytes of the longest staged text of each column that is not of the greatest width.

    Errors are those of `fit_texts`. A text that goes elsewhere when its file is converted is a ConvertibleTextError.
    """
    destination = context.destination
    growing = [name for name in destination.texts if destination.lengths.get(name, 0) < MAX_VARCHAR]
    needed: dict[str, int] = {}
    for table, held in staged.items():
        names = [name for name in growing if name in held]
        if names:
            what = f"Measuring texts for table {context.client.path(destination.name)}"
            (found,) = session.execute(sql.longest_texts(table, names), what=what).rows
            for name, length in zip(names, found, strict=True):
                needed[name] = max(needed.get(name, 0), int(length or 0))
    for name, length in needed.items():
        most = max(context.client.settings.varchar_max, destination.lengths.get(name, 0))
        if length <= most:
            continue
        column = next(c for c in destination.columns if c.name == name)
        if column.is_rescued:
            raise ConvertibleTextError(f"a text has {length:,} bytes", column=column.source)
        placed = copy.long_text(copy_batches, [column], context.files.storage, most)
        reason = f"a text has {length:,} bytes, and Redshift's column takes {most:,}"
        hint = "Shorten it or leave the column out in the tap"
        raise placed or LongTextError(reason, column=column.source, hint=hint)
    return needed
