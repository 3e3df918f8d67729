"""Protocols: Format, JoiningFormat, DivisibleFormat, WritableFormat; ranges of a file; errors that name it."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from singer_arrow.compression import in_pieces
from singer_arrow.errors import DataError, SchemaError, is_of_disk, is_of_memory, is_panic
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.objects import Span

if TYPE_CHECKING:
    from singer_arrow.reading.objects import ObjectReader
    from singer_arrow.reading.parallel import Allowance


# Protocols that file formats implement: `Format`, `JoiningFormat`, `DivisibleFormat`, `WritableFormat`.

HELD_BYTES = 64 << 20
"""Default bytes of rows that a writer holds in memory before it encodes them."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write a file.

    `compression` is a codec of the format, by default its usual one; another is a ConfigError. `held_bytes` of rows
    are held before they are encoded: the size of row groups in formats that have them. `parallel` limits the bytes
    of rows that are encoded in parallel; None for one row group at a time.
    """

    compression: str | None = None
    held_bytes: int = HELD_BYTES
    parallel: Allowance | None = None


PLAIN = WriteOptions()


class Format(Protocol):
    """A file format that can be read."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """Return the schema of a file: from its metadata if it has any, else from its first `sample_bytes` bytes.

        A column without a value in the sample is of type null, which `merge_schemas` replaces by any other type. An
        empty object is an EmptyObjectError, one that is not of this format a DataError.
        """
        ...

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, in order, in batches of exactly `schema`.

        Columns are matched by name. A column that the file lacks is null; `options.on_drift` decides about columns that
        `schema` lacks. Every run yields the same batches, also a run that resumes another one. Memory is bounded by the
        reader's budget, not by the size of the file. `progress` is where to start and stop, and is updated before each
        batch is yielded.

        Raises:
            EmptyObjectError: The object is empty.
            DataError: A value does not fit its type; names line or row group, and column. Earlier batches are valid.
            DriftError: The schema must change before the next batch, and `options.on_drift` is `raise`.
        """
        ...


@runtime_checkable
class JoiningFormat(Format, Protocol):
    """A format that can parse several small files at once."""

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        """Return one batch per file, equal to what `read` yields for it; the files are fetched whole.

        None if a file has errors, drift or anything else that `read` has to report.
        """
        ...


class DivisibleFormat(Format, Protocol):
    """A format whose files can be read in ranges, independently of each other."""

    def scan(self, reader: ObjectReader, options: ReadOptions, span: Span) -> RangeScan:
        """Return what `row_starts` needs to know of a range of a file, one of `divide`, whatever comes before it."""
        ...

    def row_starts(
        self, reader: ObjectReader, options: ReadOptions, scans: Sequence[RangeScan]
    ) -> Sequence[ResumePoint]:
        """Return where each range of a file begins, for `ReadProgress.resume_point` and, of the range before, `end`.

        Their `rows` are the lines (text) or the rows (columnar formats) before the range. Ranges without a row begin
        where the next one begins, or at `FILE_END`. If the file cannot be read from its middle, the first range holds
        all rows. `scans` are of all ranges but the last one, in order.
        """
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A file format that can also be written."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, options: WriteOptions = PLAIN
    ) -> int:
        """Write batches of exactly `schema` to a file and return the number of rows.

        A type that the format cannot represent is a SchemaError.
        """
        ...


NEARLY_TYPED = b"nearly_typed"
"""Metadata of an inferred schema: by column, as JSON, what `nearly_typed` returns."""
FIRST_ROW = b"first_row"
"""In the metadata of an inferred schema: the values of the line that names the columns, if it looks like a row."""


def first_row(schemas: Iterable[pa.Schema]) -> str | None:
    """Return the first line of a file that names the columns and looks like a row, from inferred schemas."""
    return next((s.metadata[FIRST_ROW].decode() for s in schemas if FIRST_ROW in (s.metadata or {})), None)


# Conversion of library errors to errors that name the file: `naming_file`.

OF_LIBRARIES = (
    *(pa.ArrowException, OSError, EOFError, struct.error),
    *(ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, RecursionError),
)
"""Errors that libraries raise about what they read."""

_HINT = (
    "Write the file again, or set the stream's format; if other programs read it, report this with "
    "what LOG_LEVEL=debug shows"
)


@contextmanager
def naming_file(url: object) -> Iterator[None]:
    """Add the file to errors, and convert library errors about its content to DataError.

    Errors of disk, memory and network are raised unchanged.
    """
    try:
        yield
    except SchemaError as error:
        raise SchemaError(f"{url}: {error}") from None
    except DataError as error:
        if error.url is not None or str(url) in str(error):
            raise
        raise error.at(url) from None
    except UnicodeDecodeError as error:
        shown = bytes(error.object)[:60]
        reason = f"a text in it that must be UTF-8, such as a column's name, is {shown!r}"
        raise DataError(reason, url=url, hint="Rename the column at the source") from error
    except OF_LIBRARIES as error:
        is_of_system = isinstance(error, OSError) and error.errno is not None
        if is_of_system or is_of_memory(error) or is_of_disk(error) or isinstance(error, pa.ArrowCancelled):
            raise
        raise _unreadable(error, url) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise _unreadable(error, url) from None


def _unreadable(error: BaseException, url: object) -> DataError:
    reason = f"it cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
    return DataError(reason, url=url, hint=_HINT)


