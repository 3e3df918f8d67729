"""Work on blocks in parallel, with the results in order."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

from singer_arrow.reading.memory_budget import Allowance
from singer_arrow.runtime.interrupts import Threads
from singer_arrow.runtime.threads import join

_DECODED_PER_TEXT = 3  # bytes of a block and of what it becomes in memory, for each byte of text
ROW_BY_ROW = threading.RLock()
"""Held while rows of a block are looked at one by one: as Python objects they take many times the block's memory, and
one thread at a time gets on with them in any case."""

B = TypeVar("B")
T = TypeVar("T")


def _of_text(block: Any) -> int:
    return len(block) * _DECODED_PER_TEXT


@lru_cache(maxsize=1)
def _pool() -> Threads:
    return Threads(os.cpu_count() or 2, "parse")


def ordered(
    blocks: Iterator[B], work: Callable[[B], T], allowance: Allowance, *, cost: Callable[[B], int] = _of_text
) -> Generator[T]:
    """`work` on each block, in parallel, the results in order.

    Blocks are made in a thread of their own and worked on by a pool that all readers share. One block of each
    reader is always under way; further ones while the allowance has room. A single block is worked on at once.

    Args:
        blocks: What is worked on.
        work: May be called from several threads at once.
        allowance: What bounds the memory.
        cost: Bytes of a block and of what it becomes; by default those of a text and of its columns.

    Raises:
        Exception: What making a block or working on it raised, after the results of all blocks before it.
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
        first = second = None  # only who works on them holds blocks
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
                    self._release(cost)
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            join(thread)
            self._discard()

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            for block in chain(_taken(self._made), self._blocks):
                cost = self._cost(block)
                if not self._admit(cost):
                    break
                self._done.put((_pool().submit(self._work, block), cost))
                del block
                if cost > self._allowance.limit and not self._wait_until_idle():
                    break
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            end = error
        finally:
            if isinstance(self._blocks, Generator):
                self._blocks.close()
        self._done.put(end)

    def _admit(self, cost: int) -> bool:
        """Wait until a block may be worked on; False if nobody wants it any more."""
        with self._changed:
            while not self._stopped:
                if self._under_way == 0:
                    self._allowance.force(cost)
                elif self._under_way >= self._window or not self._allowance.try_take(cost):
                    self._changed.wait()
                    continue
                self._under_way += 1
                return True
        return False

    def _wait_until_idle(self) -> bool:
        """Wait until a block that is larger than it should be is done with, before another one is made."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._under_way == 0)
            return not self._stopped

    def _release(self, cost: int) -> None:
        self._allowance.give(cost)
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _discard(self) -> None:
        while not self._done.empty():
            if isinstance(item := self._done.get(), tuple):
                item[0].cancel()
                self._allowance.give(item[1])


def _taken(items: list[T]) -> Iterator[T]:
    """The items of a list, which are in it no more."""
    while items:
        yield items.pop(0)
