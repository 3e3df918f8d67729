"""Arrow IPC files and streams: schema, record batches, size checks before decompression, writing."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.extension_types import with_geometries
from singer_arrow.casting.from_arrow import to_plain
from singer_arrow.casting.spelling import storage_type
from singer_arrow.compression import ChunkFile
from singer_arrow.enforcement.enforce import columns_to_read
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats.base import PLAIN, WriteOptions, too_large
from singer_arrow.formats.blocks import FilePart, cast_to, read_part
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.chunks import RangeFile, random_access, unpacked
from singer_arrow.reading.objects import MIB, FetchedRange, ObjectReader, Span
from singer_arrow.schema.arrow_schema import MOST_DIGITS, canonical

# Split record batches so that the decoded rows are bounded in memory, however small the file is. Pure.
#
# Dictionaries, runs, views and nulls repeat values without bytes of their own: a text of 1 MB in a dictionary that a
# million rows use is a terabyte of text. What a slice decodes to is computed without decoding it.

SLICE_BYTES = 64 << 20
"""Maximum bytes of a slice of several rows."""
_OFFSET, _NULL = 8, 8
_VIEW = 16  # bytes of a view; the first four are the length of its value


def slices(batch: pa.RecordBatch, rows: int, most: int, url: object) -> Iterator[pa.RecordBatch]:
    """Yield the rows in slices of at most `rows` rows and `SLICE_BYTES` decoded bytes; every run has the same slices.

    A row of repeated values that decodes to more than `most` bytes is a DataError.
    """
    compact = [i for i, field in enumerate(batch.schema) if _repeats(field.type)]
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        yield from _halved(part, compact, most, url) if compact else (part,)


def _halved(part: pa.RecordBatch, compact: list[int], most: int, url: object) -> Iterator[pa.RecordBatch]:
    size, rows = sum(_decoded(part.column(i)) for i in compact), part.num_rows
    if size <= SLICE_BYTES or (rows == 1 and size <= most):
        yield part
        return
    if rows == 1:
        raise too_large("a row", size, most, url=url)
    yield from _halved(part.slice(0, rows // 2), compact, most, url)
    yield from _halved(part.slice(rows // 2), compact, most, url)


def _repeats(t: pa.DataType) -> bool:
    """Return whether values of a type may share bytes, or have none."""
    if isinstance(t, pa.BaseExtensionType):
        return _repeats(t.storage_type)
    if pt.is_dictionary(t) or pt.is_run_end_encoded(t) or pt.is_null(t) or _is_view(t) or _is_list_view(t):
        return True
    return pt.is_nested(t) and any(_repeats(t.field(i).type) for i in range(t.num_fields))


def _decoded(array: Any) -> int:
    """Return at least the bytes of the decoded values."""
    t, count = array.type, len(array)
    if isinstance(array, pa.ExtensionArray):
        return _decoded(array.storage)
    if not count or pt.is_null(t):
        return count * _NULL
    if pt.is_dictionary(t):
        if (width := _width(array.dictionary)) is not None:
            return count * width
        return pc.sum(_sizes(array.dictionary).take(array.indices)).as_py() or 0
    if pt.is_run_end_encoded(t):
        if (width := _width(array.values)) is not None:
            return count * width
        first, runs = array.find_physical_offset(), array.find_physical_length()
        inner = array.run_ends.slice(first, runs - 1).cast(pa.int64())
        start, end = (pa.array([at], pa.int64()) for at in (array.offset, array.offset + count))
        bounds = pa.concat_arrays([start, inner, end])
        lengths = pc.subtract(bounds.slice(1), bounds.slice(0, runs))
        return pc.sum(pc.multiply(_sizes(array.values.slice(first, runs)), lengths)).as_py() or 0
    if _is_view(t):
        return count * _OFFSET + (pc.sum(_view_lengths(array)).as_py() or 0)
    if _is_text(t):
        return count * _OFFSET + (pc.sum(pc.binary_length(array)).as_py() or 0)
    if pt.is_struct(t):
        return sum(_decoded(array.field(i)) for i in range(t.num_fields))
    if _is_list_view(t):
        if (longest := _width(array.values)) is None:
            longest = pc.max(_sizes(array.values)).as_py() or 0
        return count * _OFFSET + (pc.sum(array.sizes).as_py() or 0) * longest
    if pt.is_fixed_size_list(t):
        return _decoded(array.values.slice(array.offset * t.list_size, count * t.list_size))
    if pt.is_nested(t):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        children = (array.keys, array.items) if pt.is_map(t) else (array.values,)
        return count * _OFFSET + sum(_decoded(child.slice(start, end - start)) for child in children)
    return count * int(-(-t.bit_width // 8))


def _width(values: Any) -> int | None:
    """Return the most bytes of a value, for nested values those of all; None for texts, see `_sizes`."""
    t = values.type
    if isinstance(values, pa.ExtensionArray):
        return _width(values.storage)
    if _is_view(t) or _is_text(t):
        return None
    if pt.is_null(t):
        return _NULL
    if pt.is_nested(t) or pt.is_dictionary(t) or pt.is_run_end_encoded(t):
        return _decoded(values)
    return int(-(-t.bit_width // 8))


def _sizes(values: Any) -> pa.Array:
    """Return the bytes of each text."""
    if isinstance(values, pa.ExtensionArray):
        return _sizes(values.storage)
    lengths = _view_lengths(values) if _is_view(values.type) else pc.binary_length(values)
    return pc.add(pc.fill_null(lengths.cast(pa.int64()), 0), _OFFSET)


def _view_lengths(array: Any) -> pa.Array:
    views = pa.Array.from_buffers(pa.binary(_VIEW), len(array), [None, array.buffers()[1]], offset=array.offset)
    return pc.if_else(array.is_valid(), pc.binary_slice(views, 0, 4).cast(pa.binary(4)).view(pa.int32()), 0)


def _is_text(t: pa.DataType) -> bool:
    return bool(pt.is_string(t) or pt.is_binary(t) or pt.is_large_string(t) or pt.is_large_binary(t))


def _is_view(t: pa.DataType) -> bool:
    return bool(pt.is_string_view(t) or pt.is_binary_view(t))


def _is_list_view(t: pa.DataType) -> bool:
    return bool(pt.is_list_view(t) or pt.is_large_list_view(t))


# Size checks of the messages of an Arrow IPC stream before Arrow decompresses them.
#
# Arrow trusts the size in memory with which a compressed buffer starts. See the Arrow specification, "Serialization and
# Interprocess Communication"; the metadata is a FlatBuffer, of which four tables are parsed here.

MAX_INFLATION = 100
"""Compression ratio up to which batches are always accepted."""
MAGIC = b"ARROW1"
"""Mark at the start and at the end of a file."""
_CONTINUES = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3
LARGEST_BODY = 1 << 30
"""Maximum bytes of a record batch in a file; it is in memory at once."""


class Messages:
    """The messages of a stream, each checked before it is yielded.

    A record batch may decompress to `most` bytes, or at a ratio of up to `MAX_INFLATION`; more is a DataError.
    `has_end_mark` is whether the stream's end mark was yielded.
    """

    def __init__(self, source: ChunkFile, most: int, url: object) -> None:
        self._source, self._most, self._url = source, most, url
        self.has_end_mark = False

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the stream unchanged."""
        while (yield from self.one()):
            pass
        yield from self._source.pieces()

    def one(self) -> Generator[bytes | memoryview, None, bool]:
        """Yield the bytes of one message unchanged, and return whether another one may follow."""
        start = self._source.read(4)
        length = self._source.read(4) if start == _CONTINUES else start
        size = int.from_bytes(length, "little")
        self.has_end_mark = len(length) == 4 and size == 0
        yield start if length is start else start + length
        if not 0 < size < LARGEST_BODY:
            return False
        metadata = self._source.read(size)
        try:
            body, buffers = _body_of(metadata)
        except (struct.error, IndexError):
            yield metadata  # which Arrow refuses
            return False
        if body > LARGEST_BODY:
            reason = f"a record batch of it has {body >> 20} MB, more than the {LARGEST_BODY >> 20} MB of one at most"
            raise DataError(reason, url=self._url, hint="Write it with fewer rows in a record batch")
        yield metadata
        if not buffers or body < 0:
            yield from self._source.pieces(body)
            return True
        data = self._source.read(body)
        compressed = (at for at, length in buffers if length >= 8 and 0 <= at <= len(data) - 8)
        sizes = (struct.unpack_from("<q", data, at)[0] for at in compressed)
        total = sum(size for size in sizes if size > 0)  # -1: not compressed
        if total > self._most and total > MAX_INFLATION * len(data):
            raise too_large("a batch of rows", total, self._most, url=self._url)
        yield data
        return True


