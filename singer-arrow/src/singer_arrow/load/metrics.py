"""Count the rows, files and loads of each stream, and log them: progress lines, closing lines and metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from singer_sdk import metrics

from singer_arrow.batch.file_properties import LeftOut
from singer_arrow.casting.from_text import shorten
from singer_arrow.naming import REJECTED, bytes_in_words, counted
from singer_arrow.run_figures import PROGRESS_LINE

_MOST_LEFT_OUT = 20
"""Maximum number of properties that are named because they were left out."""
_MOST_LINES = 10
"""Maximum number of streams with a progress line each; more of them get one line together."""
_RARE = ("rows_before", "nul_characters", "long_texts", "write_streams", "rejected")


@dataclass(slots=True)
class LoadCounts:
    """Counts of one stream."""

    batches: int = 0  # BATCH messages
    records: int = 0  # RECORD messages
    files: int = 0  # of the BATCH messages
    load_jobs: int = 0  # of BigQuery, or COPY statements of Redshift
    rows: int = 0  # loaded
    bytes: int = 0  # of the loaded files
    skipped: int = 0  # batches that earlier runs had loaded
    rows_before: int = 0  # of these batches, as far as their messages count them
    nul_characters: int = 0  # replaced or removed
    long_texts: int = 0  # moved to another column because they are too long for their own
    write_streams: int = 0  # of BigQuery's Storage Write API, used instead of load jobs
    rejected: int = 0  # rows written to the table `_sdc_rejected` instead


class Tally:
    """The counts of one stream; safe to use from any thread."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._counts = LoadCounts()
        self.left_out = LeftOut()
        self._phases = defaultdict[str, float](float)
        self._lock = threading.Lock()
        self._started: float | None = None
        self._ended = 0.0

    def add(self, **counts: int) -> None:
        """Add to the counts by name; the stream's time is from the first call to the last."""
        with self._lock:
            self._ended = time.monotonic()
            if self._started is None:
                self._started = self._ended
            for name, value in counts.items():
                setattr(self._counts, name, getattr(self._counts, name) + value)

    def spend(self, phase: str, seconds: float) -> None:
        """Add to the seconds of a phase."""
        with self._lock:
            self._phases[phase] += seconds

    def phases(self) -> dict[str, float]:
        """Return the seconds by phase: prepare, stage, publish, finish."""
        with self._lock:
            return dict(self._phases)

    @property
    def seconds(self) -> float:
        """Seconds from the first count to the last."""
        with self._lock:
            return 0.0 if self._started is None else self._ended - self._started

    def counts(self) -> dict[str, int]:
        """Return all counts by name; those that are rare only if they are not zero."""
        with self._lock:
            counts = asdict(self._counts)
        return {name: count for name, count in counts.items() if count or name not in _RARE}

    def line(self) -> str:
        """Return the counts in words: `flights: 1,000 rows (12.3 MB) from 2 batches (2 files) in 1 load, 2.1 s`."""
        return _line(self.stream, self.counts(), self.seconds)


class Tallies:
    """The counts of all streams of a run."""

    def __init__(self) -> None:
        self._of: dict[str, Tally] = {}
        self._logged: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Tally]:
        return iter(list(self._of.values()))

    def of(self, stream: str) -> Tally:
        """Return the counts of a stream; only the thread that reads messages may call this."""
        return self._of.setdefault(stream, Tally(stream))

    def log_progress(self, logger: logging.Logger) -> bool:
        """Log a line for each stream whose counts have changed since the last call, and return whether one was logged.

        Many streams have one line together. Must be called from one thread only.
        """
        changed = [t for t in list(self._of.values()) if t.counts() != self._logged.get(t.stream)]
        self._logged.update((t.stream, t.counts()) for t in changed)
        lines = [total(changed)] if len(changed) > _MOST_LINES else [t.line() for t in changed]
        for line in lines:
            logger.info("Progress of %s", line, extra=PROGRESS_LINE)
        return bool(lines)

    def report(self, logger: logging.Logger) -> None:
        """Log the closing line of each stream, and its counts as a metric of the SDK."""
        for tally in self._of.values():
            logger.info("Loaded %s", tally.line())
            counts = tally.counts()
            if left_out := tally.left_out.total().most_common():
                named = ", ".join(f"{shorten(name)} ({counted(n, 'value')})" for name, n in left_out[:_MOST_LEFT_OUT])
                more = f" and {len(left_out) - _MOST_LEFT_OUT:,} more" if len(left_out) > _MOST_LEFT_OUT else ""
                logger.warning(
                    "Stream %r: properties that its SCHEMA or its table lacks were left out: %s%s",
                    tally.stream,
                    named,
                    more,
                )
            if rejected := counts.get("rejected"):
                rows = counted(rejected, "row")
                logger.warning("Stream %r: rejected %s; see table %s", tally.stream, rows, REJECTED)
            if counts["skipped"] and not counts["rows"]:
                logger.warning(
                    "Stream %r: nothing was loaded, because earlier runs loaded all of its batches (%s); to load them "
                    "again, also after a full refresh, empty the table or set replay: load",
                    tally.stream,
                    f"{counts['skipped']:,}",
                )
            tags = {"stream": tally.stream, **counts, "seconds": round(tally.seconds, 3)}
            metrics.log(
                metrics.get_metrics_logger(),
                metrics.Point("counter", metrics.Metric.BATCH_COUNT, counts["batches"], tags),
            )


def total(tallies: Sequence[Tally]) -> str:
    """Return the counts of several streams together, as the sentence of `Tally.line`."""
    counts = Counter[str]()
    for tally in tallies:
        counts.update(tally.counts())
    return _line(f"{len(tallies)} streams", counts, max(t.seconds for t in tallies))


def _line(what: str, counts: Mapping[str, int], seconds: float) -> str:
    """Return a sentence with all counts that are not zero; the number of rows is always there."""
    n = Counter(counts)
    files = f" ({counted(n['files'], 'file')})" if n["files"] else ""
    sources = [counted(n["batches"], "batch", "batches") + files] if n["batches"] else []
    sources += [counted(n["records"], "record")] if n["records"] else []
    loads = [counted(n["load_jobs"], "load")] if n["load_jobs"] else []
    loads += [counted(n["write_streams"], "write stream")] if n["write_streams"] else []
    size = f" ({bytes_in_words(n['bytes'])})" if n["bytes"] else ""
    origin = f" from {' and '.join(sources)}" if sources else ""
    ways = f" in {' and '.join(loads)}" if loads else ""
    notes = [
        (n["skipped"], f"{counted(n['skipped'], 'batch', 'batches')} skipped because earlier runs loaded them"),
        (n["nul_characters"], f"{counted(n['nul_characters'], 'NUL character')} replaced or removed"),
        (n["long_texts"], f"{counted(n['long_texts'], 'long text')} moved to another column"),
        (n["rejected"], f"{counted(n['rejected'], 'row')} rejected"),
    ]
    rows = f"{what}: {counted(n['rows'], 'row')}{size}{origin}{ways}, {seconds:,.1f} s"
    return "; ".join([rows, *(note for count, note in notes if count)])
