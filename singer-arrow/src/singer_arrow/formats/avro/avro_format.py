"""Avro files: schema from the header, rows by groups of blocks."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.to_json import json_text
from singer_arrow.compression.chunk_file import ChunkFile
from singer_arrow.compression.codecs import decompress, detect
from singer_arrow.enforcement.schema_drift import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.avro import writer as avro_write
from singer_arrow.formats.avro.container import Header, read_blocks, read_header, repack
from singer_arrow.formats.avro.schema import from_avro_schema, without_logical_types
from singer_arrow.formats.base import HELD_BYTES
from singer_arrow.formats.columnar import FilePart, read_part
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.memory_budget import Allowance
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.schema.arrow_schema import canonical, is_json

GROUP_BYTES = 8 << 20
_PASSED = 1 << 20
_FLAT = {"boolean", "int", "long", "float", "double", "string", "bytes"}
_CODECS = {None: "snappy", "none": "null", "gzip": "deflate", "zstd": "zstandard"}


class AvroFormat:
    """The format Avro."""

    name = "avro"
    suffixes = (".avro",)

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
        for blocks in _groups(read_blocks(source, header, reader.url, most=reader.budget.decoded.limit)):
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
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        path: Path,
        *,
        compression: str | None = None,
        held_bytes: int = HELD_BYTES,  # noqa: ARG002 - blocks are smaller
        parallel: Allowance | None = None,  # noqa: ARG002
    ) -> int:
        """Write a file; `compression` is snappy (default), none, deflate or zstandard."""
        codec = _CODECS.get(compression, compression) or "null"
        return avro_write.write(batches, schema, path, codec=codec)


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


def _groups(blocks: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Group blocks up to `GROUP_BYTES`; by size alone, so alike on every run."""
    group: list[tuple[int, bytes]] = []
    size = 0
    for rows, data in blocks:
        group.append((rows, data))
        size += len(data)
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


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
    rows = [
        {name: make(row[name]) if make is not None else row[name] for name, make in made.items()}
        for row in fastavro.reader(io.BytesIO(repack(header, blocks, without_logical_types(header.schema))))
        if isinstance(row, dict)
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


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
