"""Notifications and metrics of a pipeline at the end of a run; their libraries are checked before it begins."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from urllib.parse import quote, unquote, urlsplit

from singer_arrow.errors import ConfigError, one_line, with_code
from singer_arrow.monitoring.logs import mask_secrets
from singer_arrow.monitoring.report import FAILED, INTERRUPTED, SUCCEEDED, Report, RunOutcome, is_of_target
from singer_arrow.monitoring.report_pages import duration_text
from singer_arrow.naming import counted
from singer_arrow.runtime.threads import within
from singer_arrow.settings import setting

logger = logging.getLogger("singer-arrow")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds by the letter at the end of a duration, such as 5m."""
_Values = dict[tuple[str, str], float]  # by name and stream, which is empty for those of the run
_BAD = ("skipped", "rescued", "rejected")
_MOST_LINES = 30  # of a message
_SECONDS = 15.0  # how long a receiver may take


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """The key `notify` of a pipeline."""

    url: tuple[str, ...] = setting(
        "Where messages are sent: a URL of Apprise, or a list.",
        required=True,
        kind=str | tuple[str, ...],
        parse=lambda given: (given,) if isinstance(given, str) else tuple(given),
        secret=True,
    )
    on: tuple[Literal["failure", "drift", "bad_rows", "late"], ...] = setting("About what.", default=("failure",))
    late_after: float = setting(
        "The lag above which a stream is late: 30m, 6h, 1d.",
        default="1d",
        kind=str,
        parse=lambda given: float(given[:-1]) * UNITS[given[-1]],
        pattern="^[0-9]+[smhd]$",
    )


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The key `metrics` of a pipeline."""

    textfile: str | None = setting("A file NAME.prom, for the textfile collector of Prometheus' node_exporter.")
    pushgateway: str | None = setting("URL of a Pushgateway of Prometheus.")
    otlp: str | None = setting("URL of a receiver of OTLP over HTTP, such as `http://collector:4318`.")


SUCCESS = "singer_run_success_timestamp_seconds"
LAG, COMPLETE = "singer_lag_seconds", "singer_complete_timestamp_seconds"
METRICS = {
    "singer_run_timestamp_seconds": "When the last run ended, in seconds since 1970",
    SUCCESS: "When the last run that succeeded ended, in seconds since 1970",
    "singer_run_exit_code": "Exit code of the last run",
    "singer_run_duration_seconds": "Duration of the last run",
    "singer_run_rows": "Rows that the last run loaded",
    "singer_run_bytes": "Bytes of the files that the last run loaded",
    "singer_run_skipped_rows": "Bad rows that the last run left out",
    "singer_run_rescued_rows": "Rows of the last run with something in _sdc_rescued",
    "singer_run_rejected_rows": "Bad rows that the last run put into _sdc_rejected",
    "singer_run_schema_changes": "Columns that the last run added to the table, or widened",
    LAG: "How far the stream was behind its source when the last run ended",
    COMPLETE: "Up to when all of the source is loaded, in seconds since 1970",
    "singer_left_objects": "Objects that the last run has planned and not sent",
    "singer_left_bytes": "Bytes that the last run has planned and not sent",
}
"""All metrics. They are gauges, as each run is a process of its own; those of a stream follow the four of a run."""


def metrics_of(reports: Sequence[Report], now: datetime, *, is_loaded: bool) -> dict[str, dict[str, float]]:
    """Return the metrics of each stream. Pure. `is_loaded`: what was sent is loaded, also if no target reports it."""
    sent, loaded = (
        {stream["stream"]: stream for report in reports if is_of_target(report) is kind for stream in report["streams"]}
        for kind in (False, True)
    )
    last = sent if is_loaded and not any(map(is_of_target, reports)) else loaded
    found: dict[str, dict[str, float]] = {}
    for name in sent | loaded:
        both, end = [of[name] for of in (sent, loaded) if name in of], last.get(name)
        counts, left = end["counts"] if end else {}, both[0]["left"]
        of = found[name] = {
            "singer_run_rows": counts.get("rows_written", 0),
            "singer_run_bytes": counts.get("bytes", 0),
            "singer_run_schema_changes": counts.get("schema_changes", 0),
            # bad rows that a tap sends are in the count of the target too
            **{f"singer_run_{kind}_rows": max(s["counts"].get(f"rows_{kind}", 0) for s in both) for kind in _BAD},
            **{f"singer_left_{what}": left[what] for what in ("objects", "bytes") if what in left},
        }
        if end and end.get("complete_until"):
            end = both[0]  # the tap knows when it looked for what is new
        if moment := end and (end.get("complete_until") or end["watermark"]):
            of[LAG] = (now - datetime.fromisoformat(moment)).total_seconds()
            of |= {COMPLETE: datetime.fromisoformat(moment).timestamp()} if end.get("complete_until") else {}
    return found


class Alerts:
    """What the keys `notify` and `metrics` ask for; ConfigError: a URL is none of Apprise, or a library is missing."""

    def __init__(
        self,
        pipeline: str,
        folder: Path,
        notify: NotifySettings | None,
        metrics: MetricsSettings | None,
        *,
        is_partial: bool,
    ) -> None:
        self._pipeline, self._folder, self._is_partial = pipeline, folder, is_partial
        self._notify, self._metrics = notify, metrics or MetricsSettings()
        if notify:
            self._apprise = _library("apprise", "notify", "notify")
            logging.getLogger("apprise").setLevel(logging.WARNING)  # lines of lower levels have URLs
            self._services = [self._apprise.Apprise.instantiate(url) for url in notify.url]
            if None in self._services:
                number = self._services.index(None) + 1
                raise ConfigError(f"Setting 'notify.url': URL {number} is none of Apprise, whose pages list them")
        if self._metrics.textfile or self._metrics.pushgateway:
            self._prometheus = _library("prometheus_client", "prometheus", "metrics")
        if self._metrics.otlp:
            module = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
            self._otlp = _library(module, "opentelemetry", "metrics.otlp")

    def send(
        self, began: datetime, outcome: RunOutcome, reports: Sequence[Report], under_way: set[tuple[str, str]]
    ) -> None:
        """Send the messages and the metrics of a run that ended; what fails is a warning.

        `under_way` are the failures and lags that earlier runs have reported: a message about them was taken.
        """
        now, lines, changed = datetime.now(UTC), list[str](), set[tuple[str, str]]()
        notify, streams = self._notify if outcome.status != INTERRUPTED else None, dict[str, dict[str, float]]()
        try:
            streams = metrics_of(reports, now, is_loaded=outcome.status == SUCCEEDED)
        except Exception as broken:  # noqa: BLE001 - as of a connector of another version; what was loaded is loaded
            msg = (
                "Messages and metrics of this run lack its streams: a report cannot be read, %r; update tap and target"
            )
            logger.warning(msg, broken)

        # what a message may be about: kind, stream, whether the run met it, and in words
        _, error, code = outcome.error or ("", "", "")
        error = one_line(with_code(error, code) if code else error)
        events = [("failure", "", outcome.status == FAILED, f"exit code {outcome.exit_code}, {error}")]
        for name, of in streams.items():
            bad = [(of[f"singer_run_{kind}_rows"], kind) for kind in _BAD]
            changes, lag = int(of["singer_run_schema_changes"]), of.get(LAG)
            words = ", ".join(f"{count:,.0f} {kind}" for count, kind in bad if count)
            events.append(("bad_rows", name, bool(words), words))
            events.append(("drift", name, changes > 0, f"{counted(changes, 'column')} added or widened"))
            if notify and lag is not None:
                events.append(("late", name, lag > notify.late_after, f"{duration_text(lag)} behind its source"))

        # the message, if there is something to report: what lasts is reported when it begins and when it has ended
        for kind, stream, is_met, text in events if notify else ():
            what = f"{kind} of stream {stream}" if stream else kind
            if notify and kind in notify.on and is_met and (kind, stream) not in under_way:
                lines.append(f"{what}: {text}")
                changed |= {(kind, stream)} if kind in ("failure", "late") else set()
            elif not is_met and (kind, stream) in under_way:
                lines.append(f"{what}: it has ended")
                changed.add((kind, stream))
        lines[_MOST_LINES:] = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        title, level = f"Pipeline {self._pipeline!r} {outcome.status}", "failure" if outcome.error else "warning"
        for url, service in zip(notify.url, self._services, strict=True) if notify and lines else ():
            with self._apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
                message = partial(service.notify, title=title, body="\n".join(lines), notify_type=level)
                problem = self._tried(lambda: "" if message() else log.getvalue() or "it was refused")  # noqa: B023 - called at once
            if problem:
                logger.warning("No notification could be sent by %s: %s", url.partition(":")[0], _masked(problem, url))
            else:
                under_way ^= changed
                changed.clear()

        # the metrics
        success = {SUCCESS: now.timestamp()} if outcome.status == SUCCEEDED and not self._is_partial else {}
        of_run = {
            "singer_run_timestamp_seconds": now.timestamp(),
            "singer_run_exit_code": outcome.exit_code or 0,
            "singer_run_duration_seconds": (now - began).total_seconds(),
        }
        by_stream = {"": of_run | success, **streams}
        given = {(name, stream): value for stream, of in by_stream.items() for name, value in of.items()}
        for name, send in (("textfile", self._write), ("pushgateway", self._push), ("otlp", self._export)):
            place = getattr(self._metrics, name)
            if place and (problem := self._tried(partial(send, place, given))):
                problem = problem if name == "textfile" else _masked(problem, place)
                logger.warning("The metrics of this run could not be written, metrics.%s: %s", name, problem)

    def _tried(self, action: Callable[[], str | None]) -> str | None:
        """Return what an action returns, or on one line why it failed."""
        try:
            problem = within(_SECONDS, action)
        except Exception as error:  # noqa: BLE001 - a message or a metric is no reason for a run to fail
            problem = str(error) or type(error).__name__
        return problem and one_line(" ".join(problem.split()))

    def _labels(self, stream: str) -> dict[str, str]:
        return {"pipeline": self._pipeline} | ({"stream": stream} if stream else {})

    def _registry(self, given: _Values) -> Any:
        registry, gauges = self._prometheus.CollectorRegistry(), dict[str, Any]()
        for (name, stream), value in given.items():
            labels = self._labels(stream)
            if name not in gauges:
                gauges[name] = self._prometheus.Gauge(name, METRICS[name], list(labels), registry=registry)
            gauges[name].labels(**labels).set(value)
        return registry

    def _with_earlier(self, given: _Values, read: Callable[[], str]) -> _Values:
        """Return the metrics of a run, and of one that is not whole also those that only earlier runs have."""
        from prometheus_client.parser import text_string_to_metric_families

        text = read() if (SUCCESS, "") not in given else ""
        found = [s for family in text_string_to_metric_families(text) for s in family.samples if s.name in METRICS]
        ours = [s for s in found if s.labels.get("pipeline") == self._pipeline]
        return {(s.name, s.labels.get("stream", "")): s.value for s in ours} | given

    def _write(self, path: str, given: _Values) -> None:
        file = self._folder / path
        given = self._with_earlier(given, lambda: file.read_text() if file.exists() else "")
        self._prometheus.write_to_textfile(str(file), self._registry(given))

    def _push(self, url: str, given: _Values) -> None:
        from base64 import b64encode
        from urllib.request import Request, urlopen

        parts = urlsplit(url if "://" in url else f"http://{url}")
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        login = b64encode(unquote(f"{parts.username}:{parts.password or ''}").encode()).decode()

        def ask(path: str, data: bytes | None = None) -> str:
            request = Request(f"{place}/metrics{path}", data, method="PUT" if data else "GET")  # noqa: S310 - a user's
            if parts.username:
                request.add_unredirected_header("Authorization", f"Basic {login}")
            with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return str(answer.read(), "utf-8")

        # what a POST has of one stream would replace those of all; a group for each stream would outlive it
        whole = self._with_earlier(given, lambda: ask(""))
        path = f"/job/singer-arrow/pipeline/{quote(self._pipeline)}"
        ask(path, self._prometheus.generate_latest(self._registry(whole)))

    def _export(self, url: str, given: _Values) -> str | None:
        from logging.handlers import BufferingHandler

        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
        from opentelemetry.sdk.resources import Resource

        reader = InMemoryMetricReader()
        meter = MeterProvider([reader], Resource.create({"service.name": "singer-arrow"})).get_meter("singer_arrow")
        for (name, stream), value in given.items():
            meter.create_gauge(name, description=METRICS[name]).set(value, self._labels(stream))
        exporter = self._otlp.OTLPMetricExporter(f"{url.rstrip('/')}/v1/metrics", timeout=_SECONDS)
        log, lines = logging.getLogger("opentelemetry.exporter"), BufferingHandler(1000)
        log.addHandler(lines)
        log.propagate = False  # its lines have the URL
        is_sent = exporter.export(reader.get_metrics_data()) is MetricExportResult.SUCCESS
        log.removeHandler(lines)
        log.propagate = True
        return None if is_sent else next((record.getMessage() for record in lines.buffer), "it was refused")


def _masked(text: str, url: str) -> str:
    """Return a text without the parts of a URL, each of which may be secret."""
    parts = [part for part in re.split("[/:@?&=,]+", url)[1:] if len(part) > 2]
    return mask_secrets(text, sorted(parts, key=len, reverse=True))


def _library(module: str, extra: str, name: str) -> ModuleType:
    """Import a library; ConfigError: it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(f"Setting '{name}' needs a library: install singer-arrow[{extra}]") from None
