"""Batch files -> the one file that a load job takes.

`prepare` runs for each item as soon as it was read, many at once: Parquet is fetched and looked at; everything else is
read, converted and written as a file of the upload's format. `join` makes one file of those of a group: a single one is
taken as it is, Avro files and the row groups of Parquet files are put one after the other, and Parquet files that have
small ones, are not alike, or need a change are rewritten.
"""

from __future__ import annotations

import itertools
import mmap
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from singer_arrow.batch.files import missing_file, read_file
from singer_arrow.errors import DataError, LoadError, NotFoundError
from singer_arrow.formats import WRITABLE, WriteOptions, parquet_concat
from singer_arrow.formats.avro import can_write_fast
from singer_arrow.formats.avro_container import header_size
from singer_arrow.load.convert import Spool, converted_batches, fit_batches, read_spools, write_spool
from singer_arrow.load.dead_letters import Rejects, TooManyRejectedError
from singer_arrow.load.method import Item as AnyItem
from singer_arrow.load.method import LocalFile, Prepared
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from target_bigquery.conversion import (
    Conversion,
    check_values,
    columns_to_check,
    has_dates,
    loads_as_it_is,
    needs_list_check,
    with_quoted_numbers,
)
from target_bigquery.types import Column, has_kind

# Processes for what holds Python's lock: writing nested rows as Avro.


class Processes:
    """A pool that is started on first use. Its processes end with this one, however it ends."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def write_avro(self, source: Path, path: Path, codec: str) -> int:
        """Write an Avro file from an Arrow stream on disk, and return the number of rows."""
        from concurrent.futures.process import BrokenProcessPool

        from singer_arrow.formats.avro import write_stream

        try:
            with self._lock:
                if self._pool is None:
                    # a fork would inherit locks and the SDK's signal handlers
                    context = multiprocessing.get_context("spawn")
                    self._pool = ProcessPoolExecutor(self._count, context, _end_with_parent, (os.getpid(),))
                pool = self._pool
            return pool.submit(write_stream, source, path, codec).result()
        except BrokenProcessPool:
            msg = "A process that wrote Avro was killed, probably for want of memory; lower max_parallel_loads"
            raise LoadError(msg) from None

    def close(self) -> None:
        with self._lock:
            if self._pool is None:
                return
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                if process.name.startswith("SpawnProcess"):
                    process.terminate()
            self._pool = None


def _end_with_parent(parent: int) -> None:
    """End the worker with its parent; the pipe that it waits on is held open by the worker itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a pipe; the parent decides
    threading.Thread(target=watch, daemon=True).start()


AVRO_CODEC = "snappy"
PARQUET_CODEC = "zstd"
CHUNK_BYTES = 64 << 10
"""Average size of column chunks from which they are not merged into larger ones."""
TAKEN_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
"""Parquet codecs that BigQuery documents; files with other codecs are rewritten."""
INLINE_BYTES = 8 << 20
"""Size up to which a file is written here, because starting a process would take longer."""


Item = AnyItem[Conversion]


def upload_format(load_format: str, columns: Sequence[Column]) -> str:
    """Return the format that items are uploaded as. Parquet cannot hold JSON columns; Avro can."""
    chosen = "parquet" if load_format == "auto" else load_format
    return "avro" if chosen == "parquet" and has_kind(columns, "JSON") else chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedItem(Prepared[Conversion]):
    """An item that is ready: local files that a load job takes as they are, or that `join` must still convert."""

    files: tuple[LocalFile, ...] = ()
    as_it_is: bool = False
    uris: tuple[str, ...] = ()  # with `gcs_stage`, where there are no local files: where load jobs read them
    staged: tuple[Url, ...] = ()  # those of them that are the target's own
    in_place: tuple[ObjectInfo, ...] = ()  # the others
    spool: Spool | None = None  # its other rows, as they are to be uploaded, if they were read for that


@dataclass(frozen=True, slots=True)
class Upload:
    """What a load job takes: a local file, or else `uris` of files on Google Cloud Storage."""

    path: Path | None
    file_format: str
    rows: int
    bytes: int
    is_temporary: bool
    uris: tuple[str, ...] = ()
    jobs: tuple[Upload, ...] = ()  # the parts of it where it takes several jobs
    check: Callable[[], None] | None = None  # called when it is loaded; raises if that was not what it should have been


