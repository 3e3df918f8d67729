"""Bisection to find the refused rows when only ranges of them can be tried."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.load.convert import Refusal, TooManyRefusedError, refused_rows


class Rows:
    """Rows of which some are refused; the error names the result of `named` for those of the range."""

    def __init__(self, bad: set[int], named: Callable[[list[int]], int | None] = lambda _: None) -> None:
        self.bad, self._named, self.tried = bad, named, 0

    def probe(self, low: int, high: int) -> Refusal | None:
        self.tried += 1
        found = sorted(row for row in self.bad if low <= row < high)
        if not found:
            return None
        alone = high - low == 1
        return Refusal(f"row {low}" if alone else "some row", row=self._named(found))


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, set[int]]:
    count = draw(st.integers(0, 300))
    return count, draw(st.sets(st.integers(0, count - 1), max_size=12)) if count else set()


@given(cases())
def test_all_refused_rows_are_found_and_no_others(case: tuple[int, set[int]]) -> None:
    count, bad = case
    rows = Rows(bad)
    assert refused_rows(count, rows.probe, most=12) == [(row, Refusal(f"row {row}")) for row in sorted(bad)]
    depth = math.ceil(math.log2(max(2, count))) + 1
    assert rows.tried <= 1 + 2 * len(bad) * depth


@given(cases(), st.integers(0, 300))
def test_a_row_that_is_named_is_tried_before_it_is_believed(case: tuple[int, set[int]], wrong: int) -> None:
    count, bad = case
    for rows in (Rows(bad, lambda found: found[-1]), Rows(bad, lambda _: wrong)):
        assert [row for row, _ in refused_rows(count, rows.probe, most=12)] == sorted(bad)
    right = Rows(bad, lambda found: found[0])
    refused_rows(count, right.probe, most=12)
    assert right.tried <= 1 + 4 * len(bad)


def test_more_rows_than_may_be_end_the_search() -> None:
    rows = Rows(set(range(1000)))
    with pytest.raises(TooManyRefusedError) as caught:
        refused_rows(1000, rows.probe, most=3)
    assert [row for row, _ in caught.value.found] == [0, 1, 2, 3]
    assert rows.tried < 40


def test_a_known_refusal_of_all_rows_is_not_tried_again() -> None:
    rows = Rows({0, 1})
    assert [row for row, _ in refused_rows(2, rows.probe, most=2, first=Refusal("known"))] == [0, 1]
    assert rows.tried == 2


def test_a_single_row_is_not_believed_to_be_bad_before_it_was_tried_again() -> None:
    assert refused_rows(1, Rows(set()).probe, most=1, first=Refusal("cancelled")) == []
    assert refused_rows(1, Rows({0}).probe, most=1, first=Refusal("known")) == [(0, Refusal("row 0"))]


def test_rows_that_are_refused_only_together_are_not_bad() -> None:
    assert refused_rows(100, lambda low, high: Refusal("too many") if high - low > 10 else None, most=5) == []
