"""Load methods that stream rows: requests and streams."""

from __future__ import annotations

import mmap
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.errors import LoadError
from singer_arrow.load.convert import converted_batches
from singer_arrow.load.dead_letters import Rejects
from singer_arrow.load.method import Item as AnyItem
from singer_arrow.load.method import Prepared
from singer_arrow.naming import staging_name
from singer_arrow.runtime.threads import Waiting, pauses
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.settings import APPEND, OVERWRITE, UPSERT
from target_bigquery import connection, tables
from target_bigquery.connection import logger
from target_bigquery.conversion import Conversion
from target_bigquery.load import (
    AppendOnly,
    BigQueryLoadMethod,
    BusyError,
    Staged,
    Upsert,
    kept_rows,
    run_until_done,
    too_busy,
)
from target_bigquery.storage_write.client import Request, WriteApi, WriteError, WriteErrorKind
from target_bigquery.types import Column
from target_bigquery.uploads import Item, PreparedItem, Upload

# Rows as the Storage Write API takes them: Arrow record batches of a few types, in requests of a bounded size.
#
# https://cloud.google.com/bigquery/docs/supported-data-types#supported_apache_arrow_data_types

REQUEST_BYTES = 9_000_000
"""How large the rows of a request may be; with all around them BigQuery takes 20 MB, and took 10 MB
(https://cloud.google.com/bigquery/quotas#write-api-limits, read 2026-08-22)."""
_UNSUPPORTED_KINDS = ("TIME", "DATETIME")
_NUMBERS = {"NUMERIC": pa.decimal128, "BIGNUMERIC": pa.decimal256}  # the decimals that columns are filled from


class TooLargeError(Exception):
    """A row is larger than a request may be."""


@dataclass(frozen=True, slots=True)
class RowSpan:
    """A request's rows: where they are in the file, and how many they are."""

    start: int
    size: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRows(Prepared[Conversion]):
    """An item whose rows are ready to be sent; they wait in a file on this machine, and nothing of it elsewhere.

    `bytes` are those of its requests; `rejects` has the rows that are not sent.
    """

    path: Path
    spans: tuple[RowSpan, ...]
    schema: bytes
    staged: tuple[Url, ...] = ()


def unsupported_column(columns: Sequence[Column], path: str = "") -> str | None:
    """Return the first column, or field of one, that the API has no Arrow type for, as `name (TYPE)`."""
    for column in columns:
        if column.kind in _UNSUPPORTED_KINDS:
            return f"{path}{column.name} ({column.kind})"
        if inside := unsupported_column(column.fields, f"{path}{column.name}."):
            return inside
    return None


def row_field(field: pa.Field, columns: Sequence[Column]) -> pa.Field:
    """Return a field of an upload as it is sent; `columns` are those that it may be."""
    column = next((c for c in columns if c.name == field.name), None)
    if column is None:
        return pa.field(field.name, field.type)
    item = field.type.value_type if column.repeated else field.type
    if column.fields:
        item = pa.struct([row_field(f, column.fields) for f in item])
    elif column.kind in _NUMBERS and pt.is_decimal(item):
        is_too_long = column.kind == "NUMERIC" and item.precision > 38
        item = pa.decimal128(38, 9) if is_too_long else _NUMBERS[column.kind](item.precision, item.scale)
    return pa.field(field.name, pa.list_(item) if column.repeated else item)


