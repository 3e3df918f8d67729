"""The tap and its streams: the batches or records of windows, and STATE."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import pyarrow as pa

from singer_arrow.batch.files import read_file, write_batch_files
from singer_arrow.batch.message import Batch, BatchSettings, PlanLogId
from singer_arrow.enforcement.enforce import fit_batch
from singer_arrow.errors import ConfigError, DataError, ServiceError, SingerArrowError
from singer_arrow.naming import digest, folder_name
from singer_arrow.run_figures import StreamFigures
from singer_arrow.runtime.process import temporary_folder
from singer_arrow.runtime.threads import DaemonPool, Stopped
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.tap import ArrowStream, ArrowTap, Encode, Encoded
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.discover import catalog_schema, table_streams
from tap_flight_sql.server import Server
from tap_flight_sql.settings import CONFIG_JSONSCHEMA, Bookmark, Settings, StreamSettings
from tap_flight_sql.sql import Bound, Bounds, bound_of, check_key_type, largest, quoted_name, select
from tap_flight_sql.window import Window, WindowFile, WindowLog

# Read the rows of a window into batch files: all endpoints of the query at once, each by a connection of its own.
#
# A result cannot be resumed: its tickets expire with the query, and another run of the query may have other rows. So if
# anything is lost, its files are removed, and the whole window is read again.

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


# A stream: the rows of its query since its STATE become a window, and the window becomes batches or records.


class QueryStream(ArrowStream):
    """A query of the settings, or a table of the server."""

    def __init__(
        self,
        tap: ArrowTap,
        *,
        run: Settings,
        server: Server,
        storage: Storage,
        settings: StreamSettings,
        schema: Mapping[str, Any],
    ) -> None:
        self.settings, self._run, self._server, self._storage = settings, run, server, storage
        self._log: WindowLog | None = None
        super().__init__(tap, schema=dict(schema), name=settings.name)
        self.primary_keys = list(settings.key_properties)
        self.replication_key = settings.replication_key

    @property
    def is_sent_whole(self) -> bool:
        return self._key is None or not self._tap.given_state(self.name)  # type: ignore[attr-defined]  # an ArrowTap

    def batch_encoding(self) -> tuple[str, str, str] | None:
        batch = self._run.batch
        return (batch.format, batch.compression, str(batch.root)) if batch else None

    def figures(self) -> StreamFigures:
        return replace(super().figures(), inputs=(f"{self._server.uri.rstrip('/')}/{self.name}",))

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        """Yield the batches of each window, then the STATE after it: windows of the log first, then a new one."""
        if self.is_mapped_away:
            return
        assert self._run.batch is not None
        root = self._run.plan_root if self._key else None
        at = self._bookmark()
        log = self._log = WindowLog(self._storage, root, self.name, at) if root else None
        has_warned = False
        for window in log.windows() if log else ():
            self.log(f"Window {window.number} was read by an earlier run; it is sent from its batch files")
            if window.query not in ("", self._query_id) and not has_warned:
                has_warned = True
                self.logger.warning(
                    "Stream %r: the query has changed since window %d was read, whose rows are sent as they were. To "
                    "read all rows with this query, set another plan_root, empty the table, and run without STATE",
                    self.name,
                    window.number,
                )
            at = self._after(window)
            yield from self._sent(window)
        new = self._read(at, self._run.batch, log.next_number if log else at.window)
        if new is not None:
            if log is not None:
                log.append(new)
            yield from self._sent(new)

    def _sent(self, window: Window) -> Iterator[Batch | Mapping[str, Any]]:
        if window.files:
            self.send_schema(window.schema)
        yield from window.batches(self._log_id)
        if self._key:
            yield self._after(window).to_state(self._key)

    def _after(self, window: Window) -> Bookmark:
        head = self._log.head if self._log is not None else None
        return Bookmark(window.upper, window.number + 1, head.log if head is not None else "")

    @property
    def _log_id(self) -> PlanLogId | None:
        if self._log is None or self._log.head is None:
            return None
        source = digest("\n".join((self._server.uri, self.settings.query, self._key or "")), 16)
        return PlanLogId(self._log.head.log, source, self._bookmark() != Bookmark())

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        """Yield the encoded rows of a new window, then write STATE.

        The window is read into temporary files first, so that a window that is lost halfway can be read again.
        """
        if self.is_mapped_away:
            return
        if not self.is_whole_run:
            schema = from_json_schema(self.selected_schema)
            with self._server.query(self._query(schema, None, None)) as result:
                for partition in result.partitions:
                    with self._server.read(partition) as batches:
                        for found in batches:
                            yield from encode(fit_batch(found, schema, self._server.uri))
            return
        if self.batch_encoding() and (setting := self.records_needed_by()):
            self.log(f"RECORD messages are sent although batch_config is set: {setting} changes single records")
        at = self._bookmark()
        with temporary_folder("tap-flight-sql-") as folder:
            batch = BatchSettings(Url.parse(str(folder)), "", "parquet", "zstd", 128 << 20)
            window = self._read(at, batch, at.window)
            if window is None:
                return
            schema = from_json_schema(self.selected_schema)
            for file in window.files:
                for rows in read_file(self._storage, file.url, format=batch.format, schema=schema):
                    yield from encode(rows)
                Url.parse(file.url).local_path().unlink()
        if self._key:
            self.write_state(self._after(window).to_state(self._key))

    def _read(self, at: Bookmark, batch: BatchSettings, number: int) -> Window | None:
        """Return a new window, whose files are durable; None if there are no new rows."""
        schema = from_json_schema(self.selected_schema)
        upper: Bound | None = None
        if self._key:  # the upper bound is fixed before the rows are read
            check_key_type(self.name, self._key, self._key_type)
            key = quoted_name(self._key, self._server.quote)
            value = self._server.value(largest(self.settings.query, key, at.value, self._key_type))
            if not value.is_valid:
                return None
            try:
                upper = bound_of(value)
            except DataError as error:
                raise error.at(f"stream {self.name!r}") from None
        query = self._query(schema, at.value, upper)
        token, files = WindowReader(self.name, self._server, self._storage, batch, schema=schema, run=self._run).read(
            query
        )
        return Window(
            stream=self.name,
            number=number,
            token=token,
            lower=at.value,
            upper=upper,
            format=batch.format,
            compression=batch.message_compression,
            schema=self.selected_schema,
            files=tuple(files),
            version=self.version,
            query=self._query_id,
        )

    @property
    def _query_id(self) -> str:
        return digest("\n".join((self.settings.query, self._key or "")), 16)

    def _query(self, schema: pa.Schema, lower: Bound | None, upper: Bound | None) -> str:
        """Return the query for the selected columns, between the bounds."""
        columns = None
        if len(schema) < len(self.schema["properties"]):
            columns = [quoted_name(name, self._server.quote) for name in schema.names]
        if self._key is None or upper is None:
            return select(self.settings.query, columns=columns)
        bounds = Bounds(quoted_name(self._key, self._server.quote), self._key_type, lower, upper)
        return select(self.settings.query, columns=columns, bounds=bounds)

    @property
    def _key(self) -> str | None:
        """The replication key, if the stream is read by it."""
        return self.replication_key if self.replication_method == "INCREMENTAL" else None

    @property
    def _key_type(self) -> pa.DataType:
        assert self._key is not None
        if self._key not in self.schema["properties"]:
            msg = f"Stream {self.name!r}: the replication key {self._key!r} is no column of its schema"
            raise ConfigError(msg)
        return from_json_schema(self.schema).field(self._key).type

    def _bookmark(self) -> Bookmark:
        if self._key is None:
            return Bookmark()
        state = self._tap.given_state(self.name)  # type: ignore[attr-defined]  # an ArrowTap
        return Bookmark.from_state(state, self.name, self._key)


# The tap.


class TapFlightSql(ArrowTap):
    """Reads query results of an Arrow Flight SQL server and sends them as BATCH files."""

    name = "tap-flight-sql"
    package_name = "singer-arrow-tap-flight-sql"
    config_jsonschema: ClassVar[dict[str, Any]] = CONFIG_JSONSCHEMA
    settings: Settings

    def check_settings(self) -> None:
        self.settings = Settings.from_config(self.config)

    @cached_property
    def server(self) -> Server:
        """The server of all streams."""
        return Server(self.settings.server)

    @cached_property
    def storage(self) -> Storage:
        """Where batch files and window logs are."""
        return Storage(self.settings.aws)

    def discover_streams(self) -> Sequence[QueryStream]:
        """Return the streams of the settings, or the tables of the server, with the schemas of a given catalog."""
        streams = self.settings.streams or tuple(table_streams(self.server))
        catalog, found = self.input_catalog, []
        nothing: Mapping[str, Any] = {"type": "object", "properties": {}}
        for name in (catalog or {}).keys() - {s.name for s in streams}:
            self.logger.warning("The catalog's stream %r is neither in 'streams' nor a table; it is left out", name)
        for stream in streams:
            schema: Mapping[str, Any] = nothing
            try:
                if catalog is None:
                    schema = catalog_schema(self.server, stream)
                elif stream.name in catalog:
                    schema = catalog[stream.name].schema.to_dict()
            except SingerArrowError as error:
                self.fail_stream(stream.name, error, is_only=len(streams) == 1)
                continue
            found.append(
                QueryStream(
                    self, run=self.settings, server=self.server, storage=self.storage, settings=stream, schema=schema
                )
            )
        return found
