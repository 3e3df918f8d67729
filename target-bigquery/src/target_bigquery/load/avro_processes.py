"""Processes for what holds Python's lock: writing nested rows as Avro."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from singer_arrow.errors import LoadError


class Processes:
    """A pool that is started on first use. Its processes end with this one, however it ends."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def write_avro(self, source: Path, path: Path, codec: str) -> int:
        """Write an Avro file from an Arrow stream on disk, and return the number of rows."""
        from concurrent.futures.process import BrokenProcessPool

        from singer_arrow.formats.avro.writer import write_stream

        try:
            with self._lock:
                if self._pool is None:
                    # a fork would inherit locks and the SDK's signal handlers
                    context = multiprocessing.get_context("spawn")
                    self._pool = ProcessPoolExecutor(self._count, context, _end_with_parent, (os.getpid(),))
                pool = self._pool
            return pool.submit(write_stream, source, path, codec).result()
        except BrokenProcessPool:
            msg = "A process that wrote Avro was killed, probably for want of memory; lower max_parallel_loads"
            raise LoadError(msg) from None

    def close(self) -> None:
        """End the processes, also those at work."""
        with self._lock:
            if self._pool is None:
                return
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                if process.name.startswith("SpawnProcess"):
                    process.terminate()
            self._pool = None


def _end_with_parent(parent: int) -> None:
    """End the worker with its parent; the pipe that it waits on is held open by the worker itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a pipe; the parent decides
    threading.Thread(target=watch, daemon=True).start()
