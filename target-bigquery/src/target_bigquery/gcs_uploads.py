"""Batch files -> files on Google Cloud Storage, of which one load job takes many: `gcs_stage`.

Parquet files that are on Google Cloud Storage already, and whose columns are the table's, are loaded where they are; of
them the footer is read, and where there are lists the file, to look at their values. All others are put into the stage
one by one, as they are ready: as they are, or converted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from singer_arrow.errors import EmptyObjectError, LoadError, NotFoundError
from singer_arrow.formats.parquet_read import codecs_of, columns_with_nulls, read_footer
from singer_arrow.load.dead_letters import Rejects
from singer_arrow.load.staging import StagingFolder
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.runtime.threads import DaemonPool
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from target_bigquery.conversion import has_bad_dates, loads_as_it_is, needs_list_check
from target_bigquery.uploads import TAKEN_CODECS, Files, Item, PreparedItem, Processes, Upload

MOST_URIS = 10_000
MOST_BYTES = 15 * 10**12
"""What one load job takes (https://cloud.google.com/bigquery/quotas#load_jobs)."""
_SUFFIXES = {"parquet": ".parquet", "avro": ".avro", "jsonl": ".jsonl.gz"}
_SPECIAL = frozenset("*#")
"""In a URI of a load job they are no letters: a wildcard, and what precedes a generation."""
_LOOKING = 8


class StagedFiles(Files):
    """As the base, with uploads that are on Google Cloud Storage when their load job is inserted.

    `parallel` items are fetched or converted at once; looking at files and putting them is mostly waiting.
    """

    def __init__(
        self,
        storage: Storage,
        temporary: Callable[[str], Path],
        processes: Processes,
        stage: StagingFolder,
        parallel: int,
    ) -> None:
        super().__init__(storage, temporary, processes)
        self._stage = stage
        self._converting = threading.BoundedSemaphore(parallel)

    def prepare(self, item: Item, upload_format: str, rejects: Rejects | None = None) -> PreparedItem:
        """Make an item ready to be joined with others, and put its files into the stage."""
        found = self._in_place(item) if upload_format == "parquet" == item.file_format else None
        if found and not needs_list_check(item.conversion.columns):
            return replace(found, rejects=rejects)
        with self._converting:
            part = super().prepare(item, upload_format, rejects)  # which looks at the values of lists
        try:
            if found and part.as_it_is:
                return replace(found, rejects=rejects)
            return replace(self._put(part, upload_format), rejects=rejects) if part.rows else part
        finally:
            self.discard(*part.files)

    def join(self, parts: Sequence[PreparedItem], upload_format: str) -> Upload:
        """Join all files of a group into one upload, of several load jobs if one does not take them."""
        if any(part.spool for part in parts):
            return super().join(parts, upload_format)
        uris = tuple(uri for part in parts for uri in part.uris)
        watched = [info for part in parts for info in part.in_place]
        rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
        groups = self.per_job(parts)
        jobs = tuple(self.join(group, upload_format) for group in groups) if len(groups) > 1 else ()
        check = partial(_check_unchanged, self.storage, watched)
        return Upload(None, upload_format, rows, size, is_temporary=False, uris=uris, jobs=jobs, check=check)

    def per_job(self, parts: Iterable[PreparedItem]) -> list[list[PreparedItem]]:
        """Group uploads by what one job takes."""
        groups: list[list[PreparedItem]] = []
        uris = size = 0
        for part in parts:
            uris, size = uris + len(part.uris), size + part.bytes
            if not groups or uris > MOST_URIS or size > MOST_BYTES:
                groups.append([])
                uris, size = len(part.uris), part.bytes
            groups[-1].append(part)
        return groups

    def _in_place(self, item: Item) -> PreparedItem | None:
        """Return the item's own files, if a load job takes all of them where they are."""
        conversion, urls = item.conversion, [Url.parse(url) for url in item.urls]
        if item.is_temporary or not 0 < len(urls) <= MOST_URIS:
            return None
        if not all(url.startswith("gs://") and _SPECIAL.isdisjoint(url) for url in item.urls):
            return None
        if conversion.constants or conversion.place is not None:
            return None
        infos, rows = [], 0
        for url in urls:
            reader = ObjectReader(self.storage, url)
            try:
                metadata = read_footer(reader, url).metadata
            except (NotFoundError, EmptyObjectError):
                return None  # fetching it raises the error
            fits = loads_as_it_is(metadata.schema.to_arrow_schema(), conversion.columns)
            fits = fits and not columns_with_nulls(metadata, conversion.never_null)
            fits = fits and not has_bad_dates(metadata)  # fetching it raises the error
            if not fits or not codecs_of(metadata) <= TAKEN_CODECS or reader.info is None:
                return None
            infos.append(reader.info)
            rows += metadata.num_rows
        size = sum(info.size for info in infos)
        return PreparedItem(item, rows=rows, bytes=size, as_it_is=True, uris=item.urls, in_place=tuple(infos))

    def _put(self, part: PreparedItem, upload_format: str) -> PreparedItem:
        """Put what `prepare` has made ready into the stage."""
        item, joined = part.item, None
        paths, rows = [file.path for file in part.files], part.rows
        try:
            if not part.as_it_is or len(paths) > MOST_URIS:
                joined = super().join([part], upload_format)
                assert joined.path
                paths, rows = [joined.path] if joined.rows else [], joined.rows
            names = (item.stream, item.batch_id or "records")
            urls = [self._stage.name(*names, suffix=_SUFFIXES[upload_format]) for _ in paths]
            size = sum(self._stage.put(url, path) for url, path in zip(urls, paths, strict=True))
        finally:
            if joined:
                self.discard(joined)
        uris = tuple(str(url) for url in urls)
        return PreparedItem(item, rows=rows, bytes=size, as_it_is=True, uris=uris, staged=tuple(urls))


def _check_unchanged(storage: Storage, infos: Sequence[ObjectInfo]) -> None:
    """Check that files loaded in place are as they were prepared; else BigQuery may have read another version."""
    if not infos:
        return
    workers = DaemonPool(_LOOKING, "look")
    try:
        looking = [workers.submit(storage.head, info.url) for info in infos]
        for info, future in zip(infos, looking, strict=True):
            try:
                same = info.same_version(future.result())
            except NotFoundError:
                same = False
            if not same:
                raise LoadError(
                    f"{info.url} was replaced or deleted while BigQuery loaded it; check which of its rows the table "
                    "has, and keep batch files unchanged while they are loaded"
                )
    finally:
        workers.stop()
