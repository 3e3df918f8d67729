"""The load methods append-only, upsert and overwrite; rows that Redshift refuses, `_sdc_rejected`.

A group goes from its files into staging tables, from there into its table:

    prepare     each item: its files as they are, or its rows on local disk
    stage       rows are uploaded; COPY puts all of the group into temporary tables of one session
    publish     one transaction: what the group holds goes into the table, and its batches into the ledger

If its session is lost, a group is COPYed again in another session; after a lost COMMIT the ledger is read. The
transaction begins by locking the ledger, so that no other run loads the same batches meanwhile, and its snapshot is
taken after the lock.
"""

from __future__ import annotations

import abc
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from singer_arrow.errors import DataError, LoadError, RetriableError, SingerArrowError
from singer_arrow.load.convert import (
    Refusal,
    TooManyRefusedError,
    read_spools,
    refused_rows,
    without_refused,
    write_spool,
)
from singer_arrow.load.dead_letters import BatchRejects, HeldRejects, TooManyRejectedError, table_rows
from singer_arrow.load.method import LoadContext, LoadMethod
from singer_arrow.naming import REJECTED, staging_name
from singer_arrow.runtime.threads import pauses
from singer_arrow.storage.urls import Url
from target_redshift import copy, sql
from target_redshift.client import Redshift
from target_redshift.columns import LONG_TEXTS_COLUMN, NUL_FAIL, NUL_REMOVE, NUL_REPLACE, NUL_SYMBOL
from target_redshift.connection import Session
from target_redshift.conversion import ConvertibleTextError, NulError
from target_redshift.copy import CopyBatch, CountError, Group, StagingTables, copy_batches, ours
from target_redshift.ledger import MARK, StreamLedger
from target_redshift.merge_pruning import bound, can_bound
from target_redshift.resources import AlreadyExistsError, CopyRefusedError, RefusedDataError
from target_redshift.tables import Destination, check_keys, remove_leftovers, widen
from target_redshift.types import MAX_VARCHAR, Column
from target_redshift.uploads import Files, Item, PreparedItem, S3StagingFolder

logger = logging.getLogger("target-redshift")
DEADLINE_SECONDS = 600.0
"""How long a group is tried again and again."""
_LONGEST_PAUSE = 8.0  # seconds; later groups of the stream wait too
_LONG = "its files hold texts that are too long for their columns"
_AT_ONCE_ROWS, _AT_ONCE_BYTES = 1_000, 4 << 20
"""Rejected rows in one statement, which takes 32,767 values and 16 MB."""
_MOST = {"record": MAX_VARCHAR, "file": 8192, "column_name": 1024, "reason": 8192}
"""Bytes of columns of `_sdc_rejected`."""


# The table `_sdc_rejected`: the rows that were not loaded, and why.


class DeadLetterTable:
    """The table of rows that are not loaded; safe to use from any thread, and created when there is the first.

    They are written in the transaction that loads the other rows of their batches, and replace those of earlier loads
    of the same batches.
    """

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
    for row in table_rows(stream, batches, _MOST):
        rows.append(tuple(row.values()))
        size += len(row["record"].encode())
        if len(rows) >= _AT_ONCE_ROWS or size >= _AT_ONCE_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


