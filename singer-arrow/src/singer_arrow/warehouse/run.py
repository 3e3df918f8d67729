"""What the streams of one run share, how it ends, and its clock."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from singer_arrow.errors import SchemaError, SingerArrowError
from singer_arrow.load.method import AnyLoadMethod, Tallies
from singer_arrow.load.run import Checkpoints, Finishing, Limits, LoadScheduler, StateOutput
from singer_arrow.load.staging import Remover
from singer_arrow.load.stream_ends import ONLY
from singer_arrow.naming import counted
from singer_arrow.records.parse import BAD_INPUT
from singer_arrow.records.queue import RecordBuffer, RecordQueue
from singer_arrow.run_figures import PROGRESS_LINE, RunFigures, StreamFigures, watermark_of
from singer_arrow.runtime.process import TemporaryFolder, Terminated
from singer_arrow.runtime.threads import default_workers
from singer_arrow.storage.store import Storage
from singer_arrow.warehouse.settings import LoadSettings

# One run of a target: what its streams share, and how it ends, after all input or before.

GRACE_SECONDS = 20.0
"""How long a run that must end waits for the loads that run; Kubernetes kills after 30 s."""


class RunStream(Protocol):
    """A stream of the input while its SCHEMA stays the same."""

    stream_name: str
    waiting: RecordBuffer
    """The records that are not part of a load yet."""
    method: AnyLoadMethod
    """The load method of its table."""

    def drain(self) -> None:
        """Pass the records that wait to the load method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a run uses of the target around it."""

    name: str
    logger: logging.Logger
    interrupt: Callable[[BaseException], None]  # ends the reading of messages, from any thread
    streams: Callable[..., Iterable[RunStream]]  # read so far; with a name, those of it


T = TypeVar("T")
SettingsT_co = TypeVar("SettingsT_co", bound=LoadSettings, covariant=True)


class WarehouseRun(Generic[SettingsT_co]):
    """What the streams of one run share; a warehouse's own subclass adds its connections.

    `preparing` items are prepared at once, also on fewer cores: more than one where that is mostly waiting.
    """

    def __init__(self, settings: SettingsT_co, context: RunContext, *, preparing: int = 1) -> None:
        self.settings, self.logger, self.name = settings, context.logger, context.name
        self.streams, self.interrupt = context.streams, context.interrupt
        self.namespace, self.catalog = context.name, ""  # of tables, as OpenLineage names them; it precedes their path
        self.cores = default_workers()
        self.limits = Limits(
            age_seconds=settings.max_batch_age_seconds,
            bytes=settings.max_batch_bytes,
            parallel=settings.max_parallel_loads,
            workers=max(preparing, self.cores),
        )
        self._folder = TemporaryFolder(context.name)
        self.temporary = self._folder.new  # a new path with a suffix, removed when the run ends, at the latest
        self.tallies = Tallies()
        self._output = StateOutput()
        self.checkpoints = Checkpoints(self._output.write)
        self.finishing = Finishing(self.checkpoints)
        self.remover = Remover(lambda: self.storage, self.logger)
        self.record_queue = RecordQueue(self.limits.workers, self.checkpoints.state)
        self.claimed: set[tuple[str, str]] = set()  # stream and id of the batches of the run
        self.load_methods: dict[str, str | None] = {}  # that the tap sends with its streams, by the names of the sinks
        self.sent_whole: set[str] = set()  # names of sinks that the tap sends all rows, until the first one comes
        self._streams_of: dict[str, str] = {}
        self.messages = threading.RLock()  # one message at a time, and no draining in the middle of one
        self.is_ending = False  # whether the run ends early
        self.is_read = False  # whether all input is read
        self.has_ended = False  # whether all input is loaded
        self.folders_read: dict[str, set[str]] = {}  # those of the batch files of each stream
        self.had_rows: dict[str, bool | None] = {}  # by sink whether the table had rows before this run, once asked
        self._began = datetime.now(UTC)
        self._clock: tuple[datetime, float] | None = None
        self._made: dict[tuple[Any, str], Any] = {}

    def once(self, kind: Callable[..., T], place: str, *args: Any, **options: Any) -> T:
        """Return what the run has once for a table or dataset, such as its ledger; the first call makes it."""
        if (kind, place) not in self._made:
            self._made[kind, place] = kind(*args, **options)
        made: T = self._made[kind, place]
        return made

    def all_of(self, kind: type[T]) -> list[T]:
        return [made for made in list(self._made.values()) if isinstance(made, kind)]

    def settings_of(self, stream: str) -> SettingsT_co:
        """Return the settings for one stream, with its load method."""
        return self.settings.of_stream(stream, sent=self.load_methods.get(stream))

    @property
    def record_age_seconds(self) -> float | None:
        """Seconds that records of streamed tables wait for others; None: as in all other tables."""
        return None

    @cached_property
    def storage(self) -> Storage:
        return Storage(self.settings.aws)

    @cached_property
    def scheduler(self) -> LoadScheduler:
        return LoadScheduler(self.checkpoints, self.limits, self.interrupt, self.remover.remove)

    def claim_table(self, table: str, stream: str) -> None:
        """Reserve a table, by its path, for a stream.

        A table of another name than the stream's is logged, once. SchemaError: another stream has it: entries of the
        ledger, or a replacement, of one would count for both.
        """
        if table not in self._streams_of and table.rpartition(".")[2] != stream:
            self.logger.info("Stream %r goes to table %s", stream, table)
        if (other := self._streams_of.setdefault(table, stream)) != stream:
            raise SchemaError(
                f"Streams {other!r} and {stream!r} both go to table {table}, which existed before and is neither's; "
                "give each one of its own by the setting tables or, if their SCHEMAs are alike, both one __alias__"
            )

    @property
    def bytes_billed(self) -> int | None:
        """Bytes that the warehouse billed for the run's queries; None if it does not bill queries by bytes."""
        return None

    def figures(self) -> RunFigures:
        waiting = Counter[str]()
        for method, count in self.scheduler.waiting():
            waiting[method.context.stream] += count
        tables = {stream: table for table, stream in dict(self._streams_of).items()}  # other threads add to it
        state, is_done = self.checkpoints.last, self.has_ended
        unfinished = self.finishing.unfinished if is_done else ()
        announced = set[str]().union(*list(self.finishing.tables.values()))
        streams = (
            StreamFigures(
                stream=tally.stream,
                is_complete=(is_complete := is_done and tally.stream not in unfinished),
                counts=tally.counts(),
                seconds=tally.seconds,
                phases=tally.phases(),
                table=(table := tables.get(tally.stream)),
                dataset=(self.namespace, f"{self.catalog}{table}") if table else None,
                inputs=tuple(sorted(self.folders_read.get(tally.stream, ()))),
                watermark=watermark_of(state, tally.stream),
                complete_until=self._began if is_complete and tally.stream in announced else None,
                left={"batches": waiting[tally.stream], "loads": self.scheduler.running},
            )
            for tally in self.tallies
        )
        return RunFigures(streams=tuple(streams), bytes_billed=self.bytes_billed, is_read=self.is_read)

    def moment(self, ask: Callable[[], datetime]) -> datetime:
        """Return the time by the clock of `ask`, which is asked once; never a later time than that clock's."""
        if self._clock is None:
            asked = ask()
            self._clock = asked, _seconds()
        return self._clock[0] + timedelta(seconds=_seconds() - self._clock[1])

    def drain_stream(self, stream: str) -> None:
        """Load all that was read of a stream so far, wait for it, and raise the first error."""
        for each in self.streams(stream):
            each.drain()
            self.scheduler.wait(each.method)

    def check(self) -> None:
        """Raise the first error of a load, if there was one."""
        if "scheduler" in self.__dict__:
            self.scheduler.check()

    def finish_loads(self) -> None:
        """Load what is left, and replace the tables that waited for the end of the input; `messages` is held."""
        self.record_queue.flush()
        self.is_read = True
        for stream in self.streams():
            stream.drain()
        self.scheduler.wait()
        self.finishing.finish(self.scheduler)
        self.has_ended = True

    def end(self) -> None:
        """End a run whose loads are finished: release the last STATE, log the counts, complete the ledgers.

        UnfinishedStreamError: tables were kept because their streams did not end.
        """
        self.checkpoints.flush()
        self._output.check()  # the ticker may have found out a moment ago
        self.finishing.check(self.logger)
        if ONLY not in os.environ and self.finishing.is_whole is not False:
            # a stream that has a bookmark came in an earlier run, and may have nothing in this one
            last: Any = self.checkpoints.last  # a tap may send any value
            known = last.get("bookmarks") if isinstance(last, dict) else None
            known = known if isinstance(known, dict) else {}
            came = {*(tally.stream for tally in self.tallies), *known}
            if came:  # else the tap ended before it sent anything
                self.settings.check_streams(came, is_whole=bool(self.finishing.is_whole))
        self.checkpoints.end()
        self.scheduler.stop(0)
        self.tallies.report(self.logger)
        self.write_commits()
        for stream in self.streams():
            try:
                stream.method.warn_of_missing_rows()
            except SingerArrowError as error:  # all is loaded
                self.logger.debug("Rows of stream %r could not be counted: %s", stream.stream_name, error)
        if (days := self.settings.ledger_keep_days) is not None:
            self.remove_old_entries(days)

    def abandon(self, error: BaseException | None = None) -> None:
        """End a run early, because of an error, and write the STATE that is safe.

        What was read before a bad message is loaded first, but no table is replaced by a part of its rows. DataError:
        another message, before that one, is bad too.
        """
        self.is_ending = True
        if isinstance(error, Terminated):
            error.log(self.logger)
        try:
            if isinstance(error, BAD_INPUT) and not self.scheduler.is_over:
                first: Exception = error  # or an earlier one that is found now
                with self.messages:
                    try:
                        self.record_queue.flush()
                    except BAD_INPUT as found:
                        first = found
                    for stream in self.streams():
                        if not stream.method.deferred:
                            stream.drain()
                    self.scheduler.wait()
                    self.checkpoints.flush()
                if first is not error:
                    raise first
        finally:
            try:  # begin nothing more, wait a little for the loads that run, release the STATE that is safe then
                self.record_queue.stop()
                if "scheduler" in self.__dict__:
                    self.logger.info("Ending; waiting up to %d s for the loads that run", GRACE_SECONDS)
                    self.scheduler.stop(GRACE_SECONDS)
                    self.checkpoints.flush()
                    self.tallies.report(self.logger)
            finally:
                self.write_commits()

    def write_commits(self) -> None:
        """Complete the entries of the ledger that were written before their load; called at the end of every run."""

    def remove_old_entries(self, days: int) -> None:
        """Remove entries of this run's streams from the ledger that are older than some days."""

    def close(self) -> None:
        """Release files and threads; called last."""
        self.remover.close(GRACE_SECONDS)
        self._folder.remove()


