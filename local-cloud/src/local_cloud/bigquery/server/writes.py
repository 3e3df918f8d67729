"""The Storage Write API: Arrow rows by their types, the life of write streams, and what cannot be done to their rows.

Streams are finalized, committed once, and deleted with their table. The server itself makes Python objects
of Arrow rows and inserts them one by one, with types known only as text. For 30 minutes a table shows its streaming
buffer, whose rows cannot be changed within a transaction.
"""

import concurrent.futures
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types
from grpc_status import rpc_status
from local_bigquery.catalog import names, tables
from local_bigquery.engine import database
from local_bigquery.errors import BigQueryError
from local_bigquery.grpc import write
from local_bigquery.jobs import load, query
from local_bigquery.models import JobConfigurationLoad
from sqlglot import exp

from local_cloud.bigquery.server.files import arrow_rows
from local_cloud.bigquery.server.write_faults import CODES, FAULTS, Refusal, suffering

MOST_BYTES = 10_000_000  # of an append request: https://cloud.google.com/bigquery/quotas#write-api-limits
BUFFER_SECONDS = 30 * 60  # https://cloud.google.com/bigquery/docs/write-api-grpc
_CONNECTIONS = 64
_STATUS = grpc.StatusCode
Reference = tuple[str, str, str]


@dataclass
class _Held:
    """The Arrow rows of a stream, and the identity of its table: a later table of the same name is another one."""

    created: str
    schema: pa.Schema | None = None
    batches: list[pa.RecordBatch] = field(default_factory=list)


_held: dict[str, _Held] = {}
_changing = threading.Lock()
_streamed: dict[tuple[Reference, str], float] = {}  # when rows of a table, and of its creation, were last committed


def _born(reference: Reference) -> str:
    return str(tables.get(*reference).creationTime)


def _stream(name: str) -> Any:
    """Return a stream if it and its table still exist."""
    stream = write._streams.get(name)
    if stream is None and name.endswith("/streams/_default"):
        stream = write._stream(name)
    try:
        is_known = stream is not None and (name not in _held or _born(stream.table) == _held[name].created)
    except BigQueryError:
        is_known = False
    if not is_known:
        message = f"Requested entity was not found. Entity: {name}"
        raise Refusal(_STATUS.NOT_FOUND, message, "STREAM_NOT_FOUND", name, in_band=False)
    return stream


def _faulty(call: str, reference: Reference, function: Any) -> Any:
    return suffering(call, ".".join(reference), function)


def _create(request: Any) -> Any:
    def create() -> Any:
        made = make(request)
        _held[made.name] = _Held(_born(write.table(request.parent)))
        return made

    make = _originals["create"]
    return _faulty("create", write.table(request.parent), create)


def _get(request: Any) -> Any:
    stream = _stream(request.name)
    return _faulty("get", stream.table, lambda: _originals["get"](request))


def _finalize(request: Any) -> Any:
    stream = _stream(request.name)

    def finalize() -> Any:
        with _changing:
            return _originals["finalize"](request)

    return _faulty("finalize", stream.table, finalize)


def _commit(request: Any) -> Any:
    reference = write.table(request.parent)
    return _faulty("commit", reference, lambda: _commit_all(reference, list(request.write_streams)))


def _commit_all(reference: Reference, names: list[str]) -> Any:
    with _changing:
        streams, errors = [], []
        for name in names:
            try:
                streams.append(_stream(name))
            except Refusal as error:
                errors.append(_error("STREAM_NOT_FOUND", name, error.message))
                continue
            if code := _unfit(streams[-1]):
                errors.append(_error(code, name, f"Stream cannot be committed: {code}"))
        if errors:
            return types.BatchCommitWriteStreamsResponse(stream_errors=errors)
        arrow = [batch for stream in streams for batch in _held[stream.name].batches]
        if arrow:
            _insert(reference, pa.Table.from_batches(arrow))
        for stream in streams:
            if stream.rows:
                write._insert(stream, stream.rows)
        now = write._now()
        _streamed[reference, _born(reference)] = time.time()
        for stream in streams:
            stream.committed = now
            _held[stream.name].batches.clear()
        return types.BatchCommitWriteStreamsResponse(commit_time=now)


def _unfit(stream: Any) -> str | None:
    if stream.type != write.Type.PENDING:
        return "INVALID_STREAM_TYPE"
    if stream.committed:
        return "STREAM_ALREADY_COMMITTED"
    return None if stream.finalized else "INVALID_STREAM_STATE"


def _error(code: str, name: str, message: str) -> Any:
    return types.StorageError(code=CODES[code], entity=name, error_message=message)


def _insert(reference: Reference, rows: pa.Table) -> None:
    """Append rows at once, as a load job does that appends a Parquet file."""
    config = JobConfigurationLoad(sourceFormat="PARQUET", createDisposition="CREATE_NEVER")
    names = {name.casefold() for name in rows.column_names}
    fields = [f for f in tables.columns(*reference) if f.name.casefold() in names]
    with database.cursor() as cursor:
        cursor.register("_write_source", arrow_rows.kept(rows))
        projection, _ = load._projection(config, fields, rows.column_names)
        query = f"SELECT {projection} FROM _write_source"  # noqa: S608 - quoted there
        tables.write(cursor, query, None, reference, config, "WRITE_APPEND")


