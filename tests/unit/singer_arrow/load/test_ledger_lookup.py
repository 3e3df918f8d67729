"""Which batches a ledger query asks for, when, and how many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from singer_arrow.load.method import BatchLookup

PAGE = 3


class Ledger:
    """A ledger of numbered batches; `asked` are the ids of each query, `pages` the numbers.

    Args:
        have: The ids of its batches, in order.
    """

    def __init__(self, *have: str) -> None:
        self.entries = {batch_id: number for number, batch_id in enumerate(have)}
        self.asked: list[list[str]] = []
        self.pages: list[int] = []
        self.lookup = BatchLookup(self.find, self.following)

    def find(self, ids: Sequence[str]) -> Mapping[str, int]:
        self.asked.append(list(ids))
        return {batch_id: self.entries[batch_id] for batch_id in ids if batch_id in self.entries}

    def following(self, number: int) -> Mapping[str, int]:
        self.pages.append(number)
        return {batch_id: n for batch_id, n in self.entries.items() if number <= n < number + PAGE}


def test_new_batches_are_looked_up_group_by_group_after_the_first() -> None:
    ledger = Ledger("a")
    assert [ledger.lookup.early(b) for b in "xyz"] == [None, None, None]
    assert ledger.lookup.of("xyz") == {}
    assert ledger.asked == [["x"], ["y", "z"]]


def test_a_batch_is_asked_about_once() -> None:
    ledger = Ledger("a")
    assert [ledger.lookup.early("a"), ledger.lookup.early("a"), ledger.lookup.of(["a"])] == [0, 0, {"a": 0}]
    assert ledger.asked == [["a"]]


def test_those_that_are_expected_are_looked_up_with_the_next_one() -> None:
    ledger = Ledger("a")
    for batch_id in ("x", "y", "x"):
        ledger.lookup.expect(batch_id)
    ledger.lookup.open()
    assert ledger.asked == [["x", "y"]]
    ledger.lookup.expect("z")
    assert ledger.lookup.of(["w"]) == {}
    assert ledger.lookup.of("xyzw") == {}
    assert ledger.asked[1:] == [["w", "z"]]


def test_the_ledger_is_opened_even_if_nothing_is_expected() -> None:
    ledger = Ledger("a", "b")
    ledger.lookup.open()
    assert ledger.asked == [[]]
    assert ledger.lookup.early("b") == 1  # it has not returned new batches yet


def test_those_that_follow_a_batch_that_is_found_are_read_with_it() -> None:
    ledger = Ledger(*"abcdef")
    assert [ledger.lookup.early(b) for b in "abcdef"] == [0, 1, 2, 3, 4, 5]
    assert (ledger.asked, ledger.pages) == ([["a"], ["d"]], [0, 3])


def test_a_page_is_no_answer_for_a_group() -> None:
    """It may lack some of a batch's entries."""
    ledger = Ledger(*"abc")
    assert ledger.lookup.early("a") == 0
    ledger.entries["b"] = 7
    assert (ledger.lookup.early("b"), ledger.lookup.of("b"), ledger.lookup.early("b")) == (1, {"b": 7}, 7)


def test_batches_are_looked_up_early_again_once_a_group_has_one() -> None:
    ledger = Ledger(*"abcdefgh")
    assert [ledger.lookup.early(b) for b in "xa"] == [None, None]
    assert ledger.lookup.of("xa") == {"a": 0}
    assert ledger.lookup.early("h") == 7
    assert ledger.asked == [["x"], ["a"], ["h"]]


def test_a_query_that_failed_is_asked_again() -> None:
    ledger, failures = Ledger("a"), [ConnectionError("lost")]

    def find(ids: Sequence[str]) -> Mapping[str, int]:
        if failures:
            raise failures.pop()
        return ledger.find(ids)

    lookup = BatchLookup(find, ledger.following)
    with pytest.raises(ConnectionError):
        lookup.early("a")
    assert lookup.early("a") == 0


def test_threads_that_want_the_same_ask_once() -> None:
    ledger = Ledger("a")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: ledger.lookup.early("a"), range(50))) == [0] * 50
    assert ledger.asked == [["a"]]
