"""The tap and its streams: windows of a query, written down before they are sent; their batches or records, STATE."""

from __future__ import annotations

import io
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from singer_arrow.batch.files import read_file, write_batch_files
from singer_arrow.batch.message import Batch, BatchSettings, PlanLogId
from singer_arrow.enforcement.enforce import fit_batch
from singer_arrow.errors import (
    ConfigError,
    DataError,
    IdentityError,
    NotFoundError,
    ServiceError,
    SingerArrowError,
    SupersededError,
)
from singer_arrow.naming import digest, folder_name
from singer_arrow.run_figures import StreamFigures
from singer_arrow.runtime.process import temporary_folder
from singer_arrow.runtime.threads import DaemonPool, Stopped
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.tap import ArrowStream, ArrowTap, Encode, Encoded
from singer_arrow.settings import json_schema
from singer_arrow.storage.log_head import (
    CompactableFile,
    LogHead,
    compactions,
    foreign_entry,
    head_numbers,
    newest_cover,
    read_head,
    write_head,
)
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.server import Server, query_schema, table_streams
from tap_flight_sql.settings import Bookmark, Settings, StreamSettings
from tap_flight_sql.sql import Bound, Bounds, bound_of, check_key_type, largest, quoted_name, select

# A window: the rows of a query within bounds of its replication key, as batch files. Pure.

