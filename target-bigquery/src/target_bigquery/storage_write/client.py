"""Connections to the Storage Write API, and its errors."""

from __future__ import annotations

import mmap
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from singer_arrow.errors import AccessDeniedError, CredentialsError, LoadError, SingerArrowError
from singer_arrow.runtime import process
from singer_arrow.runtime.threads import Waiting, pauses
from target_bigquery import connection, resources
from target_bigquery.connection import ONCE, Connection, logger

# Classifies the errors of the Storage Write API.


class WriteErrorKind(Enum):
    """What to do about an error response."""

    RETRY = "the same again, on a new connection"
    ALREADY_DONE = "nothing: an earlier try of the same has been done"
    NEW_STREAM = "a new write stream: this one, or the table as it was, is of no use any more"
    UNKNOWN_STREAM = "the write stream is not known any more"
    QUOTA = "a quota is used up; the same again after a while"
    POSSIBLY_MISSING = "permissions, or a table that it does not find just now: the same again, for a short while"
    DENIED = "credentials or permissions"
    REFUSED = "what was sent is wrong"


class WriteError(LoadError):
    """The Storage Write API did not do what it was asked for; `kind` is what that calls for."""

    code = "storage-write"

    def __init__(self, message: str, kind: WriteErrorKind) -> None:
        super().__init__(message)
        self.kind = kind


