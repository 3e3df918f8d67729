"""Batch files -> files that COPY reads, in place or in `s3_stage`."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.batch.files import missing_file
from singer_arrow.errors import DataError, EmptyObjectError, NotFoundError
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.formats.parquet_read import codecs_of, columns_with_nulls, encodings_of, read_footer
from singer_arrow.load.convert import RANK, Spool, converted_batches, fit_batches, read_spools, write_spool
from singer_arrow.load.dead_letters import Rejects
from singer_arrow.load.method import Item as AnyItem
from singer_arrow.load.method import Prepared
from singer_arrow.load.staging import StagingFolder
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.runtime.threads import DaemonPool
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_redshift import columns as staging
from target_redshift.columns import NUL_FAIL, Change, NotCopyable, StagingColumn
from target_redshift.conversion import Check, Conversion, ValueReport, has_long_json
from target_redshift.sql import NULL_TEXT
from target_redshift.types import Column

# Converted rows -> files that COPY reads: Parquet by default, gzip JSON Lines or gzip CSV where it is set.

_SLICE_BYTES = 8 << 20
_GZIP_LEVEL = 1


@dataclass(frozen=True, slots=True)
class UploadEncoding:
    """Parquet with zstd as batch files have it, one JSON object a line in gzip, or CSV in gzip.

    CSV has commas, double quotes and no header; binary is in base64.
    """

    file_format: str
    schema: pa.Schema

    @property
    def suffix(self) -> str:
        return {"parquet": ".parquet", "jsonl": ".jsonl.gz", "csv": ".csv.gz"}[self.file_format]

    def write(self, batches: Iterable[pa.RecordBatch], path: Path) -> int:
        if self.file_format == "parquet":
            return WRITABLE["parquet"].write(fit_batches(batches, self.schema), self.schema, path, WriteOptions("zstd"))
        if self.file_format == "jsonl":
            spelled = fit_batches((_spelled(batch) for batch in batches), self.schema)
            return WRITABLE["jsonl"].write(spelled, self.schema, path, WriteOptions("gzip"))
        from isal import igzip

        opened: Any = igzip.open  # it has no types
        rows = 0
        with opened(path, "wb", compresslevel=_GZIP_LEVEL) as out:
            for batch in fit_batches(batches, self.schema):
                step = max(1, batch.num_rows * _SLICE_BYTES // max(1, batch.nbytes))
                for start in range(0, batch.num_rows, step):
                    out.write(_csv(batch.slice(start, step)))
                rows += batch.num_rows
        return rows


def _spelled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with numbers as text: infinity of floats as a whole word, decimals with all digits.

    Arrow writes small decimals with an exponent, which COPY does not take.
    """
    import polars as pl

    for i, array in enumerate(batch.columns):
        if pt.is_floating(array.type):
            text = pc.replace_substring(array.cast(pa.string()), "inf", "Infinity")
        elif pt.is_decimal(array.type):
            text = pl.Series(pl.from_arrow(array)).cast(pl.String).to_arrow().cast(pa.string())
        else:
            continue
        batch = batch.set_column(i, batch.schema.field(i).with_type(pa.string()), text)
    return batch


def _csv(batch: pa.RecordBatch) -> Any:
    import polars as pl

    out = io.BytesIO()
    series = {}
    for i, array in enumerate(_spelled(batch).columns):
        column = pl.Series(pl.from_arrow(_printable(array)))
        series[f"c{i}"] = column.bin.encode("base64") if column.dtype == pl.Binary else column
    pl.DataFrame(series).write_csv(
        out,
        include_header=False,
        null_value=NULL_TEXT,
        quote_style="necessary",
        datetime_format="%Y-%m-%d %H:%M:%S%.6f",
    )
    return out.getbuffer()


def _printable(column: pa.Array) -> pa.Array:
    """Return dates as Arrow prints them, and instants without their zone, which is UTC; no text may be `NULL_TEXT`."""
    if pt.is_string(column.type) and pc.any(pc.equal(column, NULL_TEXT)).as_py():
        raise DataError(f"a text is {NULL_TEXT!r}, which means null in CSV", hint="Set load_format: auto")
    if pt.is_date(column.type):
        return column.cast(pa.string())
    if pt.is_timestamp(column.type):
        return column.cast(pa.timestamp("us"))
    return column


# How rows are cut into the files that one COPY takes. Pure.
#
# Redshift reads files in parallel, one a slice, and wants their number to be a multiple of the slices and each of them
# between 1 MB and 1 GB compressed [t_splitting-data-files]. Where there is not enough for both, size comes before
# count: many tiny files cost more than an idle slice.

