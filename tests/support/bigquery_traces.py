"""Load jobs and ledger entries that loads leave in BigQuery."""

from __future__ import annotations

from typing import Any

from google.api_core.exceptions import NotFound


def load_jobs(bq: Any, dataset: str, project: str | None = None) -> list[Any]:
    """Return the load jobs into a dataset, newest first, that run in a project, by default the data's."""
    return [j for j in bq.list_jobs(project=project) if j.job_type == "load" and j.destination.dataset_id == dataset]


def entries(bq: Any, dataset: str) -> list[Any]:
    """Return the ledger rows of batches, oldest first; empty if there is no ledger yet."""
    text = f"SELECT * FROM `{dataset}._sdc_batches` WHERE batch_id != '' ORDER BY started_at, batch_id"
    try:
        return list(bq.query(text).result())
    except NotFound:
        return []
