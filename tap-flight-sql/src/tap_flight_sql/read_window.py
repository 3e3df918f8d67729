"""Read the rows of a window into batch files: all endpoints of the query at once, each by a connection of its own.

A result cannot be resumed: its tickets expire with the query, and another run of the query may have other rows. So if
anything is lost, its files are removed, and the whole window is read again.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from functools import partial

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
from tap_flight_sql.settings import Settings
from tap_flight_sql.window import WindowFile

logger = logging.getLogger("tap-flight-sql")
TRIES = 3
PAUSES = (2.0, 8.0)
"""Seconds before the second and the third try: a server that is started again needs some."""
_SLICE_BYTES = 16 << 20
"""Messages of a server may be much larger; their rows are converted and encoded in slices."""


class WindowReader:
    """Reads windows of one stream into batch files with exactly the columns of `schema`."""

    def __init__(
        self, stream: str, server: Server, storage: Storage, batch: BatchSettings, *, schema: pa.Schema, run: Settings
    ) -> None:
        self._stream, self._server, self._storage, self._batch = stream, server, storage, batch
        self._schema, self._run = schema, run

    def read(self, query: str) -> tuple[str, list[WindowFile]]:
        """Return the files of a query, in the order of its endpoints, once all of them are durable, and their token.

        Each of three tries has a token of its own, which is in the names of its files.
        """
        for number in range(1, TRIES + 1):
            token, written, stop = secrets.token_hex(16), list[WindowFile](), threading.Event()
            pool = DaemonPool(self._run.max_workers, "endpoint")
            read_endpoint = partial(self._read_endpoint, token, written, stop)
            try:
                with ExitStack() as endpoints, self._server.query(query) as result:
                    endpoints.callback(pool.stop, seconds=1.0)
                    endpoints.callback(stop.set)
                    begun = time.monotonic()
                    futures = [pool.submit(read_endpoint, n, p) for n, p in enumerate(result.partitions)]
                    files = [file for future in futures for file in future.result()]
                    rows = sum(file.rows for file in files)
                    if result.rows is not None and rows != result.rows:
                        msg = f"{self._server.uri}: the query has {result.rows} rows, and its endpoints sent {rows}"
                        raise ServiceError(msg)
                    text = "Stream %r: %d rows of %d endpoints are in %d batch files, after %.2f seconds"
                    seconds = time.monotonic() - begun
                    logger.info(text, self._stream, rows, len(result.partitions), len(files), seconds)
                    return token, files
            except BaseException as error:
                self._storage.delete([Url.parse(file.url) for file in written])
                if not isinstance(error, ServiceError):
                    raise
                if number == TRIES:
                    msg = f"Stream {self._stream!r}: {error}; no row of it was sent after {TRIES} tries: run again"
                    raise ServiceError(msg) from None
                text = "Stream %r: %s; the window is read again (%d of %d)"
                logger.warning(text, self._stream, error, number + 1, TRIES)
                time.sleep(PAUSES[number - 1])
        raise AssertionError

    def _read_endpoint(
        self, token: str, written: list[WindowFile], stop: threading.Event, number: int, partition: bytes
    ) -> list[WindowFile]:
        """Return the files of an endpoint; `written` gets each of them as soon as it is there."""
        batch, found = self._batch, list[WindowFile]()
        name = f"{batch.prefix}{folder_name(self._stream)}--{token}-{number}"
        where = f"{self._server.uri}, stream {self._stream!r}, endpoint {number}"

        def fitted(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
            row = 1
            for rows in batches:
                count = max(1, rows.num_rows * _SLICE_BYTES // max(rows.nbytes, 1))
                for start in range(0, rows.num_rows, count):
                    if stop.is_set():
                        raise Stopped
                    part = rows.slice(start, count)
                    yield fit_batch(part, self._schema, where, first_row=row)
                    row += part.num_rows

        with self._server.read(partition) as batches, closing(fitted(batches)) as rows:
            for file in write_batch_files(
                rows,
                self._schema,
                storage=self._storage,
                url_of=lambda first, count: batch.root.join(f"{name}-{first}-{count}.{batch.suffix}"),
                format=batch.format,
                compression=batch.compression,
                target_bytes=batch.target_bytes,
                held_bytes=self._run.held_bytes,
            ):
                found.append(WindowFile(str(file.url), file.rows, file.bytes))
                written.append(found[-1])
        return found
