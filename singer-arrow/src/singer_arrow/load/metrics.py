"""What a target did, stream by stream: the counts behind its progress and its closing lines."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from singer_sdk import metrics

from singer_arrow.naming import REJECTED

_MOST_LINES = 10
"""Streams that have a line of progress of their own; of more there is one for all."""
_RARE = ("nul_characters", "long_texts", "write_streams", "rejected")


@dataclass(slots=True)
class LoadCounts:
    """Of one stream: BATCH messages and files read, load jobs run, rows and bytes loaded, and what was left out.

    `write_streams` are those of BigQuery's Storage Write API, where they take the place of load jobs.
    `nul_characters` counts those that were replaced or removed, `long_texts` those that were put elsewhere, `rejected`
    the rows that went into the table of rows that are not loaded; most runs have none and do not log it.
    """

    batches: int = 0
    records: int = 0
    files: int = 0
    load_jobs: int = 0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    nul_characters: int = 0
    long_texts: int = 0
    write_streams: int = 0
    rejected: int = 0


class Tally:
    """The counts of one stream; safe to use from any thread."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._counts = LoadCounts()
        self._lock = threading.Lock()
        self._started: float | None = None
        self._ended = 0.0

    def add(self, **counts: int) -> None:
        """Add to the counts; the stream's time runs from the first call to the last."""
        with self._lock:
            self._ended = time.monotonic()
            if self._started is None:
                self._started = self._ended
            for name, value in counts.items():
                setattr(self._counts, name, getattr(self._counts, name) + value)

    @property
    def seconds(self) -> float:
        """Seconds from the first count to the last."""
        with self._lock:
            return 0.0 if self._started is None else self._ended - self._started

    def counts(self) -> dict[str, int]:
        """All counts by name, at this moment."""
        with self._lock:
            counts = asdict(self._counts)
        return {name: count for name, count in counts.items() if count or name not in _RARE}

    def line(self) -> str:
        """The closing line: `flights: batches=12 records=0 files=12 load_jobs=1 rows=... seconds=4.2`."""
        return _line(self.stream, self.counts(), self.seconds)


class Tallies:
    """The counts of all streams of a run."""

    def __init__(self) -> None:
        self._of: dict[str, Tally] = {}
        self._said: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, stream: str) -> Tally:
        """The counts of a stream; only where messages are read."""
        return self._of.setdefault(stream, Tally(stream))

    def log_progress(self, logger: logging.Logger) -> bool:
        """A line for each stream whose counts have changed since; of many streams one for all. From one thread.

        Returns:
            Whether there was any.
        """
        changed = [t for t in list(self._of.values()) if t.counts() != self._said.get(t.stream)]
        self._said.update((t.stream, t.counts()) for t in changed)
        lines = [total(changed)] if len(changed) > _MOST_LINES else [t.line() for t in changed]
        for line in lines:
            logger.info("Progress: %s", line)
        return bool(lines)

    def report(self, logger: logging.Logger, metrics_logger: logging.Logger) -> None:
        """The closing line of each stream, and its counts as a metric of the SDK."""
        for tally in self._of.values():
            logger.info("Loaded: %s", tally.line())
            counts = tally.counts()
            if rejected := counts.get("rejected"):
                logger.warning(
                    "Stream %r: %d rows are not loaded; they stand in table %s", tally.stream, rejected, REJECTED
                )
            if counts["skipped"] and not counts["rows"]:
                logger.warning(
                    "Stream %r: nothing was loaded, as all that came (%d batches) was loaded by earlier runs; to load "
                    "it again, also after a full refresh, empty the table or set replay: load",
                    tally.stream,
                    counts["skipped"],
                )
            tags = {"stream": tally.stream, **counts, "seconds": round(tally.seconds, 3)}
            metrics.log(metrics_logger, metrics.Point("counter", metrics.Metric.BATCH_COUNT, counts["batches"], tags))


def total(tallies: Sequence[Tally]) -> str:
    """The counts of several streams together, as `Tally.line` writes them."""
    counts = Counter[str]()
    for tally in tallies:
        counts.update(tally.counts())
    return _line(f"{len(tallies)} streams", counts, max(t.seconds for t in tallies))


def _line(what: str, counts: Mapping[str, int], seconds: float) -> str:
    return " ".join([f"{what}:", *(f"{k}={v}" for k, v in counts.items()), f"seconds={seconds:.1f}"])
