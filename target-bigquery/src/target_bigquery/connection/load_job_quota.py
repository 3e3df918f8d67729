"""Counts the load jobs per table and day; BigQuery allows 1,500, including failed ones and copies.

The project's list of jobs includes those of earlier runs and other programs. It is read once per run, in a thread
beside the first loads, and the jobs of this run are added. The counter warns and never refuses a load, because BigQuery
does not document when its own count is reset.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from singer_arrow.errors import SingerArrowError

logger = logging.getLogger("target-bigquery")
DAILY_LOADS = 1500
"""Load and copy jobs a table and day (https://cloud.google.com/bigquery/quotas#load_jobs)."""
WARN_SHARE = 0.8
DAY = timedelta(days=1)
MOST_LISTED = 10_000
"""Most jobs that are read from the list, newest first; the count is too low if there are more."""
LIST_SECONDS = 5.0
"""Longest time to wait for the list of jobs."""
NAME = "target-bigquery-budget"


class LoadJobQuota:
    """Counts load jobs by table (`project.dataset.table`); safe to use from any thread.

    `destinations` returns the tables of the load and copy jobs from one time to another, one for each job.
    """

    def __init__(self, destinations: Callable[[datetime, datetime], Iterable[str]]) -> None:
        self._destinations = destinations
        self._lock = threading.Lock()
        self._own: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        self._warned: set[str] = set()
        self._listing: threading.Thread | None = None

    def add(self, table: str) -> None:
        """Count a load job that is about to be inserted; warn once of each table that comes near the quota."""
        with self._lock:
            if self._listing is None:
                now = datetime.now(UTC)
                self._listing = threading.Thread(target=self._list, args=(now,), name=NAME, daemon=True)
                self._listing.start()
            self._own[table] += 1
        self._warn()

    def used(self, table: str) -> int:
        """Return the number of load jobs of a table within a day; waits for the list."""
        self.close()
        with self._lock:
            return self._own[table] + self._others[table]

    def close(self) -> None:
        """Wait until the list is read, or took too long."""
        if self._listing is not None:
            self._listing.join(LIST_SECONDS)

    def _list(self, until: datetime) -> None:
        try:
            listed = Counter(self._destinations(until - DAY, until))
        except SingerArrowError as error:
            logger.debug("The jobs of the last day could not be listed: %s", error)
            return
        with self._lock:
            self._others = listed
        self._warn()

    def _warn(self) -> None:
        with self._lock:
            used = {table: count + self._others[table] for table, count in self._own.items()}
            near = {t: n for t, n in used.items() if n >= WARN_SHARE * DAILY_LOADS and t not in self._warned}
            self._warned |= near.keys()
        for table, count in near.items():
            logger.warning("Table %s: %s", table, advice(count))


def advice(used: int) -> str:
    """Return the advice for a table with that many load jobs within a day."""
    return (
        f"{used:,} load jobs within 24 hours, of {DAILY_LOADS:,} that BigQuery allows a table and day; raise "
        "max_batch_age_seconds and max_batch_mb, or run less often"
    )
