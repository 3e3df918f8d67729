"""The scenarios by name, what each needs, and how they are run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from acceptance.pipeline import NotHeldError, Pipeline
from acceptance.site import BigQuery, Site, StoppedError, missing

Body = Callable[[Pipeline], None]
HELD, NOT_HELD, NOT_RUN = "held", "not held", "not run"
ALL: list[Scenario] = []


@dataclass(frozen=True)
class Scenario:
    """A function with its warehouse; `alone`: nothing else runs at the same time."""

    name: str
    warehouse: str
    description: str
    needs: tuple[str, ...]
    alone: bool
    body: Body = field(repr=False)

    @property
    def reason(self) -> str:
        """Why it cannot be run here; nothing if it can."""
        return "; ".join(reason for need in ("s3", self.warehouse, *self.needs) if (reason := missing(need)))


@dataclass
class Result:
    """What became of a scenario; `words`: lines of errors, also of those that it expects."""

    name: str
    description: str
    outcome: str = NOT_RUN
    reason: str = ""
    seconds: float = 0.0
    rows: int = 0
    words: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Any:
        return iter(asdict(self).items())


def scenario(*warehouses: str, needs: Sequence[str] = (), alone: bool = False) -> Callable[[Body], Body]:
    """Declare a scenario for some warehouses, by default both; `any`: for the first that is there."""

    def declare(body: Body) -> Body:
        for warehouse in warehouses or ("bigquery", "redshift"):
            name = body.__name__.replace("_", "-")
            found = next((w for w in ("bigquery", "redshift") if not missing(w)), "bigquery")
            one = (name, found) if warehouse == "any" else (f"{name}-{warehouse}", warehouse)
            ALL.append(Scenario(*one, (body.__doc__ or "").strip().splitlines()[0], tuple(needs), alone, body))
        return body

    return declare


def chosen(patterns: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of some names or patterns such as `append*`, by default all."""
    return [one for one in ALL if not patterns or any(fnmatchcase(one.name, f"{p}*") for p in patterns)]


def run_all(site: Site, scenarios: Sequence[Scenario], at_once: int, show: Callable[[Result], None]) -> list[Result]:
    """Run scenarios, so many at the same time; `show` gets each result when it is there."""
    began = datetime.now(UTC)
    results = {one.name: Result(one.name, one.description, reason=one.reason) for one in scenarios}

    def run_one(one: Scenario) -> None:
        result = results[one.name]
        if not result.reason:
            _run(site, one, result)
        show(result)

    for one in scenarios:
        if one.alone:
            run_one(one)
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(run_one, [one for one in scenarios if not one.alone]))
    if "bigquery" in site.warehouses and not site.stopped.is_set():
        _add_jobs(site, results, began)
    return list(results.values())


def _run(site: Site, one: Scenario, result: Result) -> None:
    pipeline, began = None, time.monotonic()
    try:
        if site.stopped.is_set():
            raise StoppedError
        pipeline = Pipeline(site, one.body.__name__, site.warehouses[one.warehouse])
        one.body(pipeline)
        result.outcome = HELD
    except StoppedError:
        result.reason = "the run was interrupted"
    except NotHeldError as error:
        result.outcome, result.reason = NOT_HELD, str(error)
    except Exception as error:  # noqa: BLE001 - of a service or a client: it is for the report
        result.outcome, result.reason = NOT_HELD, f"{type(error).__name__}: {error}"
    result.seconds = round(time.monotonic() - began, 1)
    if pipeline:
        result.rows, result.words, result.notes = pipeline.counted, pipeline.words, pipeline.notes


def _add_jobs(site: Site, results: dict[str, Result], began: datetime) -> None:
    """Add numbers of jobs and bytes billed to the results of scenarios of BigQuery, by the labels of the jobs."""
    warehouse = site.warehouses["bigquery"]
    assert isinstance(warehouse, BigQuery)
    by_label = {result.name.removesuffix("-bigquery").replace("-", "_"): result for result in results.values()}
    for job in warehouse.client.list_jobs(min_creation_time=began):
        result = by_label.get((job.labels or {}).get("acceptance", ""))
        if result and site.name in str(job.to_api_repr()):
            count = f"{job.job_type} jobs"
            result.notes[count] = result.notes.get(count, 0) + 1
            if billed := getattr(job, "total_bytes_billed", 0):
                result.notes["bytes billed"] = result.notes.get("bytes billed", 0) + billed
