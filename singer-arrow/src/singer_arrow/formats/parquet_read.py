"""Parquet: footer, column ranges, row groups."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from singer_arrow.casting.extension_types import with_geometries, with_variants
from singer_arrow.enforcement.enforce import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.base import RangeScan, too_large
from singer_arrow.formats.blocks import FilePart, cast_to, read_part
from singer_arrow.formats.parquet_write import ParquetWriting
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.chunks import RangeFile, Windows, random_access
from singer_arrow.reading.objects import CONNECTIONS, FetchedRange, ObjectReader, Span, part_size, plan_requests
from singer_arrow.reading.parallel import map_ordered
from singer_arrow.schema.arrow_schema import canonical

# Batches of bounded memory.

BATCH_BYTES = 32 << 20
"""Maximum bytes of a batch of rows of average size."""
LARGE_BATCH_BYTES = 64 << 20
"""Maximum bytes of a batch whose rows all use the longest texts of their dictionaries; rows are never split."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "FIXED_LEN_BYTE_ARRAY": 32}
_OFFSET = 4
_SHORT = 512  # bytes up to which the dictionary of a column chunk is not examined


def rows_at_once(
    group: pq.RowGroupMetaData,
    columns: Sequence[int],
    most: int,
    first_row: Callable[[Sequence[str]], pa.RecordBatch | None],
) -> int:
    """Return the number of rows per batch of a row group, at most `most`, for its leaf columns of these indexes.

    `first_row` reads the first row with the columns at some paths encoded by their dictionaries, and so all of these.
    The longest text of a column whose dictionary is not found counts as long as its chunk.
    """
    chunks = [group.column(i) for i in columns]
    named = [c for c in chunks if c.physical_type == "BYTE_ARRAY" and c.has_dictionary_page]
    paths = [c.path_in_schema for c in named if c.total_uncompressed_size > _SHORT]
    sizes = dict[str, tuple[float, int]]()  # of the texts of a dictionary: the mean and the longest
    first = first_row(paths) if paths else None
    for name, column in zip(first.schema.names, first.columns, strict=True) if first is not None else ():
        below = [path for path in paths if path == name or path.startswith(name + ".")]
        lengths = [pc.binary_length(dictionary) for dictionary in _dictionaries(column)]
        if len(below) == len(lengths):
            found = ((pc.mean(n).as_py() or 0.0, pc.max(n).as_py() or 0) for n in lengths)
            sizes |= zip(below, found, strict=True)
    rows, mean, longest = max(1, group.num_rows), 0.0, 0.0
    for chunk in chunks:
        fixed = chunk.num_values * _WIDTHS.get(chunk.physical_type, _OFFSET)
        mean += fixed
        longest += fixed
        if chunk.physical_type == "BYTE_ARRAY":
            stored = chunk.total_uncompressed_size
            usual, largest = sizes.get(chunk.path_in_schema, (0, stored)) if chunk in named else (0, 0)
            mean += stored + chunk.num_values * usual
            longest += stored + chunk.num_values * largest
    fit = min(BATCH_BYTES * rows / max(1.0, mean), LARGE_BATCH_BYTES * rows / max(1.0, longest))
    return max(1, min(most, int(fit)))


