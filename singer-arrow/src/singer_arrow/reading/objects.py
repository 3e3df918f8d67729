"""Reading one version of an object by ranges: `ObjectReader`; groups of small objects, fetched ahead."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

from singer_arrow.errors import EmptyObjectError, ServiceError
from singer_arrow.reading.parallel import Budget
from singer_arrow.runtime.threads import shared_pool
from singer_arrow.storage.errors import MAX_REQUESTS, always
from singer_arrow.storage.store import SCHEMES, Storage
from singer_arrow.storage.urls import ObjectInfo, Url

# Planning of range requests. Pure.

MIB = 1 << 20
SMALL_OBJECT = 8 * MIB
"""Objects up to this size are read in one request."""
MAX_PART = 8 * MIB
"""Maximum bytes of a request."""
MIN_PART = 2 * MIB
"""Minimum bytes of a request: smaller ones cost more than they save."""
MAX_GAP = 1 * MIB
"""Maximum number of unneeded bytes between two spans that are read to save a request."""
MAX_WASTE = 0.02
"""Maximum ratio of unneeded to needed bytes, in total."""

Span = tuple[int, int]
"""Start and exclusive end, in bytes."""


def part_size(total: int, connections: int) -> int:
    """Return the bytes of a request that keep all connections busy, between 2 and 8 MiB."""
    return max(MIN_PART, min(MAX_PART, total // max(1, connections)))


def plan_requests(spans: Iterable[Span], *, gap: int = MAX_GAP, part: int = MAX_PART) -> list[Span]:
    """Return requests that cover the spans: joined over gaps up to `gap` bytes, at most `part` bytes each.

    The smallest gaps are joined first, up to a total share `MAX_WASTE` of the needed bytes. The requests are sorted and
    disjoint. A span above `part` is split evenly; smaller ones are never split.
    """
    needed = list[Span]()  # in order, without overlaps
    for start, end in sorted(s for s in spans if s[0] < s[1]):
        begin = max(start, needed[-1][1]) if needed else start
        if begin < end:
            needed.append((begin, end))
    widest, left = 0, int(MAX_WASTE * sum(end - start for start, end in needed))  # the widest gap that is joined
    for width in sorted(after[0] - before[1] for before, after in pairwise(needed)):
        left -= width
        if width > gap or left < 0:
            break
        widest = width
    joined: list[Span] = []
    for start, end in needed:
        if joined and start - joined[-1][1] <= widest and end - joined[-1][0] <= part:
            joined[-1] = (joined[-1][0], end)
        else:
            joined += split_span(start, end, part)
    return joined


def split_span(start: int, end: int, part: int) -> list[Span]:
    """Split a span into the fewest equal pieces of at most `part` bytes."""
    pieces = max(1, -(-(end - start) // part))
    size = end - start
    return [(start + size * i // pieces, start + size * (i + 1) // pieces) for i in range(pieces)]


def growing_spans(start: int, end: int, part: int) -> list[Span]:
    """Split a span as `split_span` does, but with shorter first pieces, so that processing starts early.

    The first two have 2 MiB, the next two 4 MiB, up to `part`.
    """
    found, size, at = list[Span](), MIN_PART, start
    while size < part and end - at > 2 * part:
        found += [(at, at + size), (at + size, at + 2 * size)]
        at, size = at + 2 * size, 2 * size
    return found + split_span(at, end, part)


CONNECTIONS = 32
"""Number of ranges that a large object is divided into, at most; `storage.errors.LIMITER` limits those at once."""
BUDGET = Budget()
"""Default budget of readers."""
_LEAST_HEAD = MIB // 4
_FIRST_AHEAD = 64 * MIB
_SEQUENTIAL_READ = MIB

FetchedRange = tuple[int, Any]
"""Offset in the object, and the bytes (any object with the buffer protocol)."""


class ObjectReader:
    """Reader of one version of an object.

    The version is that of `info`, or else of the first answer. All later requests carry If-Match, so an object that is
    replaced or deleted while it is read raises ObjectChangedError. No HEAD is sent: the first GET returns size and
    ETag. An object known to be of up to 8 MiB is read in one request.

    Args:
        storage: Storage of the object.
        url: URL of the object. Schemes without range requests (http, sftp, ...) are read in order.
        info: Metadata from a listing.
        budget: Limits the bytes in flight. Default: one budget for the process.
        place: URL of the bytes, if it is not that of the object: those of a copy.
    """

    def __init__(
        self,
        storage: Storage,
        url: Url,
        *,
        info: ObjectInfo | None = None,
        budget: Budget | None = None,
        place: Url | None = None,
    ) -> None:
        self.url = url
        self._place = place or url
        self.ranged = self._place.scheme in SCHEMES
        self.storage = storage
        self.info = info  # metadata; None before the first request if not given, and for schemes without ranges
        self.budget = budget or BUDGET  # limits of the bytes in flight
        self._head: Any = None  # the first bytes, once requested
        self._prefetched: Future[FetchedRange] | None = None  # of a whole small object
        self._cancelled = threading.Event()

    @property
    def size(self) -> int | None:
        """Size in bytes, if known."""
        return self.info.size if self.info else None

    @property
    def is_small(self) -> bool:
        """Whether the object is known to be read in one request."""
        return self.ranged and self.size is not None and 0 < self.size <= SMALL_OBJECT

    def prefetch(self) -> None:
        """Start fetching a whole small object; errors are raised when it is read. Not counted in the budget."""
        self._prefetched = self._start([(0, self.size or 0)], self._cancelled)[0]

    def cancel(self) -> None:
        """Cancel a prefetch; its request is not retried."""
        self._cancelled.set()
        if self._prefetched is not None:
            self._prefetched.cancel()

    def head_bytes(self, n: int) -> memoryview:
        """Return the first `n` bytes, or fewer at the end of the object; `chunks` does not fetch them again.

        Raises:
            EmptyObjectError: The object is empty.
        """
        if self._head is None or (len(self._head) < n and len(self._head) != self.size):
            self._head = memoryview(self._first(max(n, _LEAST_HEAD)))
        head: memoryview = self._head
        return head[:n]

    def tail(self, n: int) -> FetchedRange:
        """Return the last `n` bytes or more, by one request.

        Raises:
            EmptyObjectError: The object is empty.
        """
        if self.size is None:
            fetched = self.storage.get(self._place, suffix=n)
            self._pin(fetched.info)
            return fetched.start, fetched.data
        self._refuse_empty()
        if self.is_small:
            return 0, self.head_bytes(self.size)
        return self._get((max(0, self.size - n), self.size))

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[Any]:
        """Yield the bytes from `start` to `end`, in order, fetched ahead by parallel requests.

        A chunk's share of the budget is released when the next chunk is requested.

        Raises:
            EmptyObjectError: The object is empty.
        """
        if not self.ranged:
            yield from self._sequential(start, end)
            return
        self._refuse_empty()
        position = start
        if self._head is not None or self._prefetched is not None:
            head = self._head if self._head is not None else self.head_bytes(SMALL_OBJECT)
            if found := head[start:end]:
                yield found
            position = max(start, len(head))
        elif self.size is None or self.size <= SMALL_OBJECT:
            cost = self.size or MIN_PART  # unknown: a short first answer, which returns the size
            self.budget.fetched.acquire(cost)
            try:
                first = memoryview(self._first(cost))
                if found := first[start:end]:
                    yield found
                position = max(start, len(first))
            finally:
                self.budget.fetched.release(cost)
        size = self.size or 0
        last = size if end is None else min(size, end)
        if position < last:
            spans = growing_spans(position, last, part_size(last - position, CONNECTIONS))
            for ((_, data),) in self.fetch_ahead([span] for span in spans):
                yield data

    def fetch(self, spans: Iterable[Span]) -> list[FetchedRange]:
        """Return the bytes of the spans, by one concurrent request each. Not counted in the budget."""
        over = threading.Event()
        try:
            return [f.result() for f in self._start(list(spans), over)]
        finally:
            over.set()

    def start(self, span: Span) -> Future[FetchedRange]:
        """Start fetching a span. Not counted in the budget."""
        return self._start([span])[0]

    def fetch_ahead(
        self, units: Iterable[Sequence[Span]], *, window: int | None = None
    ) -> Iterator[list[FetchedRange]]:
        """Yield the ranges of each unit (spans needed together), in order, fetched ahead.

        The window starts at `window` bytes (64 MiB) and doubles each time the consumer has to wait, within the budget.
        A unit's share of the budget is released when the next unit is requested.
        """
        todo, live = deque(units), deque[tuple[int, list[Future[FetchedRange]]]]()
        window = _FIRST_AHEAD if window is None else window
        over = threading.Event()
        try:
            while todo or live:
                while todo and (len(live) < 2 or sum(cost for cost, _ in live) < window):
                    cost = sum(end - start for start, end in todo[0])
                    if not live:
                        self.budget.fetched.acquire(cost)
                    elif not self.budget.fetched.try_acquire(cost):
                        break
                    live.append((cost, []))
                    live[-1][1].extend(self._start(todo.popleft(), over))
                if not all(f.done() for f in live[0][1]):
                    window *= 2
                yield [f.result() for f in live[0][1]]
                self.budget.fetched.release(live.popleft()[0])
        finally:
            over.set()
            for cost, futures in live:
                for future in futures:
                    future.cancel()
                self.budget.fetched.release(cost)

    def download(self, path: Path) -> int:
        """Copy the object to a local file, for schemes without ranges, and return its size in bytes."""
        return self.storage.download(self._place, path)

    def _sequential(self, start: int, end: int | None) -> Iterator[bytes]:
        with self.storage.open(self._place) as file:
            position = 0
            while data := file.read(_SEQUENTIAL_READ):
                if chunk := data[max(0, start - position) : None if end is None else max(0, end - position)]:
                    yield chunk
                position += len(data)
        if position == 0:
            raise self._empty()

    def _first(self, n: int) -> Any:
        """Return the first `n` bytes, or the whole of a small object, and pin the version."""
        if not self.ranged:
            data = b""
            with self.storage.open(self._place) as file:
                while piece := file.read(n - len(data)):
                    data += piece
            if not data:
                raise self._empty()
            return data
        self._refuse_empty()
        if self._prefetched is not None:
            return self._prefetched.result()[1]
        if self.size is not None:
            return self._get((0, self.size if self.size <= SMALL_OBJECT else min(n, self.size)))[1]
        fetched = self.storage.get(self._place, start=0, end=n)
        self._pin(fetched.info)
        return fetched.data

    def _pin(self, info: ObjectInfo) -> None:
        self.info = info
        self._refuse_empty()

    def _refuse_empty(self) -> None:
        if self.size == 0:
            raise self._empty()

    def _empty(self) -> EmptyObjectError:
        return EmptyObjectError(f"{self.url} is empty: it holds no byte")

    def _start(self, spans: Sequence[Span], over: threading.Event | None = None) -> list[Future[FetchedRange]]:
        """Start fetching spans; requests are not retried once `over` is set."""
        pool = shared_pool("fetch", MAX_REQUESTS)
        return [pool.submit(self._get, span, over) for span in spans]

    def _get(self, span: Span, over: threading.Event | None = None) -> FetchedRange:
        is_needed = always if over is None else lambda: not over.is_set()
        fetched = self.storage.get(self._place, start=span[0], end=span[1], version_of=self.info, is_needed=is_needed)
        if (fetched.start, len(fetched.data)) != (span[0], span[1] - span[0]):
            msg = f"{self.url}: {len(fetched.data)} bytes were received, {span[1] - span[0]} requested; try again"
            raise ServiceError(msg)
        return span[0], fetched.data


GROUP_BYTES = 2 << 20
"""Approximate bytes of a group of small objects."""
GROUP_OBJECTS = 256
_AHEAD = 512  # objects being fetched or waiting for the consumer


def prefetch_groups(storage: Storage, objects: Iterable[ObjectInfo], budget: Budget) -> Iterator[list[ObjectReader]]:
    """Yield readers of objects, in order, in groups of about `GROUP_BYTES` whose objects are prefetched.

    An object above 8 MiB and an empty one are groups of their own; nothing is prefetched beyond a large one. A
    group's share of the budget is released when the next group is requested.
    """
    todo, group, held = deque[list[ObjectReader]](), list[ObjectReader](), 0
    for info in objects:
        reader = ObjectReader(storage, info.url, info=info, budget=budget)
        full = held + (reader.size or 0) > GROUP_BYTES or len(group) == GROUP_OBJECTS
        if group and (full or not reader.is_small):
            todo.append(group)
            group, held = [], 0
        group.append(reader)
        held += reader.size or 0
        if not reader.is_small:
            todo.append(group)
            group, held = [], 0
    if group:
        todo.append(group)
    live, ahead = deque[tuple[int, list[ObjectReader]]](), 0
    try:
        while todo or live:
            while todo and (not live or (live[-1][0] and todo[0][0].is_small and ahead < _AHEAD)):
                cost = sum(r.size or 0 for r in todo[0]) if todo[0][0].is_small else 0
                if not live:
                    budget.fetched.acquire(cost)
                elif not budget.fetched.try_acquire(cost):
                    break
                group = todo.popleft()
                live.append((cost, group))
                ahead += len(group)
                for reader in group if cost else ():
                    reader.prefetch()
            yield live[0][1]
            cost, group = live.popleft()
            ahead -= len(group)
            budget.fetched.release(cost)
    finally:
        for cost, group in live:
            for reader in group:
                reader.cancel()
            budget.fetched.release(cost)
