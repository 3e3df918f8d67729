"""Text in which each column has a fixed range of characters, set by the option `fixed_width`.

Positions are characters, from 1. Blanks around a value are removed; a blank value is null, and so is one of
`null_values`. A line that is too short has nulls at its end. Empty lines and lines that begin with `comment` are no
rows. The options `csv.encoding`, `csv.skip_rows`, `csv.null_values` and `csv.comment` apply. Types are inferred as for
CSV.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.enforcement.row_policy import BlockResult, RowError
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats.text.infer import infer_type
from singer_arrow.formats.text.line_reader import LineBlock, read_lines, read_rows
from singer_arrow.formats.text.rows import SAMPLE, TextRows
from singer_arrow.read_options import FixedColumn, ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint
from singer_arrow.reading.object_reader import ObjectReader

_SAMPLE_BLOCK = 256 << 10


class FixedWidthFormat:
    """The format `fixed_width`."""

    name = "fixed_width"
    suffixes = (".fwf",)

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        columns = _columns(options)
        few = replace(options, block_bytes=min(_SAMPLE_BLOCK, sample_bytes))
        found, lines = list[pa.RecordBatch](), 0
        for block in islice(read_lines(reader, few, ResumePoint()), max(1, sample_bytes // few.block_bytes)):
            texts, _, unread = _rows(block, columns, options)
            if unread and options.on_bad_row == "fail":
                bad = unread[0]
                raise DataError(bad.reason, url=reader.url, line=lines + bad.row, hint=bad.hint)
            found.append(pa.RecordBatch.from_pydict(texts))
            lines += block.count
        if not found:
            return pa.schema([(c.name, pa.null()) for c in columns])
        sample = pa.Table.from_batches(found).combine_chunks()
        return pa.schema(
            [(c.name, infer_type(sample[c.name].combine_chunks(), pa.array([], pa.string()), options)) for c in columns]
        )

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        columns = _columns(options)
        rows = TextRows([c.name for c in columns], schema, options)
        needed = {*(f.name for f in rows.selected), *rows.rescued_columns}
        read = [c for c in columns if c.name in needed]

        def parse(block: LineBlock) -> BlockResult:
            texts, places, unread = _rows(block, read, options)
            return rows.read(texts, len(places), lambda: [block.numbers[i] for i in places.to_pylist()], unread)

        types = partial(self.infer, reader, replace(options, on_bad_row="skip"), sample_bytes=SAMPLE)
        return read_rows(reader, rows, progress, parse, types)


def _columns(options: ReadOptions) -> Sequence[FixedColumn]:
    columns = options.fixed_width
    if not columns:
        msg = "The format fixed_width needs the stream's setting 'fixed_width': name, start and width of each column"
        raise ConfigError(msg)
    names = [c.name for c in columns]
    if twice := next((n for n in names if names.count(n) > 1), None):
        msg = f"Setting 'fixed_width' names the column {twice!r} twice"
        raise ConfigError(msg)
    if bad := next((c for c in columns if c.start < 1 or c.width < 1), None):
        msg = f"Setting 'fixed_width': start and width of column {bad.name!r} must be at least 1"
        raise ConfigError(msg)
    return columns


def _rows(
    block: LineBlock, columns: Sequence[FixedColumn], options: ReadOptions
) -> tuple[dict[str, pa.Array], pa.Array, list[RowError]]:
    """Return the columns of the lines that are rows, the places of these lines in the block, and the bad ones."""
    are_rows = pc.not_equal(pc.utf8_trim_whitespace(block.lines), "")
    if options.comment:
        are_rows = pc.and_not(are_rows, pc.starts_with(block.lines, options.comment))
    at = pc.indices_nonzero(are_rows)
    rows = block.lines.take(at)
    nulls = pa.array(sorted({*options.null_values, ""}), pa.string())
    cut = dict[str, pa.Array]()
    for column in columns:
        start = column.start - 1
        value = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(rows, start, start + column.width))
        cut[column.name] = pc.if_else(pc.is_in(value, nulls), pa.scalar(None, pa.string()), value)
    comment = options.comment.encode() if options.comment else None
    bad = [e for e in block.bad if comment is None or not e.text.startswith(comment)]
    return cut, at, bad