def _dictionaries(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the dictionaries of an array, in the order of its leaves."""
    if pt.is_dictionary(column.type):
        yield column.dictionary
    elif pt.is_struct(column.type):
        for i in range(column.type.num_fields):
            yield from _dictionaries(column.field(i))
    elif pt.is_map(column.type):
        yield from _dictionaries(column.keys)
        yield from _dictionaries(column.items)
    elif pt.is_nested(column.type):
        yield from _dictionaries(column.values)


_MOST_BATCHES = 2  # of a row group that is decoded as a whole
_OF_TEXT = 64  # assumed bytes of a text in a dictionary


# Parquet files: the selected columns, by planned ranges, row group by row group.

_LEAST_TAIL, _USUAL_TAIL, _MOST_TAIL = 32 << 10, 128 << 10, 1 << 20
_LEAST_WINDOW, _MOST_WINDOW, _READ_BUFFER = 256 << 10, 4 << 20, 1 << 20
_DECRYPT = "Decrypt the file first"
_IN_MEMORY = 4  # bytes of metadata in memory per byte in the file
_SIGNATURE = 28  # bytes of nonce and tag after the footer of a file with encrypted columns and a plaintext footer
_MOST_INFLATED = 100
"""Compression ratio of a column up to which it is always accepted; dictionaries make higher ones rare."""
_BROKEN = "not a Parquet file, or its footer is broken"


OpenFile = Callable[..., pq.ParquetFile]
"""Opens a file with the bytes of a row group at hand."""


@dataclass(frozen=True, slots=True)
class Footer:
    """Metadata of a Parquet file, the bytes at its end, its size and its URL."""

    metadata: pq.FileMetaData
    tail: FetchedRange
    size: int
    url: object


class ParquetFormat(ParquetWriting):
    """The format Parquet."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        with random_access(reader) as file:
            footer = read_footer(file, reader.url)
            return canonical(schema_of(_open(file, footer, [])))

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        begin, end, url = progress.resume_point or ResumePoint(), progress.end, reader.url
        with random_access(reader) as source:
            footer = read_footer(source, url)
            metadata, decoded = footer.metadata, source.budget.decoded

            # The row groups
            groups = range(begin.at, metadata.num_row_groups)
            if begin.at > groups.stop or (begin.at == groups.stop and begin.lines):
                raise no_such_resume_point(begin, url)
            if end is not None:
                groups = range(begin.at, min(groups.stop, end.at + bool(end.lines)))
            progress.rows_read = sum(metadata.row_group(group).num_rows for group in range(begin.at))

            # Their columns
            file_schema = with_variants(schema_of(_open(source, footer, [])), options.variant_columns)
            progress.file_schema = file_schema
            names = columns_to_read(file_schema, schema, options, url)
            needed = {group: _needed(footer, group, names, decoded.limit) for group in groups}

            def decode(group: int, file: OpenFile, *, threads: bool) -> tuple[int, Iterator[pa.RecordBatch]]:
                """Return the number of batches of a row group, and the batches."""

                def first_row(paths: Sequence[str]) -> pa.RecordBatch | None:
                    return next(file(dictionaries=paths).iter_batches(1, [group], names), None)

                about = metadata.row_group(group)
                rows = rows_at_once(about, needed[group].chunks, options.batch_rows, first_row)
                found = file().iter_batches(rows, [group], names, use_threads=threads)
                return -(-about.num_rows // rows), (cast_to(batch, file_schema) for batch in found)

            def decode_whole(unit: tuple[int, OpenFile]) -> Iterable[pa.RecordBatch]:
                count, batches = decode(*unit, threads=False)
                return list(batches) if count <= _MOST_BATCHES else batches  # larger than estimated: decode lazily

            # Small row groups are decoded in parallel, others one by one
            files = _files(source, footer, {group: some.spans for group, some in needed.items()})
            found: Iterator[Iterable[pa.RecordBatch]]
            if len(groups) < 2 or max(some.cost for some in needed.values()) > decoded.limit // 8:
                found = (decode(*unit, threads=True)[1] for unit in files)
            else:
                found = map_ordered(files, decode_whole, decoded, cost=lambda unit: needed[unit[0]].cost)
            for group in groups:
                part = FilePart(group, group + 1, metadata.row_group(group).num_rows, url, group, 0)
                try:
                    yield from read_part(part, next(found), schema, options, progress)
                except (pa.ArrowException, OSError) as error:
                    reason = f"its data is broken ({_line(error)})"
                    raise DataError(reason, url=url, row_group=group, hint="Upload the file again") from None

    def scan(self, reader: ObjectReader, options: ReadOptions, span: Span) -> RangeScan:  # noqa: ARG002
        return RangeScan(span)  # the footer has it all

    def row_starts(
        self,
        reader: ObjectReader,
        options: ReadOptions,  # noqa: ARG002
        scans: Sequence[RangeScan],
    ) -> Sequence[ResumePoint]:
        metadata = read_footer(reader, reader.url).metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        firsts = [group.column(0) if group.num_columns else None for group in groups]
        begins = [int(c.dictionary_page_offset or c.data_page_offset) if c is not None else 0 for c in firsts]
        rows = [0, *accumulate(group.num_rows for group in groups)]
        numbers = [sum(begin < scan.span[1] for begin in begins) for scan in scans]
        return [ResumePoint(), *(ResumePoint(rows[number], number) for number in numbers)]


def read_footer(reader: ObjectReader, url: object, *, fresh: bool = False) -> Footer:
    """Return the footer of a file, by one request for its end, or two for a large footer.

    Footers are cached per storage and object version. With `fresh` the object is always requested, which proves that it
    exists.
    """
    key = _cache_key(reader)
    if not fresh and key is not None and isinstance(known := reader.storage.cache.get(key), Footer):
        return replace(known, url=url)
    about = _USUAL_TAIL if reader.size is None else reader.size // 512
    start, data = reader.tail(max(_LEAST_TAIL, min(_MOST_TAIL, about)))
    view, size = memoryview(data), start + len(data)
    mark = bytes(view[-4:])
    if mark == b"PARE":
        raise DataError("its footer is encrypted, which cannot be read", url=url, hint=_DECRYPT)
    if size < 12 or mark != b"PAR1":
        raise DataError(_BROKEN, url=url, hint="Upload the file again, or set the stream's format")
    need = struct.unpack("<I", view[-8:-4])[0] + 8
    if need > size:
        raise DataError(_BROKEN, url=url, hint="Upload the file again")
    if need > len(view):
        start, data = reader.fetch([(size - need, size)])[0]
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))  # the end of a file suffices
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{_BROKEN} ({_line(error)})", url=url, hint="Upload the file again") from None
    if metadata.serialized_size == need - 8 - _SIGNATURE:  # Arrow's reader crashes on such columns
        raise DataError("some of its columns are encrypted, which cannot be read", url=url, hint=_DECRYPT)
    footer = Footer(metadata, (start, data), size, url)
    if (key := _cache_key(reader)) is not None:  # the requests have shown which version it is
        reader.storage.cache.put(key, footer, len(data) + _IN_MEMORY * metadata.serialized_size)
    return footer


