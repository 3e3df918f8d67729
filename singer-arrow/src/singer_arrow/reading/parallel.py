"""Parallel work in order, within a budget of memory."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from itertools import chain
from typing import Any, TypeVar

from singer_arrow.runtime.threads import join_thread, shared_pool

# Limits for the bytes that readers and writers hold in memory: `Budget`, `Allowance`.


class Allowance:
    """Limit for bytes of one kind, shared by all readers of a process.

    A reader blocks in `acquire` only while it holds nothing, and reads ahead only if `try_acquire` succeeds, so
    holders can always continue. If they are blocked by something else, such as a consumer that takes results in order,
    nothing is released for `patience` seconds; then waiting readers proceed until half of the limit is free again. So
    there is no deadlock, and the bytes held stay below the limit plus one request per reader.
    """

    def __init__(self, limit: int, *, patience: float = 1.0) -> None:
        self.limit = limit
        self.peak = 0
        self._used = 0
        self._patience = patience
        self._returned = 0  # number of releases
        self._stuck = False
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Bytes currently held."""
        return self._used

    def acquire(self, n: int) -> None:
        """Acquire `n` bytes, waiting if necessary; the caller must hold none.

        More than the limit is granted once nothing else is held.
        """
        with self._changed:
            while not self._fits(n) and not self._stuck:
                seen = self._returned
                self._changed.wait(self._patience)
                self._stuck = seen == self._returned
            self._add(n)

    def try_acquire(self, n: int) -> bool:
        """Acquire `n` bytes without waiting; return whether it succeeded."""
        with self._changed:
            if not self._fits(n):
                return False
            self._add(n)
            return True

    def acquire_regardless(self, n: int) -> None:
        """Acquire `n` bytes regardless of the limit, for bytes that already exist."""
        with self._changed:
            self._add(n)

    def release(self, n: int) -> None:
        """Release `n` bytes."""
        with self._changed:
            self._used -= n
            self._returned += 1
            self._stuck = self._stuck and self._used > self.limit // 2
            self._changed.notify_all()

    def _fits(self, n: int) -> bool:
        return self._used == 0 or self._used + n <= self.limit

    def _add(self, n: int) -> None:
        self._used += n
        self.peak = max(self.peak, self._used)


class Budget:
    """Limits in bytes, shared by all readers and writers of a process.

    `fetched` limits what is between request and use, as stored; `decoded` decompressed blocks and their rows, by
    default as much; `encoded` rows that are encoded in parallel, by default half as much.
    """

    def __init__(self, fetched: int = 128 << 20, decoded: int | None = None, encoded: int | None = None) -> None:
        self.fetched = Allowance(fetched)
        self.decoded = Allowance(fetched if decoded is None else decoded)
        self.encoded = Allowance(fetched // 2 if encoded is None else encoded)


# Parallel work on blocks, with the results in order: `map_ordered`.

_DECODED_PER_TEXT = 3  # bytes of a block and its rows in memory per byte of text
ROW_LOCK = threading.RLock()
"""Lock for processing rows one by one as Python objects, which take many times the memory of a block.

The interpreter runs one thread at a time anyway.
"""

B = TypeVar("B")
T = TypeVar("T")


def _of_text(block: Any) -> int:
    return len(block) * _DECODED_PER_TEXT


def map_ordered(
    blocks: Iterator[B], work: Callable[[B], T], allowance: Allowance, *, cost: Callable[[B], int] = _of_text
) -> Generator[T]:
    """Yield `work(block)` for each block, in order, computed in parallel.

    A thread produces the blocks, and a pool shared by all readers processes them. At least one block per reader is in
    progress, more if the allowance permits. A single block is processed in the calling thread. `cost` returns the bytes
    of a block and its result in memory, by default an estimate for text and its columns. What `blocks` or `work` raises
    is raised after the results of all earlier blocks.
    """
    first = next(blocks, None)
    if first is None:
        return
    second, problem = None, None
    try:
        second = next(blocks, None)
    except Exception as error:  # noqa: BLE001 - raised below, after the result before it
        problem = error
    if second is not None:
        pump = _Pump([first, second], blocks, work, allowance, cost)
        first = second = None  # release the blocks
        yield from pump.results()
        return
    yield work(first)
    if problem is not None:
        raise problem


class _Pump:
    def __init__(
        self,
        made: list[Any],
        blocks: Iterator[Any],
        work: Callable[[Any], Any],
        allowance: Allowance,
        cost: Callable[[Any], int],
    ) -> None:
        self._made, self._blocks, self._work, self._allowance, self._cost = made, blocks, work, allowance, cost
        self._done: queue.SimpleQueue[tuple[Future[Any], int] | BaseException | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._under_way = 0
        self._stopped = False
        self._window = 2 + (os.cpu_count() or 2)

    def results(self) -> Generator[Any]:
        thread = threading.Thread(target=self._run, name="blocks", daemon=True)
        thread.start()
        try:
            while (item := self._done.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                future, cost = item
                try:
                    yield future.result()
                finally:
                    self._allowance.release(cost)
                    with self._changed:
                        self._under_way -= 1
                        self._changed.notify_all()
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            join_thread(thread)
            while not self._done.empty():
                if isinstance(item := self._done.get(), tuple):
                    item[0].cancel()
                    self._allowance.release(item[1])

    def _run(self) -> None:
        end: BaseException | None = None
        pool = shared_pool("parse", os.cpu_count() or 2)
        try:
            for block in chain(drain(self._made), self._blocks):
                cost = self._cost(block)
                if not self._admit(cost):
                    break
                self._done.put((pool.submit(self._work, block), cost))
                del block
                if cost > self._allowance.limit:  # alone in memory
                    with self._changed:
                        self._changed.wait_for(lambda: self._stopped or self._under_way == 0)
                        if self._stopped:
                            break
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            end = error
        finally:
            if isinstance(self._blocks, Generator):
                self._blocks.close()
        self._done.put(end)

    def _admit(self, cost: int) -> bool:
        """Wait until a block may be processed; return False if the consumer has stopped."""
        with self._changed:
            while not self._stopped:
                if self._under_way == 0:
                    self._allowance.acquire_regardless(cost)
                elif self._under_way >= self._window or not self._allowance.try_acquire(cost):
                    self._changed.wait()
                    continue
                self._under_way += 1
                return True
        return False


def drain(items: list[T]) -> Iterator[T]:
    """Yield the items of a list, removing them."""
    while items:
        yield items.pop(0)