# The staging of overwrite.


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
        self.rejected = HeldRejects()  # the rows that are not loaded, of the loads into it
        self.entries: dict[str, int] = {}  # what the ledger gets with them: batches, plan logs

    def staging(self, destination: Destination) -> str:
        """Return the name of the staging table, which has all columns of the stream, with room for any text."""
        with self._lock:
            if self._newest is None or destination.lengths.keys() > self._newest.lengths.keys():
                self._newest = destination  # loads of older ones may come later
            client, name = self._client, self._name
            columns = {
                c.name: replace(c, length=MAX_VARCHAR) if c.kind == "VARCHAR" else c for c in destination.columns
            }
            if name is None:
                remove_leftovers(client, destination.name)
                now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ").lower()
                name = staging_name(destination.name, now, uuid.uuid4().hex[:12])
                text = sql.create_table(client.quoted(name), list(columns.values()))
                statements = {f"Creating table {client.path(name)}": text}
            else:
                statements = {
                    f"Adding column {n!r} to table {client.path(name)}": sql.add_column(client.quoted(name), column)
                    for n, column in columns.items()
                    if n not in self._columns
                }
            for what, text in statements.items():
                with suppress(AlreadyExistsError):  # by an attempt whose answer was lost
                    client.query(text, what=what)
            self._name, self._columns = name, self._columns | columns
            return name

    def replace(self, ledger: StreamLedger, rejections: DeadLetterTable) -> list[BatchRejects]:
        """Put the rows of the staging table, if there is one, in the place of the table's.

        Return the rows that were not loaded, which are written now.
        """
        with self._lock:
            client, rejected = self._client, self.rejected.take()
            if rejected:
                rejections.prepare()
            if self._name is None or self._newest is None:

                def write() -> None:
                    what = "Writing down rows that are not loaded"
                    with client.session() as session, session.transaction(what):
                        rejections.write(session, ledger.stream, rejected)

                if rejected:
                    client.retried(write)
                return rejected
            destination, mark = self._newest, f"{MARK}{uuid.uuid4().hex}"
            table, staging = client.quoted(destination.name), client.quoted(self._name)
            names = [name for name, c in self._columns.items() if c.kind == "VARCHAR"]
            names = [name for name in names if destination.lengths.get(name, 0) < MAX_VARCHAR]
            if names:
                text, measuring = sql.longest_texts(staging, names), f"Measuring texts of {client.path(self._name)}"
                (found,) = client.query(text, what=measuring).rows
                needed = {name: int(length or 0) for name, length in zip(names, found, strict=True)}
                widen(client, destination, needed)
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
                    ledger.add(session, {**self.entries, mark: 0})

            client.retried(swap)
            client.drop_table(self._name)
            self._name, self._columns, self._newest, self.entries = None, {}, None, {}
            return rejected

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


# The base of the load methods.


@dataclass(frozen=True, slots=True, kw_only=True)
class RedshiftContext(LoadContext):
    """What the load methods of one stream use, besides what `LoadContext` holds."""

    client: Redshift
    files: Files
    staging_folder: S3StagingFolder
    destination: Destination
    ledger: StreamLedger
    overwrite_staging: OverwriteStaging
    dead_letter_table: DeadLetterTable
    copy_options: tuple[str, ...] = ()


class _RollBackError(Exception):
    """Ends a transaction that is only a trial."""


