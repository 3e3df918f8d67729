"""Avro files: read and written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.to_json import json_text
from singer_arrow.compression import ChunkFile, decompress, detect
from singer_arrow.enforcement.enforce import columns_to_read
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.formats.avro_container import (
    Header,
    from_avro_schema,
    header_size,
    possible_blocks,
    read_blocks,
    read_header,
    refuse_lists_without_bytes,
    repack,
    split_blocks,
    to_avro_schema,
    without_logical_types,
    write_block,
    write_header,
)
from singer_arrow.formats.base import PLAIN, WriteOptions
from singer_arrow.formats.blocks import FilePart, in_groups, read_part
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.schema.arrow_schema import canonical, is_json

# Arrow batches -> an Avro file.
#
# polars encodes flat columns in the types that Avro stores (a timestamp is a long); we write the header with the
# logical types, because polars lacks zoned timestamps, times, decimals and JSON. fastavro encodes nested columns.

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
    if pt.is_timestamp(t) or pt.is_time(t):
        return plain.cast(pa.int64())
    if not pt.is_decimal(t):
        return plain.cast(pa.int32()) if pt.is_date(t) else plain
    # Decimals are big-endian bytes of their unscaled values
    width, count = t.byte_width, len(plain)
    values = plain.buffers()[1][plain.offset * width : (plain.offset + count) * width]
    turned = pa.py_buffer(values.to_pybytes()[::-1])  # reverses the bytes of each value, and the order of the values
    reverse = pa.array(range(count - 1, -1, -1), pa.int64())
    whole = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, turned]).take(reverse)
    return pc.if_else(plain.is_valid(), whole.cast(pa.binary()), None)


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


# Avro files: schema from the header, rows by groups of blocks.

GROUP_BYTES = 8 << 20
_LEAST_ROW = 16  # bytes that a row counts for, as it takes more in memory
_ROWS_AT_ONCE = 1 << 14
_PASSED = 1 << 20
_FLAT = {"boolean", "int", "long", "float", "double", "string", "bytes"}
_CODECS = {None: "snappy", "none": "null", "gzip": "deflate", "zstd": "zstandard"}


class AvroFormat:
    """The format Avro."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        header = read_header(_source(reader, options), reader.url)
        return canonical(from_avro_schema(header.schema, reader.url))

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        begin = progress.resume_point or ResumePoint()
        source = _source(reader, options)
        header = read_header(source, reader.url)
        ours = from_avro_schema(header.schema, reader.url)
        refuse_lists_without_bytes(header.schema, reader.url)
        names = columns_to_read(ours, schema, options, reader.url)
        fields = [_branches(f["type"]) for f in header.schema["fields"]]
        is_flat = fields and all(len(given) <= 2 and len(own) == 1 and _physical(own[0]) for given, own in fields)
        decode = _decode_fast if is_flat else _decode_slow
        if begin.at > source.position:
            if options.on_bad_row == "dead_letter":  # which names rows by their numbers in the file
                blocks_before = read_blocks(source, header, reader.url, most=reader.budget.decoded.limit)
                while source.position < begin.at and (block := next(blocks_before, None)) is not None:
                    progress.rows_read += block[0]
            source = _source(reader, options, begin.at)
        at = source.position
        if at < begin.at:
            raise no_such_resume_point(begin, reader.url)
        found = read_blocks(source, header, reader.url, most=reader.budget.decoded.limit)
        found = possible_blocks(found, header.schema, reader.url)
        for blocks in in_groups(found, lambda block: max(len(block[1]), _LEAST_ROW * block[0]), GROUP_BYTES):
            try:
                table = decode(header, blocks, ours, names)
            except (pa.ArrowException, ValueError, TypeError, IndexError, EOFError, OverflowError) as error:
                msg = f"its rows do not match its header ({' '.join(str(error).split())[:200]})"
                raise DataError(msg, url=reader.url) from None
            part = FilePart(at, source.position, table.num_rows, reader.url)
            yield from read_part(part, table.to_batches(options.batch_rows), schema, options, progress)
            at = source.position
            if progress.end is not None and at >= progress.end.at + bool(progress.end.lines):
                return
        if begin.lines and begin.at == at:
            raise no_such_resume_point(begin, reader.url)

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, options: WriteOptions = PLAIN
    ) -> int:
        """Write a file; `compression` is snappy (default), none, deflate or zstandard."""
        codec = _CODECS.get(options.compression, options.compression) or "null"
        return write(batches, schema, path, codec=codec)


