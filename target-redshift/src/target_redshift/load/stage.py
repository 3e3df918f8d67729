"""Writes rows as files to `s3_stage`, several at once, and the manifests that COPY reads."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from singer_arrow.errors import SingerArrowError
from singer_arrow.singer.workers import Workers
from singer_arrow.storage import Storage
from singer_arrow.urls import Url
from target_redshift.load import spool
from target_redshift.load.splits import file_count, row_ranges
from target_redshift.load.spool import Spool

logger = logging.getLogger("target-redshift")
FOLDER = "_sdc_loads"
"""Folder in `s3_stage` that has a folder for each run, named by its time."""
_TIME = "%Y%m%dT%H%M%SZ"
_LEFTOVER = timedelta(days=2)
_SAMPLE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CopyFile:
    """A file that COPY reads: its size in bytes, and how many rows it must find in it."""

    url: str
    bytes: int
    rows: int


class Encoding(Protocol):
    """A format of files that COPY reads."""

    @property
    def suffix(self) -> str:
        """Of the files' names."""
        ...

    def write(self, batches: Iterable[pa.RecordBatch], path: Path) -> int:
        """Write a file; the number of rows."""
        ...


class Stage:
    """This run's folder in `s3_stage`; safe to use from any thread.

    Args:
        storage: Reaches it.
        root: The setting.
        temporary: A new name for a temporary file, by its suffix.
        workers: What files are written and uploaded by.
        parallel: How many workers there are.
        slices: How many slices the cluster has; asked when rows are first uploaded.
    """

    def __init__(
        self,
        storage: Storage,
        root: Url,
        *,
        temporary: Callable[[str], Path],
        workers: Workers,
        parallel: int,
        slices: Callable[[], int],
    ) -> None:
        self._storage, self._temporary = storage, temporary
        self._workers, self._parallel, self._slices = workers, parallel, slices
        self._runs = root.join(FOLDER)
        self._folder = self._runs.join(f"{datetime.now(UTC).strftime(_TIME)}_{uuid.uuid4().hex[:12]}")
        self._lock = threading.Lock()
        self._objects: set[Url] = set()

    def upload(self, spools: Sequence[Spool], encoding: Encoding) -> tuple[CopyFile, ...]:
        """Write the rows as files: a multiple of the slices where there is enough for that.

        Every file is written on local disk first, and is removed from there when it is uploaded. If one fails, none is
        left behind.
        """
        rows = sum(s.rows for s in spools)
        count = file_count(self._estimate(spools, encoding), rows=rows, slices=self._slices(), workers=self._parallel)
        folder = self._folder.join(uuid.uuid4().hex)
        writing: list[Future[CopyFile]] = [
            self._workers.submit(self._write, spools, span, encoding, folder.join(f"{n:05d}{encoding.suffix}"))
            for n, span in enumerate(row_ranges(rows, count))
        ]
        try:
            return tuple([f.result() for f in writing])
        except BaseException:
            for future in writing:
                future.cancel()
            wait(writing)
            self.remove([f.result().url for f in writing if not f.cancelled() and f.exception() is None])
            raise

    def put_manifest(self, files: Sequence[CopyFile]) -> Url:
        """Write the manifest of a COPY."""
        url = self._noted(self._folder.join(f"{uuid.uuid4().hex}.manifest"))
        self._storage.put(url, manifest(files))
        return url

    def remove(self, urls: Iterable[str | Url]) -> None:
        """Remove objects of this run; where that fails they stay, and a later run removes them."""
        found = [url if isinstance(url, Url) else Url.parse(url) for url in urls]
        with self._lock:
            self._objects.difference_update(found)
        try:
            self._storage.delete(found)
        except SingerArrowError as error:  # what they held is loaded, or will be loaded anew
            logger.warning("%d staged files could not be removed: %s", len(found), error)

    def close(self) -> None:
        """Remove what is left of this run."""
        with self._lock:
            left = list(self._objects)
        if left:
            self.remove(left)

    def remove_leftovers(self) -> None:
        """Remove what killed runs left in `s3_stage`, but nothing that may still be in use."""
        before = datetime.now(UTC) - _LEFTOVER
        runs = Url(self._runs.scheme, self._runs.bucket, f"{self._runs.key}/")
        try:
            old = [o.url for o in self._storage.list(runs, plain=True) if o.modified < before]
        except SingerArrowError as error:
            logger.debug("Leftovers could not be listed: %s", error)
            return
        if old:
            logger.info("Removing %d files that interrupted runs left in %s", len(old), self._runs)
            self.remove(old)

    def _noted(self, url: Url) -> Url:
        with self._lock:
            self._objects.add(url)
        return url

    def _write(self, spools: Sequence[Spool], span: tuple[int, int], encoding: Encoding, url: Url) -> CopyFile:
        path = self._temporary(encoding.suffix)
        try:
            rows = encoding.write(spool.read(spools, *span), path)
            return CopyFile(str(url), self._storage.put_file(self._noted(url), path), rows)
        finally:
            path.unlink(missing_ok=True)

    def _estimate(self, spools: Sequence[Spool], encoding: Encoding) -> float:
        """What the rows will weigh as files, told from the first of them."""
        rows, size = sum(s.rows for s in spools), sum(s.memory_bytes for s in spools)
        if size <= _SAMPLE_BYTES or not rows:
            return size / 4
        some = max(1, rows * _SAMPLE_BYTES // size)
        path = self._temporary(encoding.suffix)
        try:
            encoding.write(spool.read(spools, 0, some), path)
            return path.stat().st_size * rows / some
        finally:
            path.unlink(missing_ok=True)


def manifest(files: Iterable[CopyFile]) -> bytes:
    """The text of a manifest: each file must be there, and be of that size, which COPY of Parquet asks for."""
    entries = [{"url": f.url, "mandatory": True, "meta": {"content_length": f.bytes}} for f in files]
    return json.dumps({"entries": entries}).encode()
