"""Hold back each STATE until all data before it is durable in the warehouse.

A token is opened for data that is read, and closed when the data is durable. A STATE is written once all tokens opened
before it are closed, in any order. If several STATEs may be written, only the newest is: it covers the older ones.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
        self._next = 0
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
            self._next += 1
            self._open.add(self._next)
            return self._next

    @property
    def newest(self) -> int:
        """Return the token that was opened last; 0 before the first."""
        with self._lock:
            return self._next

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
            if self._waiting and self._waiting[-1][0] == self._next:
                self._waiting.pop()  # nothing was read between the two: the newer one covers the older
            self._waiting.append((self._next, value))
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
                self._call_after(self._next)

    @property
    def pending(self) -> bool:
        """Return whether a STATE waits for data that is not durable."""
        with self._lock:
            return bool(self._waiting)

    def _release(self) -> None:
        while self._lowest <= self._next and self._lowest not in self._open:
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
