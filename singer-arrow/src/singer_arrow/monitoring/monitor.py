"""The observation of one run of a connector: its report is kept up to date, and its backlog is logged."""

from __future__ import annotations

import copy
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from singer_arrow.errors import ConfigError, SingerArrowError, one_line
from singer_arrow.monitoring.logs import (
    log_gauge,
    logs_metrics,
    mask_known,
    mask_secrets,
    secret_values,
    without_secrets,
)
from singer_arrow.monitoring.report import (
    FAILED,
    INTERRUPTED,
    SUCCEEDED,
    LineageEndpoint,
    Report,
    RunIdentity,
    RunOutcome,
    make_event,
    make_report,
)
from singer_arrow.run_figures import RunFigures
from singer_arrow.runtime.process import FIGURES, PIPELINE
from singer_arrow.runtime.threads import join_thread, within

if TYPE_CHECKING:
    from singer_arrow.monitoring.report_pages import ReportFolder
    from singer_arrow.monitoring.terminal import TerminalProgress

Result = TypeVar("Result")
_NOT_WRITTEN = "The report of this run could not be written"
_NOT_SENT = "No event of OpenLineage could be sent"
_SECONDS = 5.0  # seconds between two updates of a report
_METRIC_SECONDS = 30.0  # seconds between two metrics of the backlog
_LAST_SECONDS = 30.0  # how long the last update of a report may take, and what was under way before it
_SHOWN_SECONDS = 0.2  # seconds between two rows on a terminal


