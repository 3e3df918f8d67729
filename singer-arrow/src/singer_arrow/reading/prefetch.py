"""Prefetching of many small objects, whose latency exceeds their transfer time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage

GROUP_BYTES = 2 << 20
"""Approximate bytes of a group of small objects."""
GROUP_OBJECTS = 256
_AHEAD = 512  # objects being fetched or waiting for the consumer


def prefetch_groups(
    storage: Storage, objects: Iterable[ObjectInfo], budget: Budget, *, size: int = GROUP_BYTES
) -> Iterator[list[ObjectReader]]:
    """Yield readers of objects, in order, in groups whose objects are prefetched.

    An object of 8 MiB or more and an empty one are groups of their own; nothing is prefetched beyond a large one. A
    group's share of the budget is released when the next group is requested.

    Args:
        storage: Storage of the objects.
        objects: Metadata from a listing.
        budget: Limits the bytes in flight.
        size: Maximum bytes of a group of several objects.
    """
    todo = deque(_grouped([ObjectReader(storage, o.url, info=o, budget=budget) for o in objects], size))
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


def _grouped(readers: Iterable[ObjectReader], size: int) -> Iterator[list[ObjectReader]]:
    group, held = list[ObjectReader](), 0
    for reader in readers:
        full = held + (reader.size or 0) > size or len(group) == GROUP_OBJECTS
        if group and (full or not reader.is_small):
            yield group
            group, held = [], 0
        if reader.is_small:
            group.append(reader)
            held += reader.size or 0
        else:
            yield [reader]
    if group:
        yield group
