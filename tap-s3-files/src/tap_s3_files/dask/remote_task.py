"""One task with all that it needs, and its result: what is sent to workers and back. Depends on its arguments alone."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from singer_arrow.errors import ConfigError, SingerArrowError
from singer_arrow.formats.range_scan import RangeScan
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.range_planner import Span
from singer_arrow.storage.aws_options import AwsOptions
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.divided_object import UNREADABLE, scan_range
from tap_s3_files.plan.cuts import Cuts
from tap_s3_files.plan.model import PendingTask, Task
from tap_s3_files.plan.range_starts import RangeStarts
from tap_s3_files.progress import Counts, Progress
from tap_s3_files.run import make_budget
from tap_s3_files.stream_job import StreamJob, Worker
from tap_s3_files.write_batches import Step, convert_task

if TYPE_CHECKING:
    from types import TracebackType

Versions = Mapping[str, str]
"""Versions by package."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a worker process keeps for tasks: how it reaches storage, and its limit of memory."""

    aws: AwsOptions
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """A task for another process, with where it finds the cuts and ranges of its object.

    `versions` are those with which it may run; the segment of `pending` has no tasks, which may be many.
    """

    versions: Versions
    resources: Resources
    job: StreamJob
    pending: PendingTask
    cuts: tuple[Url, str] | None
    starts: Url | None


@dataclass(frozen=True, slots=True)
class RemoteScan:
    """The arguments of `scan_range`, for another process; `versions` are those with which it may run."""

    versions: Versions
    resources: Resources
    job: StreamJob
    task: Task
    span: Span


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task gave: its steps, then the error that ended it, if one did.

    `counts`, `changed` and `skipped` objects, and `phases` (seconds) are those of the worker's progress; `warnings` are
    its log lines.
    """

    steps: tuple[Step, ...] = ()
    error: SingerArrowError | None = None
    counts: Counts = field(default_factory=Counts)
    changed: tuple[ObjectInfo, ...] = ()
    skipped: tuple[tuple[ObjectInfo, str], ...] = ()
    phases: Mapping[str, float] | None = None
    warnings: tuple[tuple[str, str], ...] = ()

    def replay(self, progress: Progress) -> Iterator[Step]:
        """Yield the steps, and add to a progress and to the log what the worker added to its own; raise the error."""
        progress.add(self.counts)
        for info in self.changed:
            progress.object_changed(info)
        for info, reason in self.skipped:
            progress.skip(info, reason)
        for phase, seconds in (self.phases or {}).items():
            progress.spend(phase, seconds)
        for name, text in self.warnings:
            logging.getLogger(name).warning("%s", text)
        yield from self.steps
        if self.error is not None:
            raise self.error


@cache
def versions() -> Versions:
    """Return the versions that decide what is in a batch file: of the tap, of singer-arrow, of pyarrow."""
    return {name: version(name) for name in ("singer-arrow-tap-s3-files", "singer-arrow", "pyarrow")}


def check_versions(found: Versions, expected: Versions, worker: str) -> None:
    """Check that a worker has the versions of the tap's own process; the error names the worker and both versions."""
    for name, ours in expected.items():
        if found.get(name) != ours:
            msg = (
                f"Dask worker {worker} has {name} {found.get(name)}, and this process {ours}: they would write other "
                "batch files under the same names; install the same versions everywhere"
            )
            raise ConfigError(msg)


def run_task(remote: RemoteTask) -> TaskResult:
    """Run a task in this process; its error is a part of the result, because the steps before it are good."""
    steps: list[Step] = []
    progress, error = _TaskProgress(remote.job.stream), None
    with _Warnings() as warnings:
        try:
            check_versions(versions(), remote.versions, f"{socket.gethostname()}, process {os.getpid()},")
            worker = shared_worker(remote.resources, remote.job, progress)
            pending = replace(
                remote.pending,
                cuts=Cuts(worker.storage, *remote.cuts) if remote.cuts is not None else None,
                starts=RangeStarts(worker.storage, remote.starts) if remote.starts is not None else None,
            )
            steps.extend(convert_task(worker, pending))
        except SingerArrowError as raised:
            error = raised.with_traceback(None)
    return TaskResult(
        steps=tuple(steps),
        error=error,
        counts=progress.counts,
        changed=tuple(progress.take_changed()),
        skipped=tuple(progress.skipped),
        phases=progress.phases,
        warnings=tuple(warnings.lines),
    )


class _TaskProgress(Progress):
    """The progress of one task: objects that are skipped are counted and logged by the run, once for all its tasks."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.skipped: list[tuple[ObjectInfo, str]] = []

    def skip(self, info: ObjectInfo, reason: str) -> None:
        self.skipped.append((info, reason))


def run_scan(remote: RemoteScan) -> RangeScan | None:
    """Scan a range of an object in this process; None if it cannot be read, for which its tasks have the error."""
    check_versions(versions(), remote.versions, f"{socket.gethostname()}, process {os.getpid()},")
    worker = shared_worker(remote.resources, remote.job, Progress(remote.job.stream))
    try:
        return scan_range(worker, remote.task, remote.span)
    except UNREADABLE:
        return None


_SHARED_LOCK = threading.Lock()
_SHARED: dict[Resources, tuple[Storage, Budget]] = {}


def shared_worker(resources: Resources, job: StreamJob, progress: Progress) -> Worker:
    """Return a worker whose storage and memory are those of all tasks with equal resources in this process."""
    with _SHARED_LOCK:
        if resources not in _SHARED:
            _SHARED[resources] = Storage(resources.aws), make_budget(resources.memory_bytes)
        return Worker(job, *_SHARED[resources], progress)


class _Warnings(logging.Handler):
    """Keeps the warnings of one thread while the block runs: other tasks may run in this process."""

    _LOGGERS = ("tap-s3-files", "singer_arrow")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._thread = threading.get_ident()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.lines.append((record.name, record.getMessage()))

    def __enter__(self) -> _Warnings:
        for name in self._LOGGERS:
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._LOGGERS:
            logging.getLogger(name).removeHandler(self)
