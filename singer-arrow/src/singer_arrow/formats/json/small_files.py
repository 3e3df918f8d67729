"""Small files of JSON Lines, parsed as one text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from singer_arrow.errors import SingerArrowError
from singer_arrow.formats.json.parser import BlockParser
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.text_blocks import whole_text


def join(readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions) -> list[pa.RecordBatch] | None:
    """See `JoiningFormat.join`."""
    texts = list[bytes]()
    try:
        for text in whole_text(readers, options.compression):
            if not text.startswith(b"{"):  # a list, or something odd
                return None
            texts.append(text if text.endswith(b"\n") else text + b"\n")
    except SingerArrowError:
        return None
    if len(texts) < len(readers):
        return None
    counts = [text.count(b"\n") for text in texts]
    batch = BlockParser(schema, options).plain(b"".join(texts))
    return None if batch is None else cut(batch, counts)


def cut(batch: pa.RecordBatch, counts: Iterable[int]) -> list[pa.RecordBatch] | None:
    """The batch in pieces of so many rows; None if they do not make it up."""
    pieces, at = [], 0
    for count in counts:
        pieces.append(batch.slice(at, count))
        at += count
    return pieces if at == batch.num_rows else None
