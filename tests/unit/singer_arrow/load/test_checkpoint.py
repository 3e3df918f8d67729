"""A STATE is released only when everything before it is closed, in any order of closing."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.load.run import Checkpoints


class Clock:
    """A clock that only the test advances."""

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
    checkpoints.close([first])
    assert out == [{"n": 2}]
    checkpoints.state({"n": 3})
    checkpoints.close([third])
    assert out == [{"n": 2}, {"n": 3}]


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


def test_what_waits_for_a_state_is_called_once_it_is_out() -> None:
    out: list[Any] = []
    clock = Clock()
    checkpoints = Checkpoints(out.append, interval=5, clock=clock)
    first, second, third = (checkpoints.open() for _ in range(3))
    checkpoints.close([second], lambda: out.append("second"))
    checkpoints.state({"n": 3})
    checkpoints.close([third], lambda: out.append("third"))
    assert out == []
    checkpoints.close([first], lambda: out.append("first"))
    assert out == [{"n": 3}, "second", "third", "first"]
    later = checkpoints.open()
    checkpoints.close([later], lambda: out.append("later"))
    checkpoints.flush()
    assert out[-1] == "first"  # no STATE came since
    checkpoints.state({"n": 3})  # it is not new, so it is not announced twice; but it is released
    clock.now = 5
    checkpoints.tick()
    assert out[-1] == "later"


def test_a_run_that_ends_well_without_any_state_lets_everything_go() -> None:
    out: list[Any] = []
    checkpoints = Checkpoints(out.append, interval=0)
    checkpoints.close([checkpoints.open()], lambda: out.append("gone"))
    checkpoints.flush()
    assert out == []
    checkpoints.end()
    assert out == ["gone"]
    checkpoints.state({"n": 1})
    checkpoints.close([checkpoints.open()], lambda: out.append("kept"))
    checkpoints.end()  # the tap has sent a STATE before, but none after: it may have failed
    assert out == ["gone", {"n": 1}]


def test_nothing_is_called_if_the_state_cannot_be_written() -> None:
    called: list[int] = []

    def broken(_: Any) -> None:
        raise BrokenPipeError

    checkpoints = Checkpoints(broken, interval=0)
    token = checkpoints.open()
    checkpoints.state({"n": 1})
    with pytest.raises(BrokenPipeError):
        checkpoints.close([token], lambda: called.append(1))
    checkpoints.flush()
    assert called == []


class WeakState(dict[str, int]):
    """A STATE to which weak references are possible."""


def test_states_between_the_same_tokens_take_no_memory() -> None:
    checkpoints = Checkpoints(lambda _: None)
    checkpoints.open()
    references = []
    for n in range(1000):
        value = WeakState(n=n)
        references.append(weakref.ref(value))
        checkpoints.state(value)
        del value
    gc.collect()
    assert [state for reference in references if (state := reference())] == [{"n": 999}]


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
    before: dict[int, set[int]] = {}  # number of a state -> tokens open when it was read
    closed: set[int] = set()
    latest, through = 0, list[int]()  # the last opened token, now and when each state was read
    let_go: list[tuple[int, int]] = []  # token, and the number of states released by then
    for kind, value in steps:
        seen = len(out)
        if kind == "open":
            latest = checkpoints.open()
            is_open.append(latest)
        elif kind == "state":
            through.append(latest)
            before[len(before)] = set(is_open)
            checkpoints.state({"n": len(before) - 1})
        elif kind == "close" and is_open:
            token = is_open.pop(value % len(is_open))
            closed.add(token)
            checkpoints.close([token], lambda t=token: let_go.append((t, len(out))))  # type: ignore[misc]
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
    assert all(any(token <= through[n] for n in sent[:count]) for token, count in let_go)
    with_files = closed - set(is_open)
    assert {token for token, _ in let_go} == {t for t in with_files if any(t <= through[n] for n in sent)}
    assert (sent[-1:] or [None]) == ([max(may_leave)] if may_leave else [None])
