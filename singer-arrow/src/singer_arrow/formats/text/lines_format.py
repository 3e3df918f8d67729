"""Text without a format: each line is a row with one column of text, `line`.

Lines end with LF or CRLF. An empty line is a row too; text after the last line break is a row if it is not empty.
The options `csv.encoding` and `csv.skip_rows` apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from singer_arrow.enforcement.row_policy import BlockResult
from singer_arrow.formats.text.line_reader import LineBlock, read_rows
from singer_arrow.formats.text.rows import TextRows
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress
from singer_arrow.reading.object_reader import ObjectReader

COLUMN = "line"


class LinesFormat:
    """The format `lines`."""

    name = "lines"
    suffixes = (".log",)

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        """Return the one column."""
        reader.head_bytes(1)  # an empty object has no schema
        return pa.schema([(COLUMN, pa.string())])

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        rows, infer = TextRows([COLUMN], schema, options), partial(self.infer, reader, options, sample_bytes=1)

        def parse(block: LineBlock) -> BlockResult:
            return rows.read({COLUMN: block.lines}, len(block.lines), lambda: block.numbers, block.bad)

        return read_rows(reader, rows, progress, parse, infer)
