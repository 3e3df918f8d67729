"""Parquet: footer, column ranges, row groups."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from singer_arrow.casting.extension_types import cast_to, register, with_geometries
from singer_arrow.enforcement.enforce import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.base import RangeScan, too_large
from singer_arrow.formats.blocks import FilePart, read_part
from singer_arrow.formats.parquet_write import ParquetWriting
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.chunks import RangeFile, Windows, random_access
from singer_arrow.reading.objects import CONNECTIONS, FetchedRange, ObjectReader, Span, part_size, plan_requests
from singer_arrow.reading.parallel import Allowance, map_ordered
from singer_arrow.schema.arrow_schema import canonical

# Decoding of row groups: small ones in parallel, others one by one, in batches of bounded memory.

BATCH_BYTES = 32 << 20
"""Maximum bytes of a batch of rows of average size."""
LARGE_BATCH_BYTES = 64 << 20
"""Maximum bytes of a batch whose rows all use the longest texts of their dictionaries; rows are never split."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "FIXED_LEN_BYTE_ARRAY": 32}
_OFFSET = 4
_SHORT = 512  # bytes up to which the dictionary of a column chunk is not examined


@dataclass(frozen=True, slots=True)
class TextSizes:
    """Mean and maximum bytes of the texts of a dictionary."""

    mean: float
    longest: int


def rows_at_once(
    group: pq.RowGroupMetaData,
    columns: Sequence[int],
    most: int,
    sizes: Callable[[Sequence[str]], Mapping[str, TextSizes]],
) -> int:
    """Return the number of rows per batch of a row group, at most `most`, for its leaf columns of these indexes.

    `sizes` returns the sizes of the text dictionaries at some paths; a missing one counts as long as its chunk.
    """
    chunks = [group.column(i) for i in columns]
    named = [c for c in chunks if c.physical_type == "BYTE_ARRAY" and c.has_dictionary_page]
    large = [c.path_in_schema for c in named if c.total_uncompressed_size > _SHORT]
    found = sizes(large) if large else {}
    rows, mean, longest = max(1, group.num_rows), 0.0, 0.0
    for chunk in chunks:
        fixed = chunk.num_values * _WIDTHS.get(chunk.physical_type, _OFFSET)
        mean += fixed
        longest += fixed
        if chunk.physical_type == "BYTE_ARRAY":
            stored = chunk.total_uncompressed_size
            texts = found.get(chunk.path_in_schema, TextSizes(0, stored)) if chunk in named else TextSizes(0, 0)
            mean += stored + chunk.num_values * texts.mean
            longest += stored + chunk.num_values * texts.longest
    fit = min(BATCH_BYTES * rows / max(1.0, mean), LARGE_BATCH_BYTES * rows / max(1.0, longest))
    return max(1, min(most, int(fit)))


def text_sizes(batch: pa.RecordBatch, paths: Sequence[str]) -> dict[str, TextSizes]:
    """Return the sizes of texts in the dictionaries of a batch, by the paths of its leaf columns.

    Paths without exactly one dictionary are omitted.
    """
    found = dict[str, TextSizes]()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        below = [path for path in paths if path == name or path.startswith(name + ".")]
        dictionaries = list(_dictionaries(column))
        if len(below) == len(dictionaries):
            lengths = [pc.binary_length(dictionary) for dictionary in dictionaries]
            sizes = (TextSizes(pc.mean(n).as_py() or 0.0, pc.max(n).as_py() or 0) for n in lengths)
            found.update(zip(below, sizes, strict=True))
    return found


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

Batches = Iterable[pa.RecordBatch]
OpenFile = Callable[..., pq.ParquetFile]


class ReadRowGroup(Protocol):
    """Returns the number of batches of a row group, and the batches; decodes with several threads if `threads`."""

    def __call__(self, open_file: OpenFile, group: int, *, threads: bool) -> tuple[int, Iterator[pa.RecordBatch]]: ...


def decoded_bytes(group: pq.RowGroupMetaData, columns: Iterable[int]) -> int:
    """Estimate the bytes in memory of leaf columns of a row group; at least their uncompressed size."""
    total = 0
    for i in columns:
        chunk = group.column(i)
        width = _OF_TEXT if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page else 8
        total += max(chunk.total_uncompressed_size, chunk.num_values * width)
    return total


