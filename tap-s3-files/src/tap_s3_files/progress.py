"""What a stream has done so far, and a line about it every few seconds."""

from __future__ import annotations

import logging
import operator
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from datetime import datetime
from typing import Any, BinaryIO, TypeVar

from singer_arrow.naming import bytes_in_words, counted
from singer_arrow.run_figures import PROGRESS_LINE, StreamFigures
from singer_arrow.runtime.threads import repeat_every
from singer_arrow.storage.errors import always
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Fetched, ObjectInfo, Url

logger = logging.getLogger("tap-s3-files")
Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 5.0
MAX_SECONDS_BETWEEN_LINES = 60.0
SILENT_SECONDS = 30.0
"""A line is logged after so many seconds even if no count has changed, as while one block is parsed."""
NEARLY_ALL = 0.99
"""The share of what is parsed while the last rows are written; how long that takes is not known."""
MOST_NAMED = 20
"""Maximum number of skipped objects that get a line each."""
MOST_INPUTS = 1000
"""Maximum number of objects whose URLs are kept for reports."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a stream: `rows_read` has skipped rows too; `bytes` are those that the storage returned."""

    objects: int = 0
    skipped_objects: int = 0
    rows_read: int = 0
    rows_written: int = 0
    rows_skipped: int = 0
    rows_rescued: int = 0
    rows_rejected: int = 0
    bytes: int = 0
    batch_files: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*map(operator.sub, astuple(self), astuple(other)))


