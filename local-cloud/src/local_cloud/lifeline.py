"""The lifeline of a child process: it ends with its parent, and reports when it is ready.

Imports nothing but the standard library, because the BigQuery server loads this file in its own environment.
A child's standard input is a pipe whose only writer is the parent. The kernel closes it however the parent ends,
kill -9 included, so end-of-file means that the parent is gone. On Linux the kernel is asked for a
signal as well, in case a process forked by the parent still holds a copy of the pipe.
"""

import atexit
import ctypes
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PR_SET_PDEATHSIG = 1
_REMOVAL_ATTEMPTS = 250  # five seconds, half of the time that a service has to end


def remove_tree(directory: Path) -> None:
    """Remove a directory while ending processes may still write to it or remove it."""
    for _ in range(_REMOVAL_ATTEMPTS):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.02)


def end_with_parent(last_act: Callable[[], None]) -> None:
    """End this process as soon as its input ends, even while busy; `last_act` runs once before, also on SIGTERM."""
    once = threading.Lock()

    def end() -> None:
        if not once.acquire(blocking=False):
            return
        try:
            last_act()
        finally:
            os._exit(0)

    def await_last_act() -> None:
        # What the last act ends may end the main thread as well, and the interpreter does not wait for a daemon thread.
        if not once.acquire(blocking=False):
            threading.Event().wait()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        end()

    def on_term(*_: object) -> None:
        # A thread, so that a lock held by the interrupted main thread cannot block the last act.
        threading.Thread(target=end).start()

    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(await_last_act)
    threading.Thread(target=watch, daemon=True).start()
    if sys.platform == "linux" and os.environ.pop("LOCAL_CLOUD_PARENT_SIGNAL", ""):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Ready:
    """The one line that a child writes to its parent. All other output goes to standard error, the log."""

    def __init__(self) -> None:
        self._pipe = os.dup(1)
        os.dup2(2, 1)

    def report(self, facts: Mapping[str, object]) -> None:
        """Report to the parent that the service is ready, with its address."""
        os.write(self._pipe, json.dumps(facts).encode() + b"\n")
        os.close(self._pipe)
