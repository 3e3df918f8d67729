"""Objects of the storage or of an inventory, as compressed columns; many prefixes at once."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby, islice, pairwise
from typing import NamedTuple

import pyarrow as pa

from singer_arrow.errors import DataError, NotFoundError, SingerArrowError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import Budget
from singer_arrow.runtime.threads import ThreadPool
from singer_arrow.storage.listing import EPOCH, OBJECT_COLUMNS, ObjectPage, decoded_keys
from singer_arrow.storage.places import place_of
from singer_arrow.storage.store import Storage, lists_in_order
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.paths import earlier_overlaps, found_first, listed_pages, listed_prefixes

# A listing of very many objects in compressed columns: ten million objects take some 300 MB.
#
# To be read in order, it is divided by time into parts that fit into memory one by one, each of which is sorted.

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
_SECOND = 1_000_000


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
        self.began = datetime.now(UTC)  # time at which the listing began; objects that appeared later may be missing
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

    def compress(self) -> None:
        """Compress also what was added last, for a listing that waits to be read: very many may do so."""
        if self._last:
            self._parts[0].append(_Chunk.of(pa.Table.from_batches(self._last)))
            self._last = []

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

    def older(self, urls: pa.Array, times: pa.Array) -> Iterator[ObjectInfo]:
        """Yield the objects that were last changed before a time of their own; of a URL that occurs twice, the first.

        `times` are in whole seconds, as some services give no more.
        """
        import pyarrow.compute as pc

        prefixes, times = pa.array([f"{s}://{b}/" for s, b in self._places]), times.cast(pa.int64())
        for rows in self._tables() if len(urls) else ():
            full = pc.binary_join_element_wise(prefixes.take(rows["place"].combine_chunks()), rows["key"], "")
            due = times.take(pc.index_in(full, value_set=urls).combine_chunks())
            yield from self._objects(rows.filter(pc.less(pc.divide(rows["modified"], _SECOND), due)))

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

        self.compress()
        (chunks,) = self._parts
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


# List the objects of a stream by several requests at a time.
#
# A service returns a thousand keys in an answer, and the next answer can only be requested after that. So each path is
# listed separately, and a path with many objects is divided by folders: a bucket of millions is listed in parallel.

logger = logging.getLogger("tap-s3-files")
PARALLEL = 16
"""Maximum number of concurrent listings."""
MANY = 5_000
"""Number of objects after which a listing is divided by folders."""
FOLDERS = 64
"""Number of folders it is divided into; the rest is listed as one."""
LINE_SECONDS = 30.0
"""Seconds between log lines with the number of listed objects."""
TABLE_LOG = re.compile(r"(.+?)/(?:(_delta_log)/\d{20}\.json|metadata/[^/]+\.metadata\.json)")
_LAST = "\U0010ffff"  # comes after every other character of a key


def list_objects(
    storage: Storage, paths: Iterable[Url], *, own: Iterable[Url] = (), begin: Url | None = None
) -> Listing:
    """Return the objects that match any of the paths, as `find` does.

    Up to `begin` all are known, if keys ascend with time: the path that matches it is listed from there on.
    """
    parts, roots = listed_prefixes(storage, paths), list(own)
    earlier, listing = earlier_overlaps(parts), Listing()
    waiting, failed, tables = list[Future[None]](), threading.Event(), dict[str, str]()

    def scan(number: int, prefix: Url, after: str = "") -> None:
        """List the objects of a path below a prefix; if there are many, leave the rest to scans of its folders."""
        part, left = parts[number], MANY
        for page in listed_pages(storage, replace(part, prefix=prefix), after=after):
            if failed.is_set():
                return
            if not page.keys:
                continue
            if "/_delta_log/" in (text := "\n".join(page.keys)) or ".metadata.json" in text:
                tables.update(
                    (f"{m[1]}/", "delta" if m[2] else "iceberg") for m in map(TABLE_LOG.match, page.keys) if m
                )
            found = page.select(found_first(page.keys, part, earlier[number], roots))
            listing.add_rows(part.prefix, found.to_arrow())
            left -= len(page.keys)
            if left <= 0 and lists_in_order(prefix):
                if folders := _folders(storage, prefix, page.keys[-1]):
                    for place in folders:
                        waiting.append(pool.submit(scan, number, *place))
                    return
                left = MANY

    with ThreadPool(PARALLEL, "list") as pool:
        try:
            for number, part in enumerate(parts):
                if part.object:
                    scan(number, part.prefix)
                    continue
                is_begun = begin is not None and part.matches(begin) and lists_in_order(begin)
                waiting.append(pool.submit(scan, number, part.prefix, begin.key if begin and is_begun else ""))
            logged = time.monotonic()
            while waiting:  # each scan adds those that it finds before it ends
                found = waiting.pop()
                while not wait([found], max(0.0, logged + LINE_SECONDS - time.monotonic())).done:
                    logger.info("Listing %s: %s objects so far", parts[0].prefix, f"{len(listing):,}")
                    logged = time.monotonic()
                found.result()
        except BaseException:
            failed.set()
            raise
    folders = list(listing.folders()) if tables else []
    for top, kind in tables.items():
        own_log = (f"{top}_delta_log/", f"{top}metadata/")
        files = (f for f in folders if f.key.startswith(top) and not f.key.startswith(own_log))
        if (folder := next(files, None)) is not None:
            table = folder._replace(key=top[:-1])
            logger.warning("%s is a table, which may have removed some of these files; set format: %s", table, kind)
    return listing


def _folders(storage: Storage, prefix: Url, key: str) -> list[tuple[Url, str]]:
    """Return prefixes that together hold what is below a prefix after a key, by folder, and after which keys.

    There are none if the key is in no folder.
    """
    top = prefix.key.rpartition("/")[0]
    base = f"{top}/" if top else ""
    found: list[tuple[Url, str]] = []
    while len(found) < FOLDERS and "/" in key[len(base) :]:
        folder = base + key[len(base) :].partition("/")[0] + "/"
        found.append((Url(prefix.scheme, prefix.bucket, folder), "" if found else key))
        following = next(storage.list(prefix, after=folder + _LAST), None)
        if following is None:
            return found
        key = following.url.key
    return [*found, (prefix, found[-1][0].key + _LAST)] if found else []


# The list of objects of an S3 Inventory, for buckets that are too large to be listed.
#
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html

_INVENTORY_COLUMNS = {
    "bucket": pa.string(),
    "key": pa.string(),
    "size": pa.int64(),
    "last_modified_date": pa.timestamp("us", "UTC"),
    "e_tag": pa.string(),
    "is_latest": pa.bool_(),
    "is_delete_marker": pa.bool_(),
}
_NEEDED = {"size": "Size", "last_modified_date": "Last modified", "e_tag": "ETag"}
"""Optional fields of an inventory that are needed, and what S3's console calls them."""
_WORD = re.compile(r"(?<!^)(?=[A-Z][a-z]|(?<=[a-z])[A-Z])")
_PARQUET_FIELD = re.compile(r"(?:required|optional)\s+\w+\s+(\w+)")