class Progress:
    """Counts that several threads add to."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.counts = Counts()
        self._changed: list[ObjectInfo] = []
        self.skipped_objects: set[ObjectInfo] = set()
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._ended: float | None = None
        self._is_begun = False
        self._phases = defaultdict[str, float](float)
        self.planned = self._expected = self.done = Counts()  # of these, objects and bytes count
        self._parsed = Counts()  # rows and bytes of tasks that are begun; `counts` has them once their file is durable
        self.newest: datetime | None = None  # time of last change of the newest object that is sent
        self.inputs: dict[str, None] = {}  # the first objects that were sent, by URL

    def object_changed(self, info: ObjectInfo) -> None:
        """Record that an object was replaced or deleted before it was read to its end."""
        with self._lock:
            self._changed.append(info)

    def skip(self, info: ObjectInfo, reason: str) -> None:
        """Count an object that is not read, or not to its end, and log the reason; once, whatever its ranges are."""
        with self._lock:
            if info in self.skipped_objects:
                return
            self.skipped_objects.add(info)
            self.counts += Counts(skipped_objects=1)
        if len(self.skipped_objects) <= MOST_NAMED:
            logger.warning("%s", reason)
        elif len(self.skipped_objects) == MOST_NAMED + 1:
            logger.warning("%s: more objects are skipped, which are counted at the end", self.stream)

    @property
    def has_changed(self) -> bool:
        """Whether objects have changed since they were last taken."""
        return bool(self._changed)

    def take_changed(self) -> list[ObjectInfo]:
        """Return the objects that have changed since the last call; one may be there more than once."""
        with self._lock:
            taken, self._changed = self._changed, []
        return taken

    @property
    def seconds(self) -> float:
        """Seconds since the stream began, until it ended."""
        return (self._ended or time.monotonic()) - self._started

    @property
    def is_complete(self) -> bool:
        """Whether the stream ended."""
        return self._ended is not None

    def plan(self, objects: int, size: int) -> None:
        """Add to what is planned."""
        self.planned += Counts(objects=objects, bytes=size)

    def expect(self, objects: int, size: int) -> None:
        """Set what is probably planned besides what is planned already."""
        self._expected = self.planned + Counts(objects=objects, bytes=size)

    @property
    def total(self) -> Counts:
        """What is planned, or will probably be."""
        return max(self.planned, self._expected, key=lambda planned: planned.bytes)

    def task_done(self, objects: Sequence[ObjectInfo], size: int) -> None:
        """Add a task that is sent: the objects that it ends, and the bytes that it reads."""
        self.done += Counts(objects=len(objects), bytes=size)
        for info in objects:
            self.newest = max(self.newest or info.modified, info.modified)
            if len(self.inputs) < MOST_INPUTS:
                self.inputs[str(info.url)] = None

    def parsed(self, *, rows: int = 0, size: int = 0) -> None:
        """Add rows that were parsed, and the bytes of objects with them; less than 0 if they will be read again."""
        with self._lock:
            self._parsed += Counts(rows_read=rows, bytes=size)

    @property
    def rows_read(self) -> int:
        """Rows that were parsed, also if the batch file that gets them is not written yet."""
        return max(self.counts.rows_read, self._parsed.rows_read)

    @property
    def share(self) -> float | None:
        """How much of what is planned is parsed, from 0 to 1; None while nothing is planned.

        Bytes that were fetched and wait to be parsed do not count: parsing may take much longer than fetching.
        """
        if self.is_complete:
            return 1.0
        if not (total := self.total.bytes):
            return None
        return min(NEARLY_ALL, max(0, self._parsed.bytes, self.done.bytes) / total)

    def spend(self, phase: str, seconds: float) -> None:
        with self._lock:
            self._phases[phase] += seconds

    def timed(self, phase: str, items: Iterator[Item]) -> Iterator[Item]:
        """Yield items, and count the seconds that each took."""
        while True:
            began = time.perf_counter()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                self.spend(phase, time.perf_counter() - began)
            yield item

    @property
    def phases(self) -> dict[str, float]:
        with self._lock:
            return dict(self._phases)

    def figures(self, *, outputs: tuple[str, ...]) -> StreamFigures:
        """Return the counts for reports."""
        left = Counts() if self.is_complete else self.total - self.done  # more was expected than was new
        phases = self.phases
        if {"read", "write"} <= phases.keys():
            phases["write"] = max(0.0, phases["write"] - phases["read"])  # writing pulls what is read
        return StreamFigures(
            stream=self.stream,
            is_complete=self.is_complete,
            counts=asdict(self.counts) | {"rows_read": self.rows_read},
            seconds=self.seconds if self._is_begun else 0.0,
            phases=phases,
            inputs=tuple(self.inputs),
            outputs=outputs,
            watermark=self.newest,
            share=self.share,
            total={"objects": self.total.objects, "bytes": self.total.bytes},
            left={"objects": max(0, left.objects), "bytes": max(0, left.bytes)},
        )

    def add(self, more: Counts) -> None:
        with self._lock:
            self.counts += more

    def line(self) -> str:
        """Return the counts in words, with what is planned, and about how long it takes."""
        c, total, share = self.counts, self.total, self.share
        objects, size = counted(c.objects, "object"), bytes_in_words(c.bytes)
        if share is not None and not self.is_complete:
            objects = f"{c.objects:,} of {counted(total.objects, 'object')}"
            size = f"{bytes_in_words(int(share * total.bytes))} of {bytes_in_words(total.bytes)} ({share:.0%})"
        seconds = self.seconds * (1 - share) / share if share and share < NEARLY_ALL else 0.0
        left = f", about {seconds:,.0f} s left" if seconds >= 0.5 else ""
        rows = f"{self.rows_read:,} rows read, {c.rows_written:,} written"
        return f"{self.stream}: {objects}, {size} read, {rows}, {self.seconds:,.1f} s{left}"

    def closing_line(self) -> str:
        """Return all counts of a stream that ended, in words."""
        c = self.counts
        rows, size = counted(c.rows_written, "row"), bytes_in_words(c.bytes)
        files = f" in {counted(c.batch_files, 'batch file')}" if c.batch_files else ""
        notes = [
            f"; {counted(count, noun)} {verb}"
            for count, noun, verb in (
                (c.skipped_objects, "object", "skipped"),
                (c.rows_skipped, "row", "skipped"),
                (c.rows_rescued, "row", "rescued"),
                (c.rows_rejected, "row", "rejected"),
            )
            if count
        ]
        read = f"{rows} ({size}) from {counted(c.objects, 'object')}{files}, {self.seconds:,.1f} s"
        return f"Read {self.stream}: {read}{''.join(notes)}"

    @contextmanager
    def logged(self, log: Callable[..., None]) -> Iterator[None]:
        """Log a line every few seconds while the block runs, less often later or if no count has changed.

        If no error ends the block, that is the end of the stream, and its last line.
        """
        last, due, shown = (self.counts, self._parsed), 0.0, 0.0

        def look() -> None:
            nonlocal last, due, shown
            now, seconds = (self.counts, self._parsed), self.seconds
            if seconds >= due and (now != last or seconds - shown >= SILENT_SECONDS):
                last, due, shown = now, seconds + pause_after(seconds), seconds
                log(self.line(), extra=PROGRESS_LINE)

        self._started, self._ended, self._is_begun = time.monotonic(), None, True
        with repeat_every(SECONDS_BETWEEN_LINES, look, name="progress"):
            yield
        self._ended = time.monotonic()
        log(self.closing_line())


def pause_after(seconds: float) -> float:
    """Seconds without a line after one of a stream that has taken so many."""
    return min(MAX_SECONDS_BETWEEN_LINES, seconds / 10)


class CountedStorage(Storage):
    """A storage that counts the bytes it returns, and stops retrying when its task is stopped."""

    def __init__(self, storage: Storage, progress: Progress, stop: threading.Event) -> None:
        super().__init__()
        self.fetched = 0  # bytes
        self._storage, self._progress, self.cancelled = storage, progress, stop
        self.cache = storage.cache

    def get(self, url: Url, *, is_needed: Callable[[], bool] = always, **options: Any) -> Fetched:
        fetched = self._storage.get(url, is_needed=lambda: is_needed() and not self.cancelled.is_set(), **options)
        self.fetched += len(fetched.data)  # about, from several threads
        self._progress.add(Counts(bytes=len(fetched.data)))
        return fetched

    def open(self, url: Url) -> BinaryIO:
        return self._storage.open(url)
