"""A listing of very many objects, held in columns: a million objects take some 150 MB, not 500."""

from __future__ import annotations

import re
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate

import pyarrow as pa

from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url

CHUNK = 1 << 13
"""Objects of a chunk, all but the last."""
BLOCK = 1 << 12
"""Objects that are made at once when a listing is read."""
_COLUMNS = pa.schema(
    [("modified", pa.int64()), ("place", pa.int16()), ("key", pa.string()), ("etag", pa.binary()), ("size", pa.int64())]
)
_DIGITS = re.compile('"[0-9a-f]{32}"')
_DIGEST = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Listing:
    """Objects, each once, in the columns of `_COLUMNS`. Several threads may add to it; then it is read."""

    def __init__(self, objects: Iterable[ObjectInfo] = ()) -> None:
        self._chunks: list[pa.RecordBatch] = []
        self._rows: list[tuple[int, int, str, str | None, int]] = []
        self._places: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self.began = datetime.now(UTC)
        """When it was begun: what appeared since may be missing."""
        self.add(objects)

    def add(self, objects: Iterable[ObjectInfo]) -> None:
        """Add objects, which are taken one by one while no other thread adds any."""
        with self._lock:
            for info in objects:
                place = self._places.setdefault((info.url.scheme, info.url.bucket), len(self._places))
                at = (info.modified - _EPOCH) // _MICROSECOND
                self._rows.append((at, place, info.url.key, info.etag, info.size))
                if len(self._rows) == CHUNK:
                    self._chunks.append(_chunk(self._rows))
                    self._rows = []

    def __len__(self) -> int:
        return CHUNK * len(self._chunks) + len(self._rows)

    def __iter__(self) -> Iterator[ObjectInfo]:
        """All objects, in no order."""
        if not self._chunks:
            yield from self._few_in_order(None)
            return
        places = self._urls()
        for chunk in self._all():
            for first in range(0, chunk.num_rows, BLOCK):
                yield from _objects(chunk.slice(first, BLOCK), places)

    def in_order(
        self, keep: Callable[[ObjectInfo], bool] = lambda _: True, *, since: datetime | None = None
    ) -> Iterator[ObjectInfo]:
        """Objects in the order in which they are read: by time of last change, then by URL.

        Args:
            keep: Selects objects.
            since: None that was changed before is. Those cost nothing.
        """
        earliest = (since - _EPOCH) // _MICROSECOND if since is not None else None
        if not self._chunks:
            yield from filter(keep, self._few_in_order(earliest))
            return
        import pyarrow.compute as pc

        chunks, places = self._all(), self._urls()
        if earliest is not None:
            chunks = [c.filter(pc.greater_equal(c.column("modified"), earliest)) for c in chunks]
        order = self._order(chunks)
        begins = [0, *accumulate(c.num_rows for c in chunks)]
        for first in range(0, len(order), BLOCK):
            for info in _gathered(chunks, begins, order.slice(first, BLOCK).to_pylist(), places):
                if keep(info):
                    yield info

    def _few_in_order(self, earliest: int | None) -> Iterator[ObjectInfo]:
        """As `in_order`, of objects that are not worth columns yet."""
        names, places = [f"{scheme}://{bucket}/" for scheme, bucket in self._places], self._urls()
        rows = [row for row in self._rows if earliest is None or row[0] >= earliest]
        for at, place, key, etag, size in sorted(rows, key=lambda row: (row[0], names[row[1]], row[2])):
            yield ObjectInfo(places[place](key), size, etag or None, _EPOCH + at * _MICROSECOND)

    def _order(self, chunks: list[pa.RecordBatch]) -> pa.Array:
        """The numbers of rows, sorted."""
        import pyarrow.compute as pc

        names = [f"{scheme}://{bucket}/" for scheme, bucket in self._places]
        ranks = pa.array([sorted(names).index(name) for name in names], pa.int16())
        rows = pa.Table.from_batches(chunks, _COLUMNS)
        ranked = pa.chunked_array([ranks.take(c.column("place")) for c in chunks], pa.int16())
        table = pa.table({"modified": rows["modified"], "place": ranked, "key": rows["key"]})
        return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])

    def _all(self) -> list[pa.RecordBatch]:
        return [*self._chunks, *([_chunk(self._rows)] if self._rows else [])]

    def _urls(self) -> list[Callable[[str], Url]]:
        return [partial(Url, *place) for place in self._places]


def _chunk(rows: list[tuple[int, int, str, str | None, int]]) -> pa.RecordBatch:
    """The rows in columns, in buffers of just their size: Arrow's own builders grow, and keep what they outgrew."""
    modified, place, keys, etags, sizes = zip(*rows, strict=True)
    numbers = [("q", modified), ("h", place), ("q", sizes)]
    at, where, size = (
        pa.Array.from_buffers(field.type, len(rows), [None, pa.py_buffer(array(code, values))])
        for field, (code, values) in zip((_COLUMNS.field(n) for n in (0, 1, 4)), numbers, strict=True)
    )
    texts = (
        _texts(pa.string(), [key.encode() for key in keys]),
        _texts(pa.binary(), [_short(etag) for etag in etags]),
    )
    return pa.RecordBatch.from_arrays([at, where, *texts, size], schema=_COLUMNS)


def _texts(kind: pa.DataType, values: Sequence[bytes]) -> pa.Array:
    ends = array("i", accumulate((len(v) for v in values), initial=0))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


def _short(etag: str | None) -> bytes:
    """An ETag in as few bytes as it needs: the usual ones are quoted digits."""
    if not etag:
        return b""
    if _DIGITS.fullmatch(etag):
        return bytes.fromhex(etag[1:-1])
    text = etag.encode()
    return text.rjust(len(text) + (2 if len(text) + 1 == _DIGEST else 1), b"\0")


def _etag(short: bytes) -> str | None:
    if not short:
        return None
    return f'"{short.hex()}"' if len(short) == _DIGEST else short.lstrip(b"\0").decode()


def _gathered(
    chunks: list[pa.RecordBatch], begins: list[int], numbers: list[int], places: list[Callable[[str], Url]]
) -> list[ObjectInfo]:
    """The objects of some rows, in the order of their numbers; pyarrow would copy all chunks together first."""
    rows_by_chunk: dict[int, list[tuple[int, int]]] = {}
    for spot, number in enumerate(numbers):
        chunk = bisect_right(begins, number) - 1
        rows_by_chunk.setdefault(chunk, []).append((spot, number - begins[chunk]))
    found: dict[int, ObjectInfo] = {}
    for chunk, rows in rows_by_chunk.items():
        taken = chunks[chunk].take(pa.array([row for _, row in rows], pa.int64()))
        found.update(zip((spot for spot, _ in rows), _objects(taken, places), strict=True))
    return [found[spot] for spot in range(len(numbers))]


def _objects(rows: pa.RecordBatch, places: list[Callable[[str], Url]]) -> Iterator[ObjectInfo]:
    for at, place, key, etag, size in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        yield ObjectInfo(places[place](key), size, _etag(etag), _EPOCH + at * _MICROSECOND)
