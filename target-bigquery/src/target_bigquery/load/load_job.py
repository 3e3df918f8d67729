"""Load jobs: a file goes into a table, whole or not at all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from singer_arrow.errors import LoadError
from singer_arrow.singer.retries import pauses
from target_bigquery import answers, budget, connection
from target_bigquery.answers import Job, QuotaError
from target_bigquery.client import BigQuery
from target_bigquery.load.files import Upload
from target_bigquery.retries import Kind

Fields = Sequence[Mapping[str, Any]]


def run(bigquery: BigQuery, upload: Upload, table: str, fields: Fields, job_id: str) -> Job | None:
    """Append a file to a table under a given job id, once.

    Returns:
        The job, if it did; None if it did nothing and another try under another id may do it: BigQuery was busy, or
        somebody took the id.

    Raises:
        LoadError: BigQuery refuses the file; says why.
    """
    what = f"Loading into table {bigquery.path(table)}"
    try:
        job = bigquery.load(upload.path, table, file_format=upload.file_format, fields=fields, job_id=job_id)
    except QuotaError as error:
        raise _of_quota(bigquery, table, error) from None
    if job.kind != "load" or job.error_kind is Kind.RETRY:
        return None
    if job.error_kind is Kind.QUOTA:
        raise _of_quota(bigquery, table, answers.failed(what, job))
    if job.error is not None:
        if "has changed type" in job.error or "has changed mode" in job.error:
            msg = f"{answers.failed(what, job)}; the table was changed during this run: run again"
            raise LoadError(msg)
        raise answers.failed(what, job)
    if job.rows != upload.rows:
        msg = f"{what}: BigQuery took {job.rows} of {upload.rows} rows (job {job.id}); check the table, then run again"
        raise LoadError(msg)
    return job


def run_until_done(bigquery: BigQuery, upload: Upload, table: str, fields: Fields, prefix: str) -> Job:
    """Append a file to a table that is this run's own, with as many jobs as it takes.

    Raises:
        LoadError: BigQuery refuses the file, or is busy for too long.
    """
    for pause in pauses(connection.DEADLINE_SECONDS):
        job = run(bigquery, upload, table, fields, f"{prefix}{uuid.uuid4().hex}")
        if job is not None:
            return job
        if pause is not None:
            time.sleep(pause)
    raise too_busy(bigquery, table)


def _of_quota(bigquery: BigQuery, table: str, error: LoadError) -> LoadError:
    """The error of a quota, with what the table used of that of load jobs, where that may be it."""
    used = bigquery.budget.used(bigquery.path(table))
    return (
        LoadError(f"{error}. The table had {budget.advice(used)}")
        if used >= budget.WARN_SHARE * budget.DAILY_LOADS
        else error
    )


def too_busy(bigquery: BigQuery, table: str) -> LoadError:
    """The error after all tries."""
    return LoadError(f"Loading into table {bigquery.path(table)}: BigQuery is too busy, also after many tries")
