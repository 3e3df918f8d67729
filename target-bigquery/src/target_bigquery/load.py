"""The load methods append-only, upsert and overwrite; load jobs, rows that BigQuery refuses, `_sdc_rejected`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from singer_arrow.errors import DataError, LoadError, SchemaError, SingerArrowError
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.load.convert import ORDER, Refusal, TooManyRefusedError, read_spools, refused_rows, without_refused
from singer_arrow.load.dead_letters import BatchRejects, HeldRejects, TooManyRejectedError, table_rows
from singer_arrow.load.method import LoadContext, LoadMethod, Prepared
from singer_arrow.load.staging import together
from singer_arrow.naming import REJECTED, staging_name
from singer_arrow.runtime.threads import Waiting, pauses
from singer_arrow.storage.urls import Url
from target_bigquery import client as jobs
from target_bigquery import connection, resources, sql, tables
from target_bigquery.client import BigQuery, Fields
from target_bigquery.connection import logger
from target_bigquery.ledger import StreamLedger
from target_bigquery.merge_pruning import bounds
from target_bigquery.resources import AlreadyExistsError, ErrorKind, QuotaError, RefusedDataError
from target_bigquery.sql import ColumnRanges
from target_bigquery.tables import Destination
from target_bigquery.types import job_prefix
from target_bigquery.uploads import PARQUET_CODEC, Files, Item, PreparedItem, Upload

T = TypeVar("T")
_MOST = {"record": 8 << 20}  # bytes of columns of `_sdc_rejected`
KEPT = ("description", "friendly_name", "labels", "expires", "require_partition_filter")
"""Properties that are restored after a copy: BigQuery does not document whether a copy keeps them."""
_UNFIT = ("RECORD", "JSON")  # types of columns that cannot be keys
_REJECTED_SCHEMA = pa.schema(
    [(field["name"], pa.int64() if field["type"] == "INTEGER" else pa.string()) for field in tables.REJECTED_FIELDS]
)


# Load jobs: a file goes into a table, whole or not at all.


class BusyError(LoadError):
    """A load job did nothing, and another try under another id may do it."""


def run_load_job(bigquery: BigQuery, upload: Upload, table: str, fields: Fields, job_id: str) -> None:
    """Append a file to a table under a given job id, once; raise BusyError if BigQuery was busy, or the id is taken."""
    what = f"Loading into table {bigquery.path(table)}"

    def of_quota(error: LoadError) -> LoadError:
        """Return the error of a quota, with how much of the quota of load jobs the table used."""
        used = bigquery.load_quota.used(bigquery.path(table))
        is_near = used >= jobs.WARN_SHARE * jobs.DAILY_LOADS
        return QuotaError(f"{error}. The table had {jobs.advice(used)}") if is_near else error

    try:
        source = upload.path or upload.uris
        job = bigquery.load(source, table, file_format=upload.file_format, fields=fields, job_id=job_id)
    except QuotaError as error:
        raise of_quota(error) from None
    if job.kind != "load":
        raise BusyError(f"{what}: another process took the id of the job {job_id}")
    if job.error is not None:
        failed = resources.failed(what, job)
        if job.error_kind is ErrorKind.RETRY:
            raise BusyError(str(failed))
        if job.error_kind is ErrorKind.QUOTA:
            raise of_quota(failed)
        if "has changed type" in job.error or "has changed mode" in job.error:
            raise LoadError(f"{failed}; the table was changed during this run: run again")
        if "different locations" in job.error:
            raise LoadError(f"{failed}; gcs_stage and the batch storage must be where the dataset is")
        raise failed
    if job.rows != upload.rows:
        msg = f"{what}: BigQuery took {job.rows} of {upload.rows} rows (job {job.id}); check the table, then run again"
        raise LoadError(msg)
    if upload.check:
        upload.check()


def run_until_done(bigquery: BigQuery, upload: Upload, table: str, fields: Fields) -> None:
    """Append an upload to a table that is this run's own, with as many jobs as it takes."""
    for some in upload.jobs or (upload,):
        waiting = Waiting(logger)
        for pause in pauses(connection.DEADLINE_SECONDS):
            try:
                run_load_job(bigquery, some, table, fields, bigquery.new_job_id(job_prefix(table)))
                break
            except BusyError as error:
                if pause is None:
                    raise too_busy(error) from None
                waiting.before_again(pause, error)


def too_busy(error: BusyError) -> LoadError:
    return LoadError(f"{error}; all retries failed; run again later")


