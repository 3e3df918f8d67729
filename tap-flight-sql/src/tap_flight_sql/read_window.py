"""Read the rows of a window into batch files: all endpoints of the query at once, each by a connection of its own.

A result cannot be resumed: its tickets expire with the query, and another run of the query may have other rows. So if
anything is lost, its files are removed, and the whole window is read again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from singer_arrow.batch.settings import BatchSettings
from singer_arrow.batch.writer import write_batch_files
from singer_arrow.enforcement.enforce import fit_batch
from singer_arrow.errors import ServiceError
from singer_arrow.load.daemon_pool import DaemonPool
from singer_arrow.naming import folder_name
from singer_arrow.runtime.threads import Stopped
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.server import Server
from tap_flight_sql.window import WindowFile

logger = logging.getLogger("tap-flight-sql")
TRIES = 3
PAUSES = (2.0, 8.0)
"""Seconds before the second and the third try: a server that is started again needs some."""
_SLICE_BYTES = 16 << 20
"""Messages of a server may be much larger; their rows are converted and encoded in slices."""


@dataclass(frozen=True, slots=True)
class _Try:
    """One reading of a window; `token` is in the names of its files, and `written` are those that are there."""

    schema: pa.Schema
    token: str
    written: list[WindowFile]
    stop: threading.Event = field(default_factory=threading.Event)


class WindowReader:
    """Reads windows of one stream; each of its `workers` gathers `held_bytes` bytes of rows before it encodes them."""

    def __init__(
        self, stream: str, server: Server, storage: Storage, batch: BatchSettings, *, workers: int, held_bytes: int
    ) -> None:
        self._stream, self._server, self._storage, self._batch = stream, server, storage, batch
        self._workers, self._held_bytes = workers, held_bytes

    def read(self, query: str, schema: pa.Schema, new_token: Callable[[], str]) -> tuple[str, list[WindowFile]]:
        """Return the files of a query, in the order of its endpoints, once all of them are durable, and their token.

        `new_token` is called for each of three tries.
        """
        for number in range(1, TRIES + 1):
            files: list[WindowFile] = []
            token = new_token()
            try:
                return token, self._read(query, schema, token, files)
            except BaseException as error:
                self._storage.delete([Url.parse(file.url) for file in files])
                if not isinstance(error, ServiceError):
                    raise
                if number == TRIES:
                    msg = f"Stream {self._stream!r}: {error}; no row of it was sent after {TRIES} tries: run again"
                    raise ServiceError(msg) from None
                text = "Stream %r: %s; the window is read again (%d of %d)"
                logger.warning(text, self._stream, error, number + 1, TRIES)
                time.sleep(PAUSES[number - 1])
        raise AssertionError

    def _read(self, query: str, schema: pa.Schema, token: str, written: list[WindowFile]) -> list[WindowFile]:
        """Read the window once; `written` gets each file as soon as it is there."""
        reading, pool = _Try(schema, token, written), DaemonPool(self._workers, "endpoint")
        try:
            with self._server.query(query) as result:
                begun = time.monotonic()
                futures = [pool.submit(self._read_partition, reading, n, p) for n, p in enumerate(result.partitions)]
                files = [file for future in futures for file in future.result()]
                rows = sum(file.rows for file in files)
                if result.rows is not None and rows != result.rows:
                    msg = f"{self._server.uri}: the query has {result.rows} rows, and its endpoints sent {rows}"
                    raise ServiceError(msg)
                text = "Stream %r: %d rows of %d endpoints are in %d batch files, after %.2f seconds"
                seconds = time.monotonic() - begun
                logger.info(text, self._stream, rows, len(result.partitions), len(files), seconds)
                return files
        finally:
            reading.stop.set()
            pool.stop(seconds=1.0)

    def _read_partition(self, reading: _Try, number: int, partition: bytes) -> list[WindowFile]:
        name = f"{self._batch.prefix}{folder_name(self._stream)}--{reading.token}-{number}"
        where = f"{self._server.uri}, stream {self._stream!r}, endpoint {number}"
        found = []
        with self._server.read(partition) as batches, closing(_fitted(batches, reading, where)) as fitted:
            for file in write_batch_files(
                fitted,
                reading.schema,
                storage=self._storage,
                url_of=lambda first, rows: self._batch.root.join(f"{name}-{first}-{rows}.{self._batch.suffix}"),
                format=self._batch.format,
                compression=self._batch.compression,
                target_bytes=self._batch.target_bytes,
                held_bytes=self._held_bytes,
            ):
                found.append(WindowFile(str(file.url), file.rows, file.bytes))
                reading.written.append(found[-1])
        return found


def _fitted(batches: Iterator[pa.RecordBatch], reading: _Try, where: str) -> Generator[pa.RecordBatch]:
    """Yield the rows in exactly the columns of the window; an error names endpoint, row and column."""
    row = 1
    for batch in batches:
        count = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, count):
            if reading.stop.is_set():
                raise Stopped
            part = batch.slice(start, count)
            yield fit_batch(part, reading.schema, where, first_row=row)
            row += part.num_rows
