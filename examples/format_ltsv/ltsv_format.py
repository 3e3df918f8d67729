"""LTSV files (ltsv.org): each line is a row, of `label:value` pairs with tabs between them; the labels are the columns.

    time:2024-05-01T10:00:00Z<tab>status:200<tab>path:/a  ->  time: 2024-05-01T10:00:00Z, status: 200, path: /a

An example for docs/add-a-format.md. Empty lines are no rows. A line in which a pair has no label is a bad row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from singer_arrow.enforcement.bad_rows import RowError
from singer_arrow.formats.blocks import FilePosition, deliver
from singer_arrow.formats.text import LineBlock, TextDrift, TextRows, infer_type, nulls_of, read_lines
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.objects import ObjectReader

Rows = tuple[dict[str, pa.Array], list[int], list[RowError]]


class LtsvFormat:
    """The format `ltsv`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """Return the types of the rows in the first bytes of a file."""
        position = FilePosition(reader.url, ResumePoint())
        block = next(read_lines(reader, replace(options, block_bytes=sample_bytes), position.resume_point))
        columns, _, bad = _rows(block)
        if bad and options.on_bad_row == "fail":
            raise position.error(bad[0]._replace(line=bad[0].row))
        return _types(columns, options)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        position = FilePosition(reader.url, progress.resume_point or ResumePoint())
        for block in read_lines(reader, options, position.resume_point):
            columns, numbers, bad = _rows(block)
            text = TextRows(list(columns), schema, options, nulls_of(options))
            drift = TextDrift(text, lambda columns=columns: _types(columns, options))  # type: ignore[misc]
            rows = text.read(columns, len(numbers), lambda numbers=numbers: numbers, bad)  # type: ignore[misc]
            result = replace(rows, bytes=block.bytes, lines=block.count)
            yield from deliver([result], position, progress, drift.refuse if options.on_drift == "raise" else None)


def _rows(block: LineBlock) -> Rows:
    """Return the columns of the lines that are rows, as text; the numbers of these lines; and the bad ones."""
    rows, numbers, bad = list[dict[str, str]](), list[int](), list(block.bad)
    for number, line in zip(block.numbers, block.lines.to_pylist(), strict=True):
        pairs = [pair.partition(":") for pair in line.split("\t")] if line else []
        if not all(label and colon for label, colon, _ in pairs):
            bad.append(RowError(number, "a pair has no label", text=line.encode()))
        elif pairs:
            rows.append({label: value for label, _, value in pairs})
            numbers.append(number)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in names}
    return columns, numbers, sorted(bad, key=lambda error: error.row)


def _types(columns: dict[str, pa.Array], options: ReadOptions) -> pa.Schema:
    return pa.schema([(name, infer_type(column, nulls_of(options), options)) for name, column in columns.items()])
