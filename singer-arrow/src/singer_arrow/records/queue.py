"""Gather RECORD lines into blocks, parse the blocks in parallel, and pass the rows to the sinks in order.

A STATE is passed on once the sinks have all lines before it. If a line is bad, the sinks get all lines before it, the
STATEs before it are passed on, and then its error is raised.

After an error every call raises it again, so that no STATE is passed on after rows that were lost.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from singer_arrow.errors import DataError
from singer_arrow.records.errors import bad_record
from singer_arrow.records.parser import ParsedLines, RecordParser
from singer_arrow.runtime.threads import ThreadPool

BLOCK_BYTES = 4 << 20
_HELD_BYTES = 16 << 20
_MOST_STATES = 256


@dataclass(slots=True)
class Block:
    """RECORD lines of one stream in the order of the input, with line breaks."""

    parts: list[bytes] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    """The number of the first line in the input, from 1, and the number of lines, of each run of consecutive lines."""
    size: int = 0  # bytes
    count: int = 0  # lines

    def add(self, lines: bytes, first: int, count: int) -> None:
        """Add consecutive lines of the input with their line breaks; `first` is the number of the first, from 1."""
        self.parts.append(lines)
        if self.runs and sum(self.runs[-1]) == first:
            self.runs[-1] = (self.runs[-1][0], self.runs[-1][1] + count)
        else:
            self.runs.append((first, count))
        self.size += len(lines)
        self.count += count

    def number(self, index: int) -> int:
        """Return the number in the input of a line, given its index in the block."""
        for first, count in self.runs:
            if index < count:
                return first + index
            index -= count
        raise IndexError(index)

    def before(self, number: int) -> int:
        """Return how many lines of the block are before a line of the input, given its number."""
        return sum(max(0, min(count, number - first)) for first, count in self.runs)

    def runs_of(self, lines: int, without: Collection[int] = ()) -> Iterator[tuple[int, int]]:
        """Yield the runs, as in `runs`, of the first lines of the block, without those at some indexes, in order."""
        skipped, before = iter([*without, lines]), 0
        out = next(skipped)
        for first, count in self.runs:
            start, end = before, before + count
            while out < end:
                if out > start:
                    yield first + start - before, out - start
                if out >= lines:
                    return
                start, out = out + 1, next(skipped)
            if end > start:
                yield first + start - before, end - start
            before = end


def first_runs(runs: Iterable[tuple[int, int]], start: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of `count` lines after the first `start` lines of some runs."""
    for first, length in runs:
        low, high = max(0, start), min(length, start + count)
        if low < high:
            yield first + low, high - low
        start -= length


class RecordSink(Protocol):
    """Parses and receives the records of one stream with one SCHEMA."""

    stream_name: str

    @property
    def parser(self) -> RecordParser: ...
    def take_parsed(self, parsed: ParsedLines, lines: int, block: Block) -> None:
        """Take the rows and the refused records of the first `lines` lines of a block."""


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
    """Queue of RECORD lines and STATEs; `state` is called with a STATE once the sinks have all lines before it.

    Callers must hold the lock of the target's messages, except for `is_due` and `stop`.
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
        """Add consecutive RECORD lines of one stream; `first` is the number of the first one in the input, from 1."""
        with self._keeping_error():
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
        """Add a STATE."""
        with self._keeping_error():
            if not self._blocks and not self._queue:
                self._state(value)
                return
            self._states.append(_State(line, value))
            if len(self._states) >= _MOST_STATES:
                self._submit_all()
                self._drain(self._workers + 1)

    def flush(self) -> None:
        """Parse all lines and pass them to their sinks; DataError if one is bad."""
        with self._keeping_error():
            self._submit_all()
            self._drain(0)

    def check(self) -> None:
        """Raise the error of an earlier call, if there was one."""
        if self._error is not None:
            raise self._error

    def fail(self, error: BaseException) -> None:
        """Raise this error from all later calls, and drop the lines and STATEs that were not passed on."""
        self._error = self._error or error
        self._blocks.clear()
        self._states.clear()
        self._queue.clear()
        self._held = 0

    def is_due(self, seconds: float) -> bool:
        """Return whether lines have waited for at least `seconds`."""
        waits = self._error is None and bool(self._blocks or self._states or self._queue)
        return waits and time.monotonic() - self._since >= seconds

    def stop(self) -> None:
        """Stop parsing; blocks that wait are dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    @contextlib.contextmanager
    def _keeping_error(self) -> Generator[None]:
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
        """Pass parsed blocks to their sinks, in order, until at most `most` blocks are being parsed."""
        jobs = sum(isinstance(entry, _Job) for entry in self._queue)
        while self._queue and (jobs > most or isinstance(self._queue[0], _State)):
            entry = self._queue[0]
            if isinstance(entry, _State):
                self._state(entry.value)
            else:
                parsed = entry.parsed.result()
                if parsed.bad_line is not None:
                    raise self._stop_at_bad_line()
                entry.sink.take_parsed(parsed, entry.block.count, entry.block)
                jobs -= 1
            self._queue.popleft()

    def _stop_at_bad_line(self) -> DataError:
        """Pass the lines before the first bad one to their sinks, and return its error."""
        self._submit_all()
        jobs = [entry for entry in self._queue if isinstance(entry, _Job)]
        found = [(job, bad) for job in jobs if (bad := job.parsed.result().bad_line) is not None]
        bad_lines = [(job.block.number(bad.index), job.sink.stream_name, bad) for job, bad in found]
        number, stream, bad_line = min(bad_lines, key=lambda found: found[0])
        while self._queue:
            entry = self._queue.popleft()
            if isinstance(entry, _State):
                if entry.line < number:
                    self._state(entry.value)
            else:
                parsed = entry.parsed.result()
                entry.sink.take_parsed(parsed, entry.block.before(number), entry.block)
        return bad_record(number, stream, bad_line.reason, bad_line.column)


def _parse(parser: RecordParser, block: Block) -> ParsedLines:
    data = b"".join(block.parts)
    block.parts.clear()  # only the numbers of the lines are needed from here on
    return parser(data, block.count)
