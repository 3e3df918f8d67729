"""The reports of many runs -> a page with plots. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any

from singer_arrow.naming import counted
from singer_arrow.report.charts import Point, bars, line, nice_seconds, nice_top
from singer_arrow.report.document import RUNNING, SUCCEEDED, Report
from singer_arrow.report.html import (
    badge,
    duration_text,
    html_table,
    html_tiles,
    number_text,
    page,
    size_text,
    time_text,
)
from singer_arrow.report.page import oldest_lag, sum_of

KILLED = "killed"
SILENT = timedelta(minutes=2)
"""A run whose report was not updated for so long was killed."""
Named = tuple[str, Report]


def history_page(reports: Sequence[Named], *, now: datetime, runs: int) -> str:
    """Return the page of many runs, the newest of so many `runs`, with their names, those of earlier runs first."""
    checked = [(name, _with_status(report, now)) for name, report in reports]
    names = sorted({report["run"]["connector"] for _, report in checked})
    shown = counted(runs, "run") if runs == len(checked) else f"The last {len(checked):,} of {runs:,} runs"
    body = [f'<h1>Runs</h1><p class="soft">{shown}, {time_text(now.isoformat())} UTC</p>', _totals(checked)]
    if any(report["run"]["status"] not in (SUCCEEDED, RUNNING) for _, report in checked):
        body.append('<p class="soft note"><i class="mark"></i>Runs that did not succeed</p>')
    for connector in names:
        own = [(name, report) for name, report in checked if report["run"]["connector"] == connector]
        body.append(f"<h2>{escape(connector)}</h2>{_plots(own)}")
    body.append(f"<h2>All runs</h2>{_runs(checked)}")
    return page("Runs", "\n".join(body))


def _with_status(report: Report, now: datetime) -> Report:
    run = report["run"]
    if run["status"] == RUNNING and now - datetime.fromisoformat(run["updated_at"]) > SILENT:
        return report | {"run": run | {"status": KILLED}}
    return report


def _totals(reports: Sequence[Named]) -> str:
    last = {report["run"]["connector"]: report for _, report in reports}
    ended = [report for _, report in reports if report["run"]["status"] != RUNNING]
    good = sum(report["run"]["status"] == SUCCEEDED for report in ended)
    return html_tiles(
        [
            ("runs that succeeded", f"{good:,} of {len(ended):,}" if ended else ""),
            *(
                (f"rows, last run of {name}", number_text(sum_of(report["streams"], "rows_written")))
                for name, report in last.items()
            ),
            *(
                (f"lag, last run of {name}", duration_text(oldest_lag(report["streams"])))
                for name, report in last.items()
            ),
        ]
    )


def _plots(reports: Sequence[Named]) -> str:
    plots = [
        ("Rows written", bars(_points(reports, lambda r: sum_of(r["streams"], "rows_written")), number_text, nice_top)),
        ("Duration", bars(_points(reports, lambda r: r["run"]["seconds"]), duration_text, nice_seconds)),
        (
            "Lag: age of the newest data",
            line(_points(reports, lambda r: oldest_lag(r["streams"])), duration_text, nice_seconds),
        ),
    ]
    shown = (f'<div class="plot"><h3>{escape(title)}</h3>{svg}</div>' for title, svg in plots)
    return f'<div class="plots">{"".join(shown)}</div>'


def _points(reports: Sequence[Named], value_of: Any) -> list[Point]:
    return [
        Point(time_text(r["run"]["started_at"]), value_of(r), r["run"]["status"] in (SUCCEEDED, RUNNING))
        for _, r in reports
    ]


def _runs(reports: Sequence[Named]) -> str:
    heads = ["Began (UTC)", "Connector", "Status", "Streams", "Rows written", "Rejected", "Bytes", "Duration", "Lag"]
    rows = [list(_run(name, report)) for name, report in reversed(reports)]
    used = [n for n in range(len(heads)) if any(row[n] for row in rows)]
    shown = ([row[n] for n in used] for row in rows)
    return html_table([heads[n] for n in used], shown, numeric=(place for place, n in enumerate(used) if n > 3))


def _run(name: str, report: Mapping[str, Any]) -> Iterator[str]:
    run, streams = report["run"], report["streams"]
    began = time_text(run["started_at"])
    has_page = run["status"] not in (RUNNING, KILLED)  # it is written when the run ends
    yield f'<a href="{escape(name)}.html">{began}</a>' if has_page else began
    yield escape(run["connector"])
    yield badge(run["status"])
    yield escape(", ".join(s["stream"] for s in streams))
    yield number_text(sum_of(streams, "rows_written"))
    yield number_text(sum_of(streams, "rows_rejected") or None)
    yield size_text(sum_of(streams, "bytes"))
    yield duration_text(run["seconds"])
    yield duration_text(oldest_lag(streams))