def decode_row_groups(
    costs: Mapping[int, int], files: Generator[OpenFile], read: ReadRowGroup, allowance: Allowance
) -> Iterator[Batches]:
    """Yield the batches of each row group, in order; errors of `read` are raised after those of earlier row groups.

    `costs` are the bytes of each as stored and in memory together. `files` yields for each a function that opens the
    file with the needed ranges.
    """
    if len(costs) < 2 or max(costs.values()) > allowance.limit // 8:
        for group, file in zip(costs, files, strict=True):
            yield read(file, group, threads=True)[1]
        return

    def work(unit: tuple[int, OpenFile]) -> Batches:
        count, batches = read(unit[1], unit[0], threads=False)
        return list(batches) if count <= _MOST_BATCHES else batches  # larger than estimated: decode lazily

    def units() -> Generator[tuple[int, OpenFile]]:
        with closing(files):
            yield from zip(costs, files, strict=True)

    yield from map_ordered(units(), work, allowance, cost=lambda unit: costs[unit[0]])


# Parquet files: the selected columns, by planned ranges, row group by row group.

_LEAST_TAIL, _USUAL_TAIL, _MOST_TAIL = 32 << 10, 128 << 10, 1 << 20
_LEAST_WINDOW, _MOST_WINDOW, _READ_BUFFER = 256 << 10, 4 << 20, 1 << 20
_DECRYPT = "Decrypt the file first"
_IN_MEMORY = 4  # bytes of metadata in memory per byte in the file
_SIGNATURE = 28  # bytes of nonce and tag after the footer of a file with encrypted columns and a plaintext footer
_MOST_INFLATED = 100
"""Compression ratio of a column up to which it is always accepted; dictionaries make higher ones rare."""
_BROKEN = "not a Parquet file, or its footer is broken"


@dataclass(frozen=True, slots=True)
class Footer:
    """Metadata of a Parquet file, the bytes at its end, its size and its URL."""

    metadata: pq.FileMetaData
    tail: FetchedRange
    size: int
    url: object


register()


class ParquetFormat(ParquetWriting):
    """The format Parquet."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        with random_access(reader) as file:
            footer = read_footer(file, reader.url)
            return canonical(schema_of(_open(file, footer, [])))

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        with random_access(reader) as file:
            footer = read_footer(file, reader.url)
            yield from _rows(file, footer, schema, options, progress or ReadProgress())

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
    footer = _read_footer(reader, url)
    if (key := _cache_key(reader)) is not None:
        reader.storage.cache.put(key, footer, len(footer.tail[1]) + _IN_MEMORY * footer.metadata.serialized_size)
    return footer


def codecs_of(metadata: pq.FileMetaData) -> set[str]:
    """Return the codecs of a file's columns in its first row group."""
    group = metadata.row_group(0) if metadata.num_row_groups else None
    return {group.column(n).compression for n in range(group.num_columns)} if group else set()


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
    return ("footer", str(info.url), info.etag) if info is not None and info.etag else None


def _read_footer(reader: ObjectReader, url: object) -> Footer:
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
        reason = f"{_BROKEN} ({_line(error)})"
        raise DataError(reason, url=url, hint="Upload the file again") from None
    if metadata.serialized_size == need - 8 - _SIGNATURE:  # Arrow's reader crashes on such columns
        raise DataError("some of its columns are encrypted, which cannot be read", url=url, hint=_DECRYPT)
    return Footer(metadata, (start, data), size, url)


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