def _source(reader: ObjectReader, options: ReadOptions, position: int = 0) -> ChunkFile:
    """Open the file at a position, or at its end if it is shorter."""
    codec = options.compression
    if codec == "auto":
        codec = detect(reader.url.name, bytes(reader.head_bytes(8)))
    if codec == "none" and reader.ranged:
        begin = min(position, reader.size or position)
        return ChunkFile(reader.chunks(begin), position=begin)
    source = ChunkFile(decompress(reader.chunks(), codec, url=reader.url))
    while source.position < position and source.read(min(_PASSED, position - source.position)):
        pass
    return source


def _branches(kind: Any) -> tuple[list[Any], list[Any]]:
    """Return the branches of a union type, and those that are not null."""
    branches = kind if isinstance(kind, list) else [kind]
    return branches, [b for b in branches if b != "null"]


def _physical(kind: Any) -> str | None:
    """Return the primitive that a type is stored as; None if polars does not decode it exactly."""
    if isinstance(kind, dict):
        if kind.get("logicalType") == "decimal" or kind["type"] not in _FLAT:
            return None
        return str(kind["type"])
    return kind if kind in _FLAT else None


def _decode_fast(header: Header, blocks: list[tuple[int, bytes]], ours: pa.Schema, names: list[str]) -> pa.Table:
    """Decode by polars, in the stored types; the logical types are applied afterwards without a copy."""
    import polars as pl

    fields = header.schema["fields"]
    stored = [
        {
            "name": f["name"],
            "type": [_physical(b) or b for b in given] if isinstance(f["type"], list) else _physical(own[0]),
        }
        for f in fields
        for given, own in [_branches(f["type"])]
    ]
    plain = repack(header, blocks, {"type": "record", "name": "row", "fields": stored})
    columns = [f["name"] for f in fields if f["name"] in names] or [fields[0]["name"]]
    table = pl.read_avro(io.BytesIO(plain), columns=columns).to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.cast(pa.schema([ours.field(n) for n in table.column_names]))


def _decode_slow(header: Header, blocks: list[tuple[int, bytes]], ours: pa.Schema, names: list[str]) -> pa.Table:
    import fastavro

    fields = [f for f in ours if f.name in names] or [ours.field(0)]
    made = {f.name: _with_json(f) for f in fields}
    rows = (
        {name: make(row[name]) if make is not None else row[name] for name, make in made.items()}
        for row in fastavro.reader(io.BytesIO(repack(header, blocks, without_logical_types(header.schema))))
        if isinstance(row, dict)
    )
    schema, tables = pa.schema(fields), list[pa.Table]()
    while some := list(islice(rows, _ROWS_AT_ONCE)):  # as objects they take many times the memory
        tables.append(pa.Table.from_pylist(some, schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _with_json(field: pa.Field) -> Callable[[Any], Any] | None:
    """Return a function that converts the JSON columns within a value to text; None if there are none."""
    t = field.type
    if is_json(field):
        return lambda value: None if value is None else json_text(value)
    if pt.is_list(t):
        item = _with_json(t.value_field)
        return item and (lambda value: None if value is None else [item(v) for v in value])
    if pt.is_map(t):
        entry = _with_json(t.item_field)
        return entry and (lambda value: None if value is None else {k: entry(v) for k, v in value.items()})
    if pt.is_struct(t):
        parts = {f.name: make for f in t if (make := _with_json(f)) is not None}
        return (lambda v: None if v is None else {**v, **{n: f(v[n]) for n, f in parts.items()}}) if parts else None
    return None