def codecs_of(metadata: pq.FileMetaData) -> set[str]:
    """Return the codecs of a file's columns in its first row group."""
    group = metadata.row_group(0) if metadata.num_row_groups else None
    return {group.column(n).compression for n in range(group.num_columns)} if group else set()


def encodings_of(metadata: pq.FileMetaData) -> set[str]:
    """Return the encodings of a file's columns in its first row group."""
    group = metadata.row_group(0) if metadata.num_row_groups else None
    return {e for n in range(group.num_columns) for e in group.column(n).encodings} if group else set()


def columns_with_nulls(metadata: pq.FileMetaData, names: Collection[str]) -> set[str]:
    """Return those of some columns that may hold nulls, by the statistics of a file."""
    found = set[str]()
    for i in range(metadata.num_columns if names else 0):
        column = metadata.schema.column(i)
        if column.max_definition_level and column.path in names:
            groups = [metadata.row_group(g).column(i).statistics for g in range(metadata.num_row_groups)]
            if any(s is None or not s.has_null_count or s.null_count for s in groups):
                found.add(column.path)
    return found


def _cache_key(reader: ObjectReader) -> tuple[str, str, str] | None:
    """Return the cache key of the object version; None if it is unknown or has no ETag."""
    info = reader.info
    return ("footer", str(info.url), info.etag) if info is not None and info.etag is not None else None


def _open(
    reader: ObjectReader,
    footer: Footer,
    parts: Sequence[FetchedRange],
    miss: Callable[[Span], FetchedRange] | None = None,
    *,
    buffer_size: int = 0,
    dictionaries: Sequence[str] = (),
) -> pq.ParquetFile:
    file = RangeFile(footer.size, [*parts, footer.tail], miss or (lambda span: reader.fetch([span])[0]))
    return pq.ParquetFile(
        pa.PythonFile(file, "r"),
        metadata=footer.metadata,
        pre_buffer=False,
        buffer_size=buffer_size,
        page_checksum_verification=True,  # if the file has any
        coerce_int96_timestamp_unit="us",  # nanoseconds would wrap around outside 1677 to 2262
        read_dictionary=list(dictionaries),
    )


