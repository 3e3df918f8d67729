"""How long the pauses before further tries are."""

from __future__ import annotations

import itertools

from singer_arrow.singer.retries import pauses


def test_pauses_double_up_to_a_limit_and_end() -> None:
    now = itertools.count()
    waits = list(pauses(10, first=1, most=4, clock=lambda: next(now), chance=lambda: 1.0))
    assert waits == [1, 2, 4, 4, 4, None]
    assert list(pauses(0)) == [None]


def test_pauses_hold_chance() -> None:
    first = [next(pauses(100, first=8)) for _ in range(50)]
    assert all(4 <= (p or 0) <= 8 for p in first)
    assert len(set(first)) > 10