# The table `_sdc_rejected`: the rows that were not loaded, and why.


class DeadLetterTable:
    """The table of rows that are not loaded; safe to use from any thread, and created when there is the first.

    They are written before the load job of the other rows of their batches (for overwrite: after the table is
    replaced), by a MERGE that skips existing rows, so a batch that is loaded again adds none of them a second time.
    """

    def __init__(self, client: BigQuery, temporary: Callable[[str], Path]) -> None:
        self._client, self._temporary = client, temporary
        self._lock = threading.Lock()
        self._exists = False

    def write(self, stream: str, batches: Sequence[BatchRejects]) -> None:
        """Write rows, one call at a time: they are durable once it returns."""
        client, name = self._client, staging_name(REJECTED, uuid.uuid4().hex)
        with self._lock:
            if not self._exists:
                if client.table(REJECTED) is None:
                    fields = [*tables.REJECTED_FIELDS, {"name": "rejected_at", "type": "TIMESTAMP"}]
                    about = "Rows that were not loaded, and why. Written by target-bigquery."
                    with suppress(AlreadyExistsError):
                        client.create_table(REJECTED, fields, cluster=("stream", "batch_id"), description=about)
                tables.remove_leftovers(client, REJECTED)
                self._exists = True
            path, rows = self._temporary(".parquet"), list(table_rows(stream, batches, _MOST))
            batch = pa.RecordBatch.from_pylist(rows, schema=_REJECTED_SCHEMA)
            WRITABLE["parquet"].write([batch], _REJECTED_SCHEMA, path, WriteOptions(PARQUET_CODEC))
            upload = Upload(path, "parquet", len(rows), path.stat().st_size, is_temporary=True)
            try:
                tables.create_staging_table(client, name, tables.REJECTED_FIELDS)
                run_until_done(client, upload, name, tables.REJECTED_FIELDS)
            except RefusedDataError as error:  # it is not for a row of the stream
                raise LoadError(str(error)) from None
            finally:
                path.unlink(missing_ok=True)
            what = f"Writing to {client.path(REJECTED)}"
            client.query(sql.add_rejected(client.quoted(REJECTED), client.quoted(name)), what=what)
            client.delete_table(name)


# The staging of overwrite.


class OverwriteStaging:
    """The staging table that replaces a stream's table; it lasts for the run, across changes of SCHEMA.

    It is created by the first load, or by an ACTIVATE_VERSION; a stream that brings neither leaves its table alone.
    """

    def __init__(self, client: BigQuery) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._name: str | None = None
        self.rejected = HeldRejects()  # the rows that are not loaded, of the loads into it
        self.entries: dict[str, int] = {}  # what the ledger gets with them: batches, plan logs

    def staging(self, destination: Destination) -> str:
        """Return the staging table, with the columns that the table has now."""
        with self._lock:
            if self._name is None:
                tables.remove_leftovers(self._client, destination.name)
                self._name = staging_name(destination.name, uuid.uuid4().hex)
                tables.create_staging_table(self._client, self._name, destination.table.fields, like=destination.table)
            elif (table := self._client.table(self._name)) and table.columns != destination.table.columns:
                tables.follow(self._client, table, destination.table)
            return self._name

    def replace(self, destination: Destination, ledger: StreamLedger) -> None:
        """Put the staging table, if there is one, in the place of the table.

        The ledger's entries are written before, with the id of the job that does it: they count once it is done.
        """
        with self._lock:
            if self._name is None:
                return
            client, table = self._client, self._client.table(destination.name) or destination.table
            has_policies = client.has_row_policies(table.name)
            if has_policies is None:
                logger.info(
                    "Table %s: its row access policies may not be listed, and a copy would remove them, so its rows "
                    "are replaced by a query, which bills them once; grant bigquery.rowAccessPolicies.list to spare "
                    "that",
                    client.path(table.name),
                )
            new_id = partial(ledger.enter, self.entries, replaces=True)
            # A copy would remove row access policies and declared keys, and a partition that it overwrites would keep
            # what was streamed to it lately (https://cloud.google.com/bigquery/docs/write-api-rest, read 2026-08-22)
            is_streamed = table.resource.streaming_buffer is not None
            if is_streamed or has_policies is not False or table.resource.table_constraints:
                # its rows are replaced; BigQuery bills what the staging table holds
                staging = client.table(self._name)
                assert staging
                named = client.quoted(table.name), client.quoted(staging.name), [c.name for c in staging.columns]
                texts = [sql.replace_rows(*named), sql.replace_streamed_rows(*named, table.filtered_by)]
                what = f"Replacing the rows of table {client.path(table.name)}"
                try:
                    when = client.query(texts[is_streamed], what=what, new_id=new_id).started
                except LoadError as error:  # BigQuery need not show the buffer
                    if is_streamed or resources.STREAMED not in str(error):
                        raise
                    when = client.query(texts[True], what=what, new_id=new_id).started
            else:  # a copy of the staging table takes its place, which costs nothing
                client.copy_properties(self._name, table, ("expires",))  # an abandoned copy expires like the table
                what = f"Replacing table {client.path(table.name)}"
                when = client.copy(self._name, table.name, what=what, new_id=new_id).created
                client.copy_properties(table.name, table, KEPT)
            assert when
            ledger.void(when)
            client.delete_table(self._name)
            self._name, self.entries = None, {}


