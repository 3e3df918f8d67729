"""Which ranges of bytes to ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

MIB = 1 << 20
SMALL_OBJECT = 8 * MIB
"""Objects below this size, as far as it is known, are read in one request."""
PART = 8 * MIB
"""Bytes of one request, at most."""
LEAST_PART = 2 * MIB
"""Bytes below which a further request costs more than it saves."""
GAP = 1 * MIB
"""Unwanted bytes worth reading to save a request, at most."""
WASTE = 0.02
"""Share of the wanted bytes that unwanted ones may come to, in all."""

Span = tuple[int, int]
"""Bytes from the first number up to, not including, the second."""


def part_size(total: int, connections: int) -> int:
    """Bytes of a request such that every connection gets work, between 2 and 8 MiB."""
    return max(LEAST_PART, min(PART, total // max(1, connections)))


def plan(spans: Iterable[Span], *, gap: int = GAP, part: int = PART, waste: float = WASTE) -> list[Span]:
    """Requests that cover the spans: joined over gaps up to `gap` bytes, none above `part` bytes.

    The smallest gaps are read over first, as long as all of them come to no more than a share of the wanted bytes. The
    requests are sorted and disjoint. A span above `part` is split evenly; smaller ones are kept whole, so that each
    lies in one request and need not be put together again.
    """
    wanted = _disjoint(spans)
    widest = _widest(wanted, gap, int(waste * sum(end - start for start, end in wanted)))
    joined: list[Span] = []
    for start, end in wanted:
        if joined and start - joined[-1][1] <= widest and end - joined[-1][0] <= part:
            joined[-1] = (joined[-1][0], end)
        else:
            joined += split(start, end, part)
    return joined


def _disjoint(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, without what one shares with those before it."""
    found: list[Span] = []
    for start, end in sorted(s for s in spans if s[0] < s[1]):
        begin = max(start, found[-1][1]) if found else start
        if begin < end:
            found.append((begin, end))
    return found


def _widest(spans: list[Span], gap: int, waste: int) -> int:
    """The widest gap such that all up to it come to no more than `waste` bytes."""
    widest = 0
    for width in sorted(after[0] - before[1] for before, after in pairwise(spans)):
        waste -= width
        if width > gap or waste < 0:
            break
        widest = width
    return widest


def split(start: int, end: int, part: int) -> list[Span]:
    """The span cut into the fewest equal pieces of at most `part` bytes."""
    pieces = max(1, -(-(end - start) // part))
    size = end - start
    return [(start + size * i // pieces, start + size * (i + 1) // pieces) for i in range(pieces)]


def growing(start: int, end: int, part: int) -> list[Span]:
    """As `split`, but the first pieces are shorter, so that work on them begins before the others are there.

    Two have 2 MiB each, the next two 4 MiB, up to `part`.
    """
    found, size, at = list[Span](), LEAST_PART, start
    while size < part and end - at > 2 * part:
        found += [(at, at + size), (at + size, at + 2 * size)]
        at, size = at + 2 * size, 2 * size
    return found + split(at, end, part)
