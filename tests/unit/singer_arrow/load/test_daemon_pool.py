"""Daemon threads that run tasks, and their shutdown."""

from __future__ import annotations

import threading

from singer_arrow.runtime.threads import DaemonPool


def test_the_end_waits_for_what_runs_but_not_for_ever() -> None:
    workers, begun, go = DaemonPool(2, "test"), threading.Event(), threading.Event()

    def task() -> str:
        begun.set()
        go.wait()
        return "done"

    running = workers.submit(task)
    begun.wait()
    workers.stop(0.01)
    assert not running.done()
    threading.Timer(0.05, go.set).start()
    workers.stop(60)
    assert running.result(0) == "done"
