"""Items are grouped into loads: bounded, parallel, ordered if required, and none after a failure."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import wait_until

from singer_arrow.load.method import Tally
from singer_arrow.load.run import Checkpoints, Limits, LoadScheduler
from singer_arrow.runtime.threads import DaemonPool


@dataclass
class PreparedItem:
    """An item with a size."""

    number: int
    bytes: int = 1


@dataclass(eq=False)
class Table:
    """A load method that records what it loaded; given parts fail."""

    ordered: bool = False
    deferred: bool = False
    fails: frozenset[int] = frozenset()
    slow: bool = False
    leaves: bool = False
    staged: list[list[int]] = field(default_factory=list)
    published: list[list[int]] = field(default_factory=list)
    finished: int = 0
    most_at_once: int = 0
    gate: threading.Event | None = None
    context: Any = field(default_factory=lambda: SimpleNamespace(tally=Tally("rows")))
    _at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, content: PreparedItem) -> PreparedItem:
        if -content.number - 1 in self.fails:
            msg = f"cannot prepare {content.number}"
            raise ValueError(msg)
        if self.slow:
            time.sleep(random.random() / 500)
        return content

    def stage(self, parts: Sequence[PreparedItem]) -> list[int]:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        if self.gate:
            self.gate.wait(60)
        if self.slow:
            time.sleep(random.random() / 200)
        numbers = [p.number for p in parts]
        with self._lock:
            self._at_once -= 1
            self.staged.append(numbers)
        if self.fails & set(numbers):
            msg = f"cannot load {numbers}"
            raise ValueError(msg)
        return numbers

    def publish(self, staged: list[int]) -> None:
        with self._lock:
            self.published.append(staged)

    def finish(self) -> None:
        self.finished += 1

    def removable_files(self, parts: Sequence[PreparedItem], staged: list[int]) -> list[Any]:
        assert [p.number for p in parts] == staged
        return [f"file {n}" for n in staged] if self.leaves else []


def start(**limits: Any) -> tuple[LoadScheduler, Checkpoints, list[Any]]:
    out: list[Any] = []
    checkpoints = Checkpoints(out.append, interval=0)
    return LoadScheduler(checkpoints, Limits(**({"age_seconds": 1000, "workers": 4} | limits))), checkpoints, out


def add(scheduler: LoadScheduler, checkpoints: Checkpoints, table: Table, part: PreparedItem, **options: Any) -> None:
    scheduler.add(table, part, token=checkpoints.open(), **options)
    checkpoints.state({"n": part.number})


@pytest.mark.parametrize("kind", ["plain", "ordered", "deferred"])
def test_what_a_group_leaves_goes_once_its_state_is_out(kind: str) -> None:
    seen: list[Any] = []
    checkpoints = Checkpoints(seen.append, interval=0)
    scheduler = LoadScheduler(checkpoints, Limits(age_seconds=1000, workers=4, items=2), remove=seen.append)
    table = Table(ordered=kind == "ordered", deferred=kind == "deferred", leaves=True)
    for n in range(3):
        add(scheduler, checkpoints, table, PreparedItem(n))
    scheduler.add(table, PreparedItem(3), token=checkpoints.open())  # no STATE follows
    scheduler.wait()
    assert (seen == []) == table.deferred
    scheduler.finish(table)
    removed = [x for x in seen if isinstance(x, list)]
    assert removed == [["file 0", "file 1"]]
    sent_states = [x for x in seen if isinstance(x, dict)]
    assert (seen[0], sent_states[-1]) == (sent_states[0], {"n": 2})
    if table.deferred:  # else a run resumed from a STATE in between would replace the table by a part
        assert sent_states == [{"n": 2}]
    checkpoints.state({"n": 4})
    assert seen[-2:] == [{"n": 4}, ["file 2", "file 3"]]


def test_what_a_group_leaves_stays_if_it_fails() -> None:
    seen: list[Any] = []
    checkpoints = Checkpoints(seen.append, interval=0)
    scheduler = LoadScheduler(checkpoints, Limits(age_seconds=1000, items=1, parallel=1), remove=seen.append)
    table = Table(fails=frozenset({1}), leaves=True)
    for n in range(2):
        add(scheduler, checkpoints, table, PreparedItem(n))
    with pytest.raises(ValueError, match="cannot load"):
        scheduler.wait()
    assert seen == [{"n": 0}, ["file 0"]]


def test_items_are_gathered_until_somebody_waits() -> None:
    scheduler, checkpoints, out = start()
    table = Table()
    for n in range(5):
        add(scheduler, checkpoints, table, PreparedItem(n))
    time.sleep(0.05)
    assert table.published == []
    assert out == []
    scheduler.wait()
    assert table.published == [[0, 1, 2, 3, 4]]
    assert out == [{"n": 4}]


def test_groups_end_when_they_are_long_heavy_or_old() -> None:
    scheduler, checkpoints, _ = start(items=3)
    table = Table()
    for n in range(7):
        add(scheduler, checkpoints, table, PreparedItem(n))
    scheduler.wait()
    assert sorted(map(len, table.published)) == [1, 3, 3]

    scheduler, checkpoints, _ = start(bytes=100)
    table = Table()
    for n in range(10):
        add(scheduler, checkpoints, table, PreparedItem(n, bytes=60))
        time.sleep(0.01)
    scheduler.wait()
    assert max(map(len, table.published)) <= 3

    scheduler, checkpoints, out = start(age_seconds=0.05)
    table = Table()
    add(scheduler, checkpoints, table, PreparedItem(1))
    wait_until(lambda: scheduler.tick() or out)
    assert table.published == [[1]]


def test_what_was_read_long_ago_waits_for_no_more() -> None:
    scheduler, checkpoints, _ = start(age_seconds=1000)
    table = Table()
    add(scheduler, checkpoints, table, PreparedItem(1))
    scheduler.tick()
    add(scheduler, checkpoints, table, PreparedItem(2), since=time.monotonic() - 1001)
    add(scheduler, checkpoints, table, PreparedItem(3), since=time.monotonic())
    scheduler.tick()  # which ends the group
    add(scheduler, checkpoints, table, PreparedItem(4))
    scheduler.wait()
    assert sorted(table.published) == [[1, 2, 3], [4]]  # in any order, as the load method is not ordered


def test_items_that_are_alone_are_groups_of_their_own() -> None:
    scheduler, checkpoints, _ = start()
    table = Table(ordered=True)
    for n, options in enumerate(({}, {}, {"alone": True}, {}, {})):
        add(scheduler, checkpoints, table, PreparedItem(n), **options)
    scheduler.wait()
    assert table.published == [[0, 1], [2], [3, 4]]


def test_not_more_loads_at_once_than_allowed() -> None:
    scheduler, checkpoints, _ = start(items=1, parallel=3)
    table = Table(slow=True)
    for n in range(30):
        add(scheduler, checkpoints, table, PreparedItem(n))
    scheduler.wait()
    assert 1 < table.most_at_once <= 3
    assert sorted(table.published) == [[n] for n in range(30)]


def test_reading_is_held_up_while_too_much_is_under_way() -> None:
    scheduler, checkpoints, _ = start(items=1, parallel=2, workers=1)
    table = Table(gate=threading.Event())
    read = []

    def reader() -> None:
        for n in range(50):
            add(scheduler, checkpoints, table, PreparedItem(n))
            read.append(n)

    thread = threading.Thread(target=reader)
    thread.start()
    time.sleep(0.2)
    assert len(read) < 10
    assert table.gate
    table.gate.set()
    thread.join()
    scheduler.wait()
    assert len(table.published) == 50


def test_many_open_streams_share_the_weight() -> None:
    scheduler, checkpoints, _ = start(bytes=100, parallel=2)
    tables = [Table() for _ in range(20)]
    for n, table in enumerate(tables):
        add(scheduler, checkpoints, table, PreparedItem(n, bytes=50))
    wait_until(lambda: sum(len(t.published) for t in tables) >= 10)  # 20 x 50 bytes do not wait at once
    scheduler.wait()


@settings(max_examples=settings.default.max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 5))
def test_ordered_load_methods_publish_in_the_order_of_messages(streams: list[int], items: int) -> None:
    scheduler, checkpoints, out = start(items=items, parallel=4)
    tables = [Table(ordered=True, slow=True) for _ in range(3)]
    for n, stream in enumerate(streams):
        add(scheduler, checkpoints, tables[stream], PreparedItem(n))
    scheduler.wait()
    for stream, table in enumerate(tables):
        numbers = [n for group in table.published for n in group]
        assert numbers == [n for n, s in enumerate(streams) if s == stream]
    assert out[-1] == {"n": len(streams) - 1}


@settings(max_examples=settings.default.max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 1), min_size=2, max_size=30), st.data())
def test_no_state_passes_a_failed_load(streams: list[int], data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, len(streams) - 1))
    fails = frozenset({data.draw(st.sampled_from([bad, -bad - 1]))})
    scheduler, checkpoints, out = start(items=2, parallel=3)
    tables = [Table(slow=True, fails=fails, ordered=data.draw(st.booleans())) for _ in range(2)]

    def run() -> None:
        for n, stream in enumerate(streams):
            add(scheduler, checkpoints, tables[stream], PreparedItem(n))
        scheduler.wait()

    with pytest.raises(ValueError, match=r"cannot (load|prepare)"):
        run()
    scheduler.stop(5)
    checkpoints.flush()
    assert all(state["n"] < bad for state in out)


def test_a_deferred_load_method_is_durable_only_at_its_end() -> None:
    scheduler, checkpoints, out = start(items=1)
    table, other = Table(deferred=True), Table()
    add(scheduler, checkpoints, other, PreparedItem(0))
    add(scheduler, checkpoints, table, PreparedItem(1))
    add(scheduler, checkpoints, other, PreparedItem(2))
    scheduler.wait()
    assert out == [{"n": 0}]
    assert table.staged == [[1]]
    scheduler.finish(table)
    assert table.finished == 1
    assert out == [{"n": 0}, {"n": 2}]


def test_wait_for_one_stream_leaves_the_others_gathering() -> None:
    scheduler, checkpoints, _ = start()
    table, other = Table(), Table()
    add(scheduler, checkpoints, table, PreparedItem(0))
    add(scheduler, checkpoints, other, PreparedItem(1))
    scheduler.wait(table)
    assert table.published == [[0]]
    assert other.published == []


def test_the_failure_reaches_the_reader_at_its_next_step() -> None:
    scheduler, checkpoints, _ = start(items=1)
    add(scheduler, checkpoints, Table(fails=frozenset({0})), PreparedItem(0))

    def has_failed() -> bool:
        try:
            scheduler.check()
        except ValueError:
            return True
        return False

    wait_until(has_failed)
    with pytest.raises(ValueError, match="cannot load"):
        add(scheduler, checkpoints, Table(), PreparedItem(1))


def test_stop_waits_for_what_runs_and_begins_nothing() -> None:
    scheduler, checkpoints, out = start(items=1, parallel=1)
    table = Table(gate=threading.Event())
    for n in range(2):
        add(scheduler, checkpoints, table, PreparedItem(n))
    wait_until(lambda: table.most_at_once)
    scheduler.stop(0.1)
    assert table.published == []
    assert table.gate
    threading.Timer(0.05, table.gate.set).start()
    scheduler.stop(1000)
    assert table.published == [[0]]
    assert out == [{"n": 0}]


def test_stop_does_not_wait_for_loads_whose_items_will_never_be_ready() -> None:
    begun, gate = threading.Semaphore(0), threading.Event()

    class Slow(Table):
        def prepare(self, content: PreparedItem) -> PreparedItem:
            begun.release()
            gate.wait(60)
            return content

    scheduler, checkpoints, _ = start(items=1, parallel=4, workers=2)
    table = Slow()
    for n in range(4):
        add(scheduler, checkpoints, table, PreparedItem(n))
    for _ in range(2):
        assert begun.acquire(timeout=60)
    time.sleep(0.05)
    threading.Timer(0.05, gate.set).start()
    scheduler.stop(1000)
    assert not [n for group in table.published for n in group if n > 1]


def test_workers_start_no_more_threads_than_needed_and_give_results() -> None:
    workers = DaemonPool(3, "few-threads")
    assert [workers.submit(pow, n, 2).result(60) for n in range(20)] == [n * n for n in range(20)]
    assert 1 <= sum(thread.name.startswith("few-threads") for thread in threading.enumerate()) <= 3
    barrier = threading.Barrier(3)
    waiting = [workers.submit(barrier.wait, 5) for _ in range(3)]
    assert sorted(f.result(60) for f in waiting) == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 1, 0).result(60)
    workers.stop()
