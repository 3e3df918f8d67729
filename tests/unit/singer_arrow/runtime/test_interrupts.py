"""A signal while a pool starts a thread is raised after the pool has registered the thread."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from singer_arrow.runtime.interrupts import Uninterrupted, interrupt

PROGRAM = """
import signal, sys, threading, time
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.runtime.interrupts import interrupt

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
