"""Small objects, fetched many at once: each of them costs a request, whose answer takes longer than its bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage

GROUP_BYTES = 2 << 20
"""Bytes of small objects that are taken together, about."""
GROUP_OBJECTS = 256
_AHEAD = 512  # objects that are being fetched, or wait to be taken


def groups(
    storage: Storage, objects: Iterable[ObjectInfo], budget: Budget, *, size: int = GROUP_BYTES
) -> Iterator[list[ObjectReader]]:
    """Readers of objects, in order, in groups of some: the bytes of a group's objects are asked for ahead.

    An object of 8 MiB or more is a group of its own, and so is one without a byte; nothing is fetched beyond a large
    one before it is done. A group's share of the budget is given back when the next one is asked for.

    Args:
        storage: Where they are.
        objects: What a listing says of them.
        budget: Bounds the bytes in flight.
        size: Bytes of a group, at most, unless one object is larger.
    """
    todo = deque(_grouped([ObjectReader(storage, o.url, info=o, budget=budget) for o in objects], size))
    live, ahead = deque[tuple[int, list[ObjectReader]]](), 0
    try:
        while todo or live:
            while todo and (not live or (live[-1][0] and todo[0][0].is_small and ahead < _AHEAD)):
                cost = sum(r.size or 0 for r in todo[0]) if todo[0][0].is_small else 0
                if not live:
                    budget.fetched.take(cost)
                elif not budget.fetched.try_take(cost):
                    break
                group = todo.popleft()
                live.append((cost, group))
                ahead += len(group)
                for reader in group if cost else ():
                    reader.begin()
            yield live[0][1]
            cost, group = live.popleft()
            ahead -= len(group)
            budget.fetched.give(cost)
    finally:
        for cost, group in live:
            for reader in group:
                reader.give_up()
            budget.fetched.give(cost)


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
