"""Load jobs: a file goes into a table, whole or not at all."""

from __future__ import annotations

import uuid

from singer_arrow.errors import LoadError
from singer_arrow.load.backoff import Waiting, pauses
from target_bigquery.connection import connection, load_job_quota, resources
from target_bigquery.connection.client import BigQuery
from target_bigquery.connection.connection import logger
from target_bigquery.connection.error_kinds import ErrorKind
from target_bigquery.connection.jobs import Fields
from target_bigquery.connection.resources import QuotaError
from target_bigquery.load.uploads import Upload
from target_bigquery.tables.naming import job_prefix


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
        QuotaError(f"{error}. The table had {load_job_quota.advice(used)}")
        if used >= load_job_quota.WARN_SHARE * load_job_quota.DAILY_LOADS
        else error
    )


def too_busy(error: BusyError) -> LoadError:
    """Return the error after the last attempt."""
    return LoadError(f"{error}; all retries failed; run again later")
