"""One object, read by ranges of one version of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any

from singer_arrow.errors import EmptyObjectError, ServiceError
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.range_planner import LEAST_PART, MIB, SMALL_OBJECT, Span, growing, part_size
from singer_arrow.runtime.interrupts import Threads
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.retry import MAX_REQUESTS, always
from singer_arrow.storage.storage import SCHEMES, Storage
from singer_arrow.storage.urls import Url

CONNECTIONS = 32
"""Requests by which a large object is read at once: as many as saturate a fast network."""
BUDGET = Budget()
"""The budget of readers that are given none."""
_LEAST_HEAD = MIB // 4
_FIRST_AHEAD = 64 * MIB
_SEQUENTIAL_READ = MIB

Part = tuple[int, Any]
"""Where bytes begin in their object, and the bytes (anything with the buffer protocol)."""


@lru_cache(maxsize=1)
def _pool() -> Threads:
    return Threads(MAX_REQUESTS, "fetch")


class ObjectReader:
    """One object, pinned to one version.

    The version is that of `info` if it is given, else the one that the first request meets. Every request but an
    unpinned first one carries If-Match, so an object that is replaced or deleted while it is read raises
    ObjectChangedError and is never a mix of two versions. No HEAD is sent: the first GET tells size and ETag.
    An object that is known to be below 8 MiB is read in one request.

    Args:
        storage: Where it is.
        url: Which object. Schemes that the storage cannot range over (http, sftp, ...) are read in order.
        info: What a listing said of it.
        budget: Bounds the bytes in flight; by default one for the whole process.
    """

    def __init__(
        self,
        storage: Storage,
        url: Url,
        *,
        info: ObjectInfo | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.url = url
        self.ranged = url.scheme in SCHEMES
        self.storage, self._info = storage, info
        self._budget = budget or BUDGET
        self._head: Any = None  # the first bytes, once somebody asked for them
        self._begun: Future[Part] | None = None  # of a small object as a whole
        self._given_up = threading.Event()

    @property
    def info(self) -> ObjectInfo | None:
        """Size, ETag and time; None before the first request if none was given, and for schemes without ranges."""
        return self._info

    @property
    def size(self) -> int | None:
        """Bytes of the object, as far as known."""
        return self._info.size if self._info else None

    @property
    def budget(self) -> Budget:
        """What bounds the bytes in flight."""
        return self._budget

    @property
    def is_small(self) -> bool:
        """Whether it is known to be read in one request."""
        return self.ranged and self.size is not None and 0 < self.size <= SMALL_OBJECT

    def begin(self) -> None:
        """Begin to fetch an object that `is_small`, whole; errors come when it is read. Not counted in the budget."""
        self._begun = self._start([(0, self.size or 0)], self._given_up)[0]

    def give_up(self) -> None:
        """What was begun is not needed any more, nor asked for again."""
        self._given_up.set()
        if self._begun is not None:
            self._begun.cancel()

    def head_bytes(self, n: int) -> memoryview:
        """The first `n` bytes, or all if there are fewer; they are kept, so `chunks` does not ask for them again.

        Raises:
            EmptyObjectError: The object holds no byte.
        """
        if self._head is None or (len(self._head) < n and len(self._head) != self.size):
            self._head = memoryview(self._first(max(n, _LEAST_HEAD)))
        head: memoryview = self._head
        return head[:n]

    def tail(self, n: int) -> Part:
        """The last `n` bytes or more, in one request.

        Raises:
            EmptyObjectError: The object holds no byte.
        """
        if self.size is None:
            fetched = self.storage.get(self.url, suffix=n)
            self._pin(fetched.info)
            return fetched.start, fetched.data
        self._refuse_empty()
        if self.is_small:
            return 0, self.head_bytes(self.size)
        return self._get((max(0, self.size - n), self.size))

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[Any]:
        """The bytes from `start` to `end`, in order, fetched ahead by parallel requests.

        A chunk's share of the budget is given back when the next one is asked for.

        Raises:
            EmptyObjectError: The object holds no byte.
        """
        if not self.ranged:
            yield from self._sequential(start, end)
            return
        self._refuse_empty()
        position = start
        if self._head is not None or self._begun is not None:
            head = self._head if self._head is not None else self.head_bytes(SMALL_OBJECT)
            yield from _cut(head, start, end)
            position = max(start, len(head))
        elif self.size is None or self.size <= SMALL_OBJECT:
            cost = (
                self.size or LEAST_PART
            )  # of an unknown one: what is there soon, for it tells how to ask for the rest
            self._budget.fetched.take(cost)
            try:
                first = memoryview(self._first(cost))
                yield from _cut(first, start, end)
                position = max(start, len(first))
            finally:
                self._budget.fetched.give(cost)
        size = self.size or 0
        last = size if end is None else min(size, end)
        if position < last:
            spans = growing(position, last, part_size(last - position, CONNECTIONS))
            for ((_, data),) in self.ahead([span] for span in spans):
                yield data

    def fetch(self, spans: Iterable[Span]) -> list[Part]:
        """The bytes of the spans, by one request each, all at once. Not counted in the budget."""
        over = threading.Event()
        try:
            return [f.result() for f in self._start(list(spans), over)]
        finally:
            over.set()

    def start(self, span: Span) -> Future[Part]:
        """Begin to fetch a span. Not counted in the budget."""
        return self._start([span])[0]

    def ahead(self, units: Iterable[Sequence[Span]], *, window: int | None = None) -> Iterator[list[Part]]:
        """The parts of each unit (the spans that are needed together), in order.

        Units are fetched ahead as far as the budget allows: at first one, or `window` bytes (64 MiB), and twice as much
        each time that the receiver had to wait. A unit's share is given back when the next one is asked for.
        """
        todo, live = deque(units), deque[tuple[int, list[Future[Part]]]]()
        window = _FIRST_AHEAD if window is None else window
        over = threading.Event()
        try:
            while todo or live:
                while todo and (len(live) < 2 or sum(cost for cost, _ in live) < window):
                    cost = sum(end - start for start, end in todo[0])
                    if not live:
                        self._budget.fetched.take(cost)
                    elif not self._budget.fetched.try_take(cost):
                        break
                    live.append((cost, []))
                    live[-1][1].extend(self._start(todo.popleft(), over))
                if not all(f.done() for f in live[0][1]):
                    window *= 2
                yield [f.result() for f in live[0][1]]
                self._budget.fetched.give(live.popleft()[0])
        finally:
            over.set()
            for cost, futures in live:
                for future in futures:
                    future.cancel()
                self._budget.fetched.give(cost)

    def download(self, path: Path) -> int:
        """Copy the whole object to a local file, for schemes without ranges.

        Returns:
            Its size in bytes.
        """
        return self.storage.download(self.url, path)

    def _sequential(self, start: int, end: int | None) -> Iterator[bytes]:
        with self.storage.open(self.url) as file:
            position = 0
            while data := file.read(_SEQUENTIAL_READ):
                if chunk := data[max(0, start - position) : None if end is None else max(0, end - position)]:
                    yield chunk
                position += len(data)
        if position == 0:
            raise self._empty()

    def _first(self, n: int) -> Any:
        """The first `n` bytes, or the whole object where it is small; this pins the version."""
        if not self.ranged:
            data = b""
            with self.storage.open(self.url) as file:
                while piece := file.read(n - len(data)):
                    data += piece
            if not data:
                raise self._empty()
            return data
        self._refuse_empty()
        if self._begun is not None:
            return self._begun.result()[1]
        if self.size is not None:
            return self._get((0, self.size if self.size <= SMALL_OBJECT else min(n, self.size)))[1]
        fetched = self.storage.get(self.url, start=0, end=n)
        self._pin(fetched.info)
        return fetched.data

    def _pin(self, info: ObjectInfo) -> None:
        self._info = info
        self._refuse_empty()

    def _refuse_empty(self) -> None:
        if self.size == 0:
            raise self._empty()

    def _empty(self) -> EmptyObjectError:
        return EmptyObjectError(f"{self.url} is empty: it holds no byte")

    def _start(self, spans: Sequence[Span], over: threading.Event | None = None) -> list[Future[Part]]:
        """Begin to fetch spans, which nobody waits for once it is `over`."""
        return [_pool().submit(self._get, span, over) for span in spans]

    def _get(self, span: Span, over: threading.Event | None = None) -> Part:
        is_needed = always if over is None else lambda: not over.is_set()
        fetched = self.storage.get(self.url, start=span[0], end=span[1], version_of=self._info, is_needed=is_needed)
        if (fetched.start, len(fetched.data)) != (span[0], span[1] - span[0]):
            msg = f"{self.url}: {len(fetched.data)} bytes came where {span[1] - span[0]} were asked for; try again"
            raise ServiceError(msg)
        return span[0], fetched.data


def _cut(data: memoryview, start: int, end: int | None) -> Iterator[memoryview]:
    if chunk := data[start:end]:
        yield chunk