class RedshiftLoadMethod(LoadMethod[RedshiftContext, PreparedItem]):
    """The base of the load methods; see the module. `what` describes its steps, for messages."""

    prepared_class = PreparedItem

    def __init__(self, context: RedshiftContext) -> None:
        super().__init__(context)
        self.what = f"Loading into table {context.client.path(context.destination.name)}"
        self._has_swept = False

    def make_ready(self, item: Item) -> PreparedItem:
        keys = self.context.keys if self.merges else ()
        return self._warned(self.context.files.prepare(item, keys, self.rejects(item)))

    def stage(self, parts: Sequence[PreparedItem]) -> Group | None:
        group = Group(list(parts))
        try:
            group.parts = self.fresh([p for p in parts if p.rows or p.rejects])
            kept = {id(part) for part in group.parts}
            self.context.files.discard(*(p for p in parts if id(p) not in kept))
            if not group.parts:
                return None
            self.upload(group)
            self._until_done(group, lambda: self.staging_tables(group))
        except BaseException:
            self._discard(group)
            raise
        return group

    def publish(self, group: Group | None) -> None:
        if group is None:
            return
        try:
            self._until_done(group, lambda: self._publish(group))
        finally:
            self._discard(group)

    @property
    def table(self) -> str:
        """The quoted name of the table that groups are published in."""
        return self.context.client.quoted(self.context.destination.name)

    @abc.abstractmethod
    def make_fit(self, group: Group) -> StagingTables:
        """Make the table fit what was staged, and what was staged fit for `bring`; outside of any transaction.

        Return the staging tables, with which the group may have to begin again.
        """

    def bring(self, tables: StagingTables) -> None:
        """Bring what was staged into the table, here as further rows; within the transaction."""
        for name, staged in tables.columns.items():
            text = sql.insert(self.table, name, staged, self.context.destination.columns)
            tables.session.execute(text, what=self.what)

    def upload(self, group: Group) -> None:
        """Upload the group's rows and write its manifests, all or nothing."""
        context, made = self.context, list[CopyBatch]()
        columns, upload_format = context.destination.columns, context.files.upload_format
        try:
            for copy_batch in copy_batches(
                group.parts, context.staging_folder, columns, upload_format, ordered=self.merges
            ):
                made.append(copy_batch)  # one at a time: after an error those that were made are removed
        except BaseException:
            context.staging_folder.remove(ours(made))
            raise
        group.copy_batches = made

    def staging_tables(self, group: Group) -> StagingTables:
        """Return the group's staging tables, filled by COPY if they are not yet."""
        while group.tables is None:
            if not group.copy_batches:  # they were to be made again, and that failed
                self.upload(group)
            tables = StagingTables(self.context.client)
            try:
                why = self._copy_or_reason(group, tables)
            except BaseException:
                tables.close()
                raise
            if why is None:
                group.tables = tables
            else:
                tables.close()
                self.convert(group, why)
        return group.tables

    def _copy_or_reason(self, group: Group, tables: StagingTables) -> str | None:
        """COPY a group into staging tables, or return why its files must be read and uploaded first."""
        context = self.context
        for copy_batch in group.copy_batches:
            try:
                tables.copy(copy_batch, self.what, context.copy_options)
            except LoadError as error:
                puts_aside = context.most_rejected is not None and not copy_batch.is_staged_here
                if isinstance(error, CountError) or puts_aside:
                    raise
                found = copy.failed_copy(context.client, tables, copy_batch, context.files.storage, error)
                if isinstance(found, NulError) and context.files.nul_text != NUL_FAIL:
                    return "its files hold NUL characters"
                if isinstance(found, ConvertibleTextError):
                    return _LONG
                raise found from None
        # of JSON Lines that COPY read in place: do rows lack a required value, or all rows all values?
        required = {name for p in group.parts for name in p.item.conversion.never_null}
        for copy_batch, (name, columns) in zip(group.copy_batches, tables.columns.items(), strict=True):
            if copy_batch.layout.file_format == "jsonl" and not copy_batch.is_staged_here:
                read = [c for c in columns if c.column is not None and c.constant is None]
                needed = [c.name for c in read if c.column is not None and c.column.source in required]
                ((*nulls,),) = tables.session.execute(sql.key_facts(name, [c.name for c in read]), what=self.what).rows
                lacking = dict(zip((c.name for c in read), nulls, strict=True))
                if any(lacking[name] for name in needed) or min(nulls, default=0) == copy_batch.rows:
                    return "its JSON Lines lack values that the SCHEMA requires"
        return None

    def convert(self, group: Group, why: str) -> None:
        """Read and upload also the files that COPY was to load in place."""
        self.context.logger.info("Stream %r: %s, so they are read and uploaded", self.context.stream, why)
        parts = [self._warned(self.context.files.convert(p.item, p.rejects)) if p.files else p for p in group.parts]
        self.forget(group)
        group.parts = parts
        self.upload(group)

    def _load_without_refused(self, group: Group, step: Callable[[], object]) -> None:
        """Take a step of a group, without the rows for which Redshift refuses it, where there may be such rows."""
        while True:
            try:
                step()
            except (LoadError, DataError) as error:
                if self.context.most_rejected is None or isinstance(error, CountError | TooManyRejectedError):
                    raise
                if any(p.files for p in group.parts):
                    self.convert(group, f"Redshift refuses its files ({error})")
                else:
                    self._drop_refused(group, error)
            else:
                return

    def _drop_refused(self, group: Group, error: LoadError | DataError) -> None:
        """Remove from a group of converted rows, which Redshift has refused with `error`, those that it refuses.

        They are found by trying ranges of the group, in transactions that are rolled back; if COPY names a line, that
        row is tried first. The error is raised if no single row is the reason.
        """
        context, parts = self.context, [p for p in group.parts if p.spool and p.rows]
        spools = [p.spool for p in parts if p.spool]
        if not parts:
            raise error
        context.logger.info("Stream %r: %s; looking for the rows that are refused", context.stream, error)

        def probe(low: int, high: int) -> Refusal | None:
            path = context.files.temporary(".arrow")
            rows = write_spool(read_spools(spools, low, high), spools[0].schema, path)
            long = any(p.has_long_json for p in parts)
            trial = Group([PreparedItem(parts[0].item, rows.rows, rows.bytes, spool=rows, has_long_json=long)])
            try:
                return self._refusal(trial, low)
            finally:
                try:
                    self.forget(trial)
                finally:
                    context.files.discard(*trial.parts)

        try:
            count = sum(p.rows for p in parts)
            found = refused_rows(count, probe, first=Refusal(str(error)))
        except TooManyRefusedError as many:
            raise many.of_load(error, "Redshift") from None
        if not found or (len(found) == count and not all(why.is_of_value for _, why in found)):
            raise error  # no row was taken, so it may be for what they share: a right, a region, a full disk
        self.forget(group)
        without = dict(zip(map(id, parts), without_refused(parts, found, context.files.temporary), strict=True))
        group.parts = [without.get(id(part), part) for part in group.parts]

    def _refusal(self, trial: Group, first: int) -> Refusal | None:
        """Return why Redshift refuses some rows, if it does; `first` is the number of their first row among all.

        They are loaded in a transaction that is rolled back; the staged files remain.
        """
        sources = {c.name: c.source for c in self.context.destination.columns}
        try:
            self.upload(trial)
            tables = self.make_fit(trial)
            with suppress(_RollBackError), tables.session.transaction(self.what):
                self.bring(tables)
                raise _RollBackError
        except CopyRefusedError as error:
            bad, at = error.bad, first
            for file in (file for copy_batch in trial.copy_batches for file in copy_batch.files):
                if file.url == bad.file and bad.line:
                    return Refusal(bad.reason, sources.get(bad.column), at + bad.line - 1)
                at += file.rows
            return Refusal(bad.reason, sources.get(bad.column))
        except DataError as error:
            return Refusal(error.reason, error.column)
        except LoadError as error:
            return Refusal(str(error), is_of_value=isinstance(error, RefusedDataError))
        return None

    def _warned(self, part: PreparedItem) -> PreparedItem:
        """Count the NUL characters and long texts of an item, and warn of the first of the stream; return the item."""
        context, source = self.context, "RECORD messages" if part.item.is_temporary else None
        nul = "a NUL character, which Redshift does not take; such characters are %s, set nul_text to choose otherwise"
        long = (
            "a text that is too long for its column; such texts are null there, and are kept in column %s of their "
            "row; of more than 65,535 bytes it takes them only where the cluster's enable_large_strings_opt_in is on"
        )
        instead = {NUL_REPLACE: f"replaced by {NUL_SYMBOL}", NUL_REMOVE: "removed"}.get(context.files.nul_text)
        found = {"nul_characters": (part.nuls, nul, instead), "long_texts": (part.long_texts, long, LONG_TEXTS_COLUMN)}
        for name, (report, text, which) in found.items():
            if report.count:
                if context.files.is_first(context.stream, name):
                    where = (context.stream, source or report.url, report.place)
                    context.logger.warning(f"Stream %r: %s, %s holds {text}", *where, which)
                context.tally.add(**{name: report.count})
        return part

    def fit_texts(self, tables: StagingTables, staged: Mapping[str, Sequence[str]], group: Group) -> None:
        """Widen the table's columns for the texts of staging tables; outside of any transaction."""
        destination, storage = self.context.destination, self.context.files.storage
        needed = tables.needed_bytes(destination, staged, group.copy_batches, storage)
        widen(self.context.client, destination, needed)

    def _publish(self, group: Group) -> None:
        while group.parts:
            if group.rejected:
                self.context.dead_letter_table.prepare()
            try:
                tables = self.make_fit(group) if group.rows else self.staging_tables(group)
            except ConvertibleTextError:
                if all(p.spool for p in group.parts):
                    raise
                self.convert(group, _LONG)
                tables = self.make_fit(group)
            theirs = self._bring(group, tables)
            if not theirs:
                if self.deferred:
                    staging = self.context.overwrite_staging
                    staging.rejected.add(group.rejected, self.context.most_rejected)
                    staging.entries.update(self._entries(group))
                else:
                    self.log_rejected(group.rejected)
                size = sum(copy_batch.bytes for copy_batch in group.copy_batches)
                rows = sum(copy_batch.rows for copy_batch in group.copy_batches)
                self.context.tally.add(load_jobs=len(group.copy_batches), rows=rows, bytes=size)
                return
            for batch_id in theirs:
                self.skip(batch_id, "just now by another run")
            out = [p for p in group.parts if p.item.batch_id in theirs]
            rest = [p for p in group.parts if p.item.batch_id not in theirs]
            self.forget(group)
            self.context.files.discard(*out)
            group.parts = rest
            if rest:
                self.upload(group)

    def _bring(self, group: Group, tables: StagingTables) -> set[str]:
        """Load a group and return an empty set, or return the batches that another run has loaded meanwhile."""
        ledger, session = self.context.ledger, tables.session
        if (staged := sum(copy_batch.rows for copy_batch in group.copy_batches)) != group.rows:
            msg = f"{self.what}: {staged} rows are staged of {group.rows}; nothing of them is loaded, run again"
            raise LoadError(msg)
        entries = self._entries(group) if self.keeps_ledger else {}
        batches = {p.item.batch_id for p in group.parts} & entries.keys()
        needs_mark = not self.leaves_out_loaded or any(p.item.batch_id is None for p in group.parts)
        with session.transaction(self.what):
            ledger.lock(session)
            known = ledger.loaded_meanwhile(session, [*entries, group.mark]).keys()
            if group.mark in known:
                return set()  # the answer to its COMMIT was lost
            if theirs := known & batches if self.leaves_out_loaded else set():
                is_our_commit = group.may_be_committed and not needs_mark and theirs == batches
                return set() if is_our_commit else theirs
            if group.rows:
                self.bring(tables)
            if group.rejected and not self.deferred:  # else they are written when the table is replaced
                self.context.dead_letter_table.write(session, ledger.stream, group.rejected)
            new = {entry: rows for entry, rows in entries.items() if entry not in known or entry in self.renewed}
            ledger.add(session, {**new, **({group.mark: group.rows} if needs_mark else {})})
            if needs_mark and not self._has_swept:
                ledger.remove_marks(session)
                self._has_swept = True
            group.may_be_committed = True
        self.note(new)
        return set()

    def _entries(self, group: Group) -> dict[str, int]:
        """Return what the ledger gets with the rows of a group: its batches with their rows, and their plan logs."""
        batches = {p.item.batch_id: p.rows for p in group.parts if p.item.batch_id}
        return batches | self.entries_of_logs(p.item for p in group.parts)

    def removable_files(self, parts: Sequence[PreparedItem], staged: Group | None) -> list[Url]:
        return [*super().removable_files(parts, staged), *ours(staged.copy_batches if staged else ())]

    def forget(self, group: Group) -> None:
        """Remove staging tables and staged files, in whose place others come."""
        copy_batches, group.copy_batches = group.copy_batches, []
        try:
            self._drop(group)
        finally:
            self.context.staging_folder.remove(ours(copy_batches))

    def _drop(self, group: Group) -> None:
        tables, group.tables = group.tables, None
        if tables:
            tables.close()

    def _discard(self, group: Group) -> None:
        """Remove staging tables and what is on local disk; staged files stay, see `removable_files`."""
        try:
            self._drop(group)
        finally:
            self.context.files.discard(*group.parts)

    def _until_done(self, group: Group, step: Callable[[], object]) -> None:
        """Run a step of a group, without refused rows; retry while Redshift is busy or the connection breaks."""
        for pause in pauses(DEADLINE_SECONDS, most=_LONGEST_PAUSE):
            try:
                self._load_without_refused(group, step)
            except RetriableError as error:
                if pause is None or self.context.client.is_lost:
                    raise
                message = str(error).removesuffix("; run again")
                self.context.logger.info("Stream %r: %s; loading again", self.context.stream, message)
                if group.tables and group.tables.session.broken:
                    self._drop(group)
                time.sleep(pause)
            else:
                return


