"""The connection to a Dask cluster: sends tasks to it, and returns their results in order."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from singer_arrow.errors import ConfigError, DriftError, ServiceError
from singer_arrow.formats.range_scan import RangeScan
from singer_arrow.read_progress import ResumePoint
from singer_arrow.storage.urls import Url
from tap_s3_files.dask.remote_task import (
    RemoteScan,
    RemoteTask,
    Resources,
    TaskResult,
    check_versions,
    run_scan,
    run_task,
    shared_worker,
    versions,
)
from tap_s3_files.dask.settings import DaskSettings
from tap_s3_files.divided_object import UNREADABLE, row_starts, scanned_spans, syntax_of
from tap_s3_files.plan.model import PendingTask, Task
from tap_s3_files.progress import Progress
from tap_s3_files.settings import Settings
from tap_s3_files.stream_job import StreamJob, Worker
from tap_s3_files.write_batches import Step

logger = logging.getLogger("tap-s3-files")
_CHECK_SECONDS = 30.0
"""How often the workers are counted, and how long the scheduler may take to answer."""
_QUIET = dict.fromkeys(("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"), "critical")
_LOST = (concurrent.futures.CancelledError, asyncio.CancelledError)


def remote_steps(settings: Settings, worker: Worker, pending_tasks: Iterable[PendingTask]) -> Generator[Iterator[Step]]:
    """Run tasks on the cluster of the settings; yield an iterator over the steps of each, in order.

    What the workers count and warn of is added to the progress of `worker` and to the log with the steps of its task.
    """
    assert settings.dask is not None
    job, resources = worker.job, Resources(settings.aws, settings.memory_bytes)
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
            yield result.replay(worker.progress)


def _find_row_starts(
    cluster: Cluster, resources: Resources, job: StreamJob, task: Task
) -> Sequence[ResumePoint] | None:
    """Return where the ranges of an object begin; None if it cannot be read, for which its tasks have the error."""
    scans = cluster.scan(RemoteScan(versions(), resources, job, task, span) for span in scanned_spans(task))
    found = [scan for scan in scans if scan is not None]
    if len(found) < len(scans):
        return None
    try:
        return row_starts(shared_worker(resources, job, Progress(job.stream)), task, found)
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

    def scan(self, scans: Iterable[RemoteScan]) -> list[RangeScan | None]:
        """Run scans of ranges on the workers; return what they found, None for what cannot be read."""
        pending = [(scan, self._submit(run_scan, scan, priority=1)) for scan in scans]  # tasks wait for them
        try:
            return [self._wait(scan.task, future) for scan, future in pending]
        finally:
            self._cancel(future for _, future in pending)

    def _submit(self, function: Callable[..., Any], argument: Any, *, priority: int = 0) -> Any:
        try:
            return self._client.submit(function, argument, pure=False, priority=priority)
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
                msg = (
                    f"the task that reads {names} ended each of {error.allowed_failures + 1} Dask workers that ran it; "
                    "see their logs: often they have less memory than memory_limit_mb and 250 MB need"
                )
                raise ServiceError(msg) from None

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
            msg = (
                f"the Dask scheduler at {self._address} has had {lacking} for {self._settings.wait_seconds:g} s, after "
                f"{self._done} of {self._sent} tasks; start workers{' with more memory' if self._paused else ''}, then "
                "run again with the last STATE"
            )
            raise ServiceError(msg)
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
        msg = (
            f"the Dask scheduler at {self._address} is gone after {self._done} of {self._sent} tasks; run again with "
            "the last STATE"
        )
        return ServiceError(msg)


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
                msg = f"Setting 'dask_tls.{name}': there is no file {path}"
                raise ConfigError(msg)
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
