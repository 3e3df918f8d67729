"""Reports of runs: made of figures, read from a folder, and checked by their schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from singer_arrow.monitoring.report import Report, RunIdentity, RunOutcome, make_report
from singer_arrow.run_figures import RunFigures, StreamFigures

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())
BEGIN = datetime(2026, 11, 20, 16, 30, tzinfo=UTC)


def check(report: Report) -> Report:
    """Return a report that its schema accepts, and fail if it does not."""
    Draft202012Validator(SCHEMA, format_checker=FormatChecker()).validate(report)
    return report


def reports(folder: Path, connector: str = "") -> list[Report]:
    """Return the reports in a folder, those of earlier runs first."""
    return [check(json.loads(file.read_text())) for file in sorted(folder.glob(f"*Z-{connector}*.report.json"))]


def count(report: Report, name: str, stream: str = "rows") -> int:
    """Return a count of a stream; 0 if the report has none."""
    return sum(s["counts"].get(name, 0) for s in report["streams"] if s["stream"] == stream)


def made(
    *streams: StreamFigures,
    outcome: RunOutcome | None = None,
    settings: dict[str, Any] | None = None,
    previous: Report | None = None,
    hours: int = 0,
    connector: str = "target-x",
    bytes_billed: int | None = None,
    pipeline: tuple[str, ...] = (),
) -> tuple[str, Report]:
    """Return name and report of a run of 90 seconds."""
    start = BEGIN + timedelta(hours=hours)
    run = RunIdentity(
        connector=connector, version="1.0", host="machine", started_at=start, pipeline=pipeline, id=f"{hours:08x}"
    )
    report = make_report(
        run,
        outcome or RunOutcome(status="succeeded", exit_code=0),
        RunFigures(streams=streams, bytes_billed=bytes_billed),
        now=start + timedelta(seconds=90),
        settings=settings or {},
        previous=previous,
    )
    return run.name, check(report)
