"""Records that wait to be loaded, in local files; input lines."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec

from singer_arrow.batch import files
from singer_arrow.errors import DataError
from singer_arrow.load.dead_letters import RecordOrigins
from singer_arrow.reading import chunks as limits
from singer_arrow.reading.chunks import LongRecordError
from singer_arrow.records.parse import ParsedLines, RecordParser, bad_record
from singer_arrow.runtime.threads import ThreadPool

if TYPE_CHECKING:
    import pyarrow as pa


# The buffer of a stream's records: a local file, of JSON Lines or of Arrow rows, and the records that are refused.

_encode = msgspec.json.Encoder(decimal_format="number").encode


class RecordBuffer:
    """The records of a stream that wait for their file to be full, and those that were refused meanwhile.

    `temporary` returns a name for a new temporary file, by its suffix. The file holds either single records or rows of
    Arrow.
    """

    def __init__(self, temporary: Callable[[str], Path]) -> None:
        self._temporary = temporary
        self._path: Path | None = None
        self.lines: BinaryIO | None = None  # JSON Lines, of records that are Python objects
        self.rows: pa.RecordBatchFileWriter | None = None  # a spool
        self._size = 0
        self.origins = RecordOrigins()
        self.token = 0  # token of the records at the checkpoints
        self.since = 0.0  # time of the first record that waits, or of those that were taken last; by time.monotonic

    def __bool__(self) -> bool:
        return self._path is not None or bool(self.origins.refused)

    @property
    def size(self) -> int:
        """Size in bytes; of rows about that in memory."""
        return self._size + self.origins.refused_bytes

    def add_record(self, record: dict[str, Any]) -> None:
        """Write a single record; UnicodeEncodeError if it holds text that is no Unicode."""
        assert self.rows is None
        if self.lines is None:
            self._path = self._temporary(".jsonl")
            self.lines = self._path.open("wb")
        line = _encode(record) + b"\n"
        self.lines.write(line)
        self._size += len(line)

    def add_rows(self, rows: pa.RecordBatch) -> None:
        assert self.lines is None
        if self.rows is None:
            self._path = self._temporary(files.RECORD_SPOOL_SUFFIX)
            self.rows = files.write_record_spool(self._path, rows.schema)
        self.rows.write_batch(rows)
        self._size += rows.nbytes

    def take(self) -> tuple[Path | None, RecordOrigins, int]:
        """Close the file and return its path, the origins of the records and their token; the buffer is empty then."""
        path, file, token, origins = self._path, self.lines or self.rows, self.token, self.origins
        self._path = self.lines = self.rows = None
        self._size = self.token = 0
        if file is not None:
            file.close()  # where this fails, the token stays open for good, and no STATE passes these records
        self.origins = RecordOrigins()
        return path, origins, token


# Gather RECORD lines into blocks, parse the blocks in parallel, and pass the rows to the sinks in order.
#
# A STATE is passed on once the sinks have all lines before it. If a line is bad, the sinks get all lines before it, the
# STATEs before it are passed on, and then its error is raised.
#
# After an error every call raises it again, so that no STATE is passed on after rows that were lost.

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
            block = self._blocks.setdefault(sink, Block())
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


# Read the lines of a target's input; waiting for the next one can be interrupted from any thread.
#
# A tap may write nothing for hours; a load that fails meanwhile must end the run at once, not with the next message. A
# thread cannot be interrupted while it is blocked in a read, so the reader polls two files: the input, and a pipe of
# its own that `interrupt` writes to.

_CHUNK = 1 << 20
_PIPE_BYTES = 1 << 20


class InputLines:
    """Reads lines until the end of the input or until `interrupt` is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.error: BaseException | None = None  # the error that was passed to `interrupt`
        self._waker: int | None = None

    def interrupt(self, error: BaseException) -> None:
        """Raise an error in the thread that reads lines, at once; only the first call has an effect."""
        with self._lock:
            if self.error is None:
                self.error = error
                if self._waker is not None:
                    os.write(self._waker, b"!")

    def of(self, source: IO[str]) -> Generator[bytes]:
        """Yield whole lines with line breaks, as many at a time as are available; the last may have no line break.

        Raises the error that was passed to `interrupt`, or LongRecordError for a line longer than
        `chunks.MAX_RECORD_BYTES`.
        """
        handle = _pollable(source)
        begun, size = list[bytes](), 0  # the parts of a line that has not ended
        with contextlib.closing(self._plain(source) if handle is None else self._polled(handle)) as chunks:
            for chunk in chunks:
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield b"".join([*begun, memoryview(chunk)[:end]])
                    begun, size = [], 0
                if rest := chunk[end:]:
                    begun.append(rest)
                    size += len(rest)
                    if size > limits.MAX_RECORD_BYTES:
                        raise LongRecordError
        if begun:
            yield b"".join(begun)

    def _plain(self, source: IO[str]) -> Generator[bytes]:
        """Yield the bytes of a file, or of an input without a file descriptor."""
        binary: Any = getattr(source, "buffer", None)
        chunks: Iterator[bytes] = iter(lambda: binary.read(_CHUNK), b"")
        if binary is None:  # lone surrogates are reported by the reader of the line
            chunks = (line.encode(errors="surrogatepass") for line in source)
        for chunk in chunks:
            self._check()
            yield chunk

    def _polled(self, handle: int) -> Generator[bytes]:
        """Yield the bytes of a file descriptor as they arrive."""
        woken, waker = os.pipe()
        with self._lock:
            self._waker = waker
        try:
            # a pipe of larger capacity lets writer and reader wait less for each other
            with contextlib.suppress(ImportError, AttributeError, OSError):  # only Linux can, and it may not allow it
                import fcntl

                fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            poll = select.poll()
            for each in (handle, woken):
                poll.register(each, select.POLLIN)
            while True:
                self._check()
                if handle not in (ready for ready, _ in poll.poll()):
                    continue
                if not (chunk := os.read(handle, _CHUNK)):
                    break
                yield chunk
        finally:
            with self._lock:
                self._waker = None
            os.close(woken)
            os.close(waker)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def _pollable(source: IO[str]) -> int | None:
    """Return the file descriptor of a pipe or terminal; None for files, and on systems without poll."""
    try:
        handle = source.fileno()
    except (OSError, AttributeError):  # it has none
        return None
    is_file = stat.S_ISREG(os.fstat(handle).st_mode)
    return None if is_file or not hasattr(select, "poll") else handle