def _append(requests: Iterable[Any]) -> Iterator[Any]:
    """Answer the requests of one connection, in their order."""
    name, others = "", None
    for request in requests:
        name = request.write_stream or name
        stream = _stream(name)
        if types.AppendRowsRequest.pb(request).ByteSize() > MOST_BYTES:
            message = f"AppendRows request too large: the limit is {MOST_BYTES} bytes"
            raise Refusal(_STATUS.INVALID_ARGUMENT, message, in_band=False)
        if others is None and "arrow_rows" not in request:
            others = write._decoder(request)
        try:
            yield _faulty("append", stream.table, partial(_appended, stream, request, others))
        except Refusal as error:
            if not error.in_band:
                raise
            yield types.AppendRowsResponse(write_stream=name, error=error.status)


def _appended(stream: Any, request: Any, others: Any) -> Any:
    offset = request.offset if "offset" in request else None
    if "arrow_rows" not in request or stream.type != write.Type.PENDING:
        decode = others or write._decoder(request)
        return write._append(stream, decode(request, tables.columns(*stream.table)), offset)
    held, columns = _held[stream.name], tables.columns(*stream.table)
    with _changing:
        if stream.finalized:
            raise Refusal(_STATUS.INVALID_ARGUMENT, "Stream is finalized", "STREAM_FINALIZED", stream.name)
        if offset is not None and offset < stream.count:
            message = f"The offset is within stream, expected offset {stream.count}, received {offset}"
            raise Refusal(_STATUS.ALREADY_EXISTS, message, "OFFSET_ALREADY_EXISTS", stream.name)
        if offset is not None and offset > stream.count:
            message = f"The offset is beyond stream, expected offset {stream.count}, received {offset}"
            raise Refusal(_STATUS.OUT_OF_RANGE, message, "OFFSET_OUT_OF_RANGE", stream.name)
        if serialized := request.arrow_rows.writer_schema.serialized_schema:
            held.schema = arrow_rows.read_schema(serialized, columns)
        if held.schema is None:
            raise Refusal(_STATUS.INVALID_ARGUMENT, "The first request lacks a writer schema", in_band=False)
        batch = arrow_rows.read(request.arrow_rows.rows.serialized_record_batch, held.schema, columns)
        held.batches.append(batch)
        result = types.AppendRowsResponse.AppendResult(offset=stream.count)
        stream.count += batch.num_rows
    return types.AppendRowsResponse(write_stream=stream.name, append_result=result)


def _with_buffer(*reference: Any, **options: Any) -> Any:
    """Return a table with its streaming buffer, if it has one."""
    found = _originals["table"](*reference, **options)
    at = _streamed.get((reference[:3], str(found.creationTime)), 0.0)
    if time.time() - at > BUFFER_SECONDS:
        return found
    buffer = {"estimatedRows": "1", "estimatedBytes": "1", "oldestEntryTime": str(int(at * 1000))}
    return found.replace(streamingBuffer=buffer)


def _run(cursor: Any, tree: Any, context: Any, destination: Any, config: Any, *others: Any) -> Any:
    """Run a statement, unless it changes a table with a streaming buffer within a transaction."""
    changes = isinstance(tree, exp.TruncateTable | exp.Delete | exp.Update | exp.Merge)
    if changes and "BEGIN TRANSACTION" in (config.query or "").upper() and (table := tree.find(exp.Table)):
        reference = names.reference(table, context.project_id, context.dataset_id)
        if tables.exists(*reference) and tables.get(*reference).streamingBuffer:
            message = f"UPDATE or DELETE statement over table {'.'.join(reference)} would affect rows in the streaming "
            raise BigQueryError("invalidQuery", f"{message}buffer, which is not supported")
    return _originals["run"](cursor, tree, context, destination, config, *others)


_originals: dict[str, Any] = {}


def patch() -> None:
    """Replace the server's calls. Call it before importing its gRPC server, which binds them at import."""
    for name, function in {
        "create": _create,
        "get": _get,
        "finalize": _finalize,
        "commit": _commit,
        "append": _append,
    }.items():
        _originals[name] = getattr(write, name)
        setattr(write, name, function)
    _originals.update(table=tables.get, run=query._run)
    tables.get, query._run = _with_buffer, _run
    FAULTS.add_control()


def start(host: str) -> int:
    """Serve the Storage APIs on a free port and return the port."""
    from local_bigquery.grpc import server

    abort = server._abort

    def abort_with_details(context: Any, error: Exception) -> None:
        if isinstance(error, Refusal):
            context.abort_with_status(rpc_status.to_status(error.status))
        abort(context, error)

    server._abort = abort_with_details
    serving = grpc.server(
        concurrent.futures.ThreadPoolExecutor(max_workers=_CONNECTIONS),
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    handlers = [grpc.method_handlers_generic_handler(name, calls) for name, calls in server.SERVICES.items()]
    serving.add_generic_rpc_handlers(handlers)
    port = int(serving.add_insecure_port(f"{host}:0"))
    serving.start()
    _serving.append(serving)  # the gRPC server ends when it is no longer referenced
    return port


_serving: list[Any] = []
