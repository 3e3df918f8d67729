"""Progress on a terminal: one row below the log lines, drawn by one process of a pipe at a time."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from singer_arrow.errors import visible
from singer_arrow.monitoring.logs import stderr_handlers
from singer_arrow.naming import bytes_in_words, counted
from singer_arrow.run_figures import RunFigures, StreamFigures

# The figures of a run -> what a terminal shows of its progress: a share, counts, rates and the time left. Pure.

_RATE_SECONDS = 15.0  # rates are those of the last seconds


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """One row on a terminal."""

    label: str  # the stream or the connector
    share: float | None  # from 0 to 1; None: the end is not known
    details: tuple[str, ...]  # the time left, counts and rates; the first ones matter most

    @property
    def percent(self) -> int | None:
        """The share in percent; 100 only at the end."""
        return None if self.share is None else int(self.share * 100)


class ProgressRows:
    """Makes rows of figures, and remembers earlier ones for rates."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._label = ""
        self._shown = 0.0
        self._past: deque[tuple[float, float, float]] = deque()

    def row(self, figures: RunFigures, now: float) -> ProgressRow | None:
        """Return the row for figures at a time in seconds; None before the first stream begins."""
        begun = [s for s in figures.streams if s.seconds]
        if not begun:
            return None
        is_target = any("batches" in s.counts for s in begun)
        if is_target:
            return self._of_target(begun, now, is_read=figures.is_read)
        return self._of_tap(begun, len(figures.streams), now)

    def _of_tap(self, begun: list[StreamFigures], streams: int, now: float) -> ProgressRow:
        current = next((s for s in reversed(begun) if not s.is_complete), begun[-1])
        name = visible(current.stream)
        label = f"{name} ({begun.index(current) + 1}/{streams})" if streams > 1 else name
        total, left, counts = current.total, current.left, current.counts
        details = []
        if total.get("bytes"):
            done = total["objects"] if current.is_complete else total["objects"] - left["objects"]
            details.append(f"{done:,}/{total['objects']:,} objects")
            read = int((current.share or 0.0) * total["bytes"])
            details.append(f"{bytes_in_words(read)}/{bytes_in_words(total['bytes'])}")
        share = self._rising(label, current.share)
        byte_rate, seconds = self._rates(now, counts.get("bytes", 0), share)
        details += [f"{bytes_in_words(int(byte_rate))}/s"] if byte_rate else []
        details.append(f"{counts.get('rows_written', 0):,} rows")
        return ProgressRow(label, share, (*_time_left(seconds), *details))

    def _of_target(self, begun: list[StreamFigures], now: float, *, is_read: bool) -> ProgressRow:
        def count(name: str) -> int:
            return sum(s.counts.get(name, 0) for s in begun)

        batches, records, rows = count("batches"), count("records"), count("rows")
        waiting, loads = sum(s.left.get("batches", 0) for s in begun), max(s.left.get("loads", 0) for s in begun)
        is_complete = all(s.is_complete for s in begun)
        share = 1.0 if is_complete else None
        details = []
        if batches:
            loaded = max(0, batches - waiting)
            details.append(f"{loaded:,}/{batches:,} batches loaded")
            share = share or min(0.99, loaded / batches)
        elif records:
            share = share or min(0.99, rows / records)
        share = self._rising(self._connector, share if is_read else None)
        row_rate, _ = self._rates(now, rows, None)
        details += [f"{rows:,} rows", bytes_in_words(count("bytes"))]
        details += [f"{row_rate:,.0f} rows/s"] if row_rate else []
        details += [f"{counted(loads, 'load')} running, {count('load_jobs'):,} done"] if loads else []
        return ProgressRow(self._connector, share, tuple(details))

    def _rising(self, label: str, share: float | None) -> float | None:
        """Return the share, but never less than before for the same label, as more may be planned meanwhile."""
        if label != self._label:
            self._label, self._shown = label, 0.0
            self._past.clear()
        if share is None:
            return None
        self._shown = max(self._shown, share)
        return self._shown

    def _rates(self, now: float, count: float, share: float | None) -> tuple[float, float | None]:
        """Return a count per second, and the seconds left."""
        self._past.append((now, count, share or 0.0))
        while now - self._past[0][0] > _RATE_SECONDS:
            self._past.popleft()
        first = self._past[0]
        if (seconds := now - first[0]) < 1:
            return 0.0, None
        shares = ((share or 0.0) - first[2]) / seconds
        return max(0.0, (count - first[1]) / seconds), (1 - (share or 0.0)) / shares if shares > 0 and share else None


