"""Planning of range requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

MIB = 1 << 20
SMALL_OBJECT = 8 * MIB
"""Objects up to this size are read in one request."""
MAX_PART = 8 * MIB
"""Maximum bytes of a request."""
MIN_PART = 2 * MIB
"""Minimum bytes of a request: smaller ones cost more than they save."""
MAX_GAP = 1 * MIB
"""Maximum number of unneeded bytes between two spans that are read to save a request."""
MAX_WASTE = 0.02
"""Maximum ratio of unneeded to needed bytes, in total."""

Span = tuple[int, int]
"""Start and exclusive end, in bytes."""


def part_size(total: int, connections: int) -> int:
    """Return the bytes of a request that keep all connections busy, between 2 and 8 MiB."""
    return max(MIN_PART, min(MAX_PART, total // max(1, connections)))


def plan_requests(spans: Iterable[Span], *, gap: int = MAX_GAP, part: int = MAX_PART) -> list[Span]:
    """Return requests that cover the spans: joined over gaps up to `gap` bytes, at most `part` bytes each.

    The smallest gaps are joined first, up to a total share `MAX_WASTE` of the needed bytes. The requests are sorted and
    disjoint. A span above `part` is split evenly; smaller ones are never split.
    """
    needed = list[Span]()  # in order, without overlaps
    for start, end in sorted(s for s in spans if s[0] < s[1]):
        begin = max(start, needed[-1][1]) if needed else start
        if begin < end:
            needed.append((begin, end))
    widest, left = 0, int(MAX_WASTE * sum(end - start for start, end in needed))  # the widest gap that is joined
    for width in sorted(after[0] - before[1] for before, after in pairwise(needed)):
        left -= width
        if width > gap or left < 0:
            break
        widest = width
    joined: list[Span] = []
    for start, end in needed:
        if joined and start - joined[-1][1] <= widest and end - joined[-1][0] <= part:
            joined[-1] = (joined[-1][0], end)
        else:
            joined += split_span(start, end, part)
    return joined


def split_span(start: int, end: int, part: int) -> list[Span]:
    """Split a span into the fewest equal pieces of at most `part` bytes."""
    pieces = max(1, -(-(end - start) // part))
    size = end - start
    return [(start + size * i // pieces, start + size * (i + 1) // pieces) for i in range(pieces)]


def growing_spans(start: int, end: int, part: int) -> list[Span]:
    """Split a span as `split_span` does, but with shorter first pieces, so that processing starts early.

    The first two have 2 MiB, the next two 4 MiB, up to `part`.
    """
    found, size, at = list[Span](), MIN_PART, start
    while size < part and end - at > 2 * part:
        found += [(at, at + size), (at + size, at + 2 * size)]
        at, size = at + 2 * size, 2 * size
    return found + split_span(at, end, part)
