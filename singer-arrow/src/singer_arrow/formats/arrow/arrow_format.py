"""Arrow IPC files (also Feather version 2) and streams, read in order, one record batch at a time.

A file is a stream between two marks and read as such; the end mark is required. Files of polars, which contain no
stream, are read by their footer. The format has no checksums, and a stream may end without an end mark: then truncation
between two batches is detected only with `ReadOptions.needs_end_mark`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.extension_types import cast_to, register, with_geometries
from singer_arrow.casting.layouts import to_plain
from singer_arrow.casting.utf8 import storage_type
from singer_arrow.compression.chunk_file import ChunkFile
from singer_arrow.compression.codecs import decompress, detect
from singer_arrow.enforcement.schema_drift import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.arrow.batch_size import slices
from singer_arrow.formats.arrow.footer import OpenFile
from singer_arrow.formats.arrow.messages import LARGEST_BODY, MAGIC, Messages
from singer_arrow.formats.arrow.writer import ArrowWriting
from singer_arrow.formats.columnar import FilePart, read_part
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.schema.arrow_schema import MOST_DIGITS, canonical

_MARK = 8  # bytes of the mark and its padding at the start of a file
_AGAIN = "Upload the file again, or set the stream's format"

register()


class ArrowFormat(ArrowWriting):
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
        begin, number, before = progress.resume_point or ResumePoint(), -1, 0
        try:
            file, is_stream = _schema(reader, options)
            progress.file_schema = file
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
                    progress.rows_read = before
                    part = FilePart(number, number + 1, batch.num_rows, reader.url, rows_before=before)
                    most = reader.budget.decoded.limit
                    found = slices(cast_to(batch, file), options.batch_rows, most, reader.url)
                    yield from read_part(part, map(to_plain, found), schema, options, progress)
                before += batch.num_rows
        except (pa.ArrowException, OSError, EOFError) as error:
            raise _broken(error, reader.url) from None
        if (begin.at, begin.lines) > (number + 1, 0):
            raise no_such_resume_point(begin, reader.url)


def _schema(reader: ObjectReader, options: ReadOptions) -> tuple[pa.Schema, bool]:
    """Return the schema, and whether the file can be read as a stream.

    In files of polars only the footer has a readable schema.
    """
    source, _, is_file = _source(reader, options)
    try:
        schema, is_stream = pa.ipc.open_stream(pa.PythonFile(source, "r")).schema, True
    except (pa.ArrowException, OSError, EOFError):
        if not is_file:
            raise
        with OpenFile.of(reader) as file:
            schema, is_stream = file.schema, False
    for field in schema:
        _check_scales(field)
    return with_geometries(schema, schema.metadata), is_stream


def _check_scales(field: pa.Field) -> None:
    """Raise ArrowInvalid if a decimal has an impossible scale, at which Arrow's casts crash."""
    t = field.type
    if pt.is_decimal(t) and abs(t.scale) > MOST_DIGITS:
        msg = f"column {field.name!r} has the scale {t.scale}"
        raise pa.ArrowInvalid(msg)
    stored = t.storage_type if isinstance(t, pa.BaseExtensionType) else t
    if pt.is_dictionary(stored) or pt.is_run_end_encoded(stored):
        _check_scales(field.with_type(stored.value_type))
    elif stored is not t:
        _check_scales(field.with_type(stored))
    elif pt.is_nested(t):
        for i in range(t.num_fields):
            _check_scales(t.field(i))


def _in_order(reader: ObjectReader, options: ReadOptions, read: pa.ipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    source, messages, is_file = _source(reader, options)
    yield from pa.ipc.open_stream(pa.PythonFile(source, "r"), options=read)
    end = b""
    while is_file and (data := source.read(1 << 20)):
        end = (end + data)[-len(MAGIC) :]
    if is_file and end != MAGIC:
        raise DataError("it ends before its end mark", url=reader.url, hint="Upload the file again")
    if options.needs_end_mark and not (is_file or messages.has_end_mark):
        reason = "it is an Arrow stream without an end mark, so it may have been cut off"
        hint = "Set 'row_count' in the BATCH message, or close the stream with its end mark, in the tap"
        raise DataError(reason, url=reader.url, hint=hint)


def _by_footer(reader: ObjectReader, read: pa.ipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    with OpenFile.of(reader, read) as file:
        yield from file.batches()


def _check_layout(batch: pa.RecordBatch) -> None:
    """Raise ArrowInvalid if an offset lies outside its data, which Arrow does not check. Values are not checked."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for column in batch.columns:
            column.view(storage_type(column.type)).validate(full=True)


def _source(reader: ObjectReader, options: ReadOptions) -> tuple[ChunkFile, Messages, bool]:
    """Return the stream, its messages, and whether it is within a file, whose start mark is skipped."""
    head = bytes(reader.head_bytes(16))  # cached: the schema is read twice
    codec = detect(reader.url.name, head) if options.compression == "auto" else options.compression
    stream = ChunkFile(decompress(reader.chunks(), codec, url=reader.url))
    first = stream.read(_MARK)
    is_file = first.startswith(MAGIC)
    if not is_file:
        stream = ChunkFile(chain([first], stream.pieces()))
    messages = Messages(stream, reader.budget.decoded.limit, reader.url)
    return ChunkFile(messages, longest=LARGEST_BODY), messages, is_file


def _broken(error: Exception, url: object) -> DataError:
    reason = f"not an Arrow IPC file or stream, or it is broken ({' '.join(str(error).split())[:200]})"
    return DataError(reason, url=url, hint=_AGAIN)