class RunMonitor:
    """A block in which a connector runs; at its end the report is complete.

    What fails here is logged as a warning and never ends the run. The settings need not be valid.
    """

    def __init__(
        self, name: str, config: Mapping[str, Any], schema: Mapping[str, Any], *, version: str = "unknown"
    ) -> None:
        self._logger, self._warnings = logging.getLogger(name), set[str]()
        self._config, self._schema = copy.deepcopy(dict(config)), schema  # the SDK adds defaults later
        self._run = RunIdentity(
            connector=name,
            version=version,
            host=socket.gethostname(),
            started_at=datetime.now(UTC),
            pipeline=tuple(os.environ.get(PIPELINE, "").split()),
        )
        self._figures: Callable[[], RunFigures] = RunFigures
        places = [(config.get("report"), config.get("aws")), (os.environ.get(FIGURES), None)]
        self._folders = [
            folder for where, aws in places if where and (folder := self._tried(partial(report_folder, where, aws)))
        ]
        self._lineage = self._tried(lambda: LineageEndpoint.from_config(self._config), _NOT_SENT)
        self._display: TerminalProgress | None = None
        if sys.stderr.isatty():
            from singer_arrow.monitoring.terminal import TerminalProgress, shows_progress

            self._display = TerminalProgress(name) if shows_progress(self._config, os.environ) else None
        self._logs_metrics = logs_metrics(config)
        self._is_observed = bool(self._folders or self._lineage or self._display or self._logs_metrics)
        self._previous: Report | None = None
        self._ended = threading.Event()
        self._updates = threading.Thread(target=self._update, name="report", daemon=True)

    def watch(self, figures: Callable[[], RunFigures]) -> None:
        """Set what returns the figures of the run; it is called from another thread."""
        self._figures = figures

    def __enter__(self) -> Self:
        if self._is_observed:
            self._tried(self._updates.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._is_observed:
            if self._updates.is_alive():
                self._tried(lambda: within(_LAST_SECONDS, lambda: join_thread(self._updates)))
            outcome = self._outcome(error)
            if (display := self._display) is not None:
                self._tried(lambda: display.close(self._figures()))
            self._tried(self._log_backlog)
            self._tried(lambda: within(_LAST_SECONDS, lambda: self._write(outcome, page=True)))
            self._tried(lambda: self._send(outcome), _NOT_SENT)

    def _outcome(self, error: BaseException | None) -> RunOutcome:
        if error is None:
            return RunOutcome(status=SUCCEEDED, exit_code=0)
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            status = INTERRUPTED if error.code > 128 else SUCCEEDED if error.code == 0 else FAILED
            return RunOutcome(status=status, exit_code=error.code)
        secrets = secret_values(self._config, self._schema)
        text, code = str(error), error.code if isinstance(error, SingerArrowError) else None
        if type(error).__name__ == "ConfigValidationError":  # the SDK's, with our lines, see `sdk.settings`
            code = ConfigError.code
            text = "; ".join(line.removesuffix(f" [{code}]") for line in getattr(error, "errors", ()))
        text = mask_secrets(one_line(" ".join(text.split())), secrets)
        return RunOutcome(status=FAILED, exit_code=1, error=(type(error).__name__, text, code))

    def _update(self) -> None:
        """Do what is due from time to time, until the run ends."""
        self._tried(lambda: self._send(RunOutcome()), _NOT_SENT)
        for folder in self._folders[:1]:
            self._previous = self._tried(
                partial(folder.previous, self._run.connector, self._run.name, next(iter(self._run.pipeline), None))
            )

        write = partial(self._write, RunOutcome(), page=False)
        due: dict[float, Callable[[], None]] = {}
        if (display := self._display) is not None:
            due[_SHOWN_SECONDS] = lambda: display.show(self._figures())
        due |= {_SECONDS: write, _METRIC_SECONDS: self._log_backlog}
        done = dict.fromkeys(due, time.monotonic())
        self._tried(write)
        while not self._ended.wait(_SHOWN_SECONDS if self._display is not None else _SECONDS):
            now = time.monotonic()
            for seconds, action in due.items():
                if now - done[seconds] >= seconds:
                    self._tried(action)
                    done[seconds] = now

    def _tried(self, action: Callable[[], Result], failure: str = _NOT_WRITTEN) -> Result | None:
        """Return what an action returns; None if it fails, which is logged once for each reason."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - the observation is no reason to end the run
            text = one_line(str(error) if isinstance(error, SingerArrowError) else repr(error))
            if text not in self._warnings:
                self._warnings.add(text)
                self._logger.warning("%s: %s", failure, text)
            return None

    def _send(self, outcome: RunOutcome) -> None:
        """Send an event of OpenLineage."""
        if (to := self._lineage) is not None:
            job, now = to.job or self._run.connector, datetime.now(UTC)
            event = make_event(self._run, outcome, self._figures(), now=now, namespace=to.namespace, job=job)
            to.send(json.loads(mask_known(json.dumps(event))))

    def _log_backlog(self) -> None:
        """Log the lag and the backlog of each stream as metrics."""
        for stream in self._figures().streams if self._logs_metrics else ():
            lag = stream.lag_seconds(datetime.now(UTC))
            gauges = {"lag_seconds": lag} if lag is not None else {}
            for name, value in (gauges | {f"{name}_left": count for name, count in stream.left.items()}).items():
                log_gauge(name, value, {"stream": stream.stream})

    def _write(self, outcome: RunOutcome, *, page: bool) -> None:
        """Write the report, if the settings, or the command that runs the pipeline, ask for one."""
        if not self._folders:
            return
        report = make_report(
            self._run,
            outcome,
            self._figures(),
            now=datetime.now(UTC),
            settings=without_secrets(self._config, self._schema),
            previous=self._previous,
        )
        masked = json.loads(mask_known(json.dumps(report, default=str)))
        for folder in self._folders:
            folder.write(self._run.name, masked, page=page)


def report_folder(where: str, aws: Mapping[str, Any] | None) -> ReportFolder:
    """Return the folder of a setting `report`, with the credentials of a setting `aws`."""
    from singer_arrow.monitoring.report_pages import ReportFolder
    from singer_arrow.storage.aws import AwsOptions
    from singer_arrow.storage.store import Storage
    from singer_arrow.storage.urls import Url

    return ReportFolder(Storage(AwsOptions.from_config(aws or {})), Url.parse(where))
