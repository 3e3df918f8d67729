"""Group items into loads and run them; STATE held back until all before it is durable; the end of a run."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from singer_sdk.singerlib.json import serialize_json

from singer_arrow.errors import ServiceError, UnfinishedStreamError
from singer_arrow.load.method import AnyLoadMethod, Prepared
from singer_arrow.load.stream_ends import StreamEnds, StreamSpan, kept_tables
from singer_arrow.runtime.process import discard_output
from singer_arrow.runtime.threads import DaemonPool
from singer_arrow.storage.urls import Url

# Hold back each STATE until all data before it is durable in the warehouse.
#
# A token is opened for data that is read: for a BATCH message by `LoadScheduler.add`, for RECORDs by
# `LoadSink.start_batch` when the first of a file is read. It is closed when the data is durable: by `LoadScheduler`
# after `publish`; where tables are replaced at the end of the input, after `finish`, see `Finishing`. A STATE comes
# from `RecordQueue.state`, which passes it on once the lines before it are with their sinks. It is written by
# `StateOutput` once all tokens opened before it are closed, in any order. If several STATEs may be written, only the
# newest is: it covers the older ones.

State = Mapping[str, Any]


class Checkpoints:
    """Hold back each STATE until all tokens opened before it are closed.

    At most one STATE is written every `interval` seconds, because the runner of the target stores each of them; `flush`
    writes the last one regardless. Memory is bounded by the number of open tokens. Safe to use from any thread; `emit`,
    which writes a STATE, is never called from two threads at once, and always with a newer STATE than before.
    """

    def __init__(
        self, emit: Callable[[State], None], *, interval: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.emit = emit
        self._interval = interval
        self._clock = clock
        self._lock = threading.RLock()
        self.newest = 0  # the token that was opened last
        self._open: set[int] = set()
        self._lowest = 1  # of the open ones, or the next one: tokens only grow
        self._waiting: deque[tuple[int, State]] = deque()
        self._ready: tuple[int, State] | None = None
        self._after: list[tuple[int, Callable[[], None]]] = []
        self._has_state = False
        self.last: State | None = None  # that was written
        self._emitted_at = float("-inf")

    def open(self) -> int:
        """Open a token for data that was read now, and return it."""
        with self._lock:
            self.newest += 1
            self._open.add(self.newest)
            return self.newest

    def close(self, tokens: Iterable[int], then: Callable[[], None] | None = None) -> None:
        """Close tokens whose data is durable.

        `then` is called once a STATE that covers them is written, from any thread; it must return at once.
        """
        self.close_together([(tokens, then)])

    def close_together(self, groups: Iterable[tuple[Iterable[int], Callable[[], None] | None]]) -> None:
        """Close several groups that become durable at once: no STATE between them is written."""
        with self._lock:
            for tokens, then in groups:
                closed = list(tokens)
                self._open.difference_update(closed)
                if then is not None:
                    self._after.append((max(closed, default=0), then))
            self._release()
            self._pump()

    def state(self, value: State) -> None:
        """Hold a STATE that was read; it covers all tokens opened before it."""
        with self._lock:
            self._has_state = True
            if self._waiting and self._waiting[-1][0] == self.newest:
                self._waiting.pop()  # nothing was read between the two: the newer one covers the older
            self._waiting.append((self.newest, value))
            self._release()
            self._pump()

    def tick(self) -> None:
        """Write a STATE that only waited for the interval to pass."""
        with self._lock:
            self._pump()

    def flush(self) -> None:
        """Write the newest STATE whose data is durable, regardless of the interval."""
        with self._lock:
            self._pump(now=True)

    def end(self) -> None:
        """End a run that succeeded: if it had no STATE at all, call what waits for one."""
        with self._lock:
            if not self._has_state:
                self._call_after(self.newest)

    def _release(self) -> None:
        while self._lowest <= self.newest and self._lowest not in self._open:
            self._lowest += 1
        while self._waiting and self._waiting[0][0] < self._lowest:
            self._ready = self._waiting.popleft()

    def _pump(self, *, now: bool = False) -> None:
        if self._ready is None or not (now or self._clock() - self._emitted_at >= self._interval):
            return
        (through, value), self._ready = self._ready, None
        if value != self.last:
            self.emit(value)
            self.last, self._emitted_at = value, self._clock()
        self._call_after(through)

    def _call_after(self, through: int) -> None:
        """Call what waited for the STATE of all tokens up to this one."""
        due = [then for last, then in self._after if last <= through]
        self._after = [(last, then) for last, then in self._after if last > through]
        for then in due:
            then()


# Write STATE messages of a target to standard output.

_UNREAD = "The reader of the target's STATE has closed the pipe; the program that ran the target has probably ended"
_UNWRITTEN = "STATE cannot be written to standard output"


class StateOutput:
    """Writes STATE messages; after one could not be written, all later ones raise the same error."""

    def __init__(self) -> None:
        self._failure: str | None = None

    def write(self, state: State) -> None:
        """Write a STATE and flush standard output; ServiceError if this or an earlier one could not be written."""
        if sys.stdout is None:
            self._failure = f"{_UNWRITTEN}: it is closed"
        self.check()
        try:
            sys.stdout.write(serialize_json(state) + "\n")
            sys.stdout.flush()
        except OSError as error:
            self._failure = _UNREAD if isinstance(error, BrokenPipeError) else f"{_UNWRITTEN}: {error.strerror}"
            discard_output()
        self.check()

    def check(self) -> None:
        if self._failure is not None:
            raise ServiceError(self._failure)


# How what a target reads becomes loads: items are prepared in parallel, gathered into groups, and loaded in parallel.
#
# A group is what is loaded at once: whole items of one stream, in the order in which they were read. It ends when it is
# old, large or long enough, when something comes that it cannot hold, or when somebody waits for it. Reading is held up
# while too much is under way. The first error stops everything that has not begun, and is raised where messages are
# read.


@dataclass(frozen=True, slots=True)
class Limits:
    """Where groups end, and how much runs at once."""

    age_seconds: float = 60.0  # since the first item of a group was read
    bytes: int = 512 << 20  # of a group
    items: int = 1000  # of a group
    parallel: int = 4  # loads at once
    workers: int = 2  # items prepared at once


@dataclass(slots=True, eq=False)
class _Group:
    method: AnyLoadMethod
    opened_at: float
    parts: list[Future[Prepared[Any]]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    bytes: int = 0
    staged: Any = None
    is_staged: bool = False


class LoadScheduler:
    """Gathers items into groups and loads them; one for all streams of a run.

    `add`, `wait` and `finish` belong to the one thread that reads messages. `on_error` is called with the first error,
    from any thread; `remove` removes objects in the background.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        limits: Limits,
        on_error: Callable[[BaseException], None] = lambda _: None,
        remove: Callable[[Sequence[Url]], None] = lambda _: None,
    ) -> None:
        self._checkpoints = checkpoints
        self._limits = limits
        self._on_error = on_error
        self._remove = remove
        self._changed = threading.Condition()
        self._gathering: dict[AnyLoadMethod, _Group] = {}
        self._unfinished: dict[AnyLoadMethod, deque[_Group]] = {}
        self._publishing: set[AnyLoadMethod] = set()
        self._deferred: dict[AnyLoadMethod, list[tuple[list[int], Callable[[], None] | None]]] = {}
        self._unprepared = 0
        self.running = 0  # loads
        self._error: BaseException | None = None
        self._stopped = False
        self._preparing = DaemonPool(limits.workers, "prepare")
        self._loading = DaemonPool(limits.parallel, "load")

    def add(
        self,
        method: AnyLoadMethod,
        item: Any,
        *,
        token: int | None = None,
        alone: bool = False,
        since: float | None = None,
    ) -> None:
        """Take the next item of a stream; its token is closed once it is durable. Waits while too much is under way.

        `token` was opened when the item was read; None: it is read now. One that is `alone` is a group of its own.
        `since`: when it was read, by time.monotonic; None: now. Raises whatever failed first, now or before.
        """
        token = self._checkpoints.open() if token is None else token
        with self._changed:
            self._changed.wait_for(self._has_room)
            self.check()
            group = self._gathering.get(method)
            if group is not None and alone:
                self._close(group)
                group = None
            if group is None:
                group = self._gathering[method] = _Group(method, time.monotonic())
            if since is not None:
                group.opened_at = min(group.opened_at, since)
            self._unprepared += 1
            group.parts.append(self._preparing.submit(self._prepare, group, item))
            group.tokens.append(token)  # last: where a signal breaks in, no token goes without its part
            if alone or len(group.parts) >= self._limits.items:
                self._close(group)

    def wait(self, method: AnyLoadMethod | None = None) -> None:
        """Load what was gathered, of one stream or of all, and wait until it is done; raise whatever failed first."""
        with self._changed:
            for group in list(self._gathering.values()):
                if method in (None, group.method):
                    self._close(group)
            unfinished = self._unfinished
            self._changed.wait_for(
                lambda: self._error or not any(some for key, some in unfinished.items() if method in (None, key))
            )
            self.check()

    def finish(self, method: AnyLoadMethod) -> None:
        """Load what was gathered of a deferred load method, publish all of it and close its tokens."""
        self.wait(method)
        with self._timed(method, "finish"):
            method.finish()
        with self._changed:
            done = self._deferred.pop(method, [])
        self._checkpoints.close_together(done)

    def hold(self, method: AnyLoadMethod, token: int) -> None:
        """Close the token when a deferred load method is finished; no load is needed for it."""
        with self._changed:
            self._deferred.setdefault(method, []).append(([token], None))

    def newest_token(self, method: AnyLoadMethod) -> int:
        """Return the newest token that waits for a deferred load method to be finished; 0 if none does."""
        with self._changed:
            return max((t for tokens, _ in self._deferred.get(method, ()) for t in tokens), default=0)

    def tick(self) -> None:
        """Load groups that are old enough; call it about every second, from any thread."""
        now = time.monotonic()
        with self._changed:
            for group in list(self._gathering.values()):
                if now - group.opened_at >= self._limits.age_seconds:
                    self._close(group)

    def check(self) -> None:
        """Raise what failed first, if anything did."""
        if self._error is not None:
            raise self._error

    def fail(self, error: BaseException) -> None:
        """End everything that has not begun, because of this error."""
        with self._changed:
            is_first = self._error is None
            self._error = self._error or error
            self._changed.notify_all()
        if is_first:
            self._on_error(error)

    def waiting(self) -> list[tuple[AnyLoadMethod, int]]:
        """Return load methods with the number of their items that are not durable yet."""
        with self._changed:
            groups = [*self._gathering.values(), *(group for some in self._unfinished.values() for group in some)]
            deferred = [(m, len(tokens)) for m, some in self._deferred.items() for tokens, _ in some]
            return [*((group.method, len(group.parts)) for group in groups), *deferred]

    @property
    def is_over(self) -> bool:
        """Whether nothing more begins."""
        return self._stopped or self._error is not None

    def stop(self, grace: float) -> None:
        """Begin nothing more, and wait for the loads that run, at most `grace` seconds."""
        with self._changed:
            self._stopped = True
            self._preparing.stop()
            self._loading.stop()
            self._changed.wait_for(lambda: not self.running, timeout=grace)

    def _has_room(self) -> bool:
        if self._error is not None:
            return True
        closed = sum(len(groups) for groups in self._unfinished.values())
        return self._unprepared < 2 * self._limits.workers and closed < 2 * self._limits.parallel

    def _close(self, group: _Group) -> None:
        """End a group and have it loaded; the lock is held."""
        if self._gathering.get(group.method) is group:
            del self._gathering[group.method]
            self._unfinished.setdefault(group.method, deque()).append(group)
            self._loading.submit(self._load, group)

    def _prepare(self, group: _Group, item: Any) -> Any:
        try:
            if self._error is not None or self._stopped:
                raise InterruptedError("the run is ending")
            with self._timed(group.method, "prepare"):
                part = group.method.prepare(item)
        except BaseException as error:
            if not isinstance(error, InterruptedError):
                self.fail(error)
            raise
        finally:
            with self._changed:
                self._unprepared -= 1
                self._changed.notify_all()
        with self._changed:
            group.bytes += part.bytes
            held = sum(g.bytes for g in self._gathering.values())
            if group.bytes >= self._limits.bytes:
                self._close(group)
            elif held >= self._limits.bytes * self._limits.parallel:
                self._close(max(self._gathering.values(), key=lambda g: g.bytes))
        return part

    def _load(self, group: _Group) -> None:
        with self._changed:
            if self._error is not None or self._stopped:
                return
            self.running += 1
        try:
            parts = [future.result() for future in group.parts]
            with self._timed(group.method, "stage"):
                group.staged = group.method.stage(parts)
            group.is_staged = True
            self._publish(group)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the messages are read
            self.fail(error)  # the tokens of the group stay open, so no later STATE leaves
        finally:
            with self._changed:
                self.running -= 1
                self._changed.notify_all()

    def _publish(self, group: _Group) -> None:
        """Publish a staged group; in an ordered load method, all that are staged up to the first that is not."""
        method = group.method
        if not method.ordered:
            self._publish_group(group)
        while method.ordered:
            with self._changed:
                groups = self._unfinished.get(method)
                if method in self._publishing or not groups or not groups[0].is_staged or self._error is not None:
                    return
                self._publishing.add(method)
                head = groups[0]
            try:
                self._publish_group(head)
            finally:
                with self._changed:
                    self._publishing.discard(method)

    def _publish_group(self, group: _Group) -> None:
        with self._timed(group.method, "publish"):
            group.method.publish(group.staged)
        left = group.method.removable_files([future.result() for future in group.parts], group.staged)
        then = partial(self._remove, left) if left else None
        if group.method.deferred:
            with self._changed:
                self._deferred.setdefault(group.method, []).append((group.tokens, then))
        else:
            self._checkpoints.close(group.tokens, then)
        with self._changed:
            self._unfinished[group.method].remove(group)
            if not self._unfinished[group.method]:
                del self._unfinished[group.method]
            self._changed.notify_all()

    @contextmanager
    def _timed(self, method: AnyLoadMethod, step: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            method.context.tally.spend(step, time.perf_counter() - began)


# What happens to tables at the end of the input: those of finished streams are replaced, the others are kept.
#
# Only with load methods that replace a table (`deferred` ones). With the others every row is in the table already, and
# an unfinished stream only causes a warning.


class Finishing:
    """The deferred load methods of a run, and the streams of the input that fill them.

    An announced stream with a deferred load method holds back each STATE from its first SCHEMA until its table is
    replaced.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.methods: dict[str, list[AnyLoadMethod]] = {}
        """Those to finish, by their tables, which have one for each of their SCHEMAs; also of sinks that are gone."""
        self._ends = StreamEnds()
        self._full_tables: set[str] = set()  # the streams of which a table becomes empty if they have no row
        self.tables: dict[str, set[str]] = {}  # the sinks that the rows of each announced stream go to
        self._tokens: dict[str, list[int]] = {}
        self._kept: set[str] = set()
        self._unfinished: list[str] = []

    def begin(self, stream: str, tables: Collection[str], *, is_full_table: bool = False) -> None:
        """Note a SCHEMA that announces an end mark, and the stream names of the sinks that its rows go to."""
        if is_full_table:
            self._full_tables.add(stream)
        self.tables.setdefault(stream, set()).update(tables)
        if self.methods.keys() & self.tables[stream]:
            self._tokens.setdefault(stream, []).append(self._checkpoints.open())
        self._ends.begin(stream, self._checkpoints.newest)

    def state(self, ended: Iterable[str]) -> None:
        """Note a STATE, and the streams whose ends it marks, whose rows all have their tokens."""
        self._ends.state(self._checkpoints.newest, ended)

    @property
    def unfinished(self) -> Collection[str]:
        """Return the sinks of announced streams whose end mark is missing, or whose tables were not replaced."""
        return self._kept.union(*(self.tables[stream] for stream in self._ends.unfinished()))

    @property
    def is_whole(self) -> bool | None:
        """Whether the tap marked the end of every announced stream; None: it announces none."""
        return not self._ends.unfinished() if self.tables else None

    def finish(self, scheduler: LoadScheduler) -> None:
        """Replace the tables of finished streams; everything that was read has been loaded into staging tables."""
        streams_of: dict[str, list[str]] = {table: [] for table in self.methods}
        for stream, tables in self.tables.items():
            for table in streams_of.keys() & tables:
                streams_of[table].append(stream)
        spans = dict[str, StreamSpan]()
        for table, methods in self.methods.items():
            newest = max(scheduler.newest_token(method) for method in methods)
            if (span := self._ends.span(streams_of[table], newest)) is not None:
                spans[table] = span
        self._kept = kept_tables(spans, self._ends.states)
        self._unfinished = [table for table, span in spans.items() if span.end is None]
        for table, methods in self.methods.items():
            if table in self._kept:
                continue
            newest_method, of_table = methods[-1], set(streams_of[table])
            if of_table and of_table <= self._full_tables and not newest_method.context.tally.counts()["rows"]:
                warning = "Stream %r is a full table and has no row: its table becomes empty"
                newest_method.context.logger.warning(warning, table)
                newest_method.replace_table()
            for method in methods:
                scheduler.finish(method)
        for stream, tokens in self._tokens.items():
            if not self.tables[stream] & self._kept:
                self._checkpoints.close(tokens)

    def check(self, logger: logging.Logger) -> None:
        """Report the streams that the tap has not finished; called once the STATE of the others is out.

        UnfinishedStreamError: the table of such a stream was to be replaced.
        """
        if self._kept:
            raise UnfinishedStreamError(self._unfinished, sorted(self._kept.difference(self._unfinished)))
        for stream in self._ends.unfinished():
            if self.tables[stream]:
                logger.warning(
                    "Stream %r: the input ended before the tap marked the end of the stream; what came is loaded, and "
                    "the next run continues from the last STATE. See the tap's log for the reason",
                    stream,
                )
