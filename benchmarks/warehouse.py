"""What arrived in the local BigQuery, and when: asked of BigQuery itself, not of the connector."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.case import Facts
from benchmarks.connectors import dataset_of, expect
from benchmarks.harness import BenchmarkError, Measured

COLUMNS = (("converted_s", "converted s"), ("load_s", "BigQuery s"), ("jobs", "load jobs"))
"""Columns for cases that load: see `loaded`."""


def arrived(cloud: Any, table: str, rows: int) -> Callable[[Path, Measured], Facts]:
    """Insists on the number of rows, and drops the dataset."""

    def facts(folder: Path, measured: Measured) -> Facts:
        with _asked(cloud, folder, table, rows):
            return {"rows": rows, "rows_per_s": rows / measured.wall}

    return facts


def loaded(cloud: Any, table: str, rows: int) -> Callable[[Path, Measured], Facts]:
    """Insists on the number of rows, counts load jobs and their start times; drops the dataset.

    `converted_s` is when the last load job was created, after the start of the run: until then everything was
    converted and uploaded, and what follows is BigQuery's own time. `load_s` is the seconds that BigQuery spent in
    load jobs, which is the emulator's speed and no measure of the real one; `rows_per_s` counts it in, and
    `converted_rows_per_s` does not. `bytes` is what the jobs were given.
    """

    def facts(folder: Path, measured: Measured) -> Facts:
        with _asked(cloud, folder, table, rows) as client:
            jobs = [job for job in _load_jobs(client) if job.destination.dataset_id == dataset_of(folder)]
        if not jobs:
            raise BenchmarkError("the rows arrived without a load job")
        converted = max(job.created.timestamp() for job in jobs) - measured.started
        return {
            "rows": rows,
            "rows_per_s": rows / measured.wall,
            "converted_rows_per_s": rows / converted,
            "bytes": sum(job.input_file_bytes or 0 for job in jobs),
            "jobs": len(jobs),
            "converted_s": converted,
            "load_s": sum((job.ended - job.started).total_seconds() for job in jobs),
        }

    return facts


@contextmanager
def _asked(cloud: Any, folder: Path, table: str, rows: int) -> Iterator[Any]:
    """A client of a warehouse that holds the rows that are due; afterwards the dataset is dropped."""
    dataset, client = dataset_of(folder), cloud.bigquery_client()
    try:
        (found,) = next(iter(client.query_and_wait(f"SELECT COUNT(*) FROM `{dataset}.{table}`")))
        expect(rows, found)
        yield client
        client.delete_dataset(dataset, delete_contents=True)
    finally:
        client.close()


def _load_jobs(client: Any) -> list[Any]:
    return [client.get_job(job.job_id) for job in client.list_jobs() if job.job_type == "load"]