# The base of the load methods.


@dataclass(frozen=True, slots=True, kw_only=True)
class BigQueryContext(LoadContext):
    """What the load methods of one stream use, besides what `LoadContext` holds."""

    client: BigQuery
    files: Files
    destination: Destination
    upload_format: str
    ledger: StreamLedger
    overwrite_staging: OverwriteStaging
    dead_letter_table: DeadLetterTable


class BigQueryLoadMethod(LoadMethod[BigQueryContext, PreparedItem]):
    """Base of the load methods: prepares items, and joins those of a group into the file of a load job."""

    prepared_class = PreparedItem

    def make_ready(self, item: Item) -> PreparedItem:
        return self.context.files.prepare(item, self.context.upload_format, self.rejects(item))

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
                    made = self._drop_refused(made, fields, error)
        finally:
            self.context.files.discard(*made)

    def _drop_refused(
        self, parts: Sequence[PreparedItem], fields: Fields, error: RefusedDataError
    ) -> list[PreparedItem]:
        """Return the parts without the rows because of which a table with columns `fields` refused them.

        Items that were not read yet are read first: the checks of the conversion may find the rows. If not, ever
        smaller files are loaded into a temporary table until each refused row is isolated. The error is raised if it is
        not for a row, or for more of them than are looked for.
        """
        context = self.context
        context.logger.info("Stream %r: %s; looking for the rows that are refused", context.stream, error)
        if not all(p.spool for p in parts):
            known = sum(len(p.rejects) for p in parts if p.rejects is not None)
            parts = [p if p.spool else context.files.spooled(p) for p in parts]
            if sum(len(p.rejects) for p in parts if p.rejects is not None) > known:
                return list(parts)
        name, spools = staging_name(context.destination.name, uuid.uuid4().hex), [p.spool for p in parts if p.spool]
        tables.create_staging_table(context.client, name, fields)

        def probe(low: int, high: int) -> Refusal | None:
            rows = read_spools(spools, low, high)
            upload = context.files.write(rows, spools[0].schema, context.upload_format)
            try:
                run_until_done(context.client, upload, name, fields)
            except RefusedDataError as refused:
                return Refusal(str(refused))
            finally:
                context.files.discard(upload)
            return None

        count = sum(p.rows for p in parts)
        try:
            found = refused_rows(count, probe, first=Refusal(str(error)))
            if not found or (len(found) == count and probe(0, 0)):  # what no row is in is refused too
                raise RefusedDataError(str(error))
        except TooManyRefusedError as many:
            raise many.of_load(error, "BigQuery") from None
        finally:
            context.client.delete_table(name)
        return without_refused(parts, found, context.files.temporary)

    def write_dead_letters(self, parts: Sequence[Prepared[Any]]) -> None:
        if pending := pending_of(parts):
            self.context.dead_letter_table.write(self.context.stream, pending)
            for part in parts:
                if part.rejects is not None:
                    part.rejects.mark_written(part.rejects.pending())
            self.log_rejected(pending)

    def join(self, parts: Sequence[PreparedItem]) -> Upload:
        """Return one upload of some parts; without rows it is an empty file where they are batches."""
        files, upload_format = self.context.files, self.context.upload_format
        try:
            upload = files.join(parts, upload_format)
        except TooManyRejectedError:
            raise
        except DataError as error:
            raise self.hinted(error) from None
        if upload.path is None and not upload.rows and any(p.item.batch_id for p in parts):  # the ledger needs a job
            return files.write([], parts[0].item.conversion.upload_schema, upload_format)
        return upload

    def count(self, upload: Upload) -> None:
        self.context.tally.add(load_jobs=len(upload.jobs) or 1, rows=upload.rows, bytes=upload.bytes)

    def entries(self, parts: Sequence[Prepared[Any]]) -> dict[str, int]:
        """Return what the ledger gets with the rows of some parts: their batches with their rows, their plan logs."""
        batches = {p.item.batch_id: kept_rows(p) for p in parts if p.item.batch_id}
        return batches | self.entries_of_logs(p.item for p in parts)

    def removable_files(self, parts: Sequence[PreparedItem], staged: object) -> list[Url]:
        return [*super().removable_files(parts, staged), *(url for part in parts for url in part.staged)]