def _blocks(footer: bytes, vector: _Table | None) -> list[Span]:
    """Return where the dictionaries or the record batches of a file are, by a vector of its footer."""
    if vector is None:
        return []
    count = struct.unpack_from("<I", footer, vector.at)[0]
    found = (struct.unpack_from("<qi4xq", footer, vector.at + 4 + 24 * i) for i in range(count))
    return [(offset, offset + metadata + body) for offset, metadata, body in found]


def _body_of(metadata: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return the size of a message's body, and offset and length of its compressed buffers."""
    table = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    kind = table.number("<B", 1)
    body: int = table.number("<q", 3)
    batch = table.inner(2) if kind in (_DICTIONARY, _BATCH) else None
    if batch is not None and kind == _DICTIONARY:
        batch = batch.inner(1)
    if batch is None or batch.inner(3) is None:
        return body, []
    vector = batch.inner(2)
    if vector is None:
        return body, []
    count = struct.unpack_from("<I", metadata, vector.at)[0]
    return body, [struct.unpack_from("<qq", metadata, vector.at + 4 + 16 * i) for i in range(count)]


class _Table:
    """A table of a FlatBuffer at an offset."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def number(self, kind: str, field: int) -> int:
        """Return a numeric field; 0 if it is missing."""
        offset = self._offset(field)
        return int(struct.unpack_from(kind, self._data, offset)[0]) if offset else 0

    def inner(self, field: int) -> _Table | None:
        """Return a field that is a table or a vector; None if it is missing."""
        offset = self._offset(field)
        return _Table(self._data, offset + struct.unpack_from("<I", self._data, offset)[0]) if offset else None

    def _offset(self, field: int) -> int:
        fields = self.at - struct.unpack_from("<i", self._data, self.at)[0]
        if 4 + 2 * field >= struct.unpack_from("<H", self._data, fields)[0]:
            return 0
        offset = struct.unpack_from("<H", self._data, fields + 4 + 2 * field)[0]
        return self.at + offset if offset else 0


# Files that are read by their footer, as those of polars, which contain no stream: `OpenFile`.

_TAIL = 64 << 10
_END = 4 + len(MAGIC)  # bytes after the footer: its size and the mark
_BROKEN_FOOTER = "the footer is broken"


class OpenFile:
    """A file of which each message is checked before Arrow reads it; ArrowInvalid or OSError if it is broken."""

    def __init__(self, reader: ObjectReader, read: pa.ipc.IpcReadOptions | None) -> None:
        self._reader = reader
        start, end = reader.tail(_TAIL)
        self._size, self._held = start + len(end), (start, end)
        self._file = RangeFile(self._size, [(start, end)], self._fetch)
        # Where its dictionaries and its record batches are, by its footer
        size, mark = struct.unpack("<i6s", self._read((max(0, self._size - _END), self._size)).rjust(_END, b"\0"))
        if mark != MAGIC or not 0 < size <= self._size - _END:
            raise pa.ArrowInvalid(_BROKEN_FOOTER)
        footer = self._read((self._size - _END - size, self._size - _END))
        try:
            table = _Table(footer, struct.unpack_from("<I", footer)[0])
            dictionaries, self._blocks = (_blocks(footer, table.inner(field)) for field in (2, 3))
        except (struct.error, IndexError):
            raise pa.ArrowInvalid(_BROKEN_FOOTER) from None
        for block in dictionaries:
            self._check(block)
        self._opened = pa.ipc.open_file(pa.PythonFile(self._file, "r"), options=read)
        self.schema = self._opened.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the record batches."""
        for number, block in enumerate(self._blocks):
            self._check(block)
            yield self._opened.get_batch(number)

    def _check(self, block: Span) -> None:
        def pieces() -> Iterator[bytes]:
            yield self._read(block)
            for at in range(block[1], self._size, MIB):  # its message may be longer than the footer has it
                yield self._read((at, at + MIB))

        if not 0 < block[0] < block[1] <= self._size:
            raise pa.ArrowInvalid(_BROKEN_FOOTER)
        for _ in Messages(ChunkFile(pieces()), self._reader.budget.decoded.limit, self._reader.url).one():
            pass

    def _read(self, span: Span) -> bytes:
        self._file.seek(span[0])
        return self._file.read(span[1] - span[0])

    def _fetch(self, span: Span) -> FetchedRange:
        """Return a span, from the last block that was fetched if it is there."""
        start, data = self._held
        if not start <= span[0] <= span[1] <= start + len(data):
            start, data = self._held = self._reader.fetch([span])[0]
        return span[0], memoryview(data)[span[0] - start : span[1] - start]


# Writing of Arrow IPC files: record batches of up to 64 Ki rows or 16 MiB.

BATCH_ROWS = 64 << 10
BATCH_BYTES = 16 << 20
_CODECS = {"none": None, "lz4": "lz4", "zstd": "zstd"}


def _record_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of up to `BATCH_ROWS` rows and about `size` bytes; small ones are joined, large ones cut."""
    held, rows, held_bytes = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        most = max(1, min(BATCH_ROWS, batch.num_rows * size // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, most):
            part = batch.slice(start, most)
            if held and (rows + part.num_rows > BATCH_ROWS or held_bytes + part.nbytes > size):
                yield _joined(held)
                held, rows, held_bytes = [], 0, 0
            held.append(part)
            rows += part.num_rows
            held_bytes += part.nbytes
    if held:
        yield _joined(held)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(held) if len(held) > 1 else held[0]


# Arrow IPC files (also Feather version 2) and streams, read in order, one record batch at a time.
#
# A file is a stream between two marks and read as such; the end mark is required. Files of polars, which contain no
# stream, are read by their footer. The format has no checksums, and a stream may end without an end mark: then
# truncation between two batches is detected only with `ReadOptions.needs_end_mark`.

_MARK = 8  # bytes of the mark and its padding at the start of a file
_AGAIN = "Upload the file again, or set the stream's format"


class ArrowFormat:
    """The format Arrow IPC."""

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

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, options: WriteOptions = PLAIN
    ) -> int:
        """Write a file; `compression` of its buffers is none (default), lz4 or zstd."""
        codec = (options.compression or "none").lower()
        if codec not in _CODECS:
            msg = (
                f"compression {options.compression!r} is not supported for Arrow batch files; use {', '.join(_CODECS)}"
            )
            raise ConfigError(msg)
        rows, how = 0, pa.ipc.IpcWriteOptions(compression=_CODECS[codec], use_threads=False)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=how) as writer:
            for batch in _record_batches(batches, min(BATCH_BYTES, options.held_bytes)):
                writer.write_batch(batch)
                rows += batch.num_rows
        return rows


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
        with random_access(reader) as file:
            schema, is_stream = OpenFile(file, None).schema, False
    for field in schema:
        _check_scales(field)
    return with_geometries(schema, schema.metadata), is_stream


def _check_scales(field: pa.Field) -> None:
    """Raise ArrowInvalid if a decimal has an impossible scale, at which Arrow's casts crash."""
    t = field.type
    if pt.is_decimal(t) and abs(t.scale) > MOST_DIGITS:
        raise pa.ArrowInvalid(f"column {field.name!r} has the scale {t.scale}")
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
    with random_access(reader) as file:
        yield from OpenFile(file, read).batches()


def _check_layout(batch: pa.RecordBatch) -> None:
    """Raise ArrowInvalid if an offset lies outside its data, which Arrow does not check. Values are not checked."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for column in batch.columns:
            column.view(storage_type(column.type)).validate(full=True)


def _source(reader: ObjectReader, options: ReadOptions) -> tuple[ChunkFile, Messages, bool]:
    """Return the stream, its messages, and whether it is within a file, whose start mark is skipped."""
    stream = ChunkFile(unpacked(reader, options.compression))
    first = stream.read(_MARK)
    is_file = first.startswith(MAGIC)
    if not is_file:
        stream = ChunkFile(chain([first], stream.pieces()))
    messages = Messages(stream, reader.budget.decoded.limit, reader.url)
    return ChunkFile(messages, longest=LARGEST_BODY), messages, is_file


def _broken(error: Exception, url: object) -> DataError:
    reason = f"not an Arrow IPC file or stream, or it is broken ({' '.join(str(error).split())[:200]})"
    return DataError(reason, url=url, hint=_AGAIN)
