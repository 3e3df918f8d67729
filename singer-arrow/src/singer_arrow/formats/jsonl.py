"""JSON Lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.formats.jsonl_infer import infer_lines
from singer_arrow.formats.jsonl_parse import BlockParser
from singer_arrow.formats.jsonl_write import JsonLinesWriting
from singer_arrow.formats.protocol import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import ordered
from singer_arrow.reading.text import LONGEST_RECORD, LongRecordError, blocks, decoded, sample


class JsonLines(JsonLinesWriting):
    """See the module."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """See `Format.infer`; the types are those of `jsonl_infer`."""
        while True:
            text, whole = sample(reader, sample_bytes, compression=options.compression)
            end = len(text) if whole else text.rfind(b"\n") + 1
            if end or whole or sample_bytes >= LONGEST_RECORD:
                return infer_lines(text[:end], url=reader.url)
            sample_bytes *= 4

    def read(self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        lines = 0
        text = blocks(decoded(reader, compression=options.compression), _last_line_end, size=options.block_bytes)
        parse = BlockParser(schema, loose_text=options.loose_text)
        try:
            for parsed in ordered(text, parse, reader.budget.decoded):
                if parsed.batch is None:
                    raise parsed.error(reader.url, lines)
                lines += parsed.lines
                if parsed.batch.num_rows:
                    yield parsed.batch
        except LongRecordError:
            reason = f"the line is longer than {LONGEST_RECORD >> 20} MiB; is each record on a line of its own?"
            raise DataError(reason, url=reader.url, line=lines + 1) from None


def _last_line_end(data: bytes) -> int:
    return data.rfind(b"\n") + 1