def _seconds() -> float:
    """Return seconds of a clock that is never set; where there is one, of one that counts while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


# The work that is due about every second, whether or not a message comes.

_FIRST_PROGRESS_SECONDS = 5.0
_PROGRESS_SECONDS = 30.0
_MOST_HELD_SECONDS = 2.0  # how long RECORD lines and a STATE wait for others to be parsed with


class Ticker:
    """A thread that loads old groups, releases a STATE that is due and logs the progress, until the loads end."""

    def __init__(self, run: WarehouseRun[LoadSettings]) -> None:
        self._run = run
        self._is_started = False

    def start(self) -> None:
        """Start the thread, unless that was done before."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._work, name="ticker", daemon=True).start()

    def drain_old_records(self) -> None:
        """Pass on records that are old enough, unless a message is being processed right now, or the run ends."""
        run = self._run
        if not run.messages.acquire(blocking=False):
            return
        try:
            if not run.is_ending:
                age = run.limits.age_seconds
                streamed_age, held = age, min(_MOST_HELD_SECONDS, age)
                if run.record_age_seconds is not None:
                    streamed_age, held = run.record_age_seconds, min(_MOST_HELD_SECONDS, run.record_age_seconds / 4)
                if run.record_queue.is_due(held):
                    run.record_queue.flush()
                for stream in run.streams():
                    most = streamed_age if stream.method.loads_each_file else max(age, streamed_age)
                    if stream.waiting and time.monotonic() - stream.waiting.since >= most:
                        stream.drain()
        except Exception as error:  # noqa: BLE001 - it is raised where lines are read
            run.record_queue.fail(error)  # while the lock is held: nothing may follow what was lost
            if isinstance(error, BAD_INPUT):
                run.interrupt(error)
            elif not run.is_ending:  # else something has failed before
                run.scheduler.fail(error)
        finally:
            run.messages.release()

    def _work(self) -> None:
        run, due = self._run, time.monotonic() + _FIRST_PROGRESS_SECONDS
        try:
            while not run.scheduler.is_over:
                self.drain_old_records()
                run.scheduler.tick()
                run.checkpoints.tick()
                if time.monotonic() >= due:
                    # the progress of each stream, or how many loads run where there was none
                    if not run.tallies.log_progress(run.logger) and (running := run.scheduler.running):
                        waiting = sum(count for _, count in run.scheduler.waiting())
                        loads, batches = counted(running, "load"), counted(waiting, "batch", "batches")
                        text = f"Progress: waiting for {loads}; {batches} not loaded yet"
                        run.logger.info(text, extra=PROGRESS_LINE)
                    due = time.monotonic() + _PROGRESS_SECONDS
                ages = (run.limits.age_seconds, run.record_age_seconds)
                time.sleep(min(1.0, max(0.05, min(age for age in ages if age is not None) / 2)))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the messages are read
            run.scheduler.fail(error)
