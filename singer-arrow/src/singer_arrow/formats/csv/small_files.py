"""Small CSV files with the same header, parsed as one text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from singer_arrow.enforcement.schema_drift import new_columns
from singer_arrow.errors import SingerArrowError
from singer_arrow.formats.csv.dialect import Dialect
from singer_arrow.formats.csv.header import find_start
from singer_arrow.formats.csv.parser import BlockParser
from singer_arrow.formats.text.rows import TextRows, nulls_of
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.text_blocks import whole_text


def join(readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions) -> list[pa.RecordBatch] | None:
    """See `JoiningFormat.join`."""
    bodies, shapes = list[bytes](), set[tuple[Dialect, tuple[str, ...]]]()
    try:
        texts = whole_text(readers, options.compression, encoding=options.encoding)
        for reader, text in zip(readers, texts, strict=False):
            start = find_start(text, reader, options, final=True)
            if start is None:
                return None
            shapes.add((start.dialect, tuple(start.names)))
            if len(shapes) > 1:
                return None
            bodies.append(text[start.bytes :])
    except SingerArrowError:
        return None
    if len(bodies) < len(readers):
        return None
    dialect, names = shapes.pop()
    if options.on_drift != "ignore" and new_columns(names, schema, options):
        return None
    rows = TextRows(names, schema, options, nulls_of(options))
    return BlockParser(rows, dialect).together(bodies)