def kept_rows(part: Prepared[Any]) -> int:
    """Return the number of rows of a part without those that `Files.join` left out."""
    if part.rejects is None or not isinstance(part, PreparedItem) or part.as_it_is or part.spool:
        return part.rows
    return part.rows - len(part.rejects)


def pending_of(parts: Sequence[Prepared[Any]]) -> list[BatchRejects]:
    """Return the rejected rows of some parts that were not written yet."""
    found = ((p.item.batch_id, p.rejects.pending()) for p in parts if p.rejects)
    return [BatchRejects(batch_id, rows) for batch_id, rows in found if rows]


# append-only: `stage` loads a group into the table, by one load job; the ledger keeps batches from being loaded twice.
# Through the Storage Write API it is another load method: see `storage_write`, chosen in `target.py`.


class AppendOnly(BigQueryLoadMethod):
    keeps_ledger = True

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        self.load_each(parts, self._load)

    def _load(self, parts: Sequence[PreparedItem]) -> None:
        if not parts:
            return
        upload, waiting = self.join(parts), Waiting(logger)
        try:
            self.write_dead_letters(parts)  # before the load job: a replay that finds that done looks no further
            if not upload.rows and not any(p.item.batch_id for p in parts):
                return
            for pause in pauses(connection.DEADLINE_SECONDS):
                batches = {p.item.batch_id: kept_rows(p) for p in parts if p.item.batch_id}
                of_logs = self.entries_of_logs(p.item for p in parts)
                job_id, theirs = self.context.ledger.begin(batches, of_logs)
                if theirs:
                    for batch_id in theirs:
                        self.skip(batch_id, "just now by another run")
                    self._load([p for p in parts if p.item.batch_id not in theirs])
                    return
                table, client = self.context.destination, self.context.client
                client.load_quota.add(client.path(table.name))
                try:
                    run_load_job(client, upload, table.name, table.load_fields, job_id)
                except BusyError as error:
                    if pause is None:
                        raise too_busy(error) from None
                    waiting.before_again(pause, error)
                else:
                    self.note(of_logs)
                    self.count(upload)
                    return
            raise AssertionError  # the last of the pauses is None
        finally:
            self.context.files.discard(upload)


# upsert: each group is loaded into a staging table of its own, then merged into the table in the order of messages.
#
# Of the rows of a key the one of the greatest rank is in the table, whatever comes last.


@dataclass(frozen=True, slots=True)
class Staged:
    """A staging table that holds a group, and where its rows are looked for in the table."""

    table: str
    upload: Upload
    entries: Mapping[str, int]  # what the ledger gets with it
    bounds: tuple[ColumnRanges, ...] = ()


