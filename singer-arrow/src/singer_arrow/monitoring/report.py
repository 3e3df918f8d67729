"""The figures of a run -> its report, as JSON; -> events of OpenLineage, and where they are sent."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from singer_arrow.errors import ConfigError
from singer_arrow.monitoring.logs import LineageSettings
from singer_arrow.run_figures import RunFigures, StreamFigures
from singer_arrow.runtime.threads import within
from singer_arrow.settings import read_settings
from singer_arrow.storage.urls import Url

# The figures of a run -> its report, as JSON. Pure.

VERSION = 1
RUNNING, SUCCEEDED, FAILED, INTERRUPTED = "running", "succeeded", "failed", "interrupted"
INCOMPLETE, NOT_STARTED = "incomplete", "not-started"
Report = dict[str, Any]
_RENAMED = {
    "rows": "rows_written",
    "skipped": "skipped_batches",
    "rejected": "rows_rejected",
    "rows_before": "rows_loaded_before",
    "load_jobs": "loads",
}
"""Names of counts in reports, where connectors have others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """What does not change during a run."""

    connector: str
    version: str
    host: str
    started_at: datetime
    pipeline: tuple[str, ...] = ()  # the names of the pipeline and of its run, if it is a part of one
    id: str = field(default_factory=lambda: os.urandom(4).hex())

    @property
    def name(self) -> str:
        """Name of the report's files, without suffix; later runs have greater names."""
        return f"{self.started_at:%Y%m%dT%H%M%S.%f}Z-{self.connector}-{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended, or that it runs."""

    status: str = RUNNING  # `incomplete`: the input of a target ended within a stream
    exit_code: int | None = None  # None while it runs
    error: tuple[str, str, str | None] | None = None  # class, message and code


def make_report(
    run: RunIdentity,
    outcome: RunOutcome,
    figures: RunFigures,
    *,
    now: datetime,
    settings: Mapping[str, Any],
    previous: Report | None,
) -> Report:
    """Return the report of a run as it is now; `settings` have no secrets, `previous` is the one before."""
    from singer_arrow.formats.json_lines import parser_name

    flat, before = dict(flattened(settings)), previous["settings"] if previous else {}
    if outcome.status == SUCCEEDED and not all(stream.is_complete for stream in figures.streams):
        outcome = replace(outcome, status=INCOMPLETE)
    return {
        "version": VERSION,
        "run": {
            "id": run.id,
            "connector": run.connector,
            "connector_version": run.version,
            "json_parser": parser_name(),
            "host": run.host,
            "started_at": _time(run.started_at),
            "updated_at": _time(now),
            "ended_at": _time(now) if outcome.status != RUNNING else None,
            "seconds": round((now - run.started_at).total_seconds(), 3),
            "status": outcome.status,
            "exit_code": outcome.exit_code,
        },
        "pipeline": dict(zip(("name", "run"), run.pipeline, strict=True)) if run.pipeline else None,
        "error": error_of(outcome),
        "bytes_billed": figures.bytes_billed,
        "streams": [_stream(stream, outcome, now) for stream in figures.streams],
        "settings": flat,
        "settings_changed": [
            {"setting": name, "before": before.get(name), "after": flat.get(name)}
            for name in dict.fromkeys([*before, *flat])
            if previous and before.get(name) != flat.get(name)
        ],
        "previous_run": previous["run"]["id"] if previous else None,
    }


def error_of(outcome: RunOutcome) -> dict[str, str | None] | None:
    """Return the error of a run as reports have it."""
    return dict(zip(("type", "message", "code"), outcome.error, strict=True)) if outcome.error else None


def is_of_target(report: Report) -> bool:
    """Return whether a report is that of a target, by Singer's names."""
    return str(report["run"]["connector"]).startswith("target-")


def joined(reports: Sequence[Report]) -> Report:
    """Return the reports of the tap and the target of one run as one, which has them as `parts`; also of one alone.

    Its figures are those of the target, its name is the pipeline's, its status and error are those that the pipeline
    ended with.
    """
    parts = sorted(reports, key=is_of_target)
    last, runs = parts[-1], [part["run"] for part in parts]
    if not (end := last.get("pipeline")):
        return last | {"parts": parts}
    order = [RUNNING, FAILED, INTERRUPTED, INCOMPLETE, SUCCEEDED]
    run = last["run"] | {"connector": end["name"], "status": min((run["status"] for run in runs), key=order.index)}
    run |= {"started_at": min(run["started_at"] for run in runs), "updated_at": max(run["updated_at"] for run in runs)}
    run |= {name: end[name] for name in ("status", "exit_code") if name in end}
    begin, now = (datetime.fromisoformat(run[name]) for name in ("started_at", "updated_at"))
    error = end.get("error") or next((part["error"] for part in parts[::-1] if part["error"]), None)
    return last | {"run": run | {"seconds": (now - begin).total_seconds()}, "error": error, "parts": parts}


