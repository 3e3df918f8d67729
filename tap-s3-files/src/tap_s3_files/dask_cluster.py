"""Tasks on a Dask cluster: what is sent to workers, results in order."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singer_arrow.errors import ConfigError, DriftError, ServiceError, SingerArrowError
from singer_arrow.formats.base import RangeScan
from singer_arrow.read_options import ResumePoint
from singer_arrow.reading.objects import Span
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.convert import Step, convert_task
from tap_s3_files.plan_model import Cuts, PendingTask, RangeStarts, Task
from tap_s3_files.progress import Counts, Progress
from tap_s3_files.read import UNREADABLE, row_starts, scan_range, scanned_spans, syntax_of
from tap_s3_files.run import StreamJob, TaskContext, make_budget
from tap_s3_files.settings import DaskSettings, Settings

if TYPE_CHECKING:
    from types import TracebackType


# One task with all that it needs, and its result: what is sent to workers and back. Depends on its arguments alone.

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
    cuts: tuple[Url, str, Url | None] | None
    starts: Url | None


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
            raise ConfigError(
                f"Dask worker {worker} has {name} {found.get(name)}, and this process {ours}: they would write other "
                "batch files under the same names; install the same versions everywhere"
            )


def run_task(remote: RemoteTask) -> TaskResult:
    """Run a task in this process; its error is a part of the result, because the steps before it are good."""
    steps: list[Step] = []
    progress, error = _TaskProgress(remote.job.stream), None
    with _Warnings() as warnings:
        try:
            check_versions(versions(), remote.versions, f"{socket.gethostname()}, process {os.getpid()},")
            context = shared_context(remote.resources, remote.job, progress)
            pending = replace(
                remote.pending,
                cuts=Cuts(context.storage, *remote.cuts) if remote.cuts is not None else None,
                starts=RangeStarts(context.storage, remote.starts) if remote.starts is not None else None,
            )
            steps.extend(convert_task(context, pending))
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


def run_scan(expected: Versions, resources: Resources, job: StreamJob, task: Task, span: Span) -> RangeScan | None:
    """Scan a range of an object in this process; None if it cannot be read, for which its tasks have the error."""
    check_versions(versions(), expected, f"{socket.gethostname()}, process {os.getpid()},")
    try:
        return scan_range(shared_context(resources, job, Progress(job.stream)), task, span)
    except UNREADABLE:
        return None


_SHARED_LOCK = threading.Lock()
_SHARED: dict[Resources, tuple[Storage, Budget]] = {}


def shared_context(resources: Resources, job: StreamJob, progress: Progress) -> TaskContext:
    """Return a context whose storage and memory are those of all tasks with equal resources in this process."""
    with _SHARED_LOCK:
        if resources not in _SHARED:
            _SHARED[resources] = Storage(resources.aws), make_budget(resources.memory_bytes)
        return TaskContext(job, *_SHARED[resources], progress)


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


# The connection to a Dask cluster: sends tasks to it, and returns their results in order.

logger = logging.getLogger("tap-s3-files")
_CHECK_SECONDS = 30.0  # how often the workers are counted, and how long the scheduler may take to answer
_QUIET = dict.fromkeys(("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"), "critical")
_LOST = (concurrent.futures.CancelledError, asyncio.CancelledError)


def remote_steps(
    settings: Settings, context: TaskContext, pending_tasks: Iterable[PendingTask]
) -> Generator[Iterator[Step]]:
    """Run tasks on the cluster of the settings; yield an iterator over the steps of each, in order.

    What the workers count and warn of is added to the progress of `context` and to the log with the steps of its task.
    """
    assert settings.dask is not None
    job, resources = context.job, Resources(settings.aws, settings.memory_bytes)
    cluster = connect(settings.dask)
    unreadable = set[Url]()

    def tasks() -> Iterator[RemoteTask]:
        for pending in pending_tasks:
            starts = pending.starts
            if starts is not None and starts.url not in unreadable:
                syntax = syntax_of(job, pending.task)
                if starts.known(syntax) is None:
                    found = _find_row_starts(cluster, resources, job, pending.task)
                    if found is None:
                        unreadable.add(starts.url)
                    else:
                        starts.save(syntax, found)
            cuts, url = (
                pending.cuts.place if pending.cuts is not None else None,
                starts.url if starts is not None else None,
            )
            segment = replace(pending.segment, tasks=())
            yield RemoteTask(
                versions(), resources, job, replace(pending, segment=segment, cuts=None, starts=None), cuts, url
            )

    with closing(cluster.results(tasks())) as results:
        for result in results:
            yield result.replay(context.progress)


def _find_row_starts(
    cluster: Cluster, resources: Resources, job: StreamJob, task: Task
) -> Sequence[ResumePoint] | None:
    """Return where the ranges of an object begin; None if it cannot be read, for which its tasks have the error."""
    scans = cluster.scan(resources, job, task, scanned_spans(task))
    found = [scan for scan in scans if scan is not None]
    if len(found) < len(scans):
        return None
    try:
        return row_starts(shared_context(resources, job, Progress(job.stream)), task, found)
    except UNREADABLE:
        return None


@cache
def connect(settings: DaskSettings) -> Cluster:
    """Return the connection of this process to a cluster, whose workers are then known to have its versions."""
    return Cluster(settings)


class Cluster:
    """A connection to a Dask scheduler, whose workers have our versions."""

    def __init__(self, settings: DaskSettings) -> None:
        self._settings, self._address = settings, settings.scheduler
        self._client = _client(settings)
        self._patience = min(_CHECK_SECONDS, settings.wait_seconds)
        self._threads: int | None = None
        self._paused = 0
        self._last_counted = self._last_had_workers = time.monotonic()
        self._sent = self._done = 0
        self._count_threads()
        while not self._threads:
            time.sleep(min(1.0, settings.wait_seconds))
            self._check_workers()
        self._check_versions()

    def results(self, tasks: Iterable[RemoteTask]) -> Generator[TaskResult]:
        """Run tasks on the workers and yield their results in order; tasks are taken as there is room for them.

        When the caller stops, tasks that have not begun are cancelled. Those that run write files that a later run
        makes again, with the same names and bytes.
        """
        waiting, pending = iter(tasks), deque[tuple[RemoteTask, Any]]()
        try:
            while True:
                while len(pending) < self._window and (task := next(waiting, None)) is not None:
                    is_empty = not task.pending.task.objects
                    pending.append((task, None if is_empty else self._submit(run_task, task)))
                    self._sent += not is_empty
                if not pending:
                    return
                task, future = pending[0]
                result = self._result(task, future)
                if isinstance(result.error, DriftError):  # all begin again: two must not cut one object
                    for other, running in pending:
                        if other.cuts is not None:
                            self._result(other, running)
                pending.popleft()
                yield result
        finally:
            self._cancel(future for _, future in pending)

    def scan(self, resources: Resources, job: StreamJob, task: Task, spans: Sequence[Span]) -> list[RangeScan | None]:
        """Run scans of ranges on the workers; return what they found, None for what cannot be read."""
        arguments = versions(), resources, job, task
        pending = [self._submit(run_scan, *arguments, span, priority=1) for span in spans]  # tasks wait for them
        try:
            return [self._wait(task, future) for future in pending]
        finally:
            self._cancel(pending)

    def _submit(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        try:
            return self._client.submit(function, *arguments, pure=False, priority=priority)
        except (OSError, RuntimeError, *_LOST):  # a client without a scheduler is closed after a while
            raise self._gone() from None

    def _cancel(self, futures: Iterable[Any]) -> None:
        with suppress(OSError, *_LOST):  # of a scheduler that is gone
            self._client.cancel([future for future in futures if future is not None])

    def _result(self, task: RemoteTask, future: Any) -> TaskResult:
        if future is None:
            return TaskResult()
        result: TaskResult = self._wait(task.pending.task, future)
        self._done += 1
        return result

    def _wait(self, task: Task, future: Any) -> Any:
        """Return the result of a future, while there are workers or they may come."""
        from distributed import KilledWorker

        self._last_had_workers = time.monotonic()
        while True:
            try:
                return future.result(timeout=self._patience)
            except TimeoutError:
                if future.status == "error":  # the task's own
                    raise
                self._check_workers()  # a result may be ready, and its worker or the scheduler out of reach
            except (OSError, *_LOST):
                if future.status == "error":  # the task's own
                    raise
                raise self._gone() from None
            except KilledWorker as error:
                first, *more = [str(o.url) for o in task.objects]
                names = f"{first} and {len(more)} more" if more else first
                raise ServiceError(
                    f"the task that reads {names} ended each of {error.allowed_failures + 1} Dask workers that ran it; "
                    "see their logs: often they have less memory than memory_limit_mb and 250 MB need"
                ) from None

    @property
    def _window(self) -> int:
        """How many tasks may be in flight."""
        if self._settings.window is not None:
            return self._settings.window
        if time.monotonic() - self._last_counted > _CHECK_SECONDS:
            self._count_threads()
        return 2 * max(1, self._threads or 0)

    def _check_versions(self) -> None:
        """Compare the versions of the workers with ours; for those that do not answer, each task does it."""
        try:
            answers = self._client.sync(self._client.run, versions, on_error="return", callback_timeout=self._patience)
        except TimeoutError:
            logger.warning("not all workers of the Dask scheduler at %s answer", self._address)
            return
        except (OSError, *_LOST):
            raise self._gone() from None
        for worker, found in answers.items():
            if isinstance(found, OSError):  # of the connection
                logger.warning("Dask worker %s does not answer: %s", worker, found)
                continue
            if isinstance(found, BaseException):
                msg = f"Dask worker {worker} cannot run tap-s3-files: {found}; install it there in the same version"
                raise ConfigError(msg) from None
            check_versions(found, versions(), worker)

    def _check_workers(self) -> None:
        """Count the workers; log if there is none, and raise an error if there was none, or no answer, for too long."""
        now = time.monotonic()
        is_due = now - self._last_counted >= _CHECK_SECONDS
        self._count_threads()
        if self._threads:
            self._last_had_workers = time.monotonic()
        elif time.monotonic() - self._last_had_workers > self._settings.wait_seconds:
            if self._threads is None:
                raise self._gone()
            lacking = f"no worker but {self._paused} paused" if self._paused else "no worker"
            raise ServiceError(
                f"the Dask scheduler at {self._address} has had {lacking} for {self._settings.wait_seconds:g} s, after "
                f"{self._done} of {self._sent} tasks; start workers{' with more memory' if self._paused else ''}, then "
                "run again with the last STATE"
            )
        elif is_due:
            what = "does not answer; waiting for it" if self._threads is None else "has no worker; waiting for one"
            what = f"has {self._paused} workers, all paused for lack of memory; waiting" if self._paused else what
            logger.warning("the Dask scheduler at %s %s", self._address, what)

    def _count_threads(self) -> None:
        """Ask the scheduler for the number of threads of workers that take tasks: None, if it does not answer in time.

        A worker that is paused, for lack of memory, takes none.
        """
        self._last_counted, self._paused = time.monotonic(), 0
        scheduler = self._client.scheduler
        try:
            found = self._client.sync(scheduler.ncores_running, callback_timeout=self._patience)
            if not found:
                self._paused = len(self._client.sync(scheduler.ncores, callback_timeout=self._patience))
        except TimeoutError:
            self._threads = None
        except (OSError, *_LOST):
            raise self._gone() from None
        else:
            self._threads = sum(found.values())

    def _gone(self) -> ServiceError:
        return ServiceError(
            f"the Dask scheduler at {self._address} is gone after {self._done} of {self._sent} tasks; run again with "
            "the last STATE"
        )


def _client(settings: DaskSettings) -> Any:
    try:
        import dask

        dask.config.set({"logging": _QUIET})  # else its own lines come between ours
        from distributed import Client, Security
    except ModuleNotFoundError as error:
        msg = f"Setting 'executor' is dask, and {error.name} is not installed; install tap-s3-files[dask]"
        raise ConfigError(msg) from None
    security = None
    if tls := settings.tls:
        for name, path in asdict(tls).items():
            if not Path(path).is_file():
                raise ConfigError(f"Setting 'dask_tls.{name}': there is no file {path}")
        security = Security(  # type: ignore[no-untyped-call] # distributed types its API in part
            require_encryption=True, tls_ca_file=tls.ca_file, tls_client_cert=tls.cert_file, tls_client_key=tls.key_file
        )
    timeout = min(_CHECK_SECONDS, settings.wait_seconds)
    try:
        return Client(  # type: ignore[no-untyped-call]
            settings.scheduler, security=security, timeout=timeout, set_as_default=False, name="tap-s3-files"
        )
    except (OSError, TimeoutError) as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        msg = f"the Dask scheduler at {settings.scheduler} cannot be reached: {reason}; check dask_scheduler, dask_tls"
        raise ServiceError(msg) from None
