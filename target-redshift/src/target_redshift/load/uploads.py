"""Batch files -> what COPY can read: the files themselves where they lie on S3 and fit, else rows on local disk.

`prepare` runs for each item as soon as it was read, many at once. Of a Parquet file on S3 only the footer is fetched,
of JSON Lines the first bytes. Everything else is read and converted; its rows wait on local disk for their group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from singer_arrow.batch.reader import missing_file
from singer_arrow.errors import EmptyObjectError, NotFoundError
from singer_arrow.formats.parquet.parquet_format import codecs_of, columns_with_nulls, read_footer
from singer_arrow.load import item as items
from singer_arrow.load import row_spool as spool
from singer_arrow.load.conversion import RANK, converted_batches
from singer_arrow.load.dead_letters import Rejects
from singer_arrow.load.row_spool import Spool
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from target_redshift.conversion import Check, Conversion, ValueReport, has_long_json
from target_redshift.load.s3_staging import CopyFile
from target_redshift.nul_characters import FAIL
from target_redshift.tables import staging_columns as staging
from target_redshift.tables.staging_columns import Change, NotCopyable, StagingColumn
from target_redshift.tables.types import Column

logger = logging.getLogger("target-redshift")
Item = items.Item[Conversion]
_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
"""Of Parquet's codecs those that COPY reads."""
_MOMENTS = ("_sdc_extracted_at", "_sdc_received_at", "_sdc_batched_at", "_sdc_sequence")
"""Columns with the time of a message; files that one COPY loads all get the time of the first."""
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"BZ": "bzip2"}


@dataclass(frozen=True, slots=True)
class Layout:
    """What all files of one COPY have in common; the columns are those of their staging table.

    `compression` is gzip, zstd or bzip2 for text formats, None for Parquet.
    """

    file_format: str
    columns: tuple[StagingColumn, ...]
    compression: str | None = None

    @property
    def key(self) -> Layout:
        """What files of one COPY share: the moment at which each of their messages came does not part them."""
        plain = [replace(c, constant="") if c.constant and _is_moment(c) else c for c in self.columns]
        return replace(self, columns=tuple(plain))

    @property
    def is_ordered(self) -> bool:
        """Whether rows have their place in them."""
        return any(c.name == staging.ORDER for c in self.columns)


@dataclass(frozen=True, slots=True)
class PreparedItem:
    """An item that is ready: files that COPY reads where they are, or converted rows on local disk.

    `has_long_json`: some JSON is too long to be staged as text; `nuls`, which characters were replaced
    or removed; `long_texts`, which texts were rescued; `rejects`, which rows are left out, where there may be some.
    """

    item: Item
    rows: int = 0
    bytes: int = 0
    files: tuple[tuple[Layout, CopyFile], ...] = ()
    spool: Spool | None = None
    has_long_json: bool = False
    nuls: ValueReport = field(default_factory=ValueReport)
    long_texts: ValueReport = field(default_factory=ValueReport)
    rejects: Rejects | None = None


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
        nul_text: str = FAIL,
        parallel: int = 1,
    ) -> None:
        self.storage, self.temporary = storage, temporary
        self._upload_format, self._varchar_max, self.nul_text = upload_format, varchar_max, nul_text
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
        check = Check(conversion.columns, item.file_format, self._varchar_max, self._upload_format, self.nul_text)

        def noted() -> Iterator[pa.RecordBatch]:
            nonlocal is_long
            for batch in converted_batches(item, self.storage, prepare=check, rejects=rejects):
                is_long = is_long or has_long_json(batch)
                yield batch

        with self._converting:
            written = spool.write(noted(), conversion.upload_schema, path)
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
        """Remove temporary files."""
        for part in parts:
            if part.spool:
                part.spool.path.unlink(missing_ok=True)

    def _as_it_is(self, item: Item, keys: Sequence[str]) -> PreparedItem | NotCopyable:
        """Return the item's own files, if COPY can read all of them."""
        if item.is_temporary or not item.urls or any(Url.parse(url).scheme != "s3" for url in item.urls):
            return NotCopyable("they are not on S3")
        if self._upload_format != "parquet":
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
        if unknown := codecs_of(footer.metadata) - _CODECS:
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


def _is_moment(column: StagingColumn) -> bool:
    is_rank = column.column is not None and column.column.source == RANK and column.change is not Change.RANK
    return column.name in _MOMENTS or (is_rank and (column.constant or "").startswith("received "))


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
