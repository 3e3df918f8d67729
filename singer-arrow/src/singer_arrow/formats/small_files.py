"""Reading of many small files of one format, parsed together if possible."""

from __future__ import annotations

import pyarrow as pa

from singer_arrow.formats.base import Format, JoiningFormat
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader


def join_files(
    kind: Format, readers: list[ObjectReader], schema: pa.Schema, options: ReadOptions
) -> list[pa.RecordBatch] | None:
    """Return one batch per small object; None if the objects must be read one by one.

    That is the case if `Format.read` has to raise, count, skip or rescue anything.
    """
    if len(readers) > 1 and isinstance(kind, JoiningFormat):
        return kind.join(readers, schema, options)
    return None
