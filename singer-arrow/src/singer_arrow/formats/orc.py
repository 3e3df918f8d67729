"""ORC: footers, columns and batches of rows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from singer_arrow.compression import read_varint
from singer_arrow.enforcement.enforce import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.base import too_large
from singer_arrow.formats.blocks import FilePart, read_part
from singer_arrow.read_options import ReadOptions, ReadProgress
from singer_arrow.reading.chunks import RangeFile, local_copy, random_access
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.schema.arrow_schema import canonical

# Stripes and columns in the footers of an ORC file, which Arrow's reader does not expose.
#
# They are Protocol Buffers, of which the fields needed are read here; see the ORC specification, "File Tail".

MOST_INFLATED = 100
"""Bytes in memory for each byte in the file; what takes less is never refused."""
_FOOTER_TAIL = 64 << 10
_PIECE = 64 << 10
_WIDTH = 8
NO_CODEC, _ZLIB, _SNAPPY, _LZ4, _ZSTD = 0, 1, 2, 4, 5
_LARGEST_BLOCK = 1 << 23
_AGAIN = "Write the file again"
_DECRYPT = "Decrypt the file first"
_LZ4_FRAME = b"\x04\x22\x4d\x18\x60\x70\x73"
"""The beginning of an LZ4 frame of blocks of up to 4 MiB; ORC has blocks without one."""
_ENCRYPTION = 10
"""Field of the footer that only files with encrypted columns have; Arrow's reader makes nulls and hashes of these."""
_INDEXES = frozenset(range(6, 11))  # kinds of streams that are no data of columns

Fields = dict[int, list[Any]]


@dataclass(frozen=True, slots=True)
class OrcSource:
    """A file, its name, and the bytes that a part of it may take in memory."""

    file: pa.NativeFile
    url: object
    most: int

    def read(self, at: int, length: int) -> bytes:
        """Some bytes of the file, fewer at its end."""
        return bytes(self.file.read_at(length, at))

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self.file.size())


@dataclass(frozen=True, slots=True)
class Stripe:
    """Where a stripe lies in the file: its first byte, and the bytes of its indexes, its data and its footer."""

    offset: int
    indexes: int
    data: int
    footer: int


@dataclass(frozen=True, slots=True)
class OrcFooter:
    """The footer of a file.

    `columns` are the numbers of all columns below and including each column of the top level, in order; `value_bytes`
    are those of the values in memory, by the numbers of columns, and empty if the file has no statistics.
    """

    codec: int  # its number
    block_bytes: int  # of a block of compressed data in memory, at most
    rows: int
    stripes: list[Stripe]
    columns: list[range]
    value_bytes: list[int]


def read_orc_footer(source: OrcSource) -> OrcFooter | None:
    """Read the footer; None if it is broken, or of a codec that is not known.

    A file that is encrypted, whose footer would take too much memory, or that has blocks that ORC forbids is a
    DataError.
    """
    start = max(0, source.size - _FOOTER_TAIL)
    tail = source.read(start, _FOOTER_TAIL)
    try:
        end = len(tail) - 1 - tail[-1]
        postscript = _fields(tail[max(0, end) : -1])
        length, codec, block = (_number(postscript, n) for n in (1, 2, 3))
        if codec != NO_CODEC and block > _LARGEST_BLOCK:
            raise DataError(f"its blocks are of {block} bytes, more than ORC allows", url=source.url, hint=_AGAIN)
        footer = _fields(_unpacked(source, start + end - length, length, codec, block))
        if _ENCRYPTION in footer:
            raise DataError("some of its columns are encrypted, which cannot be read", url=source.url, hint=_DECRYPT)
        return OrcFooter(
            codec,
            block,
            _number(footer, 6),
            [Stripe(*(_number(_fields(s), n) for n in (1, 2, 3, 4))) for s in footer.get(3, ())],
            [range(a, b) for a, b in pairwise([*_numbers(_fields(footer[4][0]), 2), len(footer[4])])],
            [_value_bytes(_fields(s)) for s in footer.get(7, ())],
        )
    except _BROKEN:
        return None