def _time_left(seconds: float | None) -> list[str]:
    if seconds is None or seconds < 1:
        return []
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return [f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"]


_ERASE = "\r\x1b[2K"
_BAR, _LABEL = 20, 28
"""Widths of the bar, and of the longest label."""


class TerminalProgress:
    """The row of a connector on the terminal of standard error.

    A tap and a target that share a terminal take turns: a lock on the terminal's device decides which one draws. The
    other one logs lines, which erase the row first.
    """

    def __init__(self, connector: str) -> None:
        from rich.console import Console

        self._stream, self._lock = sys.stderr, threading.RLock()
        self._console = Console(file=self._stream, force_terminal=True)
        self._rows = ProgressRows(connector)
        self._drawn = ""
        self._device: int | None = None
        self._handlers = list(stderr_handlers())
        for handler in self._handlers:
            handler.setStream(_AboveRow(self, self._stream))
            handler.addFilter(self._is_shown)

    def show(self, figures: RunFigures) -> None:
        """Draw the row for figures, unless another process draws its own."""
        row = self._rows.row(figures, time.monotonic())
        if row is None or not self._may_draw():
            return
        text = self._text(row)
        with self._lock:
            self._drawn = text
            self._stream.write(f"{_ERASE}{text}")
            self._stream.flush()

    def close(self, figures: RunFigures) -> None:
        """Draw the last row, erase it, and let another process draw."""
        self.show(figures)
        with self._lock:
            if self._drawn:
                self._stream.write(_ERASE)
                self._stream.flush()
            self._drawn = ""
        for handler in self._handlers:
            handler.setStream(self._stream)
            handler.removeFilter(self._is_shown)
        if self._device is not None:
            os.close(self._device)  # which unlocks it
            self._device = None

    def write_above(self, text: str) -> None:
        """Write a log line, and the row below it again."""
        with self._lock:
            self._stream.write(f"{_ERASE}{text}{self._drawn}")
            self._stream.flush()

    def _may_draw(self) -> bool:
        if self._device is not None:
            return True
        import fcntl

        try:
            device = os.open(os.ttyname(self._stream.fileno()), os.O_WRONLY | os.O_NOCTTY)
        except OSError:
            return False
        try:
            fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(device)
            return False
        self._device = device
        return True

    def _is_shown(self, record: logging.LogRecord) -> bool:
        """Return whether a line is logged: lines about progress are not, while the row shows it."""
        return not (getattr(record, "is_progress", False) and self._drawn)

    def _text(self, row: ProgressRow) -> str:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        width, label = self._console.width - 1, row.label[:_LABEL]
        bar = _BAR if width >= 4 * _BAR else _BAR // 2
        grid = Table.grid(padding=(0, 2))
        cells: list[Any] = [Text(label, style="bold")]
        if row.share is not None:
            cells += [ProgressBar(1.0, row.share, width=bar, complete_style="cyan"), f"{row.percent:3}%"]
        left = width - len(label) - (bar + 4 + 4 if row.share is not None else 0) - 2
        cells.append(Text(_fitting(row.details, left)))
        for cell in cells:
            grid.add_column(no_wrap=True, width=bar if isinstance(cell, ProgressBar) else None)
        grid.add_row(*cells)
        with self._console.capture() as captured:
            self._console.print(grid, width=width)
        return captured.get().split("\n", 1)[0].rstrip()


def _fitting(details: Sequence[str], width: int) -> str:
    """Return the first details that a width has room for."""
    shown = ""
    for detail in details:
        longer = f"{shown}  {detail}" if shown else detail
        if len(longer) > width:
            break
        shown = longer
    return shown


class _AboveRow:
    """The stream of a log handler, whose lines go above the row."""

    def __init__(self, progress: TerminalProgress, stream: TextIO) -> None:
        self._progress, self._stream = progress, stream

    def write(self, text: str) -> int:
        self._progress.write_above(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def shows_progress(config: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Return whether standard error is a terminal for people, where a row of progress is drawn."""
    is_plain = config.get("log_format") == "json" or "SINGER_SDK_LOG_CONFIG" in environ
    return not is_plain and sys.stderr.isatty() and environ.get("TERM") != "dumb" and sys.platform != "win32"
