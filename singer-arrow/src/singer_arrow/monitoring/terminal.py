"""Progress on a terminal: one row below the log lines, drawn by one process of a pipe at a time."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from singer_arrow.monitoring.progress_row import ProgressRow, ProgressRows
from singer_arrow.run_figures import RunFigures

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
        self._handlers = [
            handler
            for handler in logging.getLogger().handlers
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
        ]
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
