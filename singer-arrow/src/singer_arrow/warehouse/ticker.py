"""The work that is due about every second, whether or not a message comes."""

from __future__ import annotations

import threading
import time

from singer_arrow.naming import counted
from singer_arrow.records.errors import BAD_INPUT
from singer_arrow.run_figures import PROGRESS_LINE
from singer_arrow.warehouse.run import WarehouseRun
from singer_arrow.warehouse.settings import LoadSettings

_PROGRESS_SECONDS = 30.0
_MOST_HELD_SECONDS = 2.0
"""How long RECORD lines and a STATE wait for others to be parsed with."""


class Ticker:
    """A thread that loads old groups, releases a STATE that is due and logs the progress, until the loads end."""

    def __init__(self, run: WarehouseRun[LoadSettings]) -> None:
        self._run = run
        self._is_started = False

    def start(self) -> None:
        """Start the thread, unless that was done before."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._work, name="ticker", daemon=True).start()

    def drain_old_records(self) -> None:
        """Pass on records that are old enough, unless a message is being processed right now, or the run ends."""
        run = self._run
        if not run.messages.acquire(blocking=False):
            return
        try:
            if not run.is_ending:
                age = run.limits.age_seconds
                streamed_age, held = age, min(_MOST_HELD_SECONDS, age)
                if run.record_age_seconds is not None:
                    streamed_age, held = run.record_age_seconds, min(_MOST_HELD_SECONDS, run.record_age_seconds / 4)
                if run.record_queue.is_due(held):
                    run.record_queue.flush()
                for stream in run.streams():
                    if stream.waiting.is_old(streamed_age if stream.method.streams else max(age, streamed_age)):
                        stream.drain()
        except Exception as error:  # noqa: BLE001 - it is raised where lines are read
            run.record_queue.fail(error)  # while the lock is held: nothing may follow what was lost
            if isinstance(error, BAD_INPUT):
                run.interrupt(error)
            elif not run.is_ending:  # else something has failed before
                run.scheduler.fail(error)
        finally:
            run.messages.release()

    def _work(self) -> None:
        run, logged_at = self._run, time.monotonic()
        try:
            while not run.scheduler.is_over:
                self.drain_old_records()
                run.scheduler.tick()
                run.checkpoints.tick()
                if time.monotonic() - logged_at >= _PROGRESS_SECONDS:
                    # the progress of each stream, or how many loads run where there was none
                    if not run.tallies.log_progress(run.logger) and (running := run.scheduler.running):
                        waiting = sum(count for _, count in run.scheduler.waiting())
                        loads, batches = counted(running, "load"), counted(waiting, "batch", "batches")
                        text = f"Progress: waiting for {loads}; {batches} not loaded yet"
                        run.logger.info(text, extra=PROGRESS_LINE)
                    logged_at = time.monotonic()
                ages = (run.limits.age_seconds, run.record_age_seconds)
                time.sleep(min(1.0, max(0.05, min(age for age in ages if age is not None) / 2)))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the messages are read
            run.scheduler.fail(error)
