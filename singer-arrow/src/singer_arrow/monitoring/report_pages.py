"""Pages of one run and of many, from the templates beside it; reports in a folder; the command `report`."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from jinja2 import Environment, PackageLoader, StrictUndefined

from singer_arrow.errors import NotFoundError, SingerArrowError, visible, with_code
from singer_arrow.monitoring.report import RUNNING, SUCCEEDED, Report, joined
from singer_arrow.naming import bytes_in_words, counted
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

# Figures in words. Pure.


def number_text(value: float | None) -> str:
    """Return a number with separators: `1,234`; empty for None."""
    return "" if value is None else f"{value:,.0f}"


def size_text(count: int | None) -> str:
    """Return a number of bytes with its unit: `12.3 MB`; empty for None."""
    return "" if count is None else bytes_in_words(count)


def duration_text(seconds: float | None) -> str:
    """Return seconds in words: `40 ms`, `2.4 s`, `2 min 5 s`, `3 h`, `12 days`; empty for None."""
    if seconds is None:
        return ""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{f'{seconds:.1f}'.removesuffix('.0')} s"
    whole = round(seconds)
    if whole >= 2 * 86400:
        return f"{whole // 86400} days"
    size, large, small = (60, "min", "s") if whole < 3600 else (3600, "h", "min")
    rest = whole % size * 60 // size
    return f"{whole // size} {large}{f' {rest} {small}' if rest else ''}"


def time_text(text: str | None) -> str:
    """Return a time of a report as `2026-11-20 16:30:00`; empty for None."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}" if text else ""


def sum_of(streams: Iterable[Mapping[str, Any]], name: str) -> int | None:
    """Return the sum of a count over streams; None if no stream has it."""
    found = [s["counts"][name] for s in streams if name in s["counts"]]
    return sum(found) if found else None