def _files(reader: ObjectReader, footer: Footer, spans: Mapping[int, list[Span]]) -> Generator[tuple[int, OpenFile]]:
    """Yield each row group with a function that opens the file with the needed ranges available."""
    sizes = [sum(end - start for start, end in some) for some in spans.values()]
    allowance = reader.budget.fetched
    if max(sizes, default=0) <= allowance.limit // 2:
        part = part_size(sum(sizes), CONNECTIONS)
        # All needed ranges are known, so only the budget limits prefetching.
        units = (plan_requests(some, part=part) for some in spans.values())
        for group, parts in zip(spans, reader.fetch_ahead(units, window=allowance.limit), strict=True):
            yield group, partial(_open, reader, footer, parts)
        return
    for group, some in spans.items():  # too large for memory: windows slide along the columns
        size = max(_LEAST_WINDOW, min(_MOST_WINDOW, allowance.limit // (4 * max(1, len(some)))))
        cost = 2 * size * len(some)
        allowance.acquire(cost)
        try:
            windows = Windows(some, size, reader.start)
            yield group, partial(_open, reader, footer, [], windows.read, buffer_size=min(size, _READ_BUFFER))
        finally:
            allowance.release(cost)


class _Needed(NamedTuple):
    """What is read of a row group: column chunks by index, their spans, and their bytes as stored and in memory."""

    chunks: list[int]
    spans: list[Span]  # without those in the tail
    cost: int


def _needed(footer: Footer, group: int, names: Sequence[str], most: int) -> _Needed:
    """Return what is read of a row group for some columns; DataError if the footer contradicts itself.

    Columns that decompress to more than `most` bytes at an unusual ratio are refused: they are decoded page by page,
    but the size of a page is not limited.
    """
    about, whole = footer.metadata.row_group(group), set(names)
    if about.num_columns != footer.metadata.num_columns or about.num_rows < 0:  # Arrow would crash
        raise _contradiction(footer, group)
    chunks, spans, cost = list[int](), list[Span](), 0
    for i in range(about.num_columns):
        column = about.column(i)
        # A column is needed if a prefix of its path at a dot is, or all of it, as names may contain dots.
        if whole.isdisjoint(accumulate(column.path_in_schema.split("."), "{}.{}".format)):
            continue
        chunks.append(i)
        size, stored = column.total_uncompressed_size, column.total_compressed_size
        if about.num_rows:  # writers omit the chunks of empty row groups
            start = min((o for o in (column.dictionary_page_offset, column.data_page_offset) if o), default=0)
            if not 0 < start <= start + stored <= footer.size:
                raise _contradiction(footer, group)
            if start < footer.tail[0]:
                spans.append((start, min(start + stored, footer.tail[0])))
        if size > most and size > _MOST_INFLATED * stored:
            raise too_large(f"the column {column.path_in_schema!r}", size, most, url=footer.url, row_group=group)
        is_text = column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
        cost += max(size, column.num_values * (_OF_TEXT if is_text else 8))
    return _Needed(chunks, spans, cost + sum(end - start for start, end in spans))


def _contradiction(footer: Footer, group: int) -> DataError:
    reason = "its footer lists impossible columns, rows or bytes"
    return DataError(reason, url=footer.url, row_group=group, hint="Upload the file again")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def schema_of(file: pq.ParquetFile) -> pa.Schema:
    """Return the Arrow schema of a file, with enumerations as text and the geometries that GeoParquet 1 declares."""
    schema = file.schema_arrow
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    enums = [leaf.logical_type.type == "ENUM" or leaf.converted_type == "ENUM" for leaf in leaves]
    if any(enums):
        flags = iter(enums)
        schema = pa.schema([f.with_type(_with_text(f.type, flags)) for f in schema], schema.metadata)
    return with_geometries(schema, file.metadata.metadata)


def _with_text(t: pa.DataType, enums: Iterator[bool]) -> pa.DataType:
    """Return the type with text for each leaf whose flag is set; consumes one flag per leaf."""
    if isinstance(t, pa.BaseExtensionType):
        _with_text(t.storage_type, enums)
        return t
    if pt.is_struct(t):
        return pa.struct([f.with_type(_with_text(f.type, enums)) for f in t])
    if pt.is_map(t):
        return pa.map_(_with_text(t.key_type, enums), t.item_field.with_type(_with_text(t.item_type, enums)))
    if pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t):
        item = t.value_field.with_type(_with_text(t.value_type, enums))
        if pt.is_fixed_size_list(t):
            return pa.list_(item, t.list_size)
        return pa.large_list(item) if pt.is_large_list(t) else pa.list_(item)
    return pa.string() if next(enums) and pt.is_binary(t) else t
