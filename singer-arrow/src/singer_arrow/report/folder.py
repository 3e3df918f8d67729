"""Reports in a folder, a page about many runs, the command `report`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

import click

from singer_arrow.errors import NotFoundError, SingerArrowError, with_code
from singer_arrow.naming import counted
from singer_arrow.report.document import RUNNING, SUCCEEDED, Report
from singer_arrow.report.page import (
    Point,
    badge,
    bars,
    duration_text,
    html_table,
    html_tiles,
    line,
    nice_seconds,
    nice_top,
    number_text,
    oldest_lag,
    page,
    run_page,
    size_text,
    sum_of,
    time_text,
)
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

# Reports in a folder: on local disk, or in an object store.

INDEX = "index.html"
_SUFFIX = ".report.json"


class ReportFolder:
    """The folder that the setting `report` names."""

    def __init__(self, storage: Storage, url: Url) -> None:
        self._storage, self._url = storage, url

    def write(self, name: str, report: Report, *, page: bool) -> None:
        """Write a report, and its page too, in place of earlier ones; `name` is that of its files, without suffix."""
        text = json.dumps(report, indent=1, ensure_ascii=False, default=str)
        self._storage.put(self._url.join(name + _SUFFIX), text.encode())
        if page:
            self.write_page(f"{name}.html", run_page(report))

    def write_page(self, name: str, text: str) -> Url:
        """Write a page, and return its URL."""
        url = self._url.join(name)
        self._storage.put(url, text.encode())
        return url

    def names(self) -> list[str]:
        """Return the names of all reports, those of earlier runs first; NotFoundError if the folder does not exist."""
        listed = self._storage.list(Url(self._url.scheme, self._url.bucket, f"{self._url.key.rstrip('/')}/"))
        depth = self._url.join("x").key.count("/")
        keys = (o.url for o in listed if o.url.key.count("/") == depth)
        return sorted(url.name.removesuffix(_SUFFIX) for url in keys if url.name.endswith(_SUFFIX))

    def read(self, name: str) -> Report | None:
        """Return a report; None if it is damaged, or of another version."""
        try:
            report: Report = json.loads(bytes(self._storage.get(self._url.join(name + _SUFFIX)).data))
        except ValueError:
            return None
        return report if isinstance(report, dict) and report.get("version") == 1 else None

    def reports(self, most: int) -> Iterator[tuple[str, Report]]:
        """Yield the newest reports with their names, those of earlier runs first."""
        for name in self.names()[-most:]:
            if (report := self.read(name)) is not None:
                yield name, report

    def previous(self, connector: str, name: str) -> Report | None:
        """Return the newest report of a connector that is older than the one of a name; None if there is none."""
        try:
            names = [n for n in self.names() if f"Z-{connector}-" in n and n < name]
        except NotFoundError:
            return None
        return self.read(names[-1]) if names else None


# The reports of many runs -> a page with plots. Pure.

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


# The command `singer-arrow`: `singer-arrow report FOLDER` writes a page about all runs with a report there.

MOST = 200
"""Maximum number of runs on a page."""


@click.group()
def main() -> None:
    """Tools of the connectors that use singer-arrow."""


@main.command()
@click.argument("folder")
@click.option("--last", default=MOST, show_default=True, help="Maximum number of runs, the newest ones.")
def report(folder: str, last: int) -> None:
    """Write FOLDER/index.html: plots and a table of the runs whose setting `report` was FOLDER.

    FOLDER is a local path or a URL such as s3://bucket/reports; credentials are those of the environment.
    """
    try:
        reports = ReportFolder(Storage(), Url.parse(folder))
        names = reports.names()
        if not names:
            raise NotFoundError(f"{folder} has no report; give the connectors the setting report, with this folder")
        text = history_page(list(reports.reports(last)), now=datetime.now(UTC), runs=len(names))
        click.echo(reports.write_page(INDEX, text))
    except SingerArrowError as error:
        raise click.ClickException(with_code(str(error), error.code)) from None
