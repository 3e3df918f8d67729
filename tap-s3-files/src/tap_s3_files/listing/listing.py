"""A listing of very many objects in compressed columns: ten million objects take some 300 MB.

To be read in order, it is divided by time into parts that fit into memory one by one, each of which is sorted.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby, islice, pairwise
from typing import NamedTuple

import pyarrow as pa

from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.object_page import EPOCH, ObjectPage
from singer_arrow.storage.urls import Url

CHUNK = 1 << 16
"""Objects that are compressed together, about."""
PART = 1 << 17
"""Objects that are sorted together, about, unless more have the same time."""
BLOCK = 1 << 12
"""Objects that are made at once when a listing is read."""
_COLUMNS = pa.schema(
    [("modified", pa.int64()), ("place", pa.int16()), ("key", pa.string()), ("etag", pa.binary()), ("size", pa.int64())]
)
_ORDER = ("modified", "rank", "key")
_SAMPLED = 61  # one time in so many is looked at to divide a listing
_PAGE = 1000
_DIGITS = '^"[0-9a-f]{32}"$'
_DIGEST = 16
_MICROSECOND = timedelta(microseconds=1)


class _Chunk(NamedTuple):
    """Compressed rows, their number, and the times of the oldest and the newest."""

    data: bytes
    rows: int
    oldest: int
    newest: int

    @classmethod
    def of(cls, rows: pa.Table) -> _Chunk:
        import pyarrow.compute as pc

        sink, times = pa.BufferOutputStream(), pc.min_max(rows["modified"]).as_py()
        with pa.ipc.new_stream(sink, _COLUMNS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            stream.write_table(rows.combine_chunks())
        data = sink.getvalue().to_pybytes()  # a copy: the buffer has up to twice the room that it needs
        return cls(data, rows.num_rows, times["min"], times["max"])

    def table(self, earliest: int | None = None) -> pa.Table:
        """Return the rows, or those from a time on."""
        import pyarrow.compute as pc

        rows = pa.ipc.open_stream(self.data).read_all()
        is_whole = earliest is None or self.oldest >= earliest
        return rows if is_whole else rows.filter(pc.greater_equal(rows["modified"], earliest))

    def columns(self, *names: str) -> pa.Table:
        """Return some columns alone."""
        options = pa.ipc.IpcReadOptions(included_fields=[_COLUMNS.get_field_index(name) for name in names])
        return pa.ipc.open_stream(self.data, options=options).read_all()


class Listing:
    """Objects, each once, in the columns of `_COLUMNS`. Several threads may add to it; then it is read."""

    def __init__(self, objects: Iterable[ObjectInfo] = ()) -> None:
        self._parts: list[list[_Chunk]] = [[]]
        self._last: list[pa.RecordBatch] = []
        self._places: dict[tuple[str, str], int] = {}
        self._count = 0
        self._lock = threading.Lock()
        self.began = datetime.now(UTC)
        """Time at which the listing began; objects that appeared later may be missing."""
        remaining = iter(objects)
        while some := list(islice(remaining, _PAGE)):
            for (scheme, bucket), page in groupby(some, key=lambda o: (o.url.scheme, o.url.bucket)):
                self.add_rows(Url(scheme, bucket, ""), ObjectPage.of(page).to_arrow())

    def add_rows(self, bucket: Url, rows: pa.RecordBatch) -> None:
        """Add objects, in the columns of `OBJECT_COLUMNS`, of a bucket, which is the URL of its scheme and name."""
        full: list[pa.RecordBatch] = []
        with self._lock:
            place = self._places.setdefault((bucket.scheme, bucket.bucket), len(self._places))
        places = pa.repeat(pa.scalar(place, pa.int16()), rows.num_rows)
        columns = [rows["modified"], places, rows["key"], _short_etags(rows["etag"]), rows["size"]]
        batch = pa.RecordBatch.from_arrays(columns, schema=_COLUMNS)
        with self._lock:
            self._count += batch.num_rows
            self._last.append(batch)
            if sum(b.num_rows for b in self._last) >= CHUNK:
                full, self._last = self._last, []
        if full:
            self._parts[0].append(_Chunk.of(pa.Table.from_batches(full)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ObjectInfo]:
        """Yield all objects, in any order."""
        for rows in self._tables():
            yield from self._objects(rows)

    def folders(self) -> Iterator[Url]:
        """Yield each folder that holds an object; its key ends with a slash."""
        import pyarrow.compute as pc

        found: set[str] = set()  # number of the place, slash, folder; `group_by` would import all of pyarrow.dataset
        for rows in self._tables():
            folders = pc.replace_substring_regex(rows["key"], "[^/]*$", "")
            found.update(pc.unique(pc.binary_join_element_wise(rows["place"].cast("string"), folders, "/")).to_pylist())
        places = list(self._places)
        for place, _, folder in (pair.partition("/") for pair in found):
            yield Url(*places[int(place)], folder)

    def newest(
        self, count: int, start: datetime | None, end: datetime | None, *, oldest: bool = False
    ) -> list[ObjectInfo]:
        """Return the newest objects that hold a byte, the newest first; `oldest`: the oldest ones, the oldest first.

        They were last modified in [start, end).
        """
        import pyarrow.compute as pc

        first = _microseconds(start) if start is not None else None
        direction = "ascending" if oldest else "descending"
        best = self._ranked(pa.Table.from_batches([], _COLUMNS))
        for rows in self._tables(first):
            if not rows.num_rows:
                continue
            is_ours = pc.greater(rows["size"], 0)
            if end is not None:
                is_ours = pc.and_(is_ours, pc.less(rows["modified"], _microseconds(end)))
            best = pa.concat_tables([best, self._ranked(rows.filter(is_ours))])
            best = best.take(pc.select_k_unstable(best, count, [(name, direction) for name in _ORDER]))
        return list(self._objects(best.select(_COLUMNS.names)))

    def totals(self, start: datetime | None, end: datetime | None, *, after: datetime | None = None) -> tuple[int, int]:
        """Return the number and the bytes of objects that were last modified in [start, end), and after a time."""
        import pyarrow.compute as pc

        first = _microseconds(start) if start is not None else 0
        first = max(first, _microseconds(after) + 1 if after is not None else 0)
        chunks = (c for part in self._parts for c in part if c.newest >= first)
        last = [pa.Table.from_batches(self._last)] if self._last else []
        count = size = 0
        for rows in chain((c.columns("modified", "size") for c in chunks), last):
            kept = rows.filter(pc.greater_equal(rows["modified"], first))
            kept = kept.filter(pc.less(kept["modified"], _microseconds(end))) if end is not None else kept
            count, size = count + kept.num_rows, size + (pc.sum(kept["size"]).as_py() or 0)
        return count, size

    def in_order(
        self,
        keep: Callable[[ObjectInfo], bool] = lambda _: True,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> Iterator[ObjectInfo]:
        """Yield the objects in the order in which they are read: by time of last modification, then by URL.

        Those that were modified before `since`, or at `before` or later, are left out, and cost little.
        """
        import pyarrow.compute as pc

        for rows in self._by_time(_microseconds(since) if since is not None else None):
            if before is not None:
                rows = rows.filter(pc.less(rows["modified"], _microseconds(before)))  # noqa: PLW2901
            for first in range(0, rows.num_rows, BLOCK):
                yield from filter(keep, self._objects(rows.slice(first, BLOCK)))

    def _tables(self, earliest: int | None = None) -> Iterator[pa.Table]:
        """Yield the rows from a time on, in any order."""
        yield from (c.table(earliest) for part in self._parts for c in part if earliest is None or c.newest >= earliest)
        if self._last:
            yield _Chunk.of(pa.Table.from_batches(self._last)).table(earliest)

    def _by_time(self, earliest: int | None) -> Iterator[pa.Table]:
        """Yield the rows from a time on, in order."""
        if len(self._parts) == 1:
            some, count = [], 0
            for rows in self._tables(earliest):
                some.append(rows)
                if (count := count + rows.num_rows) > PART:
                    break
            else:
                yield self._sorted(some)
                return
            del some
            self._divide()
        for part in self._parts:
            tables = [c.table(earliest) for c in part if earliest is None or c.newest >= earliest]
            yield self._sorted(tables)

    def _divide(self) -> None:
        """Divide the objects by time into parts."""
        import pyarrow.compute as pc

        (chunks,) = self._parts
        if self._last:
            chunks.append(_Chunk.of(pa.Table.from_batches(self._last)))
            self._last = []
        sample = sorted(t for c in chunks for t in c.columns("modified")["modified"].to_pylist()[::_SAMPLED])
        count = -(-self._count // PART)
        edges = sorted({sample[len(sample) * n // count] for n in range(1, count)})
        self._parts = [[] for _ in range(len(edges) + 1)]
        while chunks:
            rows = chunks.pop().table()
            rows = rows.take(pc.sort_indices(rows["modified"]))
            times = rows["modified"].to_pylist()
            ends = [0, *(bisect_left(times, edge) for edge in edges), len(times)]
            for part, (begin, end) in zip(self._parts, pairwise(ends), strict=True):
                if end > begin:
                    part.append(_Chunk.of(rows.slice(begin, end - begin)))

    def _sorted(self, tables: list[pa.Table]) -> pa.Table:
        import pyarrow.compute as pc

        rows = pa.concat_tables([pa.Table.from_batches([], _COLUMNS), *tables]).combine_chunks()
        keys = [(name, "ascending") for name in _ORDER]
        return rows.take(pc.sort_indices(self._ranked(rows), sort_keys=keys))

    def _ranked(self, rows: pa.Table) -> pa.Table:
        """Add the ranks of the places among their URLs."""
        names = [f"{scheme}://{bucket}/" for scheme, bucket in self._places]
        ranks = pa.array([sorted(names).index(name) for name in names], pa.int16())
        return rows.append_column("rank", ranks.take(rows["place"].combine_chunks()))

    def _objects(self, rows: pa.Table) -> Iterator[ObjectInfo]:
        places = list(self._places)
        for at, place, key, etag, size in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            yield ObjectInfo(
                Url(places[place][0], places[place][1], key), size, _etag(etag), EPOCH + timedelta(microseconds=at)
            )


def _microseconds(at: datetime) -> int:
    return (at - EPOCH) // _MICROSECOND


def _short_etags(etags: pa.StringArray) -> pa.BinaryArray:
    """Return ETags in as few bytes as they need: the usual ones are quoted digits."""
    import pyarrow.compute as pc

    is_usual = pc.fill_null(pc.match_substring_regex(etags, _DIGITS), False)
    usual = pc.utf8_slice_codeunits(etags.filter(is_usual), 1, -1).to_pylist()
    digests = pa.Array.from_buffers(
        pa.binary(_DIGEST), len(usual), [None, pa.py_buffer(bytes.fromhex("".join(usual)))]
    ).cast(pa.binary())
    if len(usual) == len(etags):
        return digests
    is_other = pc.invert(is_usual)
    others = pa.array([_short(etag) for etag in etags.filter(is_other).to_pylist()], pa.binary())
    found = pc.replace_with_mask(pa.nulls(len(etags), pa.binary()), is_usual, digests)
    return pc.replace_with_mask(found, is_other, others)


def _short(etag: str | None) -> bytes:
    """Return the bytes of an unusual ETag, padded so that their number is not that of a usual one."""
    if not etag:
        return b""
    text = etag.encode()
    return text.rjust(len(text) + (2 if len(text) + 1 == _DIGEST else 1), b"\0")


def _etag(short: bytes) -> str | None:
    if not short:
        return None
    return f'"{short.hex()}"' if len(short) == _DIGEST else short.lstrip(b"\0").decode()