def read_inventory(storage: Storage, manifest: Url, budget: Budget) -> Iterator[tuple[Url, pa.RecordBatch]]:
    """Yield the newest versions of the objects in an inventory, in no particular order.

    Each item is the URL of a bucket, and some of its objects in the columns of `OBJECT_COLUMNS`. `manifest` is a
    `manifest.json`; or a folder, which ends with a slash: then that of the newest inventory below it.
    """
    url = manifest
    if manifest.key.endswith("/"):  # folders are named by the time, and a manifest is written last
        manifests = [o for o in storage.list(manifest) if o.url.name == "manifest.json"]
        if not manifests:
            raise NotFoundError(
                f"No manifest.json is below {manifest}; check replication.manifest_url, and whether an inventory was "
                "made yet"
            )
        url = max(manifests, key=lambda o: (o.modified, o.url)).url
    # The manifest has the format of the inventory's files, their columns as Parquet names them, their keys.
    text = bytes(storage.get(url).data)
    try:
        manifest_json = json.loads(text)
        kind, keys = manifest_json["fileFormat"], [file["key"] for file in manifest_json["files"]]
        schema = manifest_json["fileSchema"]
        is_csv = kind == "CSV"
        columns = schema.split(",") if is_csv else _PARQUET_FIELD.findall(schema)
        if is_csv:  # `LastModifiedDate` is `last_modified_date` in Parquet
            columns = [_WORD.sub("_", name.strip()).lower().replace("etag", "e_tag") for name in columns]
        bucket = manifest_json["destinationBucket"].removeprefix("arn:aws:s3:::").rpartition(":")[2]
    except (AttributeError, KeyError, TypeError, ValueError):
        reason = "it is no manifest of an S3 Inventory"
        raise DataError(reason, url=url, hint="Give the URL of a manifest.json in replication.manifest_url") from None
    if bucket != url.bucket or not all(isinstance(key, str) and place_of(Url(url.scheme, bucket, key)) for key in keys):
        reason = f"it names files outside of its own bucket: its destination bucket is {bucket!r}"
        raise DataError(reason, url=url, hint="Read the manifest where S3 wrote it")
    if kind not in ("CSV", "Parquet"):
        reason = f"its inventory is written in {kind}"
        raise DataError(reason, url=url, hint="Configure the inventory to be written as Parquet or CSV")
    if missing := [_NEEDED[name] for name in _NEEDED if name not in columns]:
        reason = f"its inventory lacks {', '.join(missing)} of the objects"
        raise DataError(reason, url=url, hint="Add these fields to the inventory's configuration")
    names = [f"column_{n}" for n in range(1, len(columns) + 1)] if is_csv else columns
    selected = {known: given for known, given in zip(columns, names, strict=True) if known in _INVENTORY_COLUMNS}
    arrow = pa.schema([(given, _INVENTORY_COLUMNS[known]) for known, given in selected.items()])
    options = ReadOptions(header=False, delimiter=",") if is_csv else ReadOptions()
    for file in (Url(url.scheme, bucket, key) for key in keys):
        reader = ObjectReader(storage, file, budget=budget)
        try:
            for batch in FORMATS[kind.lower()].read(reader, arrow, options):
                yield from _newest_versions(batch.rename_columns(list(selected)), file, decode=is_csv)
        except DataError as error:
            raise error.at(f"{file} of {url}") from None
        except SingerArrowError as error:
            raise type(error)(f"{url} names a file that cannot be read: {error}") from None