def oldest_lag(streams: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the largest lag of streams that are complete or had rows: a source without news is not behind."""
    moved = (s for s in streams if s["counts"].get("rows_written") or s.get("complete_until"))
    return max((s["lag_seconds"] for s in moved if s["lag_seconds"] is not None), default=None)


# The report of a run, or the reports of many -> a page. Pure.

_COUNTS = {
    "objects": "Objects",
    "batches": "Batches",
    "records": "Records",
    "rows_read": "Rows read",
    "rows_written": "Rows written",
    "rows_loaded_before": "Loaded before",
    "rows_skipped": "Skipped",
    "rows_rescued": "Rescued",
    "rows_rejected": "Rejected",
    "bytes": "Bytes",
    "batch_files": "Batch files",
    "loads": "Loads",
    "write_streams": "Write streams",
    "skipped_objects": "Skipped objects",
    "skipped_batches": "Skipped batches",
    "nul_characters": "NUL characters",
    "long_texts": "Long texts",
    "schema_changes": "Schema changes",
}
_ALWAYS = ("rows_written", "bytes")
KILLED = "killed"
SILENT = timedelta(minutes=2)
"""A run whose report was not updated for so long was killed."""
_STEPS = (1, 2, 2.5, 5, 10)
_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400)
Named = tuple[str, Report]

_TEMPLATES = Environment(
    loader=PackageLoader("singer_arrow.monitoring"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    "as_json": json.dumps,
    "digest": lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(),
    "duration": duration_text,
    "number": number_text,
    "size": size_text,
    "time": time_text,
    "visible": visible,
}
_TEMPLATES.globals |= {"sum_of": sum_of, "oldest_lag": oldest_lag}


def _page(template: str, values: Mapping[str, Any]) -> str:
    """Return a whole page, which needs no other file; control characters in its texts are escaped."""
    return "\n".join(map(visible, _TEMPLATES.get_template(template).render(values).split("\n"))) + "\n"


def run_page(*reports: Report) -> str:
    """Return the page of a run, with the report of its tap and of its target, or of one of them."""
    whole = joined(reports)
    shown = [
        {name: title for name, title in _COUNTS.items() if name in _ALWAYS or sum_of(part["streams"], name)}
        for part in whole["parts"]
    ]
    return _page("run.html", whole | {"parts": list(zip(whole["parts"], shown, strict=True))})


def history_page(reports: Sequence[Named], *, now: datetime, last: int) -> str:
    """Return the page of the `last` runs of reports with their names, those of earlier runs first."""
    of_run: dict[str, list[Report]] = {}
    for name, report in reports:
        of_run.setdefault((report.get("pipeline") or {}).get("run") or name, []).append(report)
    checked = []
    for name, parts in list(of_run.items())[-last:]:
        report = joined(parts)
        run = report["run"]
        is_killed = run["status"] == RUNNING and now - datetime.fromisoformat(run["updated_at"]) > SILENT
        checked.append((name, report | {"run": run | {"status": KILLED}} if is_killed else report))
    of_connector: dict[str, list[Report]] = {}
    for _, report in checked:
        of_connector.setdefault(report["run"]["connector"], []).append(report)
    succeeded = {connector: _succeeded(reports) for connector, reports in of_connector.items()}
    newest = checked[::-1]
    columns: dict[str, list[Any]] = {
        "Streams": [", ".join(s["stream"] for s in r["streams"]) or None for _, r in newest],
        "Rows written": [sum_of(r["streams"], "rows_written") for _, r in newest],
        "Rejected": [sum_of(r["streams"], "rows_rejected") or None for _, r in newest],
        "Bytes": [sum_of(r["streams"], "bytes") for _, r in newest],
        "Duration": [r["run"]["seconds"] for _, r in newest],
        "Lag": [oldest_lag(r["streams"]) for _, r in newest],
    }
    values = {
        "shown": counted(len(of_run), "run") if len(of_run) <= last else f"The last {last:,} runs",
        "now": now.isoformat(),
        "succeeded": succeeded,
        "some_failed": any(report["run"]["status"] not in (SUCCEEDED, RUNNING) for _, report in checked),
        "last_runs": {connector: reports[-1] for connector, reports in of_connector.items()},
        "plots": {connector: _plots(of_connector[connector]) for connector in sorted(of_connector)},
        "runs": newest,
        "columns": {title: values for title, values in columns.items() if values != [None] * len(newest)},
    }
    return _page("runs.html", values)


def _succeeded(reports: Sequence[Report]) -> str:
    """Return how many runs of a pipeline succeeded: `7 of 12, 2 are running`."""
    found = Counter(report["run"]["status"] for report in reports)
    running = f", {found[RUNNING]:,} running" if found[RUNNING] else ""
    return f"{found[SUCCEEDED]:,} of {len(reports):,}{running}"


def _plots(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the figures of plots: those of runs, and texts for the axis."""

    def plot(value_of: Callable[[Report], float | None], text_of: Callable[[float], str], top_of: Any) -> Any:
        values = [value_of(report) for report in reports]
        top = top_of(max((value or 0.0 for value in values), default=0.0))
        points = []
        for number, (report, value) in enumerate(zip(reports, values, strict=True)):
            time, is_good = time_text(report["run"]["started_at"]), report["run"]["status"] in (SUCCEEDED, RUNNING)
            text = "" if value is None else f"{time}: {text_of(value)}{'' if is_good else ', did not succeed'}"
            points.append({"number": number, "time": time, "value": value, "text": text, "is_good": is_good})
        return {"points": points, "top": top, "marks": [(share, text_of(top * share)) for share in (0.0, 0.5, 1.0)]}

    return {
        "rows": plot(lambda r: sum_of(r["streams"], "rows_written"), number_text, nice_top),
        "seconds": plot(lambda r: r["run"]["seconds"], duration_text, nice_seconds),
        "lag": plot(lambda r: oldest_lag(r["streams"]), duration_text, nice_seconds),
    }


def nice_top(largest: float) -> float:
    """Return the upper end of an axis: 1, 2, 2.5 or 5 times a power of ten, at least the largest value."""
    power = 10.0 ** math.floor(math.log10(largest or 1))
    return next(power * step for step in _STEPS if power * step >= largest)


def nice_seconds(largest: float) -> float:
    """Return the upper end of an axis of seconds: a time that people count in."""
    return next(
        (float(s) for s in _SECONDS if 1 <= largest <= s),
        nice_top(largest / 86400) * 86400 if largest > 1 else nice_top(largest),
    )


# Reports in a folder: on local disk, or in an object store.

INDEX = "index.html"
_MOST_LOOKED_AT = 50  # reports among which the one of the run before is looked for
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
            self.write_page(f"{(report.get('pipeline') or {}).get('run') or name}.html", run_page(report))

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

    def previous(self, connector: str, name: str, pipeline: str | None) -> Report | None:
        """Return the newest report of a connector in a pipeline that is older than the one of a name.

        None if there is none among the last ones of the connector; without a pipeline, a run outside of any counts.
        """
        try:
            names = [n for n in self.names() if f"Z-{connector}-" in n and n < name]
        except NotFoundError:
            return None
        found = (self.read(n) for n in names[: -_MOST_LOOKED_AT - 1 : -1])
        return next((r for r in found if r and (r.get("pipeline") or {}).get("name") == pipeline), None)


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
        # of one run more, to know whether there are more; a run has two reports at most
        found = [(name, one) for name in names[-2 * (last + 1) :] if (one := reports.read(name)) is not None]
        text = history_page(found, now=datetime.now(UTC), last=last)
        click.echo(reports.write_page(INDEX, text))
    except SingerArrowError as error:
        raise click.ClickException(with_code(str(error), error.code)) from None
