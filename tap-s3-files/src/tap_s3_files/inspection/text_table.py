"""Cells in aligned columns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from unicodedata import east_asian_width

_GAP = "  "


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), *, limit: int | None = None) -> Iterator[str]:
    """Yield the lines of a table.

    Args:
        rows: The cells; all rows have as many.
        right: The columns that are aligned to the right.
        limit: Width of a line. Columns that exceed it follow below, after an empty line.
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    first = 0
    while first < len(widths):
        end, taken = first + 1, widths[first]
        while end < len(widths) and (limit is None or taken + len(_GAP) + widths[end] <= limit):
            taken += len(_GAP) + widths[end]
            end += 1
        if first:
            yield ""
        for row in rows:
            cells = (_padded(row[n], widths[n], right=n in right) for n in range(first, end))
            yield _GAP.join(cells).rstrip()
        first = end


def _padded(text: str, to: int, *, right: bool) -> str:
    space = " " * (to - width(text))
    return space + text if right else text + space