_BY_STORAGE_CODE = {
    "OFFSET_ALREADY_EXISTS": WriteErrorKind.ALREADY_DONE,
    "STREAM_ALREADY_COMMITTED": WriteErrorKind.ALREADY_DONE,
    "STREAM_NOT_FOUND": WriteErrorKind.UNKNOWN_STREAM,
    "TABLE_NOT_FOUND": WriteErrorKind.NEW_STREAM,  # new tables and columns become visible after a delay
    "SCHEMA_MISMATCH_EXTRA_FIELDS": WriteErrorKind.NEW_STREAM,
    "STREAM_FINALIZED": WriteErrorKind.NEW_STREAM,
    "INVALID_STREAM_STATE": WriteErrorKind.NEW_STREAM,
    "OFFSET_OUT_OF_RANGE": WriteErrorKind.NEW_STREAM,
}
_BY_STATUS = {
    "ALREADY_EXISTS": WriteErrorKind.ALREADY_DONE,
    "NOT_FOUND": WriteErrorKind.UNKNOWN_STREAM,
    "OUT_OF_RANGE": WriteErrorKind.NEW_STREAM,
    "RESOURCE_EXHAUSTED": WriteErrorKind.QUOTA,
    "PERMISSION_DENIED": WriteErrorKind.DENIED,
    "UNAUTHENTICATED": WriteErrorKind.DENIED,
    **dict.fromkeys(
        ("UNAVAILABLE", "INTERNAL", "ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "DATA_LOSS"),
        WriteErrorKind.RETRY,
    ),
}


def classify_write_error(status: str, storage_code: str | None = None, message: str = "") -> WriteErrorKind:
    """Classify an error by its gRPC status (`UNAVAILABLE`) and BigQuery's own code (`OFFSET_ALREADY_EXISTS`)."""
    if status == "PERMISSION_DENIED" and "may not exist" in message:
        return WriteErrorKind.POSSIBLY_MISSING
    return _BY_STORAGE_CODE.get(storage_code or "") or _BY_STATUS.get(status, WriteErrorKind.REFUSED)


# Errors of the Storage Write API, as errors of ours in one line.

_QUOTA_HINT = "raise the quota in the Google Cloud console, or set load_via: load_job"
_DENIED_HINT = "check the credentials and the roles they have (BigQuery Data Editor)"


def call_once(what: str, function: Callable[[], T]) -> T:
    from google.api_core.exceptions import GoogleAPICallError

    try:
        return function()
    except SingerArrowError:
        raise
    except GoogleAPICallError as error:
        if (status := error.grpc_status_code) is None:
            raise resources.translate_error(error, what) from None
        raise write_error(what, status.name, error.message or "", _storage_code(error.details)) from None
    except Exception as error:  # noqa: BLE001 - all of the vendor's errors pass this boundary
        raise resources.translate_error(error, what) from None


def row_error(what: str, answer: Any) -> SingerArrowError:
    import grpc

    names = {code.value[0]: code.name for code in grpc.StatusCode}
    text = answer.error.message
    if rows := [f"row {row.index + 1} of the request: {row.message}" for row in answer.row_errors][:3]:
        text = f"{text} ({'; '.join(rows)})"
    return write_error(what, names.get(answer.error.code, "UNKNOWN"), text, _storage_code(answer.error.details))


def _storage_code(details: Iterable[Any]) -> str | None:
    """Return BigQuery's own code of an error, which one of its details has; None if there is none."""
    from google.cloud.bigquery_storage_v1 import types

    for detail in details:
        if getattr(detail, "type_url", "").endswith("/google.cloud.bigquery.storage.v1.StorageError"):
            return str(types.StorageError.deserialize(detail.value).code.name)
    return None


def write_error(what: str, status: str, text: str, storage_code: str | None) -> SingerArrowError:
    """Return the error of an answer, with advice where there is some."""
    text = " ".join(text.split())[:1000]
    message = f"{what}: {storage_code or status}: {text}"
    kind = classify_write_error(status, storage_code, text)
    if kind is WriteErrorKind.DENIED:
        return AccessDeniedError(f"{message}; {_DENIED_HINT}")
    hint = {WriteErrorKind.QUOTA: f"; {_QUOTA_HINT}", WriteErrorKind.POSSIBLY_MISSING: f"; {_DENIED_HINT}"}.get(
        kind, ""
    )
    return WriteError(f"{message}{hint}", kind)


def short_name(name: str) -> str:
    """Return a short description of a write stream for messages."""
    found = re.fullmatch(r"projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)/streams/(.+)", name)
    return f"a write stream into table {'.'.join(found.groups()[:3])}" if found else name


# BigQuery's Storage Write API: pending write streams, written under offsets and committed at once.
#
# An append under an offset is done once, however often it is sent; rows of a pending write stream are nowhere to be
# seen until it is committed, which cannot be done twice. So every call here may be tried again.

T = TypeVar("T")
CONNECTION_SECONDS = 600.0
"""How long one connection is written to; what was not acknowledged by then is sent again on another."""
HIDDEN_SECONDS = 30.0
"""Longest retry of the error that a table is denied \"or may not exist\", which may be temporary."""
_TRACE = "target-bigquery"


@dataclass(frozen=True, slots=True)
class Request:
    """Rows that are appended at once: the place of the first in the write stream, and all as an IPC record batch."""

    offset: int
    view: mmap.mmap  # of a file, which has them from `start` on
    start: int
    size: int  # bytes


class WriteApi:
    """The Storage Write API of one project and dataset; safe to use from any thread, and opened on first use."""

    def __init__(self, bigquery: Connection) -> None:
        self.bigquery = bigquery
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _open(self.bigquery)
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.transport.close()
                self._client = None

    def create(self, table: str) -> str:
        from google.cloud.bigquery_storage_v1 import types

        settings = self.bigquery.settings
        parent = f"projects/{settings.project}/datasets/{settings.dataset}/tables/{table}"
        pending = types.WriteStream(type_=types.WriteStream.Type.PENDING)

        what = f"Opening a write stream into table {self.bigquery.path(table)}"
        made = self.call(what, lambda: self.client.create_write_stream(parent=parent, write_stream=pending, **ONCE))
        return str(made.name)

    def append(self, name: str, schema: bytes, requests: Sequence[Request]) -> None:
        """Append all rows to a new write stream of this process alone, in as many connections as it takes.

        After an error of the kind `NEW_STREAM` or `UNKNOWN_STREAM`, another write stream may take them.
        """
        what, done, tries = f"Writing to {short_name(name)}", 0, _Tries()
        while done < len(requests):
            before = done
            try:
                for _ in self._acknowledged(what, name, schema, requests[done:]):
                    done += 1
            except WriteError as error:
                if error.kind is WriteErrorKind.ALREADY_DONE:
                    done += 1
                    continue
                if done > before:
                    tries = _Tries()
                tries.wait(error)

    def finalize(self, name: str) -> int:
        """End a write stream: nothing can be appended any more; the number of its rows."""
        ended = self.call(f"Ending {short_name(name)}", lambda: self.client.finalize_write_stream(name=name, **ONCE))
        return int(ended.row_count)

    def commit(self, name: str) -> datetime | None:
        """Bring the rows of a write stream into its table, all at once; return when, or None if it was done before.

        With the error `UNKNOWN_STREAM`, it is unknown whether it was committed.
        """
        what = f"Committing {short_name(name)}"

        def commit() -> datetime:
            table = name.rpartition("/streams/")[0]
            answer = self.client.batch_commit_write_streams({"parent": table, "write_streams": [name]}, **ONCE)
            for error in answer.stream_errors:
                raise write_error(what, "FAILED_PRECONDITION", error.error_message, error.code.name)
            if (when := _moment(answer, "commit_time")) is None:
                raise write_error(what, "INTERNAL", "the response has neither a commit time nor an error", None)
            return when

        try:
            return self.call(what, commit)
        except WriteError as error:
            if error.kind is WriteErrorKind.ALREADY_DONE:
                return None
            raise

    def committed(self, name: str) -> datetime | None:
        """Return when a write stream was committed; None if it was not."""
        found = self.call(f"Reading {short_name(name)}", lambda: self.client.get_write_stream(name=name, **ONCE))
        return _moment(found, "commit_time")

    def _acknowledged(self, what: str, name: str, schema: bytes, requests: Sequence[Request]) -> Iterator[None]:
        """Send requests on one connection; once for each that BigQuery has taken, in their order."""
        metadata = (("x-goog-request-params", f"write_stream={name}"),)
        call: Any = None
        try:
            call = call_once(
                what,
                lambda: self.client.append_rows(
                    _messages(name, schema, requests), retry=None, timeout=CONNECTION_SECONDS, metadata=metadata
                ),
            )
            answered = iter(call)
            for _ in requests:
                answer = call_once(what, lambda: next(answered, None))
                if answer is None:
                    raise WriteError(f"{what}: BigQuery closed the connection", WriteErrorKind.RETRY)
                if answer.error.code:
                    raise row_error(what, answer)
                yield
        finally:
            if call is not None:
                call.cancel()

    def call(self, what: str, function: Callable[[], T]) -> T:
        """Call Google's library, again after errors that may be temporary, and raise its errors as ours."""
        tries = _Tries()
        while True:
            try:
                return call_once(what, function)
            except WriteError as error:
                tries.wait(error)


class _Tries:
    """The tries of one call, from the first error on."""

    def __init__(self) -> None:
        self._waiting = Waiting(logger)
        self._pauses = pauses(connection.DEADLINE_SECONDS)
        self._hidden = pauses(min(HIDDEN_SECONDS, connection.DEADLINE_SECONDS))

    def wait(self, error: WriteError) -> None:
        """Wait until another try is due, or raise the error where another one is of no use."""
        if error.kind not in (WriteErrorKind.RETRY, WriteErrorKind.QUOTA, WriteErrorKind.POSSIBLY_MISSING):
            raise error
        pause = next(self._hidden if error.kind is WriteErrorKind.POSSIBLY_MISSING else self._pauses)
        if pause is None and error.kind is WriteErrorKind.POSSIBLY_MISSING:
            raise CredentialsError(str(error)) from None
        if pause is None:
            raise LoadError(f"{error}; all retries failed; run again later") from None
        self._waiting.before_again(pause, error)


def _moment(message: Any, name: str) -> datetime | None:
    when = getattr(message, name)
    return datetime.combine(when.date(), when.time(), UTC) if when else None


PING_SECONDS = 60
"""How long a connection is silent before it is asked for a sign of life, as in Google's own Java client. Together with
the time for the answer that is the time after which HTTP connections end."""
GRPC_OPTIONS = (
    ("grpc.keepalive_time_ms", PING_SECONDS * 1000),
    # gRPC sets TCP_USER_TIMEOUT to this too (gRFC A18).
    ("grpc.keepalive_timeout_ms", (process.DEAD_AFTER_SECONDS - PING_SECONDS) * 1000),
)


def _open(bigquery: Connection) -> Any:
    """Open a client; without TLS if `storage_write_endpoint` begins with `http:`."""
    import grpc
    from google.cloud.bigquery_storage_v1.services.big_query_write import BigQueryWriteClient
    from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

    def channel(*args: Any, options: Sequence[tuple[str, int]], **more: Any) -> Any:
        return BigQueryWriteGrpcTransport.create_channel(*args, options=[*options, *GRPC_OPTIONS], **more)

    transport = partial(BigQueryWriteGrpcTransport, channel=channel)
    endpoint = bigquery.settings.storage_write_endpoint or ""
    if endpoint.startswith("http://"):
        insecure_options = [("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0), *GRPC_OPTIONS]
        insecure = grpc.insecure_channel(endpoint.removeprefix("http://").rstrip("/"), options=insecure_options)
        return BigQueryWriteClient(transport=BigQueryWriteGrpcTransport(channel=insecure))
    host = endpoint.removeprefix("https://").rstrip("/")
    if not host:
        return BigQueryWriteClient(credentials=bigquery.credentials, transport=transport)
    credentials = bigquery.credentials_for(host.partition(":")[0])
    return BigQueryWriteClient(credentials=credentials, transport=transport, client_options={"api_endpoint": host})


def _messages(name: str, schema: bytes, requests: Sequence[Request]) -> Iterator[Any]:
    """Yield the requests of one connection; the first one also has the write stream and the schema."""
    from google.cloud.bigquery_storage_v1 import types

    message_type = types.AppendRowsRequest.pb()  # raw messages: the wrappers of the library cost many times as much
    for number, request in enumerate(requests):
        message = message_type()
        if not number:
            message.write_stream = name
            message.trace_id = _TRACE
            message.arrow_rows.writer_schema.serialized_schema = schema
        message.offset.value = request.offset
        message.arrow_rows.rows.serialized_record_batch = request.view[request.start : request.start + request.size]
        yield message
