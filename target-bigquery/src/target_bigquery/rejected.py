"""Load jobs until they succeed; rows that BigQuery refuses; `_sdc_rejected`; the staging of overwrite."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from singer_arrow.errors import LoadError
from singer_arrow.formats import WRITABLE
from singer_arrow.load import row_spool
from singer_arrow.load.convert import Refusal, TooManyRefusedError, refused_of_each, refused_rows, without_refused
from singer_arrow.load.dead_letters import BatchRejects, HeldBack, parts_of
from singer_arrow.load.ledger import Waiting, pauses
from singer_arrow.load.method import LoadContext
from singer_arrow.naming import REJECTED, staging_name
from target_bigquery import connection, jobs, resources, sql, tables
from target_bigquery.client import BigQuery
from target_bigquery.connection import logger
from target_bigquery.jobs import Fields
from target_bigquery.ledger import StreamLedger
from target_bigquery.resources import ErrorKind, QuotaError, RefusedDataError, Table
from target_bigquery.tables import Destination
from target_bigquery.types import job_prefix
from target_bigquery.uploads import PARQUET_CODEC, Files, PreparedItem, Upload

# Load jobs: a file goes into a table, whole or not at all.


class BusyError(LoadError):
    """A load job did nothing, and another try under another id may do it."""


def run(bigquery: BigQuery, upload: Upload, table: str, fields: Fields, job_id: str) -> None:
    """Append a file to a table under a given job id, once; raise BusyError if BigQuery was busy, or the id is taken."""
    what = f"Loading into table {bigquery.path(table)}"
    try:
        source = upload.path or upload.uris
        job = bigquery.load(source, table, file_format=upload.file_format, fields=fields, job_id=job_id)
    except QuotaError as error:
        raise _quota_error(bigquery, table, error) from None
    if job.kind != "load":
        msg = f"{what}: another process took the id of the job {job_id}"
        raise BusyError(msg)
    if job.error_kind is ErrorKind.RETRY:
        raise BusyError(str(resources.failed(what, job)))
    if job.error_kind is ErrorKind.QUOTA:
        raise _quota_error(bigquery, table, resources.failed(what, job))
    if job.error is not None:
        if "has changed type" in job.error or "has changed mode" in job.error:
            msg = f"{resources.failed(what, job)}; the table was changed during this run: run again"
            raise LoadError(msg)
        if "different locations" in job.error:
            msg = f"{resources.failed(what, job)}; gcs_stage and the batch storage must be where the dataset is"
            raise LoadError(msg)
        raise resources.failed(what, job)
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
                run(bigquery, some, table, fields, f"{job_prefix(table)}{uuid.uuid4().hex}")
                break
            except BusyError as error:
                if pause is None:
                    raise too_busy(error) from None
                waiting.before_again(pause, error)


def _quota_error(bigquery: BigQuery, table: str, error: LoadError) -> LoadError:
    """Return the error of a quota, with how much of the quota of load jobs the table used."""
    used = bigquery.load_quota.used(bigquery.path(table))
    return (
        QuotaError(f"{error}. The table had {jobs.advice(used)}")
        if used >= jobs.WARN_SHARE * jobs.DAILY_LOADS
        else error
    )


def too_busy(error: BusyError) -> LoadError:
    """Return the error after the last attempt."""
    return LoadError(f"{error}; all retries failed; run again later")


# Replaces a table at the end of a run by a staging table.

KEPT = ("description", "friendly_name", "labels", "expires", "require_partition_filter")
"""Properties that are restored after a copy: BigQuery does not document whether a copy keeps them."""


class OverwriteStaging:
    """The staging table that replaces a stream's table; it lasts for the run, across changes of SCHEMA.

    It is created by the first load, or by an ACTIVATE_VERSION; a stream that brings neither leaves its table alone.
    """

    def __init__(self, client: BigQuery) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._name: str | None = None
        self.rejected = HeldBack()  # the rows that are not loaded, of the loads into it

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

    def replace(self, destination: Destination) -> datetime | None:
        """Put the staging table in the place of the table, and return when; None if there is nothing to put."""
        with self._lock:
            if self._name is None:
                return None
            client, table = self._client, self._client.table(destination.name) or destination.table
            if self._must_stay(table):  # its rows are replaced; BigQuery bills what the staging table holds
                staging = client.table(self._name)
                assert staging
                names = [c.name for c in staging.columns]
                text = sql.replace_rows(client.quoted(table.name), client.quoted(staging.name), names)
                when = client.query(text, what=f"Replacing the rows of table {client.path(table.name)}").started
            else:  # a copy of the staging table takes its place, which costs nothing
                client.copy_properties(self._name, table, ("expires",))  # an abandoned copy expires like the table
                when = client.copy(self._name, table.name, what=f"Replacing table {client.path(table.name)}").created
                client.copy_properties(table.name, table, KEPT)
            client.delete_table(self._name)
            self._name = None
            return when

    def _must_stay(self, table: Table) -> bool:
        """Return whether the table has something that a copy would remove: row access policies, or declared keys."""
        has_policies = self._client.has_row_policies(table.name)
        if has_policies is None:
            logger.info(
                "Table %s: its row access policies may not be listed, and a copy would remove them, so its rows are "
                "replaced by a query, which bills them once; grant bigquery.rowAccessPolicies.list to spare that",
                self._client.path(table.name),
            )
            return True
        return has_policies or bool(table.resource.table_constraints)


# Writes the table `_sdc_rejected`: the rows that were not loaded, and why.
#
# They are written before the load job of the other rows of their batches, by a MERGE that skips existing rows, so a
# batch that is loaded again adds none of its rows a second time.

MOST_RECORD = 8 << 20
"""Bytes of a record in one row; what is longer takes several."""
_SCHEMA = pa.schema(
    [(field["name"], pa.int64() if field["type"] == "INTEGER" else pa.string()) for field in tables.REJECTED_FIELDS]
)


class DeadLetterTable:
    """The table of rows that are not loaded; safe to use from any thread, and created when there is the first."""

    def __init__(self, client: BigQuery, temporary: Callable[[str], Path]) -> None:
        self._client, self._temporary = client, temporary
        self._lock = threading.Lock()
        self._exists = False

    def write(self, stream: str, batches: Sequence[BatchRejects]) -> None:
        """Write rows, one call at a time: they are durable once it returns."""
        client, name = self._client, staging_name(REJECTED, uuid.uuid4().hex)
        with self._lock:
            if not self._exists:
                tables.prepare_rejected(client)
                tables.remove_leftovers(client, REJECTED)
                self._exists = True
            path, rows = self._temporary(".parquet"), list(_rows(stream, batches))
            batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
            WRITABLE["parquet"].write([batch], _SCHEMA, path, compression=PARQUET_CODEC)
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


def _rows(stream: str, batches: Sequence[BatchRejects]) -> Iterator[dict[str, object]]:
    for batch in batches:
        for rejected in batch.rows:
            for number, part in enumerate(parts_of(rejected, MOST_RECORD), 1):
                yield {
                    "stream": stream,
                    "batch_id": batch.batch_id,
                    "file": part.file,
                    "position": part.position,
                    "column_name": part.column,
                    "reason": part.reason,
                    "record": part.record,
                    "part": number,
                }


# What the load methods of one stream use.


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


# Finds the rows because of which BigQuery refuses a load job, by loading ranges of the group.
#
# Items that were not read yet are read first: the checks of the conversion may find the rows. If not, ever smaller
# files are loaded into a temporary table until each refused row is isolated.


def drop_rejected(
    context: BigQueryContext, parts: Sequence[PreparedItem], fields: Fields, error: RefusedDataError
) -> list[PreparedItem]:
    """Return the parts, read if they were not yet, without the rows that BigQuery refuses.

    The error is raised if it is not for a row, or for more of them than are looked for. `fields` are the columns of the
    table that refused them.
    """
    context.logger.info("Stream %r: %s; looking for the rows that are refused", context.stream, error)
    if not all(p.spool for p in parts):
        known = sum(len(p.rejects) for p in parts if p.rejects is not None)
        parts = [p if p.spool else context.files.spooled(p) for p in parts]
        if sum(len(p.rejects) for p in parts if p.rejects is not None) > known:
            return list(parts)
    try:
        found = _found(context, parts, fields, error)
    except TooManyRefusedError as many:
        raise many.of_load(error, "BigQuery") from None
    if not found:
        raise RefusedDataError(str(error))
    each = refused_of_each(found, [p.rows for p in parts])
    made = list(parts)
    for number, (part, mine) in enumerate(zip(parts, each, strict=True)):
        if mine and part.spool and part.rejects is not None:
            rest = without_refused(part.spool, mine, part.rejects, context.files.temporary(".arrow"))
            made[number] = replace(part, rows=rest.rows, spool=rest)
    return made


def _found(
    context: BigQueryContext, parts: Sequence[PreparedItem], fields: Fields, error: RefusedDataError
) -> list[tuple[int, Refusal]]:
    """Return the rows that are refused, by their numbers among all."""
    name, spools = staging_name(context.destination.name, uuid.uuid4().hex), [p.spool for p in parts if p.spool]
    tables.create_staging_table(context.client, name, fields)

    def probe(low: int, high: int) -> Refusal | None:
        rows = row_spool.read(spools, low, high)
        upload = context.files.write(rows, spools[0].schema, context.upload_format)
        try:
            run_until_done(context.client, upload, name, fields)
        except RefusedDataError as refused:
            return Refusal(str(refused))
        finally:
            context.files.discard(upload)
        return None

    try:
        count = sum(p.rows for p in parts)
        found = refused_rows(count, probe, first=Refusal(str(error)))
        return [] if found and len(found) == count and probe(0, 0) else found  # what no row is in is refused too
    finally:
        context.client.delete_table(name)
