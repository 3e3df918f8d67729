"""Blocks processed in parallel: results in order, and none kept longer than needed."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from singer_arrow.reading.parallel import Allowance, map_ordered

COUNT, SIZE = 12, 1000


class Made:
    """Creates blocks, and counts which of them are still referenced."""

    def __init__(self) -> None:
        self.refs: list[weakref.ref[memoryview]] = []

    def blocks(self) -> Iterator[memoryview]:
        for i in range(COUNT):
            yield self._next(i)

    def _next(self, i: int) -> memoryview:
        block = memoryview(bytes([i]) * SIZE)
        self.refs.append(weakref.ref(block))
        return block

    @property
    def held(self) -> int:
        gc.collect()
        return sum(ref() is not None for ref in self.refs)


def first_byte(block: memoryview) -> int:
    return block[0]


def test_results_come_in_order() -> None:
    assert list(map_ordered(Made().blocks(), first_byte, Allowance(1 << 20))) == list(range(COUNT))


@pytest.mark.full
def test_of_large_blocks_one_is_made_at_a_time_and_none_is_kept() -> None:
    made, most = Made(), 0
    for result in map_ordered(made.blocks(), first_byte, Allowance(SIZE)):
        if result > 1:  # the first two are made before it is known that there are several
            assert len(made.refs) == result + 1
        most = max(most, made.held)
    assert most <= 2
    assert made.held == 0


def test_small_blocks_are_let_go_when_they_are_worked_on() -> None:
    made = Made()
    results = map_ordered(made.blocks(), first_byte, Allowance(1 << 20))
    assert [next(results) for _ in range(COUNT)] == list(range(COUNT))
    assert made.held <= 1  # the last, whose worker may be about to release it


@pytest.mark.full
def test_a_process_ends_though_a_reading_was_left_open() -> None:
    program = """
import itertools
from singer_arrow.reading.parallel import Allowance
from singer_arrow.reading.parallel import map_ordered

rows = map_ordered(itertools.repeat(b"x" * 100), len, Allowance(1 << 20))
next(rows)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
