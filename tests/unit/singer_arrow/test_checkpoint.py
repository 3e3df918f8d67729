"""A STATE never leaves before everything before it is closed, in whatever order that happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.singer.checkpoint import Checkpoints


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_state_waits_for_what_came_before_it() -> None:
    out: list[Any] = []
    checkpoints = Checkpoints(out.append, interval=0)
    first, second = checkpoints.open(), checkpoints.open()
    checkpoints.state({"n": 2})
    third = checkpoints.open()
    checkpoints.close([second])
    assert out == []
    assert checkpoints.pending
    checkpoints.close([first])
    assert out == [{"n": 2}]
    checkpoints.state({"n": 3})
    checkpoints.close([third])
    assert out == [{"n": 2}, {"n": 3}]
    assert not checkpoints.pending


def test_state_with_nothing_before_it_leaves_at_once() -> None:
    out: list[Any] = []
    Checkpoints(out.append).state({"n": 1})
    assert out == [{"n": 1}]


def test_only_the_newest_that_may_leave_leaves() -> None:
    out: list[Any] = []
    checkpoints = Checkpoints(out.append, interval=0)
    tokens = []
    for n in range(5):
        tokens.append(checkpoints.open())
        checkpoints.state({"n": n})
    checkpoints.close([*tokens[1:3], tokens[0]])
    assert out == [{"n": 2}]


def test_one_line_an_interval_and_the_last_one_always() -> None:
    out: list[Any] = []
    clock = Clock()
    checkpoints = Checkpoints(out.append, interval=5, clock=clock)
    for n in range(20):
        clock.now += 1
        checkpoints.state({"n": n})
        checkpoints.tick()
    assert out == [{"n": n} for n in (0, 5, 10, 15)]
    checkpoints.flush()
    assert out[-1] == {"n": 19}
    checkpoints.flush()
    checkpoints.state({"n": 19})
    checkpoints.flush()
    assert len(out) == 5


def test_a_state_that_waited_for_its_time_leaves_by_the_clock_alone() -> None:
    out: list[Any] = []
    clock = Clock()
    checkpoints = Checkpoints(out.append, interval=5, clock=clock)
    checkpoints.state({"n": 0})
    checkpoints.state({"n": 1})
    clock.now = 4.9
    checkpoints.tick()
    assert out == [{"n": 0}]
    clock.now = 5
    checkpoints.tick()
    assert out == [{"n": 0}, {"n": 1}]


def test_states_between_the_same_tokens_take_no_memory() -> None:
    checkpoints = Checkpoints(lambda _: None)
    checkpoints.open()
    for n in range(1000):
        checkpoints.state({"n": n})
    assert len(checkpoints._waiting) == 1


STEPS = st.lists(
    st.one_of(
        st.just(("open", 0)),
        st.just(("state", 0)),
        st.tuples(st.just("close"), st.integers(0, 50)),
        st.tuples(st.just("pass"), st.integers(0, 4)),
    ),
    max_size=80,
)


@given(STEPS, st.booleans())
def test_no_state_too_early_none_lost_none_out_of_order(steps: list[tuple[str, int]], close_all: bool) -> None:
    out: list[dict[str, int]] = []
    clock = Clock()
    checkpoints = Checkpoints(out.append, interval=3, clock=clock)  # type: ignore[arg-type]
    is_open: list[int] = []
    before: dict[int, set[int]] = {}  # number of a state -> what was open when it was read
    closed: set[int] = set()
    for kind, value in steps:
        seen = len(out)
        if kind == "open":
            is_open.append(checkpoints.open())
        elif kind == "state":
            before[len(before)] = set(is_open)
            checkpoints.state({"n": len(before) - 1})
        elif kind == "close" and is_open:
            token = is_open.pop(value % len(is_open))
            closed.add(token)
            checkpoints.close([token])
        else:
            clock.now += value
            checkpoints.tick()
        for state in out[seen:]:
            assert before[state["n"]] <= closed
    if close_all:
        checkpoints.close(is_open)
        closed.update(is_open)
    checkpoints.flush()
    sent = [state["n"] for state in out]
    assert sent == sorted(set(sent))
    may_leave = [n for n, tokens in before.items() if tokens <= closed]
    assert (sent[-1:] or [None]) == ([max(may_leave)] if may_leave else [None])
