"""Text without a format: each line is a row, with one column of text, `line`.

Lines end with LF or CRLF. An empty line is a row too; what follows the last line break is one if it is not empty.
Of the options of CSV, `encoding` and `skip_rows` count.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.formats.cast import fit_batch
from singer_arrow.formats.protocol import Course, ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import ordered
from singer_arrow.reading.text import LONGEST_RECORD, LongRecordError, blocks, decoded

COLUMN = "line"


class Lines:
    """See the module."""

    name = "lines"
    suffixes = (".log",)

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        """Always the one column."""
        reader.head_bytes(1)  # an empty object has no schema
        return pa.schema([(COLUMN, pa.string())])

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, course: Course | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        if course is not None:
            course.place = None
        for first_line, lines in read_lines(reader, options):
            batch = pa.RecordBatch.from_arrays([lines], names=[COLUMN])
            try:
                yield fit_batch(batch, schema, reader.url)
            except DataError:
                raise placed(batch, schema, reader.url, first_line) from None


def read_lines(reader: ObjectReader, options: ReadOptions) -> Iterator[tuple[int, pa.Array]]:
    """The lines of an object, a block at a time, with the number (from 1) of the first.

    Raises:
        EmptyObjectError: The object holds no byte.
        DataError: A line is longer than 64 MiB, or is not in the encoding; names the line.
    """
    text = decoded(reader, compression=options.compression, encoding=options.encoding)
    cut = blocks(text, lambda data: data.rfind(b"\n") + 1, size=options.block_bytes)
    at, skip = 1, options.skip_rows
    try:
        for lines, bad in ordered(cut, _split, reader.budget.decoded):
            if bad:
                reason, hint = "it is not UTF-8", "Set csv.encoding to the file's encoding, for instance latin-1"
                raise DataError(reason, url=reader.url, line=at + bad - 1, hint=hint)
            passed = min(skip, len(lines))
            if passed < len(lines):
                yield at + passed, lines.slice(passed)
            at, skip = at + len(lines), skip - passed
    except LongRecordError:
        reason = f"the line is longer than {LONGEST_RECORD >> 20} MiB"
        raise DataError(reason, url=reader.url, line=at) from None


def placed(batch: pa.RecordBatch, schema: pa.Schema, url: object, first_line: int) -> DataError:
    """The error of the first line that does not fit a schema, of which there is one."""
    low, high = 0, batch.num_rows  # it lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fit_batch(batch.slice(low, middle - low), schema, url)
            low = middle
        except DataError:
            high = middle
    try:
        fit_batch(batch.slice(low, 1), schema, url)
    except DataError as error:
        return DataError(error.reason, url=url, line=first_line + low, column=error.column, hint=error.hint)
    msg = "every line fits"
    raise AssertionError(msg)


def _split(block: memoryview) -> tuple[pa.Array, int]:
    """The lines of a block, or the number (from 1) of the first that is not UTF-8."""
    data = bytes(block).replace(b"\r\n", b"\n")
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        return pa.array(lines, pa.binary()).cast(pa.string()), 0
    except pa.ArrowInvalid:
        return pa.array([], pa.string()), next(n for n, line in enumerate(lines, 1) if not _is_utf8(line))


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
