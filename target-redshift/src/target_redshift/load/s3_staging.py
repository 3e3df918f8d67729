"""Writes rows as files to `s3_stage`, several at once, and the manifests that COPY reads."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from singer_arrow.load import row_spool as spool
from singer_arrow.load import staging as stage
from singer_arrow.load.daemon_pool import DaemonPool
from singer_arrow.load.row_spool import Spool
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from target_redshift.load.file_count import file_count, row_ranges

logger = logging.getLogger("target-redshift")
_SAMPLE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CopyFile:
    """A file that COPY reads: its size in bytes and its number of rows."""

    url: str
    bytes: int
    rows: int


class Encoding(Protocol):
    """A format of files that COPY reads: the suffix of their names, and a writer, which returns the number of rows."""

    @property
    def suffix(self) -> str: ...

    def write(self, batches: Iterable[pa.RecordBatch], path: Path) -> int: ...


class S3StagingFolder(stage.StagingFolder):
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

    def upload(self, spools: Sequence[Spool], encoding: Encoding, *names: str) -> tuple[CopyFile, ...]:
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
        """Write the manifest of a COPY and return its URL."""
        url = self.name(*names, suffix=".manifest")
        self.put(url, manifest(files))
        return url

    def _write(self, spools: Sequence[Spool], span: tuple[int, int], encoding: Encoding, url: Url) -> CopyFile:
        path = self._temporary(encoding.suffix)
        try:
            rows = encoding.write(spool.read(spools, *span), path)
            return CopyFile(str(url), self.put(url, path), rows)
        finally:
            path.unlink(missing_ok=True)

    def _estimate(self, spools: Sequence[Spool], encoding: Encoding) -> float:
        """Estimate the bytes of the rows as files from a sample."""
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
    """Return the text of a manifest: each file must exist, with that size, which COPY of Parquet requires."""
    entries = [{"url": f.url, "mandatory": True, "meta": {"content_length": f.bytes}} for f in files]
    return json.dumps({"entries": entries}).encode()
