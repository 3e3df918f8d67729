from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from singer_arrow.reading.parallel import Allowance


def test_what_does_not_fit_waits_until_something_is_given_back() -> None:
    allowance = Allowance(100, patience=60)
    allowance.acquire(80)
    assert not allowance.try_acquire(30)
    waiting = threading.Thread(target=allowance.acquire, args=(30,))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    allowance.release(80)
    waiting.join(5)
    assert (waiting.is_alive(), allowance.used, allowance.peak) == (False, 30, 80)


def test_more_than_the_limit_is_given_when_all_is_free() -> None:
    allowance = Allowance(10, patience=60)
    allowance.acquire(25)
    assert not allowance.try_acquire(1)
    allowance.release(25)
    assert allowance.try_acquire(11)


def test_holders_that_are_stuck_do_not_make_a_deadlock() -> None:
    """Results are consumed in order, but the reader that is first requests memory last."""
    allowance, turn = Allowance(10, patience=0.05), [threading.Event() for _ in range(6)]

    def read(i: int) -> None:
        time.sleep(0.01 * (6 - i))
        allowance.acquire(10)
        turn[i].wait(60)  # the consumer needs reader 0 first
        allowance.release(10)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for i, thread in enumerate(threads):
        turn[i].set()
        thread.join(60)
        assert not thread.is_alive()
    assert allowance.used == 0
    assert allowance.peak <= 60, "the limit, and one request of each reader"


def test_many_threads_stay_within_the_limit() -> None:
    allowance = Allowance(50, patience=60)

    def work(i: int) -> None:
        for k in range(200):
            n = (i * 7 + k) % 40 + 1
            allowance.acquire(n)
            extra = allowance.try_acquire(5)
            allowance.release(n + 5 * extra)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert allowance.used == 0
    assert allowance.peak <= 50
