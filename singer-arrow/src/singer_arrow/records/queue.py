"""RECORD lines on their way to the sinks: gathered into blocks, parsed in parallel, taken in order.

A STATE waits until all lines before it are with their sinks. At the first line that is bad everything before it goes to
the sinks, nothing after it that was not there already, and the STATEs before it are known; then the error is raised.

Whatever goes wrong here is remembered: from then on nothing is taken, so that no STATE passes what was lost.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from singer_arrow.errors import DataError
from singer_arrow.records.block import Block
from singer_arrow.records.errors import bad_record
from singer_arrow.records.parser import ParsedLines, RecordParser
from singer_arrow.runtime.threads import ThreadPool

BLOCK_BYTES = 4 << 20
_HELD_BYTES = 16 << 20
_MOST_STATES = 256


class RecordSink(Protocol):
    """Where the records of one stream go, while its SCHEMA stays the same."""

    stream_name: str

    @property
    def parser(self) -> RecordParser:
        """What parses its lines."""

    def take_parsed(self, parsed: ParsedLines, lines: int, block: Block) -> None:
        """Take what the first so many lines of a block hold: its rows, and the records that were refused."""


@dataclass(slots=True)
class _Job:
    sink: RecordSink
    block: Block
    parsed: Future[ParsedLines]


@dataclass(slots=True)
class _State:
    line: int
    value: Mapping[str, Any]


class RecordQueue:
    """See the module. All but `is_due` and `stop` belongs to whoever holds the lock of the messages.

    What once was raised is raised again by `check`, `add`, `state` and `flush`.

    Args:
        workers: How many blocks are parsed at once.
        state: Called with a STATE once all lines before it are with their sinks.
    """

    def __init__(self, workers: int, state: Callable[[Mapping[str, Any]], None]) -> None:
        self._workers, self._state = workers, state
        self._pool: ThreadPool | None = None
        self._blocks: dict[RecordSink, Block] = {}
        self._states: list[_State] = []
        self._queue: deque[_Job | _State] = deque()
        self._held = 0
        self._since = 0.0
        self._error: BaseException | None = None

    def add(self, sink: RecordSink, lines: bytes, first: int, count: int) -> None:
        """Take RECORD lines of one stream.

        Args:
            sink: Where they go.
            lines: They, each with its end.
            first: The number of the first in the input, from 1.
            count: How many there are.

        Raises:
            DataError: A line is bad.
        """
        with self._remembering():
            block = self._blocks.get(sink)
            if block is None:
                block = self._blocks[sink] = Block()
            if not self._held:
                self._since = time.monotonic()
            block.add(lines, first, count)
            self._held += len(lines)
            if block.size >= BLOCK_BYTES:
                self._submit(sink)
                self._drain(self._workers + 1)
            if self._held >= _HELD_BYTES:
                self._submit_all()
                self._drain(self._workers + 1)

    def state(self, line: int, value: Mapping[str, Any]) -> None:
        """Take a STATE.

        Raises:
            DataError: A line before it is bad.
        """
        with self._remembering():
            if not self._blocks and not self._queue:
                self._state(value)
                return
            self._states.append(_State(line, value))
            if len(self._states) >= _MOST_STATES:
                self._submit_all()
                self._drain(self._workers + 1)

    def flush(self) -> None:
        """Bring all lines to their sinks.

        Raises:
            DataError: One is bad.
        """
        with self._remembering():
            self._submit_all()
            self._drain(0)

    def check(self) -> None:
        """Raise what was raised before, if anything was."""
        if self._error is not None:
            raise self._error

    def fail(self, error: BaseException) -> None:
        """Take nothing more, because of this error, and forget what was not taken yet."""
        self._error = self._error or error
        self._blocks.clear()
        self._states.clear()
        self._queue.clear()
        self._held = 0

    def is_due(self, seconds: float) -> bool:
        """Whether lines wait for longer than that."""
        waits = self._error is None and bool(self._blocks or self._states or self._queue)
        return waits and time.monotonic() - self._since >= seconds

    def stop(self) -> None:
        """Parse nothing more."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    @contextlib.contextmanager
    def _remembering(self) -> Generator[None]:
        self.check()
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def _submit(self, sink: RecordSink) -> None:
        block = self._blocks.pop(sink)
        self._held -= block.size
        if self._pool is None:
            self._pool = ThreadPool(self._workers, "parse")
        self._queue.append(_Job(sink, block, self._pool.submit(_parse, sink.parser, block)))

    def _submit_all(self) -> None:
        for sink in list(self._blocks):
            self._submit(sink)
        self._queue.extend(self._states)
        self._states.clear()
        self._held = 0

    def _drain(self, most: int) -> None:
        """Take what was parsed, in order, until no more blocks than that are under way."""
        jobs = sum(isinstance(entry, _Job) for entry in self._queue)
        while self._queue and (jobs > most or isinstance(self._queue[0], _State)):
            entry = self._queue[0]
            if isinstance(entry, _State):
                self._state(entry.value)
            else:
                parsed = entry.parsed.result()
                if parsed.fault is not None:
                    raise self._stop_at_fault()
                entry.sink.take_parsed(parsed, entry.block.count, entry.block)
                jobs -= 1
            self._queue.popleft()

    def _stop_at_fault(self) -> DataError:
        """Take the lines before the first bad one, and return its error."""
        self._submit_all()
        jobs = [entry for entry in self._queue if isinstance(entry, _Job)]
        found = [(job, fault) for job in jobs if (fault := job.parsed.result().fault) is not None]
        faults = [(job.block.number(fault.index), job.sink.stream_name, fault) for job, fault in found]
        number, stream, fault = min(faults, key=lambda found: found[0])
        while self._queue:
            entry = self._queue.popleft()
            if isinstance(entry, _State):
                if entry.line < number:
                    self._state(entry.value)
            else:
                parsed = entry.parsed.result()
                entry.sink.take_parsed(parsed, entry.block.before(number), entry.block)
        return bad_record(number, stream, fault.reason, fault.column)


def _parse(parser: RecordParser, block: Block) -> ParsedLines:
    data = block.data
    block.parts.clear()  # the place of each line is all that is needed from here on
    return parser(data, block.count)