VERSION = 1
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class WindowFile:
    """A batch file of a window."""

    url: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a query above `lower`, up to `upper` by its replication key, as batch files.

    `number` is its place in the log, `token`, chosen when it is read, identifies it; `version` is that of a full table,
    `query` a digest of the query and its replication key, empty in windows of former versions.
    """

    stream: str
    number: int
    token: str
    lower: Bound | None
    upper: Bound | None
    format: str
    compression: str | None
    schema: Mapping[str, Any]
    files: tuple[WindowFile, ...]
    version: int | None = None
    query: str = ""

    def batches(self, plan_log: PlanLogId | None = None) -> Iterator[Batch]:
        """Yield the BATCH messages of the window, one for each file, the same ones at any time."""
        for number, file in enumerate(self.files):
            yield Batch(
                stream=self.stream,
                format=self.format,
                compression=self.compression,
                manifest=(file.url,),
                batch_id=digest(f"{self.stream}\n{self.token}\n{number}", _ID_DIGITS),
                row_count=file.rows,
                byte_count=file.bytes,
                version=self.version,
                plan_log=plan_log,
            )

    def to_bytes(self) -> bytes:
        value = asdict(self)
        del value["version"]
        return json.dumps({"version": VERSION, **value}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Window:
        """Decode a window of the log; AttributeError, KeyError, TypeError or ValueError: it is something else."""
        value = json.loads(data)
        if value.pop("version") != VERSION:
            raise ValueError
        return cls(**{**value, "files": tuple(WindowFile(**file) for file in value["files"])})


# The window log of a stream: which batch files hold the rows of which window. Nothing in it is changed or lost.
#
# <plan_root>/_windows/<stream>/log-000000.json                  identifies the log, see `storage.log_head`
# <plan_root>/_windows/<stream>/00000017.json                    window 17
# <plan_root>/_windows/<stream>/00000000-00000015.jsonl.zst      windows 0 to 15, compacted: a line each
#
# A window is written down once all its files are durable, and before its first batch is sent. So what was sent once is
# never read from the server again, which may have other rows by then: a run that follows the log sends the same
# batches. A number is given once. A run that finds its number taken ends.
#
# Windows are compacted into checkpoints, so that the log of any number of runs has few files. A checkpoint is durable
# before what it replaces is removed. What a killed run left there is removed by the next compaction.

GAP_LISTINGS = 3
"""How often a log with a gap is listed again: a listing while another run compacts may show one."""
_NAME = re.compile(r"(\d{8})(?:\.json|-(\d{8})\.jsonl\.zst)")


@dataclass(frozen=True, slots=True)
class WindowLogFile(CompactableFile):
    """A file of the log, with the numbers of its first and last window."""

    @property
    def name(self) -> str:
        return f"{self.first:08d}-{self.last:08d}.jsonl.zst" if self.is_checkpoint else f"{self.first:08d}.json"


class WindowLog:
    """The log of one stream below a plan root, for a run that begins at the STATE `at`."""

    def __init__(self, storage: Storage, root: Url, stream: str, at: Bookmark) -> None:
        self._storage, self._stream, self._start = storage, stream, at.window
        folder = root.join("_windows", folder_name(stream))
        self._folder = Url(folder.scheme, folder.bucket, folder.key + "/")
        self._replaced: list[WindowLogFile] = []
        self._files: list[WindowLogFile] = []
        self.head: LogHead | None = None
        self._list()
        self._check(at)

    def _check(self, at: Bookmark) -> None:
        """Check that a STATE is of this log; without one, that the log has all that was ever sent."""
        head, own = self.head, self.head.log if self.head else ""
        end = self._files[-1].last + 1 if self._files else head.first if head else at.window
        problem = ""
        if at.log and at.log != own:
            problem = f"its STATE is of another window log than {self._folder}"
        elif at.window > end:
            problem = f"its STATE is at window {at.window}, and {self._folder} ends before window {end}"
        elif head and not at.log and at.window != head.first:
            problem = f"its STATE, or that it has none, does not fit the window log {self._folder}"
        elif head and not at.log and at.window == head.first and at.value != head.before:
            problem = f"the window log {self._folder} begins elsewhere than its STATE"
        if problem:
            raise IdentityError(
                f"Stream {self._stream!r}: {problem}; rows would be lost or sent twice, so nothing was read. Was "
                "plan_root, or the root of the batch storage, changed, or files of the log removed? Restore them; or, "
                "to read all rows again into an empty table, set another plan_root and run without STATE"
            )

    @property
    def next_number(self) -> int:
        """Number of the next window."""
        return max(self._start, self._files[-1].last + 1) if self._files else self._start

    def windows(self) -> Iterator[Window]:
        """Yield the windows that were written down, in order."""
        start = self._start
        while (file := next((f for f in self._files if f.last >= start), None)) is not None:
            try:
                for window in self._windows_of(file):
                    if window.number >= start:
                        yield window
                        start = window.number + 1
            except NotFoundError:  # another run has compacted it
                before = self._files
                self._list()
                if self._files == before:
                    raise

    def append(self, window: Window) -> None:
        """Make a window durable, under the number that it has, and compact what is due."""
        if self.head is None:
            first, before = (self._files[0].first, None) if self._files else (window.number, window.lower)
            self.head = write_head(self._storage, self._folder, LogHead.new(self._stream, first, before))
        data, head = window.to_bytes(), self.head
        file = WindowLogFile(window.number, window.number, len(data))
        is_new = self._storage.put(self._folder.join(file.name), data, if_absent=True)
        self._list()  # while this run slept, the number may have been taken, or this window compacted, by another one
        holder = next(f for f in self._files if f.first <= window.number <= f.last)
        if self.head != head or window.token not in (w.token for w in self._windows_of(holder)):
            written = [Url.parse(f.url) for f in window.files]
            self._storage.delete([*written, self._folder.join(file.name)] if is_new else written)
            url = self._folder.join(file.name)
            msg = f"{url} was written by another run of the stream meanwhile; nothing is lost: run again to follow it"
            raise SupersededError(msg)
        self._compact()

    def _list(self) -> None:
        for _ in range(GAP_LISTINGS):
            sizes = {o.url.name: o.size for o in self._storage.list(self._folder)}
            listed = [
                WindowLogFile(int(found[1]), int(found[2] or found[1]), size)
                for name, size in sizes.items()
                if (found := _NAME.fullmatch(name))
            ]
            if heads := head_numbers(sizes):
                self.head = read_head(self._storage, self._folder, heads[-1], self._stream)
            self._files = newest_cover(listed)
            self._replaced = [file for file in listed if file not in self._files]
            missing = self._start  # the first number from there on that the log lacks before its last one
            for file in self._files:
                if file.first > missing:
                    break
                missing = max(missing, file.last + 1)
            else:
                return
        hint = "Restore it, or set another plan_root and empty the table: all rows are then read again"
        url = self._folder.join(WindowLogFile(missing, missing, 0).name)
        raise DataError("the window log lacks this window", url=url, hint=hint)

    def _windows_of(self, file: WindowLogFile) -> Iterator[Window]:
        url, expected = self._folder.join(file.name), file.first
        data = bytes(self._storage.get(url).data)
        try:
            stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd") if file.is_checkpoint else None
            for line in io.BufferedReader(stream) if stream is not None else [data]:
                window = Window.from_bytes(line)
                if window.number != expected:
                    raise ValueError
                if window.stream != self._stream:
                    raise foreign_entry(url, window.stream, self._stream)
                yield window
                expected += 1
            if expected <= file.last:
                raise ValueError
        except (AttributeError, KeyError, TypeError, ValueError, OSError):
            msg = "it is no part of a window log that this version of the tap can follow"
            hint = "Restore it, or use the version of the tap that wrote it"
            raise DataError(msg, url=url, hint=hint) from None

    def _compact(self) -> None:
        """Write the checkpoints that are due, then remove what they and earlier ones replaced."""
        while files := compactions(_without_gaps(self._files)):
            try:
                lines = b"".join(w.to_bytes() + b"\n" for file in files for w in self._windows_of(file))
            except NotFoundError:  # another run compacts
                return
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, "zstd") as stream:
                stream.write(lines)
            data = bytes(sink.getvalue())
            made = WindowLogFile(files[0].first, files[-1].last, len(data))
            self._storage.put(self._folder.join(made.name), data)
            self._files = newest_cover([*self._files, made])
            self._replaced += files
        self._storage.delete([self._folder.join(file.name) for file in self._replaced])
        self._replaced = []


def _without_gaps(files: Sequence[WindowLogFile]) -> Sequence[WindowLogFile]:
    """Return the files after the last gap: windows that STATE has passed may have been removed by users."""
    gaps = (n for n in range(len(files) - 1, 0, -1) if files[n - 1].last + 1 != files[n].first)
    return files[next(gaps, 0) :]


# A stream: the rows of its query since its STATE become a window, and the window becomes batches or records.
#
# The rows of a window are read into batch files: all endpoints of the query at once, each by a connection of its own. A
# result cannot be resumed: its tickets expire with the query, and another run of the query may have other rows. So if
# anything is lost, its files are removed, and the whole window is read again.

logger = logging.getLogger("tap-flight-sql")
TRIES = 3
PAUSES = (2.0, 8.0)
"""Seconds before the second and the third try: a server that is started again needs some."""
_SLICE_BYTES = 16 << 20  # messages of a server may be much larger; their rows are converted and encoded in slices


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
        return self._key is None or self._bookmark() == Bookmark()

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
        log_id = None
        if self._log is not None and self._log.head is not None:
            source = digest("\n".join((self._server.uri, self.settings.query, self._key or "")), 16)
            at = self._bookmark()
            log_id = PlanLogId(self._log.head.log, source, at != Bookmark(), at.batch)
        yield from window.batches(log_id)
        if self._key:
            yield self._after(window).to_state(self._key)

    def _after(self, window: Window) -> Bookmark:
        head = self._log.head if self._log is not None else None
        last = next(reversed([*window.batches()]), None) if self._log is not None else None
        batch = last.batch_id if last is not None and last.row_count else None
        return Bookmark(window.upper, window.number + 1, head.log if head is not None else "", batch or "")

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
            batch = BatchSettings("parquet", Url.parse(str(folder)), "zstd")
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
            escapes = self._escapes(at.value)
            value = self._server.value(largest(self.settings.query, key, at.value, self._key_type, escapes=escapes))
            if not value.is_valid:
                return None
            try:
                upper = bound_of(value)
            except DataError as error:
                raise error.at(f"stream {self.name!r}") from None
        token, files = self._read_files(self._query(schema, at.value, upper), batch, schema)
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

    def _read_files(self, query: str, batch: BatchSettings, schema: pa.Schema) -> tuple[str, list[WindowFile]]:
        """Return the files of a query, in the order of its endpoints, once all of them are durable, and their token.

        Each of three tries has a token of its own, which is in the names of its files.
        """

        def read_endpoint(
            token: str, written: list[WindowFile], stop: threading.Event, number: int, partition: bytes
        ) -> list[WindowFile]:
            """Return the files of an endpoint; `written` gets each of them as soon as it is there."""
            found: list[WindowFile] = []
            name = f"{batch.prefix}{folder_name(self.name)}--{token}-{number}"
            where = f"{self._server.uri}, stream {self.name!r}, endpoint {number}"

            def fitted(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
                row = 1
                for rows in batches:
                    count = max(1, rows.num_rows * _SLICE_BYTES // max(rows.nbytes, 1))
                    for start in range(0, rows.num_rows, count):
                        if stop.is_set():
                            raise Stopped
                        part = rows.slice(start, count)
                        yield fit_batch(part, schema, where, first_row=row)
                        row += part.num_rows

            with self._server.read(partition) as batches, closing(fitted(batches)) as rows:
                for file in write_batch_files(
                    rows,
                    schema,
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

        for number in range(1, TRIES + 1):
            token, written, stop = secrets.token_hex(16), list[WindowFile](), threading.Event()
            pool = DaemonPool(self._run.max_workers, "endpoint")
            try:
                with ExitStack() as endpoints, self._server.query(query) as result:
                    endpoints.callback(pool.stop, seconds=1.0)
                    endpoints.callback(stop.set)
                    begun = time.monotonic()
                    futures = [
                        pool.submit(read_endpoint, token, written, stop, n, p) for n, p in enumerate(result.partitions)
                    ]
                    files = [file for future in futures for file in future.result()]
                    rows = sum(file.rows for file in files)
                    if result.rows is not None and rows != result.rows:
                        msg = f"{self._server.uri}: the query has {result.rows} rows, and its endpoints sent {rows}"
                        raise ServiceError(msg)
                    text = "Stream %r: %d rows of %d endpoints are in %d batch files, after %.2f seconds"
                    seconds = time.monotonic() - begun
                    logger.info(text, self.name, rows, len(result.partitions), len(files), seconds)
                    return token, files
            except BaseException as error:
                self._storage.delete([Url.parse(file.url) for file in written])
                if not isinstance(error, ServiceError):
                    raise
                if number == TRIES:
                    msg = f"Stream {self.name!r}: {error}; no row of it was sent after {TRIES} tries: run again"
                    raise ServiceError(msg) from None
                text = "Stream %r: %s; the window is read again (%d of %d)"
                logger.warning(text, self.name, error, number + 1, TRIES)
                time.sleep(PAUSES[number - 1])
        raise AssertionError

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
        key, escapes = quoted_name(self._key, self._server.quote), self._escapes(lower, upper)
        bounds = Bounds(key, self._key_type, lower, upper, escapes)
        return select(self.settings.query, columns=columns, bounds=bounds)

    def _escapes(self, *bounds: Bound | None) -> bool:
        """Return whether the bounds have backslashes, and the server takes them as escapes."""
        return any("\\" in str(bound) for bound in bounds) and self._server.escapes

    @property
    def _key(self) -> str | None:
        """The replication key, if the stream is read by it."""
        return self.replication_key if self.replication_method == "INCREMENTAL" else None

    @property
    def _key_type(self) -> pa.DataType:
        assert self._key is not None
        if self._key not in self.schema["properties"]:
            raise ConfigError(f"Stream {self.name!r}: the replication key {self._key!r} is no column of its schema")
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
    config_jsonschema: ClassVar[dict[str, Any]] = json_schema(Settings)
    settings: Settings

    def check_settings(self) -> None:
        self.settings = Settings.from_config(self.config)

    def start_state(self, stream: str) -> Mapping[str, Any]:
        key = next((s.replication_key for s in self.settings.streams if s.name == stream), None)
        return Bookmark().to_state(key or "")

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
                    schema = query_schema(self.server, stream)
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
