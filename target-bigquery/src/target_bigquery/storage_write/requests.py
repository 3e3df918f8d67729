"""Rows as the Storage Write API takes them: Arrow record batches of a few types, in requests of a bounded size.

https://cloud.google.com/bigquery/docs/supported-data-types#supported_apache_arrow_data_types
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.load.dead_letters import Rejects
from singer_arrow.storage.urls import Url
from target_bigquery.load.uploads import Item
from target_bigquery.tables.types import Column

REQUEST_BYTES = 9_000_000
"""How large the rows of a request may be; with all around them BigQuery takes 10 MB."""
_UNSUPPORTED_KINDS = ("TIME", "DATETIME")
_NUMBERS = {"NUMERIC": pa.decimal128, "BIGNUMERIC": pa.decimal256}
"""The decimals that columns are filled from."""


class TooLargeError(Exception):
    """A row is larger than a request may be."""


@dataclass(frozen=True, slots=True)
class RowSpan:
    """A request's rows: where they are in the file, and how many they are."""

    start: int
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """An item whose rows are ready to be sent; they wait in a file on this machine, and nothing of it elsewhere.

    `rejects` has those that are not sent.
    """

    item: Item
    path: Path
    spans: tuple[RowSpan, ...]
    schema: bytes
    staged: tuple[Url, ...] = ()
    rejects: Rejects | None = None

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(span.rows for span in self.spans)

    @property
    def bytes(self) -> int:
        """What they weigh in requests."""
        return sum(span.size for span in self.spans)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request: rows of a file, and their place in the write stream."""

    offset: int
    span: RowSpan
    view: mmap.mmap

    def data(self) -> bytes:
        return self.view[self.span.start : self.span.start + self.span.size]


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
    return pa.field(field.name, field.type if column is None else _row_type(column, field.type))


def row_schema(schema: pa.Schema, columns: Sequence[Column]) -> pa.Schema:
    """Return the schema with which uploads of a schema are sent."""
    return pa.schema([row_field(field, columns) for field in schema])


def converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows of an upload to its `row_schema`."""
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
    return PreparedRows(item, path, tuple(spans), schema.serialize().to_pybytes(), rejects=rejects)


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


def _row_type(column: Column, t: pa.DataType) -> pa.DataType:
    item = t.value_type if column.repeated else t
    if column.fields:
        item = pa.struct([row_field(f, column.fields) for f in item])
    elif column.kind in _NUMBERS and pt.is_decimal(item):
        is_too_long = column.kind == "NUMERIC" and item.precision > 38
        item = pa.decimal128(38, 9) if is_too_long else _NUMBERS[column.kind](item.precision, item.scale)
    return pa.list_(item) if column.repeated else item


def _sent(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert an array to the type that is sent; a null list becomes an empty one, at every depth."""
    if pt.is_list(target):
        return _without_null_lists(array, target)
    if pt.is_struct(target):
        if array.type != target or _holds_lists(target):
            arrays = [_sent(array.field(n), target.field(n).type) for n in range(target.num_fields)]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)
        return array
    return array if array.type == target else array.cast(target)


def _without_null_lists(array: pa.Array, target: pa.DataType) -> pa.Array:
    import pyarrow.compute as pc

    values = _sent(array.flatten(), target.value_type)  # without what null lists may hide
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values, type=target)


def _holds_lists(t: pa.DataType) -> bool:
    return any(pt.is_list(f.type) or (pt.is_struct(f.type) and _holds_lists(f.type)) for f in t)