def _newest_versions(batch: pa.RecordBatch, file: Url, *, decode: bool) -> Iterator[tuple[Url, pa.RecordBatch]]:
    import pyarrow.compute as pc

    names = batch.schema.names
    if "is_latest" in names:
        batch = batch.filter(pc.fill_null(batch["is_latest"], True))
    if "is_delete_marker" in names:
        batch = batch.filter(pc.invert(pc.fill_null(batch["is_delete_marker"], False)))
    needed = ("bucket", "key", "size", "last_modified_date")
    if any(batch[name].null_count for name in needed):
        key = next(r for r in batch.select(needed).to_pylist() if None in r.values())["key"]
        raise DataError(f"{key!r} has no size or no time" if key else "a row of it names no object", url=file)
    keys = pa.array(decoded_keys(batch["key"].to_pylist()), pa.string()) if decode else batch["key"]
    # In quotes, as S3's own answers have them, or null if there is none
    etags = pc.binary_join_element_wise('"', pc.utf8_trim(batch["e_tag"], '"'), '"', "")
    etags = pc.if_else(pc.equal(batch["e_tag"], ""), None, etags)
    columns = [keys, batch["size"], etags, batch["last_modified_date"].cast(pa.int64())]
    rows = pa.RecordBatch.from_arrays(columns, schema=OBJECT_COLUMNS)
    is_object = pc.invert(pc.ends_with(keys, "/"))
    for bucket in pc.unique(batch["bucket"]).to_pylist():
        is_in_bucket = pc.and_(pc.equal(batch["bucket"], bucket), is_object)
        yield Url("s3", bucket, ""), rows.filter(is_in_bucket)
