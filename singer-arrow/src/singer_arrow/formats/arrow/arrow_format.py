"""Arrow IPC files (also Feather version 2) and streams, read in order, one record batch at a time.

A file is a stream between two marks and read as such; the end mark is required. Files of polars, which contain no
stream, are read by their footer. The format has no checksums, and a stream may end without an end mark, so truncation
between two batches is not detected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from singer_arrow.casting.extension_types import cast_to, register, with_geometries
from singer_arrow.casting.utf8 import storage_type
from singer_arrow.compression.codecs import decompress, detect
from singer_arrow.enforcement.schema_drift import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.arrow.messages import check_messages
from singer_arrow.formats.columnar import FilePart, read_part
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.random_access import ChunkFile, RangeFile, random_access
from singer_arrow.schema.arrow_schema import canonical

_MAGIC = b"ARROW1"
_MARK = 8
"""Bytes of the mark and its padding at the start of a file."""
_LONGEST_BATCH = 1 << 30
_TAIL = 64 << 10
_AGAIN = "Upload the file again, or set the stream's format"

register()


class ArrowFormat:
    """The format Arrow IPC."""

    name = "arrow"
    suffixes = (".arrow", ".arrows", ".ipc", ".feather")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        try:
            return canonical(_schema(reader, options)[0])
        except (pa.ArrowException, OSError, EOFError) as error:
            raise _broken(error, reader.url) from None

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        begin, number = progress.resume_point or ResumePoint(), -1
        try:
            file, is_stream = _schema(reader, options)
            names = set(columns_to_read(file, schema, options, reader.url))
            read = pa.ipc.IpcReadOptions(
                included_fields=[i for i, n in enumerate(file.names) if n in names] or ([0] if file.names else [])
            )
            batches = _in_order(reader, options, read) if is_stream else _by_footer(reader, read)
            for number, batch in enumerate(batches):
                if progress.end is not None and number >= progress.end.at + bool(progress.end.lines):
                    return
                if number >= begin.at:
                    _check_layout(batch)
                    part = FilePart(number, number + 1, batch.num_rows, reader.url)
                    slices = _slices(cast_to(batch, file), options.batch_rows)
                    yield from read_part(part, slices, schema, options, progress)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise _broken(error, reader.url) from None
        if (begin.at, begin.lines) > (number + 1, 0):
            raise no_such_resume_point(begin, reader.url)


def _schema(reader: ObjectReader, options: ReadOptions) -> tuple[pa.Schema, bool]:
    """Return the schema, and whether the file can be read as a stream.

    In files of polars only the footer has a readable schema.
    """
    source, is_file = _source(reader, options)
    try:
        schema = pa.ipc.open_stream(pa.PythonFile(source, "r")).schema
        return with_geometries(schema, schema.metadata), True
    except (pa.ArrowException, OSError, EOFError):
        if not is_file:
            raise
        with _opened_by_footer(reader) as file:
            return with_geometries(file.schema, file.schema.metadata), False


def _in_order(reader: ObjectReader, options: ReadOptions, read: pa.ipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    source, is_file = _source(reader, options)
    yield from pa.ipc.open_stream(pa.PythonFile(source, "r"), options=read)
    if is_file and not _ends_well(source):
        raise DataError("it ends before its end mark", url=reader.url, hint="Upload the file again")


def _by_footer(reader: ObjectReader, read: pa.ipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    with _opened_by_footer(reader, read) as file:
        yield from (file.get_batch(number) for number in range(file.num_record_batches))


@contextmanager
def _opened_by_footer(reader: ObjectReader, read: pa.ipc.IpcReadOptions | None = None) -> Iterator[Any]:
    with random_access(reader) as file:
        start, end = file.tail(_TAIL)
        source = RangeFile(start + len(end), [(start, end)], lambda span: file.fetch([span])[0])
        yield pa.ipc.open_file(pa.PythonFile(source, "r"), options=read)


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _check_layout(batch: pa.RecordBatch) -> None:
    """Check that offsets lie within their data, which Arrow does not do. Values are not checked.

    Raises:
        ArrowInvalid: An offset lies outside.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for column in batch.columns:
            column.view(storage_type(column.type)).validate(full=True)


def _source(reader: ObjectReader, options: ReadOptions) -> tuple[ChunkFile, bool]:
    """Return the stream, and whether it is within a file, whose start mark is skipped."""
    head = bytes(reader.head_bytes(16))  # cached: the schema is read twice
    codec = detect(reader.url.name, head) if options.compression == "auto" else options.compression
    chunks = decompress(reader.chunks(), codec, url=reader.url)
    first = b""
    for chunk in chunks:
        first += bytes(chunk)
        if len(first) >= _MARK:
            break
    is_file = first.startswith(_MAGIC)
    stream = ChunkFile(_chain(first[_MARK:] if is_file else first, chunks))
    messages = check_messages(stream, reader.budget.decoded.limit, reader.url)
    return ChunkFile(messages, longest=_LONGEST_BATCH), is_file


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _ends_well(source: ChunkFile) -> bool:
    end = b""
    while data := source.read(1 << 20):
        end = (end + data)[-len(_MAGIC) :]
    return end == _MAGIC


def _broken(error: Exception, url: object) -> DataError:
    reason = f"not an Arrow IPC file or stream, or it is broken ({' '.join(str(error).split())[:200]})"
    return DataError(reason, url=url, hint=_AGAIN)
