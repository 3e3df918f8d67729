"""Between which values the rows of a load lie, so that a MERGE need not look for them elsewhere.

Extents are taken from the rows as they are loaded, not from statistics of the files, which may be missing, shortened or
wrong. They hold every value, and often more than that: a few spans cover all values of a column.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

MOST_SPANS = 64
"""Maximum number of spans of a column while rows are added."""

Span = tuple[Any, Any]
"""The least and the greatest value, both included."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of one width in which a table keeps rows apart, such as the days of partitions."""

    origin: int  # the first value of a cell
    width: int  # values of a cell
    end: int  # the first value beyond all cells; so are those before `origin`

    def cell(self, value: int) -> int:
        """Return the number of a value's cell, which may lie outside of the cells."""
        return (value - self.origin) // self.width


class Extent:
    """Where the values of one column lie.

    Days, moments in microseconds and integers are held as integers, as Arrow does; everything else as it is. Spans may
    end at the cells of the grid: values of cells without a row between them share one. Without a grid, or with one
    whose cells cannot be counted by 64 bits, there is one span.
    """

    def __init__(self, grid: Grid | None = None) -> None:
        self.grid = grid if grid and grid.end - grid.origin < 2**63 else None
        self.has_nulls = False
        self._spans: list[Span] = []

    def add(self, values: pa.Array) -> None:
        """Take the values of more rows."""
        if values.null_count:
            self.has_nulls = True
            values = values.drop_null()
        if len(values):
            values = integers(values)
            self._join(self._found(values) if self.grid else [_least_and_greatest(values)])

    def spans(self, most: int = MOST_SPANS) -> list[Span]:
        """Spans that hold all values but null, in order; not more than so many."""
        return _fewer(self._spans, most)

    def include(self, other: Extent) -> None:
        """Take the values of another one, of the same column."""
        self.has_nulls |= other.has_nulls
        self._join(other._spans)

    def _found(self, values: pa.Array) -> list[Span]:
        """Spans of integers, none of which has an empty cell within."""
        import pyarrow.compute as pc

        assert self.grid
        grid, (low, high) = self.grid, _least_and_greatest(values)
        if grid.cell(high) - grid.cell(low) <= 1:
            return [(low, high)]
        spans = list[Span]()
        if low < grid.origin or high >= grid.end:
            spans += _outside(values, grid, low, high)
            values = values.filter(pc.and_(pc.greater_equal(values, grid.origin), pc.less(values, grid.end)))
        cells = pc.unique(pc.divide(pc.subtract(values, grid.origin), grid.width)).to_pylist()
        for cell in cells:
            first = grid.origin + cell * grid.width
            spans.append((max(low, first), min(high, first + grid.width - 1)))
        return spans

    def _join(self, spans: Iterable[Span]) -> None:
        joined = list[Span]()
        for low, high in sorted([*self._spans, *spans]):
            before = joined[-1][1] if joined else low  # where no cell is between the two, they become one
            if joined and (self.grid is None or low <= before or self.grid.cell(low) - self.grid.cell(before) <= 1):
                joined[-1] = (joined[-1][0], max(joined[-1][1], high))
            else:
                joined.append((low, high))
        self._spans = _fewer(joined, MOST_SPANS)


class Extents:
    """The extents of some columns, by name, of the rows that are converted."""

    def __init__(self, grids: Mapping[str, Grid | None]) -> None:
        self._grids = dict(grids)
        self.begin()

    def begin(self) -> None:
        """Forget what was taken: the rows are converted once more."""
        self.rows = 0
        """How many rows were taken."""
        self.columns = {name: Extent(grid) for name, grid in self._grids.items()}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take more rows."""
        self.rows += batch.num_rows
        for name, extent in self.columns.items():
            extent.add(batch.column(name))


def together(found: Sequence[Extents | None], rows: int) -> dict[str, Extent]:
    """Merge the extents of several items, None where not searched; empty if their rows are not exactly `rows`."""
    known = [extents for extents in found if extents is not None]
    if not known or len(known) != len(found) or sum(e.rows for e in known) != rows:
        return {}
    joined = {name: Extent(extent.grid) for name, extent in known[0].columns.items()}
    for extents in known:
        for name, extent in joined.items():
            extent.include(extents.columns[name])
    return joined


def integers(values: pa.Array) -> pa.Array:
    """Days as their number since 1970, moments as their microseconds, integers with 64 bits; others as they are."""
    if pt.is_date32(values.type):
        return values.view(pa.int32()).cast(pa.int64())
    if pt.is_timestamp(values.type) and values.type.unit == "us":
        return values.view(pa.int64())
    return values.cast(pa.int64()) if pt.is_signed_integer(values.type) else values


def _least_and_greatest(values: pa.Array) -> Span:
    import pyarrow.compute as pc

    found = pc.min_max(values).as_py()
    return found["min"], found["max"]


def _outside(values: pa.Array, grid: Grid, low: int, high: int) -> list[Span]:
    """Spans of the values that are before or beyond all cells."""
    import pyarrow.compute as pc

    spans = list[Span]()
    if low < grid.origin:
        spans.append((low, _least_and_greatest(values.filter(pc.less(values, grid.origin)))[1]))
    if high >= grid.end:
        spans.append((_least_and_greatest(values.filter(pc.greater_equal(values, grid.end)))[0], high))
    return spans


def _fewer(spans: Sequence[Span], most: int) -> list[Span]:
    """Not more than so many spans, by closing the smallest gaps; they are in order and apart."""
    if len(spans) <= most:
        return list(spans)
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(spans)]
    largest = sorted(range(len(gaps)), key=gaps.__getitem__, reverse=True)[: most - 1]
    ends = [*sorted(largest), len(spans) - 1]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return [(spans[start][0], spans[end][1]) for start, end in zip(starts, ends, strict=True)]
