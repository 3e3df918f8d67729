"""Cells in aligned columns, and lists of columns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from unicodedata import east_asian_width

import pyarrow as pa

from singer_arrow.errors import one_line
from singer_arrow.schema.type_names import setting_type

_GAP = "  "
_MOST_COLUMNS = 30


def columns_in_words(fields: Iterable[pa.Field]) -> str:
    """Return the names of columns with their types, as the setting `schema` has them; shortened if there are many."""
    names = [f"{f.name} {setting_type(f)}" for f in fields]
    more = [f"and {len(names) - _MOST_COLUMNS} more"] if len(names) > _MOST_COLUMNS else []
    return one_line(", ".join([*names[:_MOST_COLUMNS], *more]))


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), *, limit: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, some columns of which are aligned to the right.

    `limit` is the width of a line: columns that exceed it follow below, after an empty line.
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
            spaces = {n: " " * (widths[n] - width(row[n])) for n in range(first, end)}
            cells = (space + row[n] if n in right else row[n] + space for n, space in spaces.items())
            yield _GAP.join(cells).rstrip()
        first = end
