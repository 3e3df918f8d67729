"""The figures of a run -> events of OpenLineage, and where they are sent."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from singer_arrow.errors import ConfigError
from singer_arrow.report.document import INTERRUPTED, RUNNING, SUCCEEDED, RunIdentity, RunOutcome
from singer_arrow.run_figures import RunFigures, StreamFigures
from singer_arrow.runtime.threads import within
from singer_arrow.storage.urls import Url

_SPEC = "https://openlineage.io/spec"
_EVENTS = {RUNNING: "START", SUCCEEDED: "COMPLETE", INTERRUPTED: "ABORT"}
_SECONDS = 10.0
"""How long a receiver may take for an event, with all that it answers."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageEndpoint:
    """Where events are sent."""

    url: str  # of a receiver, or of a local file to which lines are appended
    namespace: str
    job: str | None = None  # None: the connector's name
    api_key: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """Return the receiver of the setting `openlineage`; None if there is none."""
        given = config.get("openlineage") or {}
        if not given.get("url"):
            return None
        if not _is_http(given["url"]) and Url.parse(given["url"]).scheme != "file":
            raise ConfigError("Setting 'openlineage.url' must be an http or https URL, or a local file")
        return cls(
            url=given["url"],
            namespace=given.get("namespace") or "singer",
            job=given.get("job"),
            api_key=given.get("api_key"),
        )

    def send(self, event: Event) -> None:
        """Send an event; OSError if the receiver cannot be reached, or refuses it."""
        data = json.dumps(event, ensure_ascii=False).encode()
        if not _is_http(self.url):
            with Url.parse(self.url).local_path().open("ab") as file:
                file.write(data + b"\n")
            return
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        request = urllib.request.Request(self.url, data, headers)  # noqa: S310 - http or https, as was checked
        opener = urllib.request.build_opener(_NoRedirects)
        within(_SECONDS, lambda: opener.open(request, timeout=_SECONDS).close())  # the body means nothing


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: another host would get the key."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _is_http(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))
