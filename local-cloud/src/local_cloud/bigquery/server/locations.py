"""Locations: a job runs in the location of its datasets, and is found only there."""

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import sqlglot
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from local_bigquery.api import jobs, uploads
from local_bigquery.app import app
from local_bigquery.catalog import datasets
from local_bigquery.errors import BigQueryError, not_found
from local_bigquery.jobs import query, runner, store
from local_bigquery.sql.translate import parse
from sqlglot import exp

DEFAULT = "US"
_requested: ContextVar[str | None] = ContextVar("requested", default=None)
_location: ContextVar[str] = ContextVar("location", default=DEFAULT)
Dataset = tuple[str, str]


def _of_table(reference: Any) -> Iterator[Dataset]:
    if reference and reference.datasetId:
        yield reference.projectId, reference.datasetId


def _of_text(text: str, project_id: str) -> Iterator[Dataset]:
    try:
        trees = [tree for tree in parse(text) if tree is not None]
    except (sqlglot.errors.SqlglotError, BigQueryError):
        return  # the engine reports the error
    for tree in trees:
        for table in tree.find_all(exp.Table):
            if table.db:
                yield table.catalog or project_id, table.db


def _datasets(project_id: str, configuration: Any) -> Iterator[Dataset]:
    """Yield the datasets that a job uses."""
    if load := configuration.load:
        yield from _of_table(load.destinationTable)
    if copied := configuration.copy_:
        yield from _of_table(copied.destinationTable)
        for source in copied.sourceTables or [copied.sourceTable]:
            yield from _of_table(source)
    if asked := configuration.query:
        yield from _of_table(asked.destinationTable)
        yield from _of_table(asked.defaultDataset)
        yield from _of_text(asked.query or "", project_id)


def _located(dataset: Dataset) -> str | None:
    try:
        return datasets.get(*dataset).location or DEFAULT
    except BigQueryError:
        return None


def check(project_id: str, configuration: Any) -> None:
    """Raise BigQuery's "not found" error if a job's dataset is in another location."""
    location = _location.get()
    for dataset in _datasets(project_id, configuration):
        found = _located(dataset)
        if found is not None and found.casefold() != location.casefold():
            raise not_found("Dataset", f"{dataset[0]}:{dataset[1]} was not found in location {location}")


def _remember(location: Callable[[Any], str | None], endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an endpoint so that the location of its request is known while it runs."""

    @functools.wraps(endpoint)
    def call(*arguments: Any, **options: Any) -> Any:
        token = _requested.set(location(options.get("body") or arguments[1]))
        try:
            return endpoint(*arguments, **options)
        finally:
            _requested.reset(token)

    return call


def _of_job(body: Any) -> str | None:
    return body.jobReference.location if body.jobReference else None


def _of_query(body: Any) -> str | None:
    location: str | None = body.location
    return location


def patch() -> None:
    """Replace the server's functions that take jobs. Call it after those of load and copy jobs are replaced."""
    # Requests: their location is known while they run.
    wrapped = {jobs.insert_job: _of_job, jobs.run_query: _of_query}
    routes = [route for route in jobs.router.routes if route.endpoint in wrapped]
    assert len(routes) == len(wrapped)
    for route in routes:
        # The application reads its routers' routes at the first request.
        route.endpoint = route.dependant.call = _remember(wrapped[route.endpoint], route.endpoint)
    uploads._start = _remember(_of_job, uploads._start)

    # Jobs: they run in that location, or in that of their first dataset that has one.
    submit, make, execute = runner.submit, runner._job, query.execute

    def submit_somewhere(project_id: str, job_id: str, configuration: Any, upload: str | None = None) -> Any:
        known = (_located(dataset) for dataset in _datasets(project_id, configuration))
        location = _requested.get() or next(filter(None, known), DEFAULT)
        token = _location.set(location)
        try:
            return submit(project_id, job_id, configuration, upload)
        finally:
            _location.reset(token)

    def make_somewhere(project_id: str, job_id: str | None, configuration: Any) -> Any:
        job, location = make(project_id, job_id, configuration), _location.get()
        reference = job.jobReference.dump() | {"location": location}
        link = f"/bigquery/v2/projects/{project_id}/jobs/{job_id}?location={location}"
        return job.replace(jobReference=reference, id=f"{project_id}:{location}.{job_id}", selfLink=link)

    def execute_here(cursor: Any, project_id: str, job_id: str | None, config: Any, **options: Any) -> Any:
        if job_id is not None:
            check(project_id, runner.JobConfiguration(query=config))
        return execute(cursor, project_id, job_id, config, **options)

    runner.submit, runner._job, query.execute = submit_somewhere, make_somewhere, execute_here
    for kind in ("load", "copy"):
        runner.HANDLERS[kind] = _checked(kind, runner.HANDLERS[kind])

    # Look-ups of jobs.
    async def elsewhere(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        """Answer "not found" for a job that is in another location."""
        location, parts = request.query_params.get("location"), request.url.path.strip("/").split("/")
        if request.method == "GET" and location and len(parts) == 6 and parts[4] in {"jobs", "queries"}:
            job = store.load(parts[3], parts[5])
            if job and job.jobReference.location.casefold() != location.casefold():
                error = not_found("Job", f"{parts[3]}:{location}.{parts[5]}")
                return JSONResponse(error.response(), status_code=error.code)
        return await call_next(request)

    app.middleware("http")(elsewhere)


def _checked(kind: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    def handle(cursor: Any, config: Any, upload: str | None) -> Any:
        check(config.destinationTable.projectId, runner.JobConfiguration.model_validate({kind: config.dump()}))
        return handler(cursor, config, upload)

    return handle
