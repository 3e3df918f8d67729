"""Sliding windows over spans that are read side by side: `Windows`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from singer_arrow.reading.object_reader import FetchedRange
from singer_arrow.reading.range_planner import Span


class Windows:
    """Windows over spans that are too large for memory, such as the columns of a large Parquet row group.

    Each of the disjoint spans has at most two windows of `size` bytes in memory: the current one, and the next, which
    is being fetched. Reading backwards costs a request.
    """

    def __init__(self, spans: Iterable[Span], size: int, start: Callable[[Span], Future[FetchedRange]]) -> None:
        self._spans = sorted(spans)
        self._starts = [span[0] for span in self._spans]
        self._size, self._start = size, start
        self._held = [self._open(span[0], span[1]) for span in self._spans]

    def read(self, span: Span) -> FetchedRange:
        """Return the bytes of a span; one outside of all windowed spans costs a request."""
        i = bisect_right(self._starts, span[0]) - 1
        if i < 0 or span[1] > self._spans[i][1]:
            return self._start(span).result()
        pieces, at = list[Any](), span[0]
        while at < span[1]:
            start, data = self._window(i, at)
            pieces.append(memoryview(data)[at - start : span[1] - start])
            at += len(pieces[-1])
        return span[0], pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _window(self, i: int, at: int) -> FetchedRange:
        """Return the window of span `i` that contains the byte `at`."""
        end = self._spans[i][1]
        current, following = self._held[i]
        if following is not None and following[0][0] <= at < following[0][1]:
            current, following = following, self._next(following[0], end)
        elif not current[0][0] <= at < current[0][1]:
            current, following = self._open(at, end)
        elif following is None:
            following = self._next(current[0], end)
        self._held[i] = (current, following)
        return current[1].result()

    def _open(self, at: int, end: int) -> tuple[_Window, _Window | None]:
        span = (at, min(at + self._size, end))
        return (span, self._start(span)), None

    def _next(self, span: Span, end: int) -> _Window | None:
        following = (span[1], min(span[1] + self._size, end))
        return (following, self._start(following)) if following[0] < following[1] else None


_Window = tuple[Span, Future[FetchedRange]]
