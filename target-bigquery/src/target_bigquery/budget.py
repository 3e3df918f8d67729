"""How many load jobs a table had within a day, of which BigQuery allows 1,500, failed ones and copies among them.

The count comes from the project's list of jobs, so it knows what earlier runs and other programs did; it is read once a
run, and this run's own jobs are added. It announces; it never refuses: when exactly BigQuery's count begins anew only
BigQuery knows.
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
"""Jobs of the list that are looked at, the newest first; in a busier project the count is too low."""


class Budget:
    """Counts load jobs by table (`project.dataset.table`); safe to use from any thread.

    Args:
        destinations: The tables of the load and copy jobs since a time, one for each job.
    """

    def __init__(self, destinations: Callable[[datetime], Iterable[str]]) -> None:
        self._destinations = destinations
        self._lock = threading.Lock()
        self._used: Counter[str] | None = None
        self._warned: set[str] = set()

    def spend(self, table: str) -> None:
        """Count a load job that is about to be inserted; warn once of each table that comes near the quota."""
        with self._lock:
            if self._used is None:
                self._used = self._listed()
            self._used[table] += 1
            used = self._used[table]
            if used < WARN_SHARE * DAILY_LOADS or table in self._warned:
                return
            self._warned.add(table)
        logger.warning("Table %s: %s", table, advice(used))

    def used(self, table: str) -> int:
        """How many there were within a day, as far as is known."""
        with self._lock:
            return self._used[table] if self._used else 0

    def _listed(self) -> Counter[str]:
        try:
            return Counter(self._destinations(datetime.now(UTC) - DAY))
        except SingerArrowError as error:
            logger.debug("The jobs of the last day could not be listed: %s", error)
            return Counter()


def advice(used: int) -> str:
    """What is said of a table that had so many load jobs within a day. Pure."""
    return (
        f"{used:,} load jobs within 24 hours, of {DAILY_LOADS:,} that BigQuery allows a table and day; raise "
        "max_batch_age_seconds and max_batch_mb, or run less often"
    )
