"""Waiting for threads that must not hold up the end of a process."""

from __future__ import annotations

import sys
import threading

_is_finalizing = sys.is_finalizing


def join(thread: threading.Thread) -> None:
    """Wait until a daemon thread has ended; not while the interpreter ends, which stops such threads where they are."""
    if not _is_finalizing():
        thread.join()