def read_streams(source: OrcSource, footer: OrcFooter, stripe: Stripe) -> list[tuple[int, int, int]]:
    """Return the data of a stripe by its footer, none if that is broken: number of a column, first byte, and length."""
    start, found = stripe.offset, list[tuple[int, int, int]]()
    try:
        at = stripe.offset + stripe.indexes + stripe.data
        about = _fields(_unpacked(source, at, stripe.footer, footer.codec, footer.block_bytes))
        for stream in map(_fields, about.get(1, ())):
            kind, column, length = (_number(stream, n) for n in (1, 2, 3))
            if kind not in _INDEXES:
                found.append((column, start, length))
            start += length
    except _BROKEN:
        return []
    return found


def _unpacked(source: OrcSource, at: int, length: int, codec: int, block: int) -> bytes:
    if not 0 <= at <= at + length <= source.size:
        raise IndexError(at)
    data = source.read(at, length)
    if codec == NO_CODEC:
        return data
    found, start = bytearray(), 0
    while start < len(data):
        header = int.from_bytes(data[start : start + 3], "little")
        end = start + 3 + (header >> 1)
        found += data[start + 3 : end] if header & 1 else _decompressed(data[start + 3 : end], codec, block)
        if len(found) > max(source.most, MOST_INFLATED * length):
            raise too_large("its footer", len(found), source.most, url=source.url)
        start = end
    return bytes(found)


def _decompressed(data: bytes, codec: int, most: int) -> bytes:
    """Decompress a block, to no more than `most` bytes."""
    if codec == _ZLIB:
        return zlib.decompressobj(wbits=-15).decompress(data, most)
    if codec == _SNAPPY:
        size, _ = read_varint(data, 0)
        plain: bytes = pa.Codec("snappy").decompress(data, decompressed_size=min(size, most), asbytes=True)
        return plain
    if codec == _LZ4:
        framed = b"".join((_LZ4_FRAME, struct.pack("<I", len(data)), data, bytes(4)))
        return b"".join(_pieces(pa.CompressedInputStream(pa.BufferReader(framed), "lz4"), most))
    if codec == _ZSTD:
        return b"".join(_pieces(pa.CompressedInputStream(pa.BufferReader(data), "zstd"), most))
    raise LookupError(codec)


def _pieces(stream: pa.CompressedInputStream, most: int) -> Iterator[bytes]:
    while most > 0 and (piece := stream.read(min(most, _PIECE))):
        most -= len(piece)
        yield piece


def _value_bytes(about: Fields) -> int:
    """Return the bytes of the values of a column in memory, by its statistics: of texts and binary values their own."""
    sums = [_number(_fields(about[kind][0]), number) for kind, number in ((4, 3), (8, 1)) if kind in about]
    return max(0, sum(value >> 1 ^ -(value & 1) for value in sums)) + _WIDTH * _number(about, 1)


def _number(fields: Fields, number: int) -> int:
    """Return a field that is an integer; 0 if it is missing."""
    return int(fields.get(number, (0,))[-1])


def _numbers(fields: Fields, number: int) -> list[int]:
    """Return a field of integers, packed or not."""
    found = list[int]()
    for value in fields.get(number, ()):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = read_varint(value, at)
            found.append(one)
    return found


def _fields(data: bytes) -> Fields:
    """Return the fields of a message by their numbers, each with its values: integers, or bytes."""
    found, at = Fields(), 0
    value: int | bytes
    while at < len(data):
        key, at = read_varint(data, at)
        if (kind := key & 7) == 0:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


_BROKEN = (pa.ArrowException, OSError, zlib.error, ValueError, TypeError, LookupError)


# ORC files: the selected columns, batch by batch.
#
# Batches are cut by bytes; columns that are small in the file and large in memory are refused before they are decoded.
# Arrow's reader requests many small ranges, so files above 8 MiB are first copied to local disk; the schema needs only
# the end of a file. Timestamps are instants in UTC with nanoseconds, from 1677 to 2262; others are refused.

_TAIL = 256 << 10
_BATCH_BYTES = 16 << 20  # bytes in memory of a batch of rows of mean size; Arrow's reader holds them twice
_COUNTED = 1 << 20  # blocks of a stream that are counted; more only if the check needs them


