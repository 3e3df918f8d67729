"""Results keep the order of tasks, the window bounds started tasks, and errors and stops end the rest."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from singer_arrow.runtime.threads import (
    Stopped,
    ThreadPool,
    Uninterrupted,
    default_workers,
    interrupt,
    ordered_results,
    ordered_streams,
)


def slow_first(number: int) -> int:
    time.sleep(0.02 if number % 3 == 0 else 0)
    return number


def test_results_come_in_the_order_of_the_tasks() -> None:
    with ThreadPool(4, "task") as pool:
        tasks = (lambda n=n: slow_first(n) for n in range(20))
        assert list(ordered_results(pool, tasks, 6)) == list(range(20))


def test_no_more_tasks_are_begun_than_the_window_holds() -> None:
    begun: list[int] = []

    def tasks() -> Iterator[Callable[[], int]]:
        for number in range(100):
            begun.append(number)
            yield lambda n=number: n  # type: ignore[misc]  # mypy cannot infer a lambda's default

    with ThreadPool(2, "task") as pool:
        results = ordered_results(pool, tasks(), 4)
        assert next(results) == 0
        assert len(begun) == 4
        results.close()


def test_the_first_error_in_order_ends_it() -> None:
    def fail() -> int:
        msg = "broken"
        raise ValueError(msg)

    with ThreadPool(2, "task") as pool:
        results = ordered_results(pool, [lambda: 1, fail, lambda: 3], 3)
        assert next(results) == 1
        with pytest.raises(ValueError, match="broken"):
            next(results)


def counted(start: int, count: int) -> Callable[[threading.Event], Iterator[int]]:
    def task(_: threading.Event) -> Iterator[int]:
        for number in range(start, start + count):
            time.sleep(0.001)
            yield number

    return task


def test_streams_keep_the_order_within_and_between_tasks() -> None:
    with ThreadPool(3, "task") as pool:
        streams = ordered_streams(pool, [counted(0, 5), counted(5, 0), counted(5, 3)], 2)
        assert [list(s) for s in streams] == [[0, 1, 2, 3, 4], [], [5, 6, 7]]


def test_a_result_is_there_before_its_task_has_ended() -> None:
    resumed = threading.Event()

    def task(_: threading.Event) -> Iterator[int]:
        yield 1
        assert resumed.wait(60)
        yield 2

    with ThreadPool(1, "task") as pool:
        streams = ordered_streams(pool, [task], 1)
        stream = next(streams)
        assert next(stream) == 1
        resumed.set()
        assert list(stream) == [2]


def test_a_task_that_fails_late_gives_its_results_first() -> None:
    def task(_: threading.Event) -> Iterator[int]:
        yield 1
        msg = "broken"
        raise ValueError(msg)

    with ThreadPool(1, "task") as pool:
        streams = ordered_streams(pool, [task], 1)
        stream = next(streams)
        assert next(stream) == 1
        with pytest.raises(ValueError, match="broken"):
            next(stream)


def test_tasks_are_stopped_when_their_results_are_closed() -> None:
    ended: list[str] = []

    def endless(stop: threading.Event) -> Iterator[int]:
        try:
            while True:
                if stop.wait(0.001):
                    raise Stopped
                yield 1
        finally:
            ended.append("ended")

    with ThreadPool(2, "task") as pool:
        streams = ordered_streams(pool, [endless, endless], 2)
        assert next(next(streams)) == 1
        streams.close()
    assert ended == ["ended", "ended"]


def test_there_are_at_least_two_workers() -> None:
    assert default_workers() >= 2


PROGRAM = """
import signal, sys, threading, time
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.runtime.threads import interrupt

def handle(number, frame):
    interrupt(SystemExit(143))

def begun(frame, event, arg):  # a signal right after a thread has been started
    if event == "return" and frame.f_code.co_name == "start" and "threading" in frame.f_code.co_filename:
        signal.raise_signal(signal.SIGTERM)

signal.signal(signal.SIGTERM, handle)
pool = ThreadPool(2, "task")
sys.setprofile(begun)
pool.submit(time.sleep, 0)
print("not reached")
"""


@pytest.mark.full
def test_a_process_ends_though_the_signal_came_while_a_thread_was_started() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "", "")


def test_an_interrupt_waits_for_the_end_of_the_outermost_block() -> None:
    reached = []

    def interrupted() -> None:
        with Uninterrupted():
            with Uninterrupted():
                interrupt(KeyError())
            reached.append("inner")

    with pytest.raises(KeyError):
        interrupted()
    assert reached == ["inner"]
    with pytest.raises(ValueError, match="now"):
        interrupt(ValueError("now"))


def test_other_threads_do_not_hold_an_interrupt_up() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with Uninterrupted():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(KeyError):
        interrupt(KeyError())
    leave.set()
    thread.join()


WITHOUT_MEMORY = """
import _thread, sys, threading
from singer_arrow.runtime.threads import ThreadPool, repeat_every
from singer_arrow.sdk import cli

main = _thread.get_ident()

def no_memory():
    if _thread.get_ident() != main:
        raise MemoryError
    return main

def in_a_pool():
    threading.get_ident = no_memory  # which a thread calls before it counts as started
    ThreadPool(2, "task").submit(print).result()

def alone():
    threading.get_ident = no_memory
    with repeat_every(1, print, name="x"):
        pass

def at_work():
    threading.Thread(target=no_memory).start()
    threading.Event().wait()

cli.run_connector("tap-x", lambda: globals()[sys.argv[1]])
print("not reached")
"""


@pytest.mark.parametrize("case", ["in_a_pool", "alone", "at_work"])
@pytest.mark.full
def test_a_thread_without_memory_ends_the_process_in_one_line(case: str) -> None:
    argv = [sys.executable, "-c", WITHOUT_MEMORY, case]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    reason = "tap-x: This process cannot get more memory or threads: out of memory; lower memory_limit_mb or "
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"{reason}max_workers, or allow more [memory]\n")
