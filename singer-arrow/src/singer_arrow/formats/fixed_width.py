"""Text in which each column has its place on the line, as the option `fixed_width` says.

Places are characters, from 1. Blanks around a value do not count; a value of nothing but blanks is null, and so is one
of `null_values`. A line that is too short has null in what it lacks. Empty lines and those that begin with `comment`
are no rows. Of the options of CSV, `encoding`, `skip_rows`, `null_values` and `comment` count. Types are told as those
of CSV.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats.cast import fit_batch
from singer_arrow.formats.csv_infer import infer_type
from singer_arrow.formats.lines import placed, read_lines
from singer_arrow.formats.protocol import Course, FixedColumn, ReadOptions
from singer_arrow.reading.objects import ObjectReader

_SAMPLE_BLOCK = 256 << 10


class FixedWidth:
    """See the module."""

    name = "fixed_width"
    suffixes = (".fwf",)

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """See `Format.infer`; the types are those of `csv_infer`."""
        columns = _columns(options)
        few = replace(options, block_bytes=min(_SAMPLE_BLOCK, sample_bytes))
        wanted = max(1, sample_bytes // few.block_bytes)
        rows = [_cut(lines, columns, options)[0] for _, lines in islice(read_lines(reader, few), wanted)]
        if not rows:
            return pa.schema([(c.name, pa.null()) for c in columns])
        sample = pa.Table.from_batches(rows).combine_chunks()
        return pa.schema(
            [(c.name, infer_type(sample[c.name].combine_chunks(), pa.array([], pa.string()))) for c in columns]
        )

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, course: Course | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        if course is not None:
            course.place = None
        columns = [c for c in _columns(options) if c.name in set(schema.names)]
        for first_line, lines in read_lines(reader, options):
            batch, numbers = _cut(lines, columns, options)
            if not batch.num_rows:
                continue
            try:
                yield fit_batch(batch, schema, reader.url)
            except DataError:
                error = placed(batch, schema, reader.url, 0)
                line = first_line + numbers[error.line or 0].as_py()
                raise DataError(error.reason, url=reader.url, line=line, column=error.column) from None


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


def _cut(lines: pa.Array, columns: Sequence[FixedColumn], options: ReadOptions) -> tuple[pa.RecordBatch, pa.Array]:
    """The columns of the lines that are rows, and the numbers (from 0) of these lines."""
    wanted = pc.not_equal(pc.utf8_trim_whitespace(lines), "")
    if options.comment:
        wanted = pc.and_not(wanted, pc.starts_with(lines, options.comment))
    numbers = pc.indices_nonzero(wanted)
    rows = lines.take(numbers)
    nulls = pa.array(sorted({*options.null_values, ""}), pa.string())
    cut = []
    for column in columns:
        start = column.start - 1
        value = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(rows, start, start + column.width))
        cut.append(pc.if_else(pc.is_in(value, nulls), pa.scalar(None, pa.string()), value))
    names = [c.name for c in columns]
    made = pa.StructArray.from_arrays(cut, names=names) if cut else _nothing(len(rows))
    return pa.RecordBatch.from_struct_array(made), numbers


def _nothing(rows: int) -> pa.StructArray:
    return pa.StructArray.from_buffers(pa.struct([]), rows, [None])
