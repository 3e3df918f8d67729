"""Jobs: a job id is used once, and jobs are slow or fail on request."""

import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from local_bigquery import errors
from local_bigquery.jobs import query, runner

from local_cloud.bigquery.server.faults import Faults
from local_cloud.bigquery.server.files import avro

# HTTP statuses of error reasons that only the real service has.
REASONS = {
    "quotaExceeded": (403, "PERMISSION_DENIED"),
    "rateLimitExceeded": (403, "PERMISSION_DENIED"),
    "backendError": (503, "UNAVAILABLE"),
    "internalError": (500, "INTERNAL"),
    "jobBackendError": (400, "INVALID_ARGUMENT"),
    "jobInternalError": (400, "INVALID_ARGUMENT"),
    "jobRateLimitExceeded": (400, "INVALID_ARGUMENT"),
    "tableUnavailable": (400, "INVALID_ARGUMENT"),
    "resourcesExceeded": (400, "RESOURCE_EXHAUSTED"),
}
_faults = Faults(
    "/local-cloud/job-faults",
    {"job", "holds", "reason", "message"},
    lambda fault: fault.get("reason", "invalid") in errors.STATUSES,
)


def _suffer(job: str, subject: str, holds: Callable[[str], bool] = lambda _: False) -> None:
    """Delay or fail a job by the first fault that matches it."""

    def concerns(fault: dict[str, Any]) -> bool:
        return fault.get("job", job) == job and ("holds" not in fault or holds(fault["holds"]))

    if fault := _faults.firing(subject, concerns):
        with _faults.delaying(fault):
            if reason := fault.get("reason"):
                raise errors.BigQueryError(reason, fault.get("message", f"made to fail: {reason}"))


def _suffering(kind: str, handler: Any) -> Any:
    def handle(cursor: Any, config: Any, upload: str | None) -> Any:
        table = config.destinationTable
        subject = f"{table.projectId}.{table.datasetId}.{table.tableId}"
        _suffer(kind, subject, lambda text: upload is not None and _holds(Path(upload), config, text))
        return handler(cursor, config, upload)

    return handle


def _holds(upload: Path, config: Any, text: str) -> bool:
    """Whether the file of a load job contains a value equal to this text."""
    if config.sourceFormat == "PARQUET":
        rows = pq.read_table(upload).to_pylist()
    elif config.sourceFormat == "AVRO":
        rows = avro.read(upload.read_bytes(), config).to_pylist()
    else:
        opener = gzip.open if upload.read_bytes()[:2] == b"\x1f\x8b" else open
        with opener(upload, "rt") as file:
            rows = [json.loads(line) for line in file]
    return any(text in row.values() for row in rows)


def patch() -> None:
    """Replace the server's functions that start jobs."""
    errors.STATUSES.update(REASONS)
    for kind in ("load", "copy"):
        runner.HANDLERS[kind] = _suffering(kind, runner.HANDLERS[kind])
    execute, submit, taking = query.execute, runner.submit, threading.Lock()

    def execute_or_fail(cursor: Any, project_id: str, job_id: str | None, config: Any, **options: Any) -> Any:
        if job_id is not None:
            _suffer("query", config.query or "")
        return execute(cursor, project_id, job_id, config, **options)

    def submit_once(project_id: str, job_id: str, configuration: Any, upload: str | None = None) -> Any:
        # The server looks an id up and takes it in two steps; two requests at once could both succeed.
        with taking:
            try:
                return submit(project_id, job_id, configuration, upload)
            except errors.BigQueryError:
                if upload:
                    os.remove(upload)  # noqa: PTH107 - a plain path is what the server has
                raise

    query.execute, runner.submit = execute_or_fail, submit_once
    _faults.add_control()