def row_schema(schema: pa.Schema, columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([row_field(field, columns) for field in schema])


def converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_sent(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def split_requests(batch: pa.RecordBatch, most: int = REQUEST_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut rows into as few requests as take them; a row that none takes raises TooLargeError."""
    size = pa.ipc.get_record_batch_size(batch)
    if size <= most:
        if batch.num_rows:
            yield batch
        return
    if batch.num_rows == 1:
        raise TooLargeError
    rows = max(1, min(batch.num_rows - 1, batch.num_rows * most // size))
    for start in range(0, batch.num_rows, rows):
        yield from split_requests(batch.slice(start, rows), most)


def write(item: Item, batches: Iterable[pa.RecordBatch], path: Path, rejects: Rejects | None = None) -> PreparedRows:
    """Write the rows of an item to a file, as they are sent; reading `batches` adds the others to `rejects`."""
    conversion = item.conversion
    schema = row_schema(conversion.upload_schema, conversion.columns)
    spans, start = list[RowSpan](), 0
    with path.open("wb") as file:
        for batch in _gathered(batches):
            for part in split_requests(converted(batch, schema)):
                data = part.serialize()
                file.write(data)
                spans.append(RowSpan(start, data.size, part.num_rows))
                start += data.size
    rows = sum(span.rows for span in spans)
    written = schema.serialize().to_pybytes()
    return PreparedRows(item, rows, start, rejects, path=path, spans=tuple(spans), schema=written)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small batches together, so that they do not make a request each."""
    held, size = list[pa.RecordBatch](), 0
    for batch in batches:
        if held and size + batch.nbytes > REQUEST_BYTES:
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield pa.concat_batches(held) if len(held) > 1 else held[0]


def _sent(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert an array to the type that is sent; a null list becomes an empty one, at every depth."""
    if pt.is_list(target):
        values = _sent(array.flatten(), target.value_type)  # without what null lists may hide
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        ends = pc.cumulative_sum(lengths).cast(pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(offsets, values, type=target)
    if pt.is_struct(target):
        if array.type != target or _holds_lists(target):
            arrays = [_sent(array.field(n), target.field(n).type) for n in range(target.num_fields)]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)
        return array
    return array if array.type == target else array.cast(target)


def _holds_lists(t: pa.DataType) -> bool:
    return any(pt.is_list(f.type) or (pt.is_struct(f.type) and _holds_lists(f.type)) for f in t)


# A group of rows -> a write stream that holds all of them, and can be committed.

_HINTS = "the table was changed during this run: run again, or set load_via: load_job"


def fill(api: WriteApi, table: str, parts: Sequence[PreparedRows]) -> str:
    """Write all rows of a group to a new write stream, end it, and return its name.

    It holds all rows and no other, and waits to be committed.
    """
    waiting = Waiting(logger)
    for pause in pauses(connection.DEADLINE_SECONDS):
        try:
            return _fill_once(api, table, parts)
        except WriteError as error:
            if error.kind not in (WriteErrorKind.NEW_STREAM, WriteErrorKind.UNKNOWN_STREAM):
                raise
            if pause is None:
                raise LoadError(f"{error}; {_HINTS}") from None
            waiting.before_again(pause, error)
    raise AssertionError


def _fill_once(api: WriteApi, table: str, parts: Sequence[PreparedRows]) -> str:
    name = api.create(table)
    requests, total = list[Request](), 0
    for part in parts:
        with part.path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for span in part.spans:
            requests.append(Request(total, view, span.start, span.size))
            total += span.rows
    api.append(name, parts[0].schema, requests)  # a thread of gRPC may hold them a little longer, and then lets go
    taken = api.finalize(name)
    if taken != total:
        raise WriteError(f"Writing to table {table}: BigQuery took {taken} of {total} rows", WriteErrorKind.NEW_STREAM)
    return name


def commit(api: WriteApi, name: str) -> datetime:
    """Commit a write stream that this process has filled, and return when that was done."""
    try:
        return api.commit(name) or api.committed(name) or datetime.now(UTC)
    except WriteError as error:
        raise LoadError(f"{error}; run again") from None


# load_via: storage_write. Rows go as Arrow through the Storage Write API, into a pending write stream for each group.
#
# append-only: the write stream is into the table itself, and is committed once the ledger has a claim for it. upsert:
# it is into the group's staging table. Load jobs remain for overwrite, because a copy of a table may lack rows that
# were written to it just before; for tables with a column that the API has no Arrow type for; and for items with a row
# that is too large for a request.

_ROWS = "rows"


def why_not(load_method: str, columns: Sequence[Column]) -> str | None:
    """Return why a stream needs load jobs; None if the Storage Write API can load it."""
    if load_method == OVERWRITE:
        return "overwrite replaces the table by a copy, which may lack what was written just before"
    if column := unsupported_column(columns):
        return f"the Storage Write API takes no Arrow for column {column}"
    return None


class _Streamed(BigQueryLoadMethod):
    """What both load methods share: items become rows as they are sent, or else parts for a load job."""

    def make_ready(self, item: AnyItem[Any]) -> Any:
        """Return rows; a part for a load job if one of them is too large, or a batch has none."""
        path, rejects = self.context.files.temporary(".rows"), self.rejects(item)
        try:
            written = write(item, converted_batches(item, self.context.files.storage, rejects=rejects), path, rejects)
        except TooLargeError:
            path.unlink()
            limit = REQUEST_BYTES / 1e6
            logger.info("Stream %r: rows beyond %.0f MB go by a load job", self.context.stream, limit)
            return super().make_ready(item)
        if item.batch_id and not written.spans:  # the ledger needs a load
            path.unlink()
            return super().make_ready(item)
        if item.is_temporary:
            item.remove_files()
        return written

    def count(self, upload: Upload) -> None:
        kind = "write_streams" if upload.file_format == _ROWS else "load_jobs"
        self.context.tally.add(rows=upload.rows, bytes=upload.bytes, **{kind: 1})

    def discard(self, parts: Sequence[Any]) -> None:
        for part in parts:
            if isinstance(part, PreparedRows):
                part.path.unlink(missing_ok=True)
            else:
                self.context.files.discard(part)


class StreamedAppend(_Streamed, AppendOnly):
    """append-only: each group is one write stream into the table."""

    loads_each_file = True

    def stage(self, parts: Sequence[Any]) -> None:
        try:
            ready, large = _sorted(self.fresh([p for p in parts if p.rows or p.rejects]))
            if large:
                super().stage(large)
            self.write_dead_letters(ready)
            if rest := [p for p in ready if p.rows]:
                self._write(rest)
        finally:
            self.discard(parts)

    def _write(self, parts: Sequence[PreparedRows]) -> None:
        writes, ledger, table = self.context.client.writes, self.context.ledger, self.context.destination.name
        name, waiting = fill(writes, table, parts), Waiting(logger)
        batches = {p.item.batch_id: p.rows for p in parts if p.item.batch_id}
        of_logs = self.entries_of_logs(p.item for p in parts)
        for pause in pauses(connection.DEADLINE_SECONDS) if batches or of_logs else ():
            job_id, theirs = ledger.begin(batches, of_logs)
            if theirs:
                for batch_id in theirs:
                    self.skip(batch_id, "just now by another run")
                if rest := [p for p in parts if p.item.batch_id not in theirs]:
                    self._write(rest)
                return
            if self.context.client.claim(job_id, name):
                ledger.committed(batches | of_logs, job_id, commit(writes, name))
                self.note(of_logs)
                break
            error = BusyError(f"Loading into table {table}: another process took the id of the job {job_id}")
            if pause is None:
                raise too_busy(error)
            waiting.before_again(pause, error)
        else:
            commit(writes, name)
        self.count(_uploaded(parts))


class StreamedUpsert(_Streamed, Upsert):
    """upsert: each group is one write stream into a staging table of its own, which is merged as ever."""

    def stage(self, parts: Sequence[Any]) -> Staged | None:
        bigquery, table = self.context.client, self.context.destination
        ready, large = _sorted(parts)
        try:
            if not ready and not large:
                return None
            name = staging_name(table.name, uuid.uuid4().hex)
            tables.create_staging_table(bigquery, name, self.fields)
            self.write_dead_letters(ready)
            if large:
                upload = self.join(large)
                self.write_dead_letters(large)
                try:
                    run_until_done(bigquery, upload, name, self.fields)
                finally:
                    self.context.files.discard(upload)
            if rest := [p for p in ready if p.rows]:
                commit(bigquery.writes, fill(bigquery.writes, name, rest))
        finally:
            self.discard(parts)
        loaded: list[PreparedRows | PreparedItem] = [*ready, *large]
        upload = _uploaded(loaded)
        return Staged(name, upload, self.entries(loaded), self.bounds([p.item for p in loaded], upload.rows))


STREAMED: dict[str, type[StreamedAppend] | type[StreamedUpsert]] = {APPEND: StreamedAppend, UPSERT: StreamedUpsert}


def _sorted(parts: Sequence[Any]) -> tuple[list[PreparedRows], list[PreparedItem]]:
    """Split uploads into those that are sent and those that need a load job; leave out empty ones."""
    live = [p for p in parts if p.rows or p.rejects]
    return [p for p in live if isinstance(p, PreparedRows)], [p for p in live if isinstance(p, PreparedItem)]


def _uploaded(parts: Sequence[PreparedRows | PreparedItem]) -> Upload:
    kind = _ROWS if any(isinstance(p, PreparedRows) for p in parts) else ""
    count = sum(map(kept_rows, parts))
    return Upload(None, kind, count, sum(p.bytes for p in parts), is_temporary=False)