class Upsert(BigQueryLoadMethod):
    """The load method `upsert`; a key column of a type that has no equality is an error.

    Staging runs in parallel. Merging the same group twice changes nothing; the ledger is for a later append-only.
    """

    ordered = True
    merges = True
    keeps_ledger = True

    def __init__(self, context: BigQueryContext) -> None:
        super().__init__(context)
        for column in context.destination.columns:
            if column.name in context.keys and (column.repeated or column.kind in _UNFIT):
                raise SchemaError(
                    f"Key property {column.source!r} of stream {context.stream!r} is {column}, which cannot be compared"
                )
        size = len(self._merge(staging_name(context.destination.name, uuid.uuid4().hex)).encode())
        if size > sql.MOST_BYTES:
            raise SchemaError(
                f"The MERGE of {len(context.destination.columns):,} columns of stream {context.stream!r} has {size:,} "
                "bytes, and BigQuery takes 1 MB; leave columns out by selection, give them shorter names, or set "
                "load_method: append-only"
            )
        self._is_estimated = False
        fields = context.destination.load_fields
        nullable = [{**f, "mode": "NULLABLE"} if f.get("mode") == "REQUIRED" else f for f in fields]
        self.fields: Fields = [*nullable, {"name": ORDER, "type": "INTEGER"}]  # the columns of staging tables
        tables.remove_leftovers(context.client, context.destination.name)

    def stage(self, parts: Sequence[PreparedItem]) -> Staged | None:
        return self.load_without_refused(parts, self._stage, self.fields)

    def _stage(self, parts: Sequence[PreparedItem]) -> Staged | None:
        live = [p for p in parts if p.rows or p.rejects]
        if not live:
            return None
        bigquery, table = self.context.client, self.context.destination
        upload = self.join(live)
        try:
            self.write_dead_letters(live)
            if not upload.rows and not any(p.item.batch_id for p in live):
                return None
            name = staging_name(table.name, uuid.uuid4().hex)
            tables.create_staging_table(bigquery, name, self.fields)
            run_until_done(bigquery, upload, name, self.fields)
        except RefusedDataError:
            bigquery.delete_table(name)
            raise
        finally:
            self.context.files.discard(upload)
        return Staged(name, upload, self.entries(live), self.bounds([p.item for p in live], upload.rows))

    def bounds(self, items: Sequence[Item], rows: int) -> tuple[ColumnRanges, ...]:
        """Return bounds of the rows of the table that have the keys of the staged rows of some items."""
        extents = together([item.conversion.extents for item in items], rows)
        return bounds(extents, self.context.destination.columns, self.context.keys)

    def _merge(self, staging: str, bounds: Sequence[ColumnRanges] = ()) -> str:
        bigquery, table = self.context.client, self.context.destination
        return sql.merge(
            *(bigquery.quoted(table.name), bigquery.quoted(staging), table.columns, self.context.keys),
            rank=self.context.rank_column,
            emptied=table.unfilled,
            bounds=bounds,
            deleted=self.context.deleted_column,
            filtered_by=table.table.filtered_by,
        )

    def publish(self, staged: Staged | None) -> None:
        """Merge a staging table into the table, and remove it."""
        if staged is None:
            return
        bigquery, table = self.context.client, self.context.destination
        what = f"Merging into table {bigquery.path(table.name)}"
        text = self._merge(staged.table, staged.bounds)
        if len(text.encode()) > sql.MOST_BYTES:
            text = self._merge(staged.table)  # which reads more
        if not self._is_estimated:
            self._is_estimated = True  # the estimated bytes of the first MERGE of a run are logged
            columns, limit = " and ".join(b.column for b in staged.bounds), bigquery.settings.bytes_billed_limit
            try:
                size = bigquery.estimate(text, what=what)
            except SingerArrowError as error:
                self.context.logger.debug("A MERGE could not be estimated: %s", error)
            else:
                self.context.logger.info(
                    "Stream %r: a MERGE processes about %.1f MB%s%s",
                    self.context.stream,
                    size / 1e6,
                    f", and reads of the table what the values of {columns} ask for" if columns else "",
                    f", of {limit / 1e6:.1f} MB that bytes_billed_limit allows"
                    if limit
                    else "; bytes_billed_limit would bound it",
                )
        bigquery.query(text, what=what, new_id=partial(self.context.ledger.enter, staged.entries, replaces=False))
        self.note(staged.entries)
        bigquery.delete_table(staged.table)
        self.count(staged.upload)


# overwrite: the whole run goes into a staging table, which replaces the table at once at the end of the run.


class Overwrite(BigQueryLoadMethod):
    deferred = True

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        self.load_each(parts, self._load)

    def _load(self, parts: Sequence[PreparedItem]) -> None:
        upload = self.join(parts)
        try:
            if upload.rows:
                name = self.context.overwrite_staging.staging(self.context.destination)
                run_until_done(self.context.client, upload, name, self.context.destination.load_fields)
                self.count(upload)
            staging = self.context.overwrite_staging
            staging.rejected.add(pending_of(parts), self.context.most_rejected)
            staging.entries.update(self.entries(parts))
        finally:
            self.context.files.discard(upload)

    def replace_table(self) -> None:
        self.context.overwrite_staging.staging(self.context.destination)

    def finish(self) -> None:
        """Replace the table; batches that its former rows came from count no more."""
        self.context.overwrite_staging.replace(self.context.destination, self.context.ledger)
        if rejected := self.context.overwrite_staging.rejected.take():
            self.context.dead_letter_table.write(self.context.stream, rejected)
            self.log_rejected(rejected)
