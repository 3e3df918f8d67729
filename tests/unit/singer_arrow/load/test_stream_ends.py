"""Spans of streams in the input, and the tables that are kept because of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import ConfigError
from singer_arrow.load.stream_ends import (
    StreamEnds,
    StreamSpan,
    check_load_method,
    ended_streams,
    is_announced,
    kept_tables,
)


def test_only_the_exact_keys_count() -> None:
    assert is_announced({"type": "SCHEMA", "end_of_stream": True})
    assert not is_announced({"type": "SCHEMA"})
    assert not is_announced({"type": "SCHEMA", "end_of_stream": "s"})
    assert ended_streams({"type": "STATE", "value": {}, "end_of_stream": "s"}) == ["s"]
    assert ended_streams({"type": "STATE", "value": {}, "end_of_stream": ["s", "t", 3]}) == ["s", "t"]
    assert ended_streams({"type": "STATE", "value": {"end_of_stream": "s"}}) == []
    assert ended_streams({"type": "STATE", "value": {}, "end_of_stream": True}) == []


@pytest.mark.parametrize("method", ["overwrite", "upsert"])
def test_a_part_of_a_stream_is_only_appended(method: str) -> None:
    message = {"type": "SCHEMA", "stream": "orders", "shard": "0/2"}
    check_load_method(message, "append-only")
    check_load_method({**message, "shard": None}, method)
    with pytest.raises(ConfigError, match="'orders' comes as shard 0/2, a part of its rows, .* set it to append-only"):
        check_load_method(message, method)


def test_a_stream_that_begins_again_needs_another_mark() -> None:
    ends = StreamEnds()
    ends.begin("s", 1)
    assert ends.unfinished() == ["s"]
    ends.state(4, ["s"])
    assert ends.unfinished() == []
    assert ends.span(["s"], 4) == StreamSpan(1, 4)
    ends.begin("s", 5)
    assert ends.unfinished() == ["s"]
    assert ends.span(["s"], 4) == StreamSpan(1, None)
    ends.state(7, ["s"])
    assert ends.span(["s"], 7) == StreamSpan(1, 7)


def test_rows_after_the_mark_need_another_one() -> None:
    ends = StreamEnds()
    ends.begin("s", 1)
    ends.state(4, ["s"])
    assert ends.span(["s"], 5) == StreamSpan(1, None)


def test_a_mark_without_an_announcement_means_nothing() -> None:
    ends = StreamEnds()
    ends.state(4, ["s"])
    assert ends.unfinished() == []
    assert ends.span(["s"], 9) is None


def test_a_table_of_two_streams_ends_with_the_later_one() -> None:
    ends = StreamEnds()
    ends.begin("a", 1)
    ends.state(4, ["a"])
    ends.begin("b", 5)
    assert ends.span(["a", "b"], 6) == StreamSpan(1, None)
    ends.state(8, ["b"])
    assert ends.span(["a", "b"], 8) == StreamSpan(1, 8)


def test_what_ends_before_an_unfinished_stream_or_begins_after_it_is_replaced() -> None:
    spans = {"before": StreamSpan(1, 4), "unfinished": StreamSpan(5), "after": StreamSpan(8, 9)}
    assert kept_tables(spans, [4, 9]) == {"unfinished"}


def test_what_an_unfinished_stream_interrupts_is_kept() -> None:
    spans = {
        "first": StreamSpan(1, 6),
        "second": StreamSpan(4, 9),
        "unfinished": StreamSpan(8),
        "third": StreamSpan(10, 11),
    }
    assert kept_tables(spans, [*range(12)]) == {"first", "second", "unfinished"}
    assert kept_tables(spans, [5, 12]) == {"first", "second", "unfinished"}


def test_what_an_unfinished_stream_interrupts_is_replaced_where_no_state_is_within_it() -> None:
    spans = {"first": StreamSpan(1, 9), "second": StreamSpan(4, 9), "unfinished": StreamSpan(8)}
    assert kept_tables(spans, [0, 9]) == {"unfinished"}
    assert kept_tables(spans, [2, 9]) == {"first", "unfinished"}


spans = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=1),
    st.tuples(st.integers(1, 30), st.none() | st.integers(0, 10)).map(
        lambda s: StreamSpan(s[0], None if s[1] is None else s[0] + s[1])
    ),
)


@given(spans, st.sets(st.integers(0, 40)))
def test_the_newest_state_that_leaves_cuts_no_stream_that_is_replaced(
    found: dict[str, StreamSpan], states: set[int]
) -> None:
    kept = kept_tables(found, sorted(states))
    assert kept >= {name for name, span in found.items() if span.end is None}
    first = min((found[name].first for name in kept), default=99)
    newest = max((state for state in states if state < first), default=-1)
    for name in found.keys() - kept:
        first, end = found[name].first, found[name].end
        assert end is not None
        assert end <= newest or first > newest or not kept
