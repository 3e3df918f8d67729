"""Read an object of text in which each row is a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from singer_arrow.enforcement.mismatches import first_invalid
from singer_arrow.enforcement.row_policy import BlockResult, RowError
from singer_arrow.errors import DataError
from singer_arrow.formats.delivery import FilePosition, deliver
from singer_arrow.formats.text.rows import TextDrift, TextRows
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered
from singer_arrow.reading.text_blocks import MAX_RECORD_BYTES, LongRecordError, blocks, decoded

_ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines of a block."""

    lines: pa.Array  # that are UTF-8
    numbers: Sequence[int]  # from 1
    bad: Sequence[RowError]  # errors of the other lines
    bytes: int
    count: int  # of all lines of the block, those that `skip_rows` leaves out included

    def after(self, skip: int) -> LineBlock:
        """Return the block without its first lines."""
        if not skip:
            return self
        first = next((i for i, number in enumerate(self.numbers) if number > skip), len(self.numbers))
        bad = [error for error in self.bad if error.row > skip]
        return replace(self, lines=self.lines.slice(first), numbers=self.numbers[first:], bad=bad)


def read_rows(
    reader: ObjectReader,
    rows: TextRows,
    progress: ReadProgress | None,
    parse: Callable[[LineBlock], BlockResult],
    infer: Callable[[], pa.Schema],
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an object of lines, as `Format.read`.

    `parse` returns the rows of a block, and `infer` the types of all columns from the beginning of the object.
    """
    progress = progress or ReadProgress()
    position = FilePosition(reader.url, progress.resume_point or ResumePoint())

    def results() -> Iterator[BlockResult]:
        for block in read_lines(reader, rows.options, position.resume_point):
            yield replace(parse(block), bytes=block.bytes, lines=block.count)

    drift = TextDrift(rows, infer).refuse if rows.options.on_drift == "raise" else None
    return deliver(results(), position, progress, drift)


def read_lines(reader: ObjectReader, options: ReadOptions, begin: ResumePoint) -> Iterator[LineBlock]:
    """Yield the lines of an object from a point on, without those that `skip_rows` leaves out."""
    text = decoded(reader, compression=options.compression, encoding=options.encoding, start=begin.at)
    cut = blocks(text, lambda data: data.rfind(b"\n") + 1, size=options.block_bytes)
    lines, skip = begin.lines, max(0, options.skip_rows - begin.lines)
    try:
        for block in map_ordered(cut, _split, reader.budget.decoded):
            yield block.after(min(skip, block.count))
            lines, skip = lines + block.count, max(0, skip - block.count)
    except LongRecordError:
        reason = f"the line is longer than {MAX_RECORD_BYTES >> 20} MiB"
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
    bad = [RowError(n, "it is not UTF-8", hint=_ENCODING_HINT, text=lines[n - 1]) for n in sorted(wrong)]
    good = [n for n in numbers if n not in wrong]
    return LineBlock(pa.array([lines[n - 1] for n in good], pa.string()), good, bad, len(block), len(lines))
