"""Formats in which each row is a line: the lines of an object, in blocks, and their way into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from singer_arrow.enforcement.text_mismatches import first_invalid
from singer_arrow.errors import DataError
from singer_arrow.formats.text.block_results import Settlement
from singer_arrow.formats.text.rows import MisfitError, Outcome, TextRows, Unread
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import ordered
from singer_arrow.reading.text_blocks import LONGEST_RECORD, LongRecordError, blocks, decoded

_ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Some lines.

    Attributes:
        lines: Those that are UTF-8.
        numbers: Their numbers, from 1.
        bad: The others.
        bytes: Of the block.
        count: Of all lines of the block, also those left out by `skip_rows`.
    """

    lines: pa.Array
    numbers: Sequence[int]
    bad: Sequence[Unread]
    bytes: int
    count: int

    def after(self, skip: int) -> LineBlock:
        """The block without its first lines."""
        if not skip:
            return self
        first = next((i for i, number in enumerate(self.numbers) if number > skip), len(self.numbers))
        bad = [u for u in self.bad if u.number > skip]
        return LineBlock(self.lines.slice(first), self.numbers[first:], bad, self.bytes, self.count)


@dataclass(frozen=True, slots=True)
class LineRows:
    """The rows of a block: columns, how many there are, the numbers of their lines; and those that are no text."""

    columns: Mapping[str, pa.Array]
    rows: int
    numbers: Callable[[], Sequence[int]]
    unread: Sequence[Unread]


def read_rows(
    reader: ObjectReader,
    rows: TextRows,
    progress: ReadProgress,
    find: Callable[[LineBlock], LineRows],
    infer: Callable[[], pa.Schema],
) -> Iterator[pa.RecordBatch]:
    """The batches of an object of lines; see `Format.read`.

    Args:
        reader: The object.
        rows: How its rows become batches.
        progress: Where the reading begins, and what it tells of itself.
        find: The rows of a block.
        infer: The types of all columns, told from the object's head.

    Raises:
        EmptyObjectError: The object holds no byte.
        DataError: A line is longer than 64 MiB, or a row must not be as it is.
        DriftError: The schema must change before the next batch.
    """
    at, settlement = progress.resume_point or ResumePoint(), Settlement(rows, progress, reader.url, infer)
    for block in read_lines(reader, rows.options, at):
        batch = settlement.settle(_outcome(rows, find(block)), at.lines)
        given = batch.num_rows if batch is not None else 0
        at = ResumePoint(at.rows + given, at.at + block.bytes, at.lines + block.count)
        is_over = progress.has_reached_end(at, reader.url)
        if batch is not None:
            progress.resume_point = at
            yield batch
        if is_over:
            return


def _outcome(rows: TextRows, found: LineRows) -> Outcome:
    if not found.unread:
        try:
            return rows.convert(found.columns, found.rows)
        except MisfitError:
            pass  # they are sorted out below
    return rows.sort_out(found.columns, found.numbers(), found.unread, int)


def read_lines(reader: ObjectReader, options: ReadOptions, begin: ResumePoint) -> Iterator[LineBlock]:
    """The lines of an object from a place on, without those that `skip_rows` leaves out.

    Raises:
        EmptyObjectError: The object holds no byte.
        DataError: A line is longer than 64 MiB; names it.
    """
    text = decoded(reader, compression=options.compression, encoding=options.encoding, start=begin.at)
    cut = blocks(text, lambda data: data.rfind(b"\n") + 1, size=options.block_bytes)
    lines, skip = begin.lines, max(0, options.skip_rows - begin.lines)
    try:
        for block in ordered(cut, _split, reader.budget.decoded):
            yield block.after(min(skip, block.count))
            lines, skip = lines + block.count, max(0, skip - block.count)
    except LongRecordError:
        reason = f"the line is longer than {LONGEST_RECORD >> 20} MiB"
        raise DataError(reason, url=reader.url, line=lines + 1) from None


def _split(block: memoryview) -> LineBlock:
    lines = bytes(block).replace(b"\r\n", b"\n").split(b"\n")
    if not lines[-1]:
        lines.pop()
    numbers: Sequence[int] = range(1, len(lines) + 1)
    try:
        return LineBlock(pa.array(lines, pa.binary()).cast(pa.string()), numbers, (), len(block), len(lines))
    except pa.ArrowInvalid:
        wrong = {n for n, line in zip(numbers, lines, strict=True) if first_invalid(line) is not None}
    bad = [Unread(n, "it is not UTF-8", lines[n - 1], _ENCODING_HINT) for n in sorted(wrong)]
    good = [n for n in numbers if n not in wrong]
    return LineBlock(pa.array([lines[n - 1] for n in good], pa.string()), good, bad, len(block), len(lines))
