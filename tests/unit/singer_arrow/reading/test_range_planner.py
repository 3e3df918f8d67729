from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.reading.objects import MAX_PART, MIN_PART, Span, growing_spans, part_size, plan_requests, split_span

spans = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 700)).map(lambda s: (s[0], s[0] + s[1])), max_size=30)


def _bytes(of: list[Span]) -> set[int]:
    return {b for start, end in of for b in range(start, end)}


@given(spans=spans, gap=st.integers(0, 300), part=st.integers(1, 900))
def test_a_plan_covers_the_spans_and_little_else(spans: list[Span], gap: int, part: int) -> None:
    planned = plan_requests(spans, gap=gap, part=part)
    asked = _bytes(spans)
    assert asked <= _bytes(planned)
    assert all(start < end <= start + part for start, end in planned)
    assert all(a[1] <= b[0] for a, b in pairwise(planned)), "sorted and disjoint"
    additional = sorted(_bytes(planned) - asked)
    assert all(not all(b in additional for b in range(u, u + gap + 1)) for u in additional), (
        "no gap above the limit is read"
    )
    for start, end in planned:
        assert start in asked
        assert end - 1 in asked


@given(start=st.integers(0, 1000), size=st.integers(0, 5000), part=st.integers(1, 999))
def test_a_split_is_even(start: int, size: int, part: int) -> None:
    pieces = split_span(start, start + size, part)
    assert pieces[0][0] == start
    assert pieces[-1][1] == start + size
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    sizes = [end - begin for begin, end in pieces]
    assert max(sizes) <= part
    assert max(sizes) - min(sizes) <= 1


def test_every_connection_gets_work_within_bounds() -> None:
    assert part_size(1 << 20, 32) == MIN_PART
    assert part_size(128 << 20, 32) == 4 << 20
    assert part_size(1 << 40, 32) == MAX_PART


@given(start=st.integers(0, 100), size=st.integers(1, 1 << 30), part=st.integers(MIN_PART, MAX_PART))
def test_pieces_grow_up_to_the_part(start: int, size: int, part: int) -> None:
    pieces = growing_spans(start, start + size, part)
    assert [a for a, _ in pieces] == [start, *(b for _, b in pieces[:-1])]
    assert pieces[-1][1] == start + size
    assert all(0 < b - a <= part for a, b in pieces)
    assert len(pieces) <= len(split_span(start, start + size, part)) + 4
    if size > 3 * MAX_PART:
        assert pieces[0][1] - start <= MIN_PART