# append-only: each group is added to the table; the ledger keeps batches from being loaded twice.


class AppendOnly(RedshiftLoadMethod):
    keeps_ledger = True

    def make_fit(self, group: Group) -> StagingTables:
        tables = self.staging_tables(group)
        self.fit_texts(tables, tables.staged, group)
        return tables


# upsert: each group is merged into the table, in the order of the messages.
#
# Of several rows with a key the one of the greatest rank wins, of these the last; rows of the table count too.
#
# Converted rows have a column of their order in the stream. Files that COPY took as they are do not; if a query finds a
# key twice in them, they are converted too.


class Upsert(RedshiftLoadMethod):
    """The load method `upsert`; a key column of a type that has no equality is an error."""

    ordered = True
    merges = True
    keeps_ledger = True

    def __init__(self, context: RedshiftContext) -> None:
        super().__init__(context)
        check_keys(context.client, context.destination, context.keys)

    def make_fit(self, group: Group) -> StagingTables:
        """Create a temporary table of the table's own types with one row for each key."""
        tables = self.staging_tables(group)
        if tables.merged:
            return tables
        is_ordered = all(copy_batch.layout.is_ordered for copy_batch in group.copy_batches)
        if not is_ordered:
            text = sql.duplicate_key(tables.columns, self.context.destination.columns, self.context.keys)
            if tables.session.execute(text, what=self.what).rows:
                self.convert(group, "a key is twice in its files")
                tables, is_ordered = self.staging_tables(group), True
        name, columns = tables.name(), self.context.destination.columns
        rank = self.context.rank_column
        text = sql.create_merged(name, tables.columns, columns, self.context.keys, rank=rank, ordered=is_ordered)
        tables.session.execute(text, what=self.what)
        self._look_at_keys(name, group, tables)
        self.fit_texts(tables, {name: [c.name for c in columns]}, group)
        tables.merged = name
        return tables

    def bring(self, tables: StagingTables) -> None:
        context, source = self.context, tables.merged
        assert source
        table, columns, keys = context.destination.name, context.destination.columns, context.keys
        schema, bounds = context.client.settings.schema, tables.bounds
        older = sql.delete_superseded(schema, table, source, keys, rank=context.rank_column, bounds=bounds)
        tables.session.execute(older, what=self.what)
        if context.deleted_column and tables.deletions:
            gone = sql.delete_matching(schema, table, source, keys, bounds=bounds, deleted=context.deleted_column)
            tables.session.execute(gone, what=self.what)
            tables.session.execute(sql.delete_marked_rows(source, context.deleted_column), what=self.what)
        text = sql.merge(schema, table, source, columns, keys, emptied=context.destination.unfilled, bounds=bounds)
        tables.session.execute(text, what=self.what)

    def _look_at_keys(self, name: str, group: Group, tables: StagingTables) -> None:
        """Refuse null keys; find out between which values the others lie, and whether rows are to be deleted."""
        keys = [c for c in self.context.destination.columns if c.name in self.context.keys]
        bounded = [k for k in keys if can_bound(k)]
        text = sql.key_facts(
            name, [k.name for k in keys], bounded=[k.name for k in bounded], deleted=self.context.deleted_column
        )
        ((*facts,),) = tables.session.execute(text, what=self.what).rows
        nulls = [key for key, count in zip(keys, facts, strict=False) if count]
        if nulls:
            found = copy.null_key(group.copy_batches, nulls, self.context.files.storage)
            raise found or DataError(f"{self.what}: a key property is null", column=nulls[0].source)
        ends = facts[len(keys) : len(keys) + 2 * len(bounded)]
        made = [bound(key, *pair) for key, pair in zip(bounded, zip(ends[::2], ends[1::2], strict=True), strict=True)]
        tables.bounds = [b for b in made if b]
        tables.deletions = facts[-1] if self.context.deleted_column else 0


# overwrite: the whole run goes into a staging table, whose rows replace the table's at once at the end of the run.


class Overwrite(RedshiftLoadMethod):
    deferred = True

    @property
    def table(self) -> str:
        return self.context.client.quoted(self.context.overwrite_staging.staging(self.context.destination))

    def make_fit(self, group: Group) -> StagingTables:
        """Return the staging tables, after a check that no text exceeds `varchar_max`."""
        self.context.overwrite_staging.staging(self.context.destination)
        tables = self.staging_tables(group)
        if self.context.client.settings.varchar_max < MAX_VARCHAR:
            tables.needed_bytes(self.context.destination, tables.staged, group.copy_batches, self.context.files.storage)
        return tables

    def replace_table(self) -> None:
        self.context.overwrite_staging.staging(self.context.destination)

    def finish(self) -> None:
        """Replace the table's rows, and the entries of the batches that these came from."""
        self.log_rejected(self.context.overwrite_staging.replace(self.context.ledger, self.context.dead_letter_table))