LEAST_BYTES = 1 << 20
TARGET_BYTES = 128 << 20
WORTH_A_WORKER = 8 << 20
"""A file of that size is worth a worker of its own: so many more files are made as can be written at once."""
_MARGIN = 1.25  # sizes are estimated from a sample, so files are planned larger than the least by this factor


def file_count(estimated_bytes: float, *, rows: int, slices: int, workers: int = 1) -> int:
    """Return the number of files for some rows, none without one, of `estimated_bytes` in all, compressed.

    `slices` are those of the cluster; `workers` files can be written at once.
    """
    most = max(1, int(estimated_bytes // (LEAST_BYTES * _MARGIN)))
    if most < slices:
        return max(1, min(rows, most))
    by_size = -(-int(estimated_bytes) // (slices * TARGET_BYTES))
    by_workers = min(-(-workers // slices), int(estimated_bytes // (slices * WORTH_A_WORKER)))
    return max(1, min(rows, slices * max(1, by_size, by_workers)))


def row_ranges(rows: int, count: int) -> list[tuple[int, int]]:
    """Yield the rows from start to end (exclusive) of each file; they differ by one row at most."""
    return [(rows * i // count, rows * (i + 1) // count) for i in range(count)]


# Writes rows as files to `s3_stage`, several at once, and the manifests that COPY reads.

_SAMPLE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CopyFile:
    """A file that COPY reads: its size in bytes and its number of rows."""

    url: str
    bytes: int
    rows: int


class S3StagingFolder(StagingFolder):
    """This run's folder in `s3_stage`; safe to use from any thread.

    `workers`, of which there are `parallel`, write and upload files; `slices` returns how many the cluster has, and is
    asked when rows are first uploaded.
    """

    def __init__(
        self,
        storage: Storage,
        root: Url,
        *,
        temporary: Callable[[str], Path],
        workers: DaemonPool,
        parallel: int,
        slices: Callable[[], int],
    ) -> None:
        super().__init__(storage, root, logger)
        self._temporary = temporary
        self._workers, self._parallel, self._slices = workers, parallel, slices

    def upload(self, spools: Sequence[Spool], encoding: UploadEncoding, *names: str) -> tuple[CopyFile, ...]:
        """Write the rows as files: a multiple of the slices where there is enough for that.

        Every file is written on local disk first, and is removed from there when it is uploaded. If one fails, none is
        left behind. Their names hold `names`: what they are for.
        """
        rows = sum(s.rows for s in spools)
        count = file_count(self._estimate(spools, encoding), rows=rows, slices=self._slices(), workers=self._parallel)
        writing: list[Future[CopyFile]] = [
            self._workers.submit(self._write, spools, span, encoding, self.name(*names, suffix=encoding.suffix))
            for span in row_ranges(rows, count)
        ]
        try:
            return tuple([f.result() for f in writing])
        except BaseException:
            for future in writing:
                future.cancel()
            wait(writing)
            done = [f.result().url for f in writing if not f.cancelled() and f.exception() is None]
            self.remove([Url.parse(url) for url in done])
            raise

    def put_manifest(self, files: Sequence[CopyFile], *names: str) -> Url:
        url = self.name(*names, suffix=".manifest")
        self.put(url, manifest(files))
        return url

    def _write(self, spools: Sequence[Spool], span: tuple[int, int], encoding: UploadEncoding, url: Url) -> CopyFile:
        path = self._temporary(encoding.suffix)
        try:
            rows = encoding.write(read_spools(spools, *span), path)
            return CopyFile(str(url), self.put(url, path), rows)
        finally:
            path.unlink(missing_ok=True)

    def _estimate(self, spools: Sequence[Spool], encoding: UploadEncoding) -> float:
        """Estimate the bytes of the rows as files from a sample."""
        rows, size = sum(s.rows for s in spools), sum(s.memory_bytes for s in spools)
        if size <= _SAMPLE_BYTES or not rows:
            return size / 4
        some = max(1, rows * _SAMPLE_BYTES // size)
        path = self._temporary(encoding.suffix)
        try:
            encoding.write(read_spools(spools, 0, some), path)
            return path.stat().st_size * rows / some
        finally:
            path.unlink(missing_ok=True)


def manifest(files: Iterable[CopyFile]) -> bytes:
    """Return the text of a manifest: each file must exist, with that size, which COPY of Parquet requires."""
    entries = [{"url": f.url, "mandatory": True, "meta": {"content_length": f.bytes}} for f in files]
    return json.dumps({"entries": entries}).encode()


# Batch files -> what COPY can read: the files themselves where they lie on S3 and fit, else rows on local disk.
#
# `prepare` runs for each item as soon as it was read, many at once. Of a Parquet file on S3 only the footer is fetched,
# of JSON Lines the first bytes. Everything else is read and converted; its rows wait on local disk for their group.

logger = logging.getLogger("target-redshift")
Item = AnyItem[Conversion]
# Of Parquet COPY reads, by Spectrum, these codecs, and version 1: without its later encodings, such as DELTA_BYTE_ARRAY
# [c-spectrum-data-files, copy-usage_notes-copy-from-columnar, read 2026-07]
_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_MOMENTS = ("_sdc_extracted_at", "_sdc_received_at", "_sdc_batched_at", "_sdc_sequence")
"""Columns with the time of a message; files that one COPY loads all get the time of the first."""
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"BZ": "bzip2"}


@dataclass(frozen=True, slots=True)
class Layout:
    """What all files of one COPY have in common."""

    file_format: str
    columns: tuple[StagingColumn, ...]  # of their staging table
    compression: str | None = None  # of text formats: gzip, zstd or bzip2

    @property
    def key(self) -> Layout:
        """What files of one COPY share: the moment at which each of their messages came does not part them."""

        def plain(c: StagingColumn) -> StagingColumn:
            is_rank = c.column is not None and c.column.source == RANK and c.change is not Change.RANK
            is_moment = c.name in _MOMENTS or (is_rank and (c.constant or "").startswith("received "))
            return replace(c, constant="") if c.constant and is_moment else c

        return replace(self, columns=tuple(map(plain, self.columns)))

    @property
    def is_ordered(self) -> bool:
        return any(c.name == staging.ORDER for c in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedItem(Prepared[Conversion]):
    """An item that is ready: files that COPY reads where they are, or converted rows on local disk."""

    files: tuple[tuple[Layout, CopyFile], ...] = ()
    spool: Spool | None = None
    has_long_json: bool = False  # some JSON is too long to be staged as text
    nuls: ValueReport = field(default_factory=ValueReport)  # characters that were replaced or removed
    long_texts: ValueReport = field(default_factory=ValueReport)  # texts that were rescued


class Files:
    """Makes items ready; safe to use from any thread.

    `parallel` items are converted at once; to look at files that stay as they are is mostly waiting.
    """

    def __init__(
        self,
        storage: Storage,
        temporary: Callable[[str], Path],
        *,
        upload_format: str,
        varchar_max: int,
        nul_text: str = NUL_FAIL,
        parallel: int = 1,
    ) -> None:
        self.storage, self.temporary = storage, temporary
        self.upload_format, self._varchar_max, self.nul_text = upload_format, varchar_max, nul_text
        self._warned: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._converting = threading.BoundedSemaphore(parallel)

    def prepare(self, item: Item, keys: Sequence[str] = (), rejects: Rejects | None = None) -> PreparedItem:
        """Make an item ready to be loaded; `keys` are key columns that its files must have.

        `rejects` collects the rows that cannot be loaded; without it the first one is an error.
        """
        found = self._as_it_is(item, keys)
        if isinstance(found, PreparedItem):
            return replace(found, rejects=rejects)
        logger.debug("Stream files %s are converted: %s", item.urls[:1], found.reason)
        return self.convert(item, rejects)

    def convert(self, item: Item, rejects: Rejects | None = None) -> PreparedItem:
        """Read an item's rows, and put them on local disk as they are to be uploaded; see `prepare` for `rejects`."""
        path, is_long = self.temporary(".arrow"), False
        conversion = item.conversion
        check = Check(conversion.columns, item.file_format, self._varchar_max, self.upload_format, self.nul_text)

        def noted() -> Iterator[pa.RecordBatch]:
            nonlocal is_long
            for batch in converted_batches(item, self.storage, prepare=check, rejects=rejects):
                is_long = is_long or has_long_json(batch)
                yield batch

        with self._converting:
            written = write_spool(noted(), conversion.upload_schema, path)
        if item.is_temporary:
            item.remove_files()
        return PreparedItem(
            item,
            written.rows,
            written.bytes,
            spool=written,
            has_long_json=is_long,
            nuls=check.found,
            long_texts=check.rescued,
            rejects=rejects,
        )

    def is_first(self, stream: str, what: str) -> bool:
        """Return True on the first call for a stream and a kind of warning, which is logged once a run."""
        with self._lock:
            is_first = (stream, what) not in self._warned
            self._warned.add((stream, what))
        return is_first

    def discard(self, *parts: PreparedItem) -> None:
        for part in parts:
            if part.spool:
                part.spool.path.unlink(missing_ok=True)

    def _as_it_is(self, item: Item, keys: Sequence[str]) -> PreparedItem | NotCopyable:
        if item.is_temporary or not item.urls or any(Url.parse(url).scheme != "s3" for url in item.urls):
            return NotCopyable("they are not on S3")
        if self.upload_format != "parquet":
            return NotCopyable("load_format is not parquet")
        if item.file_format == "arrow":
            return NotCopyable("COPY does not read Arrow files")
        look = self._parquet if item.file_format == "parquet" else self._jsonl
        files: list[tuple[Layout, CopyFile]] = []
        for url in item.urls:
            try:
                found = look(url, item, keys)
            except EmptyObjectError as error:
                return NotCopyable(str(error))
            if isinstance(found, NotCopyable):
                return found
            files.append(found)
        rows, size = sum(f.rows for _, f in files), sum(f.bytes for _, f in files)
        return PreparedItem(item, rows, size, files=tuple((layout, f) for layout, f in files if f.rows))

    def _parquet(self, url: str, item: Item, keys: Sequence[str]) -> tuple[Layout, CopyFile] | NotCopyable:
        with _missing_is_fatal():
            footer = read_footer(ObjectReader(self.storage, Url.parse(url)), url)
        schema = footer.metadata.schema.to_arrow_schema()
        if item.properties is not None:
            item.properties.check(schema, footer.metadata.num_rows, item.conversion.read_schema, url)
        if nulls := columns_with_nulls(footer.metadata, item.conversion.never_null):
            return NotCopyable(f"column {min(nulls)!r} holds nulls, and the SCHEMA requires it")
        columns_read, added = _parted(item.conversion)
        columns = staging.staging_columns(schema, columns_read, keys)
        if isinstance(columns, NotCopyable):
            return columns
        if unknown := (codecs_of(footer.metadata) - _CODECS) | (encodings_of(footer.metadata) - _ENCODINGS):
            return NotCopyable(f"COPY does not read {min(unknown)}")
        ranks = staging.rank_columns(columns, item.conversion.columns, item.conversion.rank_texts)
        if isinstance(ranks, NotCopyable):
            return ranks
        file = CopyFile(url, footer.size, footer.metadata.num_rows)
        return Layout("parquet", (*columns, *added, *ranks)), file

    def _jsonl(self, url: str, item: Item, keys: Sequence[str]) -> tuple[Layout, CopyFile] | NotCopyable:
        if item.batch_id is None or item.rows is None or len(item.urls) != 1:
            return NotCopyable("it is JSON Lines of another tap")
        columns_read, added = _parted(item.conversion)
        given = (item.conversion.given.field(c.source) for c in columns_read if c.kind != "SUPER")
        if fine := next((f.name for f in given if getattr(f.type, "unit", "") == "ns"), None):
            return NotCopyable(f"column {fine!r} may have digits beyond microseconds, which COPY cuts off")
        columns = staging.jsonl_columns(columns_read, keys)
        if isinstance(columns, NotCopyable):
            return columns
        ranks = staging.rank_columns(columns, item.conversion.columns, item.conversion.rank_texts)
        if isinstance(ranks, NotCopyable):
            return ranks
        with _missing_is_fatal():
            fetched = self.storage.get(Url.parse(url), start=0, end=4)
        head = bytes(fetched.data)
        compression = _MAGIC.get(head[:2])
        if compression is None and head[:1] != b"{":
            return NotCopyable("its compression is unknown")
        return Layout("jsonl", (*columns, *added, *ranks), compression), CopyFile(url, fetched.info.size, item.rows)


def _parted(conversion: Conversion) -> tuple[list[Column], list[StagingColumn]]:
    """Return the columns that files may have, and those that are added to them."""
    columns_read = [c for c in conversion.columns if c.source not in conversion.constants and not c.holds_long_texts]
    constants = {name: value for name, value in conversion.constants.items() if name != RANK}
    return columns_read, staging.constant_columns(conversion.columns, constants)


@contextmanager
def _missing_is_fatal() -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise missing_file(error) from None