def too_large(what: str, size: int, most: int, *, url: object = None, row_group: int | None = None) -> DataError:
    """Return the error for a part of a file that takes `size` bytes or more decompressed, and may take `most`.

    These are a quarter of `memory_limit_mb`.
    """
    megabytes = -(-4 * size >> 20) + 1
    reason = f"{what} would take {size >> 20} MB decompressed, more than the {most >> 20} MB that one may take"
    hint = f"If the file is as it should be, set memory_limit_mb to {megabytes} or more"
    return DataError(reason, url=url, row_group=row_group, hint=hint)


# Divide a file into ranges that are read independently: what a scan of a range finds, and where the ranges begin.
#
# A file is divided at bytes that its size alone decides. The rows of a range are those from the last row that begins at
# or before its first byte, up to that of the next range. Which row that is can depend on all that comes before, as a
# line break within quotes ends no row. So ranges are scanned first, each for itself and all at once; then
# `DivisibleFormat.row_starts` combines the scans, in order.

FILE_END = ResumePoint(at=sys.maxsize)
"""The end of a file; ranges after the last row begin there."""
SCAN_BYTES = 32 << 20
"""Memory of the scan of a range, at most."""
SCANNED_PIECE = 1 << 20
"""Bytes of a text that are scanned at once."""
_SHORT = 64 << 10  # bytes below which a call of Arrow costs more than it saves
_FASTER = list[Any]()  # polars, once it is imported: it compares 25 times as fast, and takes 0.13 s to import


@dataclass(frozen=True, slots=True)
class TextScan:
    """What a range of a text holds.

    `row_start` is the offset of the last start of a row in the range or at its end, and the line breaks before it, both
    relative to the range; None if no row starts there.
    """

    lines: int  # line breaks
    row_start: tuple[int, int] | None
    ends_within: bool = False  # ends within quotes


@dataclass(frozen=True, slots=True)
class RangeScan:
    """The bytes of a range, and what was found for a start outside quotes (False) and within quotes (True).

    One is missing where that start is unlikely, or where very many quotes follow each other.
    """

    span: Span
    found: Mapping[bool, TextScan] = field(default_factory=dict)


def divide(size: int, count: int) -> list[Span]:
    """Divide the bytes of a file into ranges of about one size."""
    ends = [size * number // count for number in range(count + 1)]
    return list(pairwise(ends))


def undivided(count: int) -> list[ResumePoint]:
    """Return where the ranges of a file begin that cannot be read from its middle: the first one holds all rows."""
    return [ResumePoint(), *[FILE_END] * (count - 1)]


def range_bounds(starts: Sequence[ResumePoint], number: int) -> tuple[ResumePoint, ResumePoint | None] | None:
    """Return the points between which a range is read, None for the file's end; None if the range has no row."""
    start, end = starts[number], starts[number + 1] if number + 1 < len(starts) else FILE_END
    return None if start.at == end.at else (start, None if end == FILE_END else end)


def line_starts(scans: Iterable[RangeScan], *, first_line: int = 0) -> list[ResumePoint]:
    """Return where the ranges of a text begin whose rows are its lines; `scans` are of all ranges but the last one."""
    starts, lines = [ResumePoint()], first_line
    for scan in scans:
        found = scan.found[False]
        starts.append(starts[-1])
        if found.row_start is not None:
            at, before = found.row_start
            starts[-1] = text_point(scan.span[0] + at, lines + before, first_line)
        lines += found.lines
    return starts


def text_point(at: int, lines: int, first_line: int) -> ResumePoint:
    """Return the point after some bytes and lines of a text; each line after the first ones counts as a row."""
    return ResumePoint(max(0, lines - first_line), at, lines)


def scan_lines(text: Iterable[Any]) -> TextScan:
    """Scan a range of a text whose rows are its lines."""
    at = lines = 0
    row_start: tuple[int, int] | None = None
    for data in map(bytes, in_pieces(text, SCANNED_PIECE)):
        lines += count_byte(data, b"\n")
        if end := data.rfind(b"\n") + 1:
            row_start = (at + end, lines)
        at += len(data)
    return TextScan(lines, row_start)


def count_byte(text: bytes | pa.Buffer, character: bytes, start: int = 0, end: int | None = None) -> int:
    """Return how often a byte occurs in `text[start:end]`; releases the GIL for a long text."""
    size = (len(text) if end is None else end) - start
    if size < _SHORT:
        return bytes(text[start : start + max(0, size)]).count(character)
    found = pa.Array.from_buffers(pa.uint8(), size, [None, pa.py_buffer(text)], offset=start)
    if _FASTER:
        return int((_FASTER[0].from_arrow(found) == character[0]).sum())
    import pyarrow.compute as pc

    return int(pc.equal(found, pa.scalar(character[0], pa.uint8())).true_count)


def places_of(text: bytes | pa.Buffer, characters: bytes) -> int:
    """Return an integer with a bit for each byte of a text, set where the byte is one of the characters."""
    import polars as pl

    _FASTER[:] = [pl]
    found = pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.uint8(), len(text), [None, pa.py_buffer(text)])))
    matches = found == characters[0]
    for character in characters[1:]:
        matches |= found == character
    made = matches.to_arrow()
    assert made.offset == 0
    return int.from_bytes(memoryview(made.buffers()[1])[: len(text) // 8 + 1], "little") & ((1 << len(text)) - 1)


def holds_byte(text: bytes | pa.Buffer, character: bytes) -> bool:
    """Return whether a byte occurs in a text; far faster than to count it."""
    view = memoryview(text)
    return any(character in bytes(view[at : at + _SHORT]) for at in range(0, len(view), _SHORT))
