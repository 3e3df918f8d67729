"""Arrow batches -> an Avro file.

polars encodes flat columns in the types that Avro stores (a timestamp is a long); we write the header with the logical
types, because polars lacks zoned timestamps, times, decimals and JSON. fastavro encodes nested columns.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.errors import SchemaError
from singer_arrow.formats.avro.container import header_size, split_blocks, write_block, write_header
from singer_arrow.formats.avro.schema import to_avro_schema

BLOCK_BYTES = 4 << 20
"""Approximate maximum bytes of a block; readers process blocks in parallel."""
_MIN_VALUE_BYTES = 2  # a boolean takes a bit in Arrow, but a byte or two in Avro


def can_write_fast(schema: pa.Schema) -> bool:
    """Return whether all columns are flat, so that polars can encode them."""
    return not any(pt.is_nested(f.type) for f in schema)


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, *, codec: str) -> int:
    """Write a file and return the number of rows."""
    avro_schema, fast = to_avro_schema(schema), can_write_fast(schema)
    rows = 0
    with path.open("wb") as out:
        out.write(write_header(avro_schema, codec))
        for piece in _pieces(batches):
            container = _encode_fast(piece) if fast else _encode_slow(piece, avro_schema)
            for count, data in split_blocks(container, header_size(container)):
                out.write(write_block(count, data, codec))
            rows += piece.num_rows
    return rows


def write_stream(source: Path, path: Path, codec: str) -> int:
    """Write a file from an Arrow IPC stream on disk and return the number of rows; usable in another process."""
    with pa.memory_map(str(source)) as file, pa.ipc.open_stream(file) as reader:
        return write(reader, reader.schema, path, codec=codec)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            size = max(batch.nbytes, batch.num_rows * batch.num_columns * _MIN_VALUE_BYTES)
            step = -(-batch.num_rows // -(-size // BLOCK_BYTES)) if size else batch.num_rows
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)


def _encode_fast(batch: pa.RecordBatch) -> memoryview:
    import polars as pl

    stored = pa.RecordBatch.from_arrays([_stored(c) for c in batch.columns], names=batch.schema.names)
    frame = pl.DataFrame(stored)
    out = io.BytesIO()
    frame.write_avro(out, name="row")
    return out.getbuffer()


def _stored(column: pa.Array) -> pa.Array:
    """Return a flat column in the type that Avro stores."""
    t = _avro_arrow_type(column.type)
    plain = column if column.type == t else column.cast(t, safe=False)
    if pt.is_decimal(t):
        return _big_endian(plain)
    if pt.is_timestamp(t) or pt.is_time(t):
        return plain.cast(pa.int64())
    return plain.cast(pa.int32()) if pt.is_date(t) else plain


def _big_endian(column: pa.Array) -> pa.Array:
    """Return decimals as big-endian bytes of their unscaled values, as Avro stores them."""
    width, count = column.type.byte_width, len(column)
    values = column.buffers()[1][column.offset * width : (column.offset + count) * width]
    turned = pa.py_buffer(values.to_pybytes()[::-1])  # reverses the bytes of each value, and the order of the values
    reverse = pa.array(range(count - 1, -1, -1), pa.int64())
    whole = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, turned]).take(reverse)
    return pc.if_else(column.is_valid(), whole.cast(pa.binary()), None)


def _avro_arrow_type(t: pa.DataType) -> pa.DataType:
    """Return the Arrow type that the Avro schema of `to_avro_schema` represents."""
    if pt.is_uint64(t):
        return pa.decimal128(20, 0)
    if pt.is_integer(t):
        return pa.int64()
    if pt.is_floating(t):
        return pa.float64()
    if pt.is_timestamp(t):
        return pa.timestamp("us", "UTC")
    if pt.is_time(t):
        return pa.time64("us")
    if pt.is_date(t):
        return pa.date32()
    if pt.is_large_string(t) or pt.is_null(t):
        return pa.string()
    if pt.is_large_binary(t) or pt.is_fixed_size_binary(t):
        return pa.binary()
    if pt.is_struct(t):
        return pa.struct([f.with_type(_avro_arrow_type(f.type)) for f in t])
    if pt.is_list(t) or pt.is_large_list(t):
        return pa.list_(t.value_field.with_type(_avro_arrow_type(t.value_type)))
    if pt.is_map(t):
        return pa.map_(t.key_type, _avro_arrow_type(t.item_type))
    return t


def _encode_slow(batch: pa.RecordBatch, avro_schema: dict[str, Any]) -> memoryview:
    import fastavro

    columns = {f.name: batch.column(i).cast(_avro_arrow_type(f.type), safe=False) for i, f in enumerate(batch.schema)}
    rows = pa.table(columns).to_pylist(maps_as_pydicts="strict")
    out = io.BytesIO()
    try:
        fastavro.writer(out, fastavro.parse_schema(avro_schema), rows, sync_interval=1 << 62)
    except (TypeError, ValueError, AttributeError) as error:
        msg = f"The rows do not fit Avro, which has no null among the items of an array: {error}"
        raise SchemaError(" ".join(msg.split())[:300]) from None
    return out.getbuffer()