class Files:
    """Makes uploads of items; safe to use from any thread."""

    def __init__(self, storage: Storage, temporary: Callable[[str], Path], processes: Processes) -> None:
        self.storage, self.temporary, self._processes = storage, temporary, processes

    def prepare(self, item: Item, upload_format: str, rejects: Rejects | None = None) -> PreparedItem:
        """Make an item ready to be joined with others, as a file of the upload's format.

        `rejects` collects the rows that cannot be loaded; without it the first one is an error.
        """
        if upload_format == "parquet" == item.file_format:
            return self._fetch(item, rejects)
        path = self.temporary(f".{upload_format}")
        batches = converted_batches(item, self.storage, rejects=rejects)
        rows = self._write(batches, item.conversion.upload_schema, path, upload_format)
        if item.is_temporary and rejects is None:  # else it may be read again
            item.remove_files()
        file = LocalFile(path, item.urls[0] if item.urls else "", is_temporary=True)
        return PreparedItem(item, rows, path.stat().st_size, rejects, files=(file,), as_it_is=True)

    def spooled(self, part: PreparedItem) -> PreparedItem:
        """Return the part with its rows in an Arrow file on local disk, from which any of them can be uploaded."""
        batches = converted_batches(part.item, self.storage, rejects=part.rejects)
        spool = write_spool(batches, part.item.conversion.upload_schema, self.temporary(".arrow"))
        return replace(part, rows=spool.rows, spool=spool)

    def write(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, upload_format: str) -> Upload:
        path = self.temporary(f".{upload_format}")
        rows = self._write(iter(batches), schema, path, upload_format)
        return Upload(path, upload_format, rows, path.stat().st_size, is_temporary=True)

    def join(self, parts: Sequence[PreparedItem], upload_format: str) -> Upload:
        """Make one file of the files of a group, which stay until they are discarded."""
        if spools := [part.spool for part in parts if part.spool]:
            rows = sum(spool.rows for spool in spools)
            schema = parts[0].item.conversion.upload_schema
            return self.write(read_spools(spools, 0, rows), schema, upload_format)
        files = [file for part in parts for file in part.files]
        rows = sum(part.rows for part in parts)
        if len(files) == 1 and parts[0].as_it_is:
            size = files[0].path.stat().st_size
            return Upload(files[0].path, upload_format, rows, size, is_temporary=files[0].is_temporary)
        path = self.temporary(f".{upload_format}")
        if upload_format == "avro":  # they were written here, with the same schema and the same sync marker
            with path.open("wb") as out:
                for number, file in enumerate(files):
                    with file.path.open("rb") as source:
                        if number:
                            mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
                            with mapped, memoryview(mapped) as view:
                                source.seek(header_size(view))
                        shutil.copyfileobj(source, out, 1 << 20)
        elif upload_format == "jsonl":  # one gzip file of a single member, which all readers accept
            from isal import igzip

            opened: Any = igzip.open  # it has no types
            with opened(path, "wb", compresslevel=1) as out:
                for file in files:
                    with opened(file.path, "rb") as source:
                        shutil.copyfileobj(source, out, 1 << 20)
        elif not _join_parquet(parts, path):
            batches = (batch for part in parts for batch in self._reread(part))
            schema = parts[0].item.conversion.upload_schema
            rows = WRITABLE["parquet"].write(batches, schema, path, WriteOptions(PARQUET_CODEC))
        return Upload(path, upload_format, rows, path.stat().st_size, is_temporary=True)

    def per_job(self, parts: Sequence[PreparedItem]) -> list[list[PreparedItem]]:
        """Return the parts of a group by load job: here one job for all."""
        return [list(parts)] if parts else []

    def discard(self, *things: PreparedItem | Upload | LocalFile) -> None:
        for thing in things:
            if isinstance(thing, PreparedItem) and thing.spool:
                thing.spool.path.unlink(missing_ok=True)
            if isinstance(thing, PreparedItem) and thing.rejects is not None and thing.item.is_temporary:
                thing.item.remove_files()
            for file in thing.files if isinstance(thing, PreparedItem) else (thing,):
                if file.is_temporary and file.path:
                    file.path.unlink(missing_ok=True)

    def _fetch(self, item: Item, rejects: Rejects | None) -> PreparedItem:
        import pyarrow.parquet as pq

        from singer_arrow.formats.parquet_read import codecs_of, columns_with_nulls

        conversion, files, rows, size, fits = item.conversion, list[LocalFile](), 0, 0, True
        for url in item.urls:
            parsed = Url.parse(url)
            try:
                if parsed.scheme == "file":
                    file = LocalFile(parsed.local_path(), url, item.is_temporary)
                    if not (os.access(file.path, os.R_OK) and file.path.is_file()):
                        self.storage.head(parsed)  # an error that names the cause
                else:
                    file = LocalFile(self.temporary(".parquet"), url, is_temporary=True)
                    self.storage.download(parsed, file.path)
            except NotFoundError as error:
                raise missing_file(error) from None
            try:
                with pq.ParquetFile(file.path) as opened:
                    schema, footer = opened.schema_arrow, opened.metadata
                    count, codecs = footer.num_rows, codecs_of(footer)
                    nulls = columns_with_nulls(footer, conversion.never_null)
            except (pa.ArrowException, OSError) as error:
                msg = f"not a Parquet file, or its footer is broken ({' '.join(str(error).split())[:200]})"
                raise DataError(msg, url=url, hint="Run the tap again") from None
            if item.properties is not None:
                item.properties.check(schema, count, conversion.read_schema, url)
            fits = fits and not nulls and not conversion.constants and conversion.place is None
            fits = fits and codecs <= TAKEN_CODECS and loads_as_it_is(schema, conversion.columns)
            files.append(file)
            rows += count
            size += file.path.stat().st_size
        needing = [c for c in conversion.columns if needs_list_check([c]) or has_dates([c])]
        if fits and needing:
            # the values that BigQuery would refuse or change are checked, without converting the others
            try:
                for file in files:
                    columns = columns_to_check(pq.read_metadata(file.path), needing)
                    checked = pa.schema([conversion.read_schema.field(c.source) for c in columns])
                    for batch in self._read(file, checked) if columns else ():
                        for column, array in zip(columns, batch.columns, strict=True):
                            check_values(array, column, file.url)
            except DataError:  # the conversion names its row, or leaves it out
                fits = False
        return PreparedItem(item, rows, size, rejects, files=tuple(files), as_it_is=fits)

    def _reread(self, part: PreparedItem) -> Iterator[pa.RecordBatch]:
        conversion = part.item.conversion
        if part.as_it_is:  # its names are those of columns, not of properties
            for file in part.files:
                yield from self._read(file, conversion.upload_schema)
            return
        if part.rejects is not None:
            part.rejects.reset()
        exact = conversion.keys
        sources = ((f.url, self._read(f, conversion.read_schema, part.rejects, exact)) for f in part.files)
        yield from conversion.all_batches(sources, rejects=part.rejects)

    def _read(
        self, file: LocalFile, schema: pa.Schema, rejects: Rejects | None = None, exact: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read a local copy of a Parquet file. Errors name the original file."""
        url = str(Url.parse(str(file.path)))
        on_skip = rejects.skip_callback(file.url) if rejects is not None else None
        try:
            yield from read_file(self.storage, url, format="parquet", schema=schema, on_skip=on_skip, exact=exact)
        except TooManyRejectedError:
            raise
        except DataError as error:
            raise error.at(file.url) from None

    def _write(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path, file_format: str) -> int:
        if file_format == "avro" and not can_write_fast(schema):
            return self._write_nested(batches, schema, path)
        if file_format == "jsonl":
            schema = pa.schema([f.with_type(with_quoted_numbers(f.type)) for f in schema])
            batches = fit_batches(batches, schema)
        codec = {"avro": AVRO_CODEC, "parquet": PARQUET_CODEC}.get(file_format, "gzip")
        return WRITABLE[file_format].write(batches, schema, path, WriteOptions(codec))

    def _write_nested(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> int:
        """Write nested rows as Avro in processes, because the conversion to Python objects holds Python's lock."""
        first, size = [], 0
        for batch in batches:
            first.append(batch)
            size += batch.nbytes
            if size > INLINE_BYTES:
                break
        else:
            return WRITABLE["avro"].write(first, schema, path, WriteOptions(AVRO_CODEC))
        stream = self.temporary(".arrows")
        try:
            with pa.OSFile(str(stream), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
                for batch in itertools.chain(first, batches):
                    writer.write_batch(batch)
            return self._processes.write_avro(stream, path, AVRO_CODEC)
        finally:
            stream.unlink(missing_ok=True)


def _join_parquet(parts: Sequence[PreparedItem], target: Path) -> bool:
    """Join Parquet files without decoding them; return False if they differ or have small row groups."""
    if not all(part.as_it_is for part in parts):
        return False
    joined = parquet_concat.join([f.path for part in parts for f in part.files], target, chunk_bytes=CHUNK_BYTES)
    if joined is None:
        return False
    if joined != sum(part.rows for part in parts):
        url = parts[0].item.urls[0] if parts[0].item.urls else ""
        msg = "this batch file, or one that is loaded with it, was replaced while it was read"
        raise DataError(msg, url=url, hint="Run the tap again")
    return True
