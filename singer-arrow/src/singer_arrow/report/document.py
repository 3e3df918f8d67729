"""The figures of a run -> its report, as JSON. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from singer_arrow.run_figures import RunFigures, StreamFigures

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
    flat = dict(flattened(settings))
    if outcome.status == SUCCEEDED and not all(stream.is_complete for stream in figures.streams):
        outcome = replace(outcome, status=INCOMPLETE)
    return {
        "version": VERSION,
        "run": {
            "id": run.id,
            "connector": run.connector,
            "connector_version": run.version,
            "host": run.host,
            "started_at": _time(run.started_at),
            "updated_at": _time(now),
            "ended_at": _time(now) if outcome.status != RUNNING else None,
            "seconds": round((now - run.started_at).total_seconds(), 3),
            "status": outcome.status,
            "exit_code": outcome.exit_code,
        },
        "error": dict(zip(("type", "message", "code"), outcome.error, strict=True)) if outcome.error else None,
        "bytes_billed": figures.bytes_billed,
        "streams": [_stream(stream, outcome, now) for stream in figures.streams],
        "settings": flat,
        "settings_changed": list(_changes(previous["settings"], flat)) if previous else [],
        "previous_run": previous["run"]["id"] if previous else None,
    }


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


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield {"setting": name, "before": before.get(name), "after": after.get(name)}


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
        "lag_seconds": round(lag, 3) if lag is not None else None,
        "left": dict(stream.left),
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