def _rows(
    reader: ObjectReader, footer: Footer, schema: pa.Schema, options: ReadOptions, progress: ReadProgress
) -> Iterator[pa.RecordBatch]:
    begin, url = progress.resume_point or ResumePoint(), footer.url
    groups = range(begin.at, footer.metadata.num_row_groups)
    if begin.at > groups.stop or (begin.at == groups.stop and begin.lines):
        raise no_such_resume_point(begin, url)
    if (end := progress.end) is not None:
        groups = range(begin.at, min(groups.stop, end.at + bool(end.lines)))
    progress.rows_read = sum(footer.metadata.row_group(group).num_rows for group in range(begin.at))
    file_schema = schema_of(_open(reader, footer, []))
    progress.file_schema = file_schema
    names = columns_to_read(file_schema, schema, options, url)
    chunks = {group: _chunks(footer, group, names) for group in groups}
    spans = [_spans(footer, group, some) for group, some in chunks.items()]
    for group, some in chunks.items():
        _check_sizes(footer, group, some, reader.budget.decoded.limit)

    def read(open_file: OpenFile, group: int, *, threads: bool) -> tuple[int, Iterator[pa.RecordBatch]]:
        def sizes_of(paths: Sequence[str]) -> dict[str, TextSizes]:
            """Return the sizes of dictionaries; reading the first row returns whole dictionaries."""
            first = next(open_file(dictionaries=paths).iter_batches(1, [group], names), None)
            return text_sizes(first, paths) if first is not None else {}

        about = footer.metadata.row_group(group)
        rows = rows_at_once(about, chunks[group], options.batch_rows, sizes_of)
        found = open_file().iter_batches(rows, [group], names, use_threads=threads)
        return -(-about.num_rows // rows), (cast_to(batch, file_schema) for batch in found)

    costs = {
        group: sum(end - start for start, end in own) + decoded_bytes(footer.metadata.row_group(group), chunks[group])
        for group, own in zip(groups, spans, strict=True)
    }
    found = decode_row_groups(costs, _files(reader, footer, spans), read, reader.budget.decoded)
    for group in groups:
        part = FilePart(group, group + 1, footer.metadata.row_group(group).num_rows, url, group, 0)
        try:
            yield from read_part(part, next(found), schema, options, progress)
        except (pa.ArrowException, OSError) as error:
            reason = f"its data is broken ({_line(error)})"
            raise DataError(reason, url=url, row_group=group, hint="Upload the file again") from None


def _files(reader: ObjectReader, footer: Footer, groups: list[list[Span]]) -> Generator[OpenFile]:
    """Yield for each row group a function that opens the file with the needed ranges available."""
    sizes = [sum(end - start for start, end in spans) for spans in groups]
    allowance = reader.budget.fetched
    if max(sizes, default=0) <= allowance.limit // 2:
        part = part_size(sum(sizes), CONNECTIONS)
        # All needed ranges are known, so only the budget limits prefetching.
        for parts in reader.fetch_ahead((plan_requests(spans, part=part) for spans in groups), window=allowance.limit):
            yield partial(_open, reader, footer, parts)
        return
    for spans in groups:  # too large for memory: windows slide along the columns
        size = max(_LEAST_WINDOW, min(_MOST_WINDOW, allowance.limit // (4 * max(1, len(spans)))))
        cost = 2 * size * len(spans)
        allowance.acquire(cost)
        try:
            windows = Windows(spans, size, reader.start)
            yield partial(_open, reader, footer, [], windows.read, buffer_size=min(size, _READ_BUFFER))
        finally:
            allowance.release(cost)


def _chunks(footer: Footer, group: int, names: Sequence[str]) -> list[int]:
    """Return the indexes of the needed column chunks of a row group."""
    columns = footer.metadata.row_group(group)
    if columns.num_columns != footer.metadata.num_columns or columns.num_rows < 0:  # Arrow would crash
        raise _contradiction(footer, group)
    paths, whole = [columns.column(i).path_in_schema for i in range(columns.num_columns)], set(names)
    # A column is needed if a prefix of its path at a dot is, or all of it, as names may contain dots.
    return [i for i, path in enumerate(paths) if not whole.isdisjoint(accumulate(path.split("."), "{}.{}".format))]


def _spans(footer: Footer, group: int, chunks: Sequence[int]) -> list[Span]:
    """Return the spans of chunks of a row group that are not in the tail."""
    spans, limit = [], footer.tail[0]
    is_empty = footer.metadata.row_group(group).num_rows == 0  # writers omit its chunks
    for i in [] if is_empty else chunks:
        column = footer.metadata.row_group(group).column(i)
        start = min((o for o in (column.dictionary_page_offset, column.data_page_offset) if o), default=0)
        end = start + column.total_compressed_size
        if not 0 < start <= end <= footer.size:
            raise _contradiction(footer, group)
        if start < limit:
            spans.append((start, min(end, limit)))
    return spans


def _check_sizes(footer: Footer, group: int, chunks: Sequence[int], most: int) -> None:
    """Refuse columns that decompress to more than `most` bytes at an unusual ratio.

    Columns are decoded page by page, but the size of a page is not limited.
    """
    for i in chunks:
        column = footer.metadata.row_group(group).column(i)
        size = column.total_uncompressed_size
        if size > most and size > _MOST_INFLATED * column.total_compressed_size:
            what = f"the column {column.path_in_schema!r}"
            raise too_large(what, size, most, url=footer.url, row_group=group)


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