def flattened(settings: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by path: `batch_config.storage.root`, `streams[0].name`."""
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            yield from flattened(value, f"{path}.{name}" if path else name)
    elif isinstance(settings, list):
        for number, item in enumerate(settings):
            yield from flattened(item, f"{path}[{number}]")
    else:
        yield path, settings


def _stream(stream: StreamFigures, outcome: RunOutcome, now: datetime) -> dict[str, Any]:
    lag = stream.lag_seconds(now)
    if stream.is_complete:
        status = SUCCEEDED
    elif stream.error is not None:
        status = FAILED
    else:
        status = outcome.status if stream.has_begun else NOT_STARTED
    return {
        "stream": stream.stream,
        "status": status,
        "error": stream.error,
        "table": stream.table,
        "inputs": list(stream.inputs),
        "outputs": list(stream.outputs),
        "counts": {_RENAMED.get(name, name): count for name, count in stream.counts.items()},
        "seconds": round(stream.seconds, 3),
        "seconds_by_phase": {name: round(seconds, 3) for name, seconds in stream.phases.items()},
        "watermark": _time(stream.watermark) if stream.watermark else None,
        "complete_until": _time(stream.complete_until) if stream.complete_until else None,
        "lag_seconds": round(lag, 3) if lag is not None else None,
        "left": dict(stream.left),
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# The figures of a run -> events of OpenLineage, and where they are sent.

_SPEC = "https://openlineage.io/spec"
_EVENTS = {RUNNING: "START", SUCCEEDED: "COMPLETE", INTERRUPTED: "ABORT"}
_SECONDS = 10.0  # how long a receiver may take for an event, with all that it answers
Event = dict[str, Any]


def make_event(
    run: RunIdentity, outcome: RunOutcome, figures: RunFigures, *, now: datetime, namespace: str, job: str
) -> Event:
    """Return the event for a run that began or ended."""
    producer = f"urn:singer:{run.connector}:{run.version}"
    error = {"message": outcome.error[1], "programmingLanguage": "Python"} if outcome.error else None
    run_facets = {"errorMessage": _facet(producer, "1-0-0/ErrorMessageRunFacet", error)} if error else {}
    return {
        "eventType": _EVENTS.get(outcome.status, "FAIL"),
        "eventTime": now.astimezone(UTC).isoformat(),
        "producer": producer,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(uuid.uuid5(uuid.NAMESPACE_URL, run.name)), "facets": run_facets},
        "job": {"namespace": namespace, "name": job, "facets": {}},
        "inputs": [] if outcome.status == RUNNING else list(_inputs(figures)),
        "outputs": [] if outcome.status == RUNNING else list(_outputs(figures, producer)),
    }


def _facet(producer: str, schema: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a facet with its content and the schema that it follows."""
    return {"_producer": producer, "_schemaURL": f"{_SPEC}/facets/{schema}.json", **content}


def _inputs(figures: RunFigures) -> Iterator[dict[str, Any]]:
    """Yield the datasets that were read: objects of a tap, batches of a stream of a target."""
    found = (
        _batches(url, stream) if stream.table is not None else dataset_of(url)
        for stream in figures.streams
        for url in stream.inputs
    )
    for namespace, name in dict.fromkeys(found):
        yield {"namespace": namespace, "name": name}


def _outputs(figures: RunFigures, producer: str) -> Iterator[dict[str, Any]]:
    """Yield the datasets that were written: batches of a stream of a tap, the tables of a target."""
    for stream in figures.streams:
        written = [_batches(url, stream) for url in stream.outputs]
        written += [stream.dataset] if stream.dataset is not None else []
        counts = {"rowCount": stream.counts.get("rows_written", stream.counts.get("rows", 0))}
        counts |= {"size": stream.counts["bytes"]} if stream.dataset is not None and "bytes" in stream.counts else {}
        for namespace, name in written:
            statistics = _facet(producer, "1-0-1/OutputStatisticsOutputDatasetFacet", counts)
            yield {"namespace": namespace, "name": name, "outputFacets": {"outputStatistics": statistics}}


def _batches(url: str, stream: StreamFigures) -> tuple[str, str]:
    """Return the dataset of a stream's batch files in a folder, the same one in the tap and in the target."""
    namespace, name = dataset_of(url)
    return namespace, f"{name.rstrip('/')}/{stream.stream}".lstrip("/" if namespace != "file" else "")


def dataset_of(text: str) -> tuple[str, str]:
    """Return namespace and name of the dataset at a URL, as OpenLineage names them: `s3://bucket`, `a/b.csv`."""
    url = Url.parse(text)
    return ("file", f"/{url.key}") if url.scheme == "file" else (f"{url.scheme}://{url.bucket}", url.key or "/")


class LineageEndpoint(LineageSettings):
    """Where events are sent."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Return the receiver of the setting `openlineage`; None if there is none."""
        given = read_settings(cls, config.get("openlineage") or {})
        if not given.url:
            return None
        if Url.parse(given.url).scheme not in ("http", "https", "file"):
            raise ConfigError("Setting 'openlineage.url' must be an http or https URL, or a local file")
        return replace(given, namespace=given.namespace or "singer")

    def send(self, event: Event) -> None:
        """Send an event; OSError if the receiver cannot be reached, or refuses it."""
        data = json.dumps(event, ensure_ascii=False).encode()
        if Url.parse(self.url).scheme == "file":
            with Url.parse(self.url).local_path().open("ab") as file:
                file.write(data + b"\n")
            return
        import urllib.request

        class NoRedirects(urllib.request.HTTPRedirectHandler):
            """Refuses redirects: another host would get the key."""

            def redirect_request(self, *_: Any) -> None:
                return None

        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        request = urllib.request.Request(self.url, data, headers)  # noqa: S310 - http or https, as was checked
        opener = urllib.request.build_opener(NoRedirects)
        within(_SECONDS, lambda: opener.open(request, timeout=_SECONDS).close())  # the body means nothing
