"""Which ranges of bytes to ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

MIB = 1 << 20
SMALL_OBJECT = 8 * MIB
"""Objects below this size are read in one request."""
PART = 8 * MIB
"""Bytes of one request, at most."""
LEAST_PART = 2 * MIB
"""Bytes below which a further request costs more than it saves."""
GAP = 1 * MIB
"""Unwanted bytes worth reading to save a request."""

Span = tuple[int, int]
"""Bytes from the first number up to, not including, the second."""


def part_size(total: int, connections: int) -> int:
    """Bytes of a request such that every connection gets work, between 2 and 8 MiB."""
    return max(LEAST_PART, min(PART, total // max(1, connections)))


def plan(spans: Iterable[Span], *, gap: int = GAP, part: int = PART) -> list[Span]:
    """Requests that cover the spans: joined over gaps up to `gap` bytes, none above `part` bytes.

    The requests are sorted and disjoint. A span above `part` is split evenly; smaller ones are kept whole, so that
    each lies in one request and need not be put together again.
    """
    joined: list[Span] = []
    for start, end in sorted(s for s in spans if s[0] < s[1]):
        if joined and start < joined[-1][1]:  # overlapping
            start = min(joined[-1][1], end)  # noqa: PLW2901 - what is left of the span
            if start == end:
                continue
        if joined and start - joined[-1][1] <= gap and end - joined[-1][0] <= part:
            joined[-1] = (joined[-1][0], end)
        else:
            joined += split(start, end, part)
    return joined


def split(start: int, end: int, part: int) -> list[Span]:
    """The span cut into the fewest equal pieces of at most `part` bytes."""
    pieces = max(1, -(-(end - start) // part))
    size = end - start
    return [(start + size * i // pieces, start + size * (i + 1) // pieces) for i in range(pieces)]
