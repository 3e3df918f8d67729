"""Name and remove staged files; ranges of keys by which a MERGE is pruned."""

from __future__ import annotations

import itertools
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.errors import CredentialsError, NotFoundError, ServiceError, SingerArrowError, one_line
from singer_arrow.runtime.threads import Waiting, pauses
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Lifetime, Url

# Files that a target puts into a bucket for its loads: where they are, and who removes them when.
#
# Each run has a folder of its own, with a unique name, so a file there is of this run alone, and a later run never
# takes one for its own. What is staged is removed once the STATE behind it is out (`removable_files`, `Remover`); a run
# that fails leaves it for analysis. What is left has a lifetime, which rules of the bucket understand, and later runs
# remove it too, once it is older than any load may be.

FOLDER = "_sdc_loads"
"""Folder in the stage that has a folder for each run, named by its time."""
LEFTOVER = timedelta(days=2)
"""Files of other runs that are older are removed: no load lasts so long. A service whose clock differs from ours by
more than some minutes refuses our credentials, so their age is right."""
LIFETIME = Lifetime(3)
DEADLINE_SECONDS = 300.0
"""How long a file is put again and again, on top of the tries of the storage itself."""
PARTS = 3
"""How many parts of a file are sent at once; as many files as there are workers are put beside each other."""
_TIME = "%Y%m%dT%H%M%SZ"
_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")


class StagingFolder:
    """This run's folder in a bucket; safe to use from any thread."""

    def __init__(self, storage: Storage, root: Url, logger: logging.Logger) -> None:
        self._storage, self._logger = storage, logger
        self._runs = root.join(FOLDER)
        self._folder = self._runs.join(f"{datetime.now(UTC).strftime(_TIME)}_{uuid.uuid4().hex[:12]}")
        self._numbers = itertools.count()
        self._lifetime: Lifetime | None = LIFETIME
        self._lock = threading.Lock()

    def name(self, *parts: str, suffix: str = "") -> Url:
        """Return a URL that this run has not used; its name has the purpose."""
        readable = [_OTHER.sub("_", part)[:80] for part in parts]
        return self._folder.join("-".join([*readable, f"{next(self._numbers):05d}{suffix}"]))

    def put(self, url: Url, data: bytes | Path) -> int:
        """Write an object, whole or not at all, of bytes or of a local file, which stays; its size in bytes."""
        size = data.stat().st_size if isinstance(data, Path) else len(data)
        waiting = Waiting(self._logger)
        for pause in pauses(DEADLINE_SECONDS):
            try:
                self._put(url, data)
                break
            except NotFoundError as error:
                try:
                    found = self._storage.head(url).size  # no other run writes this name
                except NotFoundError:
                    raise error from None
                if found != size:
                    raise
                break  # only the answer to the end of an upload in parts was lost, and it cannot be ended twice
            except ServiceError as error:
                if pause is None:
                    raise
                waiting.before_again(pause, error)
        return size

    def remove(self, urls: Iterable[Url]) -> None:
        """Remove objects of this run at once, which nothing needs any more; where that fails they stay."""
        remove(self._storage, list(urls), self._logger)

    def remove_leftovers(self) -> None:
        """Remove what other runs left behind, but nothing that may still be in use."""
        before = datetime.now(UTC) - LEFTOVER
        runs = Url(self._runs.scheme, self._runs.bucket, f"{self._runs.key}/")
        try:
            old = [o.url for o in self._storage.list(runs) if o.modified < before]
        except SingerArrowError as error:
            self._logger.debug("Leftovers could not be listed: %s", error)
            return
        if old:
            self._logger.info("Removing %d files that earlier runs left in %s", len(old), self._runs)
            self.remove(old)

    def _put(self, url: Url, data: bytes | Path) -> None:
        lifetime = self._lifetime
        try:
            self._storage.put(url, data, lifetime=lifetime, parts=PARTS)
        except CredentialsError as error:
            if lifetime is None or url.scheme != "s3":
                raise
            self._storage.put(url, data, parts=PARTS)  # which raises itself if it was not the tag that is not allowed
            with self._lock:
                is_first, self._lifetime = self._lifetime is not None, None
            if is_first:
                why = "staged files get no tag, which needs s3:PutObjectTagging; leftovers are for a rule by prefix"
                self._logger.warning("%s: %s", error, why)


class Remover:
    """Removes objects beside everything else, many at once; what cannot be removed stays, and is logged.

    `storage` is called with the first of them.
    """

    def __init__(self, storage: Callable[[], Storage], logger: logging.Logger) -> None:
        self._storage, self._logger = storage, logger
        self._changed = threading.Condition()
        self._waiting: list[Url] = []
        self._is_busy = False

    def remove(self, urls: Iterable[Url]) -> None:
        """Have objects removed; returns at once."""
        with self._changed:
            self._waiting += urls
            if self._waiting and not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._work, name="remover", daemon=True).start()

    def close(self, seconds: float) -> None:
        """Wait until everything is removed, but not longer than that."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_busy, timeout=seconds):
                self._logger.warning("Files that are not needed any more are still being removed; some may stay")

    def _work(self) -> None:
        while True:
            with self._changed:
                urls, self._waiting = self._waiting, []
                if not urls:
                    self._is_busy = False
                    self._changed.notify_all()
                    return
            remove(self._storage(), urls, self._logger)


def remove(storage: Storage, urls: list[Url], logger: logging.Logger) -> None:
    """Remove objects; those that cannot be removed are logged, and the others are still removed."""
    for _, group in groupby(sorted(urls), key=lambda url: (url.scheme, url.bucket)):
        some = list(group)
        try:
            storage.delete(some)
        except Exception as error:  # noqa: BLE001 - what they held is loaded, or will be loaded anew: nothing to end for
            logger.warning("Of %d files some could not be removed, and stay: %s", len(some), one_line(str(error)))


# Between which values the rows of a load lie, so that a MERGE need not look for them elsewhere.
#
# Extents are taken from the rows as they are loaded, not from statistics of the files, which may be missing, shortened
# or wrong. They hold every value, and often more than that: a few spans cover all values of a column.

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
        self.has_nulls |= other.has_nulls
        self._join(other._spans)

    def _found(self, values: pa.Array) -> list[Span]:
        """Spans of integers, none of which has an empty cell within."""
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
        self.rows = 0  # how many rows were taken
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
    found = pc.min_max(values).as_py()
    return found["min"], found["max"]


def _outside(values: pa.Array, grid: Grid, low: int, high: int) -> list[Span]:
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