class OrcFormat:
    """The format ORC."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        with random_access(reader) as file:
            start, data = file.tail(_TAIL)
            end = RangeFile(start + len(data), [(start, data)], lambda span: file.fetch([span])[0])
            source = OrcSource(pa.PythonFile(end, "r"), reader.url, reader.budget.decoded.limit)
            return canonical(_open(source)[0].schema)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset

        with local_copy(reader) as copy:
            source = OrcSource(copy, reader.url, reader.budget.decoded.limit)
            file, footer = _open(source)
            names = columns_to_read(file.schema, schema, options, reader.url)
            rows = options.batch_rows
            if footer is not None and len(footer.columns) == len(file.schema.names):
                columns = dict(zip(file.schema.names, footer.columns, strict=True))
                rows = min(rows, _rows_at_once(source, footer, {name: columns[name] for name in names}))
            part = FilePart(0, None, file.nrows, reader.url, rows_before=0)
            fragment = dataset.OrcFileFormat().make_fragment(copy)
            try:
                batches = fragment.to_batches(columns=names, batch_size=rows, batch_readahead=1, use_threads=False)
                yield from read_part(part, batches, schema, options, progress or ReadProgress())
            except (pa.ArrowException, OSError) as error:
                reason = f"its data cannot be read ({' '.join(str(error).split())[:200]})"
                hint = "Deselect the column" if "out of range" in reason else "Upload the file again"
                raise DataError(reason, url=reader.url, hint=hint) from None


def _open(source: OrcSource) -> tuple[Any, OrcFooter | None]:
    from pyarrow import orc

    footer = read_orc_footer(source)
    try:
        return orc.ORCFile(source.file), footer
    except (pa.ArrowException, OSError) as error:
        reason = f"not an ORC file, or its footer is broken ({' '.join(str(error).split())[:200]})"
        raise DataError(reason, url=source.url, hint="Upload the file again, or set the stream's format") from None


def _rows_at_once(source: OrcSource, footer: OrcFooter, columns: Mapping[str, range]) -> int:
    """Return how many rows of mean size make a batch of at most 16 MiB, at least one.

    `columns` are the numbers of the columns that are read, by their names at the top level. Raises DataError if a
    column of a stripe, or the mean row of a column, is a few bytes in the file and more in memory than is allowed.
    """
    # Each column in each stripe, by the number of its compressed blocks.
    names = {number: name for name, numbers in columns.items() for number in numbers}
    in_file = dict.fromkeys(columns, 0)
    for number, stripe in enumerate(footer.stripes):
        stored, inflated = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
        for column, offset, length in read_streams(source, footer, stripe):
            if (name := names.get(column)) is not None:
                stored[name] += length
                inflated[name] += _inflated(source, footer, offset, length)
        for name, size in inflated.items():
            if size > source.most and size > MOST_INFLATED * stored[name]:
                raise too_large(f"the column {name!r} of stripe {number}", size, source.most, url=source.url)
            in_file[name] += stored[name]
    # Rows, by the statistics of the file: dictionaries hold a text once for many rows, and runs a number.
    rows, total = max(1, footer.rows), 1
    for name, numbers in columns.items():
        size = sum(footer.value_bytes[numbers.start : numbers.stop])
        if size > source.most * rows and size > MOST_INFLATED * in_file[name]:
            raise too_large(f"a row of the column {name!r}", size // rows, source.most, url=source.url)
        total += size
    return max(1, _BATCH_BYTES * rows // total)


def _inflated(source: OrcSource, footer: OrcFooter, offset: int, length: int) -> int:
    """Bytes of some data without its compression: of all its blocks, which are counted by their headers, but the last.

    All but that are full.
    """
    if footer.codec == NO_CODEC:
        return length
    size = max(1, footer.block_bytes)
    most = max(_COUNTED, max(source.most, MOST_INFLATED * length) // size + 3)
    at, end, count = offset, min(offset + length, source.size), 0
    while at + 3 <= end and count < most:
        at += 3 + (int.from_bytes(source.read(at, 3), "little") >> 1)
        count += 1
    return max(0, count - 1) * size
