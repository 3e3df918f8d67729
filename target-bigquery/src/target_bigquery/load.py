"""The load methods: append-only, upsert, overwrite, and their base."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from singer_arrow.errors import DataError, SchemaError, SingerArrowError
from singer_arrow.load.convert import ORDER
from singer_arrow.load.dead_letters import BatchRejects, Rejects, TooManyRejectedError
from singer_arrow.load.ledger import Waiting, pauses
from singer_arrow.load.method import LoadMethod
from singer_arrow.load.staging import together
from singer_arrow.naming import staging_name
from singer_arrow.storage.urls import Url
from target_bigquery import connection, rejected, sql, tables
from target_bigquery import rejected as refused
from target_bigquery.connection import logger
from target_bigquery.jobs import Fields
from target_bigquery.merge_pruning import bounds
from target_bigquery.rejected import BigQueryContext, run_until_done
from target_bigquery.resources import RefusedDataError
from target_bigquery.sql import ColumnRanges
from target_bigquery.types import Column, has_kind
from target_bigquery.uploads import Item, PreparedItem, Upload

# Base class of the load methods.

T = TypeVar("T")


class Rejecting(Protocol):
    """A prepared item of either load path, with its rejected rows, if the settings allow some."""

    @property
    def item(self) -> Item: ...

    @property
    def rejects(self) -> Rejects | None: ...


class BigQueryLoadMethod(LoadMethod[BigQueryContext, PreparedItem]):
    """Base of the load methods: prepares items and joins a group into one file."""

    def make_ready(self, item: Item) -> PreparedItem:
        return self.context.files.prepare(item, self.context.upload_format, self.rejects(item))

    def rows_found(self, part: Any) -> int:
        return int(part.rows + len(part.rejects or ()))

    def nothing(self, item: Item) -> PreparedItem:
        return PreparedItem(item)

    def kind(self, item: Item) -> str:  # noqa: ARG002 - all items of a stream become files of one format
        return self.context.upload_format

    def load_each(self, parts: Sequence[PreparedItem], load: Callable[[Sequence[PreparedItem]], None]) -> None:
        """Load a group into a table with the columns of the destination, by as many jobs as needed."""
        try:
            for some in self.context.files.per_job(self.fresh([p for p in parts if p.rows or p.rejects])):
                self.load_without_refused(some, load, self.context.destination.load_fields)
        finally:
            self.context.files.discard(*parts)

    def load_without_refused(
        self, parts: Sequence[PreparedItem], load: Callable[[Sequence[PreparedItem]], T], fields: Fields
    ) -> T:
        """Load a group, without the rows for which BigQuery refuses it, where there may be such rows.

        `fields` are the columns of the table that it goes into first.
        """
        made = list(parts)
        try:
            while True:
                try:
                    return load(made)
                except RefusedDataError as error:
                    if self.context.most_rejected is None:
                        msg = f"{error}; or set on_bad_row: dead_letter, which puts such rows aside"
                        raise RefusedDataError(msg) from None
                    made = refused.drop_rejected(self.context, made, fields, error)
        finally:
            self.context.files.discard(*made)

    def write_dead_letters(self, parts: Sequence[Rejecting]) -> None:
        """Write the rejected rows to `_sdc_rejected`."""
        if pending := pending_of(parts):
            self.context.dead_letter_table.write(self.context.stream, pending)
            self.dead_letters_written(parts, pending)

    def dead_letters_written(self, parts: Sequence[Rejecting], pending: Sequence[BatchRejects]) -> None:
        """Mark the rejected rows as written."""
        for part in parts:
            if part.rejects is not None:
                part.rejects.mark_written(part.rejects.pending())
        self.log_rejected([row for batch in pending for row in batch.rows])

    def join(self, parts: Sequence[PreparedItem]) -> Upload:
        """Join a group into one upload."""
        try:
            return self.context.files.join(parts, self.context.upload_format)
        except TooManyRejectedError:
            raise
        except DataError as error:
            raise self.hinted(error) from None

    def count(self, upload: Upload) -> None:
        """Count a finished load."""
        self.context.tally.add(load_jobs=len(upload.jobs) or 1, rows=upload.rows, bytes=upload.bytes)

    def removable_files(self, parts: Sequence[PreparedItem], staged: Any) -> list[Url]:
        """Return the files to remove after a load, including those put into `gcs_stage`."""
        return [*super().removable_files(parts, staged), *(url for part in parts for url in part.staged)]


def pending_of(parts: Sequence[Rejecting]) -> list[BatchRejects]:
    """Return the rejected rows of some parts that were not written yet."""
    found = ((p.item.batch_id, p.rejects.pending()) for p in parts if p.rejects)
    return [BatchRejects(batch_id, rows) for batch_id, rows in found if rows]


def upload_format(load_format: str, columns: Sequence[Column]) -> str:
    """Return the format that items are uploaded as. Parquet cannot hold JSON columns; Avro can. Pure."""
    chosen = "parquet" if load_format == "auto" else load_format
    return "avro" if chosen == "parquet" and has_kind(columns, "JSON") else chosen


# append-only: each group is one load job into the table; the ledger keeps batches from being loaded twice.


class AppendOnly(BigQueryLoadMethod):
    keeps_ledger = True

    def void_if_emptied(self) -> None:
        self.context.ledger.void_if_emptied()

    def expect(self, batch_id: str) -> None:
        self.context.ledger.expect(batch_id)

    def loaded(self, batch_id: str) -> datetime | None:
        return self.context.ledger.loaded(batch_id)

    def loaded_of(self, batch_ids: Sequence[str]) -> dict[str, datetime]:
        return self.context.ledger.loaded_of(batch_ids)

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        """Load a group."""
        self.load_each(parts, self._load)

    def _load(self, parts: Sequence[PreparedItem]) -> None:
        if not parts:
            return
        upload, waiting = self.join(parts), Waiting(logger)
        try:
            self.write_dead_letters(parts)  # before the load job: a replay that finds that done looks no further
            if not upload.rows and not any(p.item.batch_id for p in parts):
                return
            if not upload.rows and upload.path is None:  # the ledger needs a job
                schema = parts[0].item.conversion.upload_schema
                upload = self.context.files.write([], schema, self.context.upload_format)
            for pause in pauses(connection.DEADLINE_SECONDS):
                batches = {p.item.batch_id: p.kept for p in parts if p.item.batch_id}
                job_id, theirs = self.context.ledger.begin(batches, self.entries_of_logs(p.item for p in parts))
                if theirs:
                    for batch_id in theirs:
                        self.skip(batch_id, "just now by another run")
                    self._load([p for p in parts if p.item.batch_id not in theirs])
                    return
                table, client = self.context.destination, self.context.client
                client.load_quota.add(client.path(table.name))
                try:
                    rejected.run(client, upload, table.name, table.load_fields, job_id)
                except rejected.BusyError as error:
                    if pause is None:
                        raise rejected.too_busy(error) from None
                    waiting.before_again(pause, error)
                else:
                    self.count(upload)
                    return
            raise AssertionError
        finally:
            self.context.files.discard(upload)


# upsert: each group is loaded into a staging table of its own, then merged into the table in the order of messages.
#
# Of the rows of a key the one of the greatest rank is in the table, whatever comes last.

_UNFIT = ("RECORD", "JSON")


@dataclass(frozen=True, slots=True)
class Staged:
    """A staging table that holds a group, and where its rows are looked for in the table."""

    table: str
    upload: Upload
    bounds: tuple[ColumnRanges, ...] = ()


class Upsert(BigQueryLoadMethod):
    """The load method `upsert`; a key column of a type that has no equality is an error.

    Staging runs in parallel. Merging the same group twice changes nothing, so a replay needs no ledger.
    """

    ordered = True
    merges = True

    def __init__(self, context: BigQueryContext) -> None:
        super().__init__(context)
        for column in context.destination.columns:
            if column.name in context.keys and (column.repeated or column.kind in _UNFIT):
                msg = (
                    f"Key property {column.source!r} of stream {context.stream!r} is {column}, which cannot be compared"
                )
                raise SchemaError(msg)
        self._is_estimated = False
        tables.remove_leftovers(context.client, context.destination.name)

    def stage(self, parts: Sequence[PreparedItem]) -> Staged | None:
        """Load a group into a staging table."""
        fields = [*tables.nullable(self.context.destination.load_fields), {"name": ORDER, "type": "INTEGER"}]
        return self.load_without_refused(parts, lambda some: self._stage(some, fields), fields)

    def _stage(self, parts: Sequence[PreparedItem], fields: Fields) -> Staged | None:
        live = [p for p in parts if p.rows or p.rejects]
        if not live:
            return None
        bigquery, table = self.context.client, self.context.destination
        upload = self.join(live)
        try:
            self.write_dead_letters(live)
            if not upload.rows:
                return None
            name = staging_name(table.name, uuid.uuid4().hex)
            tables.create_staging_table(bigquery, name, fields)
            rejected.run_until_done(bigquery, upload, name, fields)
        except RefusedDataError:
            bigquery.delete_table(name)
            raise
        finally:
            self.context.files.discard(upload)
        return Staged(name, upload, self.bounds([p.item for p in live], upload.rows))

    def bounds(self, items: Sequence[Item], rows: int) -> tuple[ColumnRanges, ...]:
        """Return bounds of the rows of the table that have the keys of the staged rows of some items."""
        extents = together([item.conversion.extents for item in items], rows)
        return bounds(extents, self.context.destination.columns, self.context.keys)

    def publish(self, staged: Staged | None) -> None:
        """Merge a staging table into the table, and remove it."""
        if staged is None:
            return
        bigquery, table = self.context.client, self.context.destination
        what = f"Merging into table {bigquery.path(table.name)}"
        into, staging = bigquery.quoted(table.name), bigquery.quoted(staged.table)
        text = sql.merge(
            *(into, staging, table.columns, self.context.keys),
            rank=self.context.rank_column,
            emptied=table.siblings,
            bounds=staged.bounds,
            deleted=self.context.deleted_column,
            filtered_by=table.table.filtered_by,
        )
        if not self._is_estimated:
            self._is_estimated = True
            self._log_estimate(text, what, staged.bounds)
        bigquery.query(text, what=what)
        bigquery.delete_table(staged.table)
        self.count(staged.upload)

    def _log_estimate(self, text: str, what: str, bounds: Sequence[ColumnRanges]) -> None:
        """Log the estimated bytes of the first MERGE of a run, if BigQuery provides them."""
        try:
            size = self.context.client.estimate(text, what=what)
        except SingerArrowError as error:
            self.context.logger.debug("A MERGE could not be estimated: %s", error)
            return
        limit = self.context.client.settings.bytes_billed_limit
        self.context.logger.info(
            "Stream %r: a MERGE processes about %.1f MB%s%s",
            self.context.stream,
            size / 1e6,
            f", and reads of the table what the values of {' and '.join(b.column for b in bounds)} ask for"
            if bounds
            else "",
            f", of {limit / 1e6:.1f} MB that bytes_billed_limit allows"
            if limit
            else "; bytes_billed_limit would bound it",
        )


# overwrite: the whole run goes into a staging table, which replaces the table at once at the end of the run.


class Overwrite(BigQueryLoadMethod):
    deferred = True

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        """Load a group into the staging table."""
        self.load_each(parts, self._load)

    def _load(self, parts: Sequence[PreparedItem]) -> None:
        upload = self.join(parts)
        try:
            if upload.rows:
                name = self.context.overwrite_staging.staging(self.context.destination)
                fields = self.context.destination.load_fields
                run_until_done(self.context.client, upload, name, fields)
                self.count(upload)
            self.context.overwrite_staging.rejected.add(pending_of(parts), self.context.most_rejected)
        finally:
            self.context.files.discard(upload)

    def replace_table(self) -> None:
        self.context.overwrite_staging.staging(self.context.destination)

    def finish(self) -> None:
        """Replace the table; batches that were appended to its former rows count no more."""
        if when := self.context.overwrite_staging.replace(self.context.destination):
            self.context.ledger.void(when)
        if rejected := self.context.overwrite_staging.rejected.take():
            self.context.dead_letter_table.write(self.context.stream, rejected)
            self.dead_letters_written((), rejected)
