"""The format `jsonl`: one JSON object a line, or a document that is a list of objects; the path of one file.

`read` opens the text as blocks of whole lines (`source`), parses the blocks in parallel (`parser`), and delivers the
batches in order (`delivery`).

Keys that the schema lacks, and members of objects that their struct lacks, are drift, unless their value is null.
`RESCUED` holds, by column, the JSON of a value that does not fit, of the value of a new column, or of an object of the
new members of a column's value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from singer_arrow.errors import DataError, SingerArrowError
from singer_arrow.formats.delivery import deliver
from singer_arrow.formats.json.array_document import ListElements, element_reason, take_list
from singer_arrow.formats.json.drift import JsonDrift
from singer_arrow.formats.json.infer import infer_lines
from singer_arrow.formats.json.parser import JsonBlockParser
from singer_arrow.formats.json.source import last_line_end, long_line_reason, open_source
from singer_arrow.formats.json.writer import JsonLinesWriting
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered
from singer_arrow.reading.text_blocks import MAX_RECORD_BYTES, LongRecordError, read_sample, whole_text

_SAMPLE = 1 << 20  # bytes from which the types of a file are inferred, to detect drift


class JsonLinesFormat(JsonLinesWriting):
    """The format `jsonl`."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        while True:
            text, whole = read_sample(reader, sample_bytes, compression=options.compression)
            is_list, chunks = take_list(iter([text]))
            elements = ListElements(chunks, reader.url, size=len(text) + 1, whole=whole)
            lines = b"".join(elements) if is_list else text if whole else text[: last_line_end(text)]
            if lines or whole or sample_bytes >= MAX_RECORD_BYTES:
                break
            sample_bytes *= 4
        if not lines and not whole:
            raise DataError(long_line_reason(), url=reader.url, line=1)
        try:
            return infer_lines(lines, url=reader.url, strict=options.on_bad_row == "fail")
        except DataError as error:
            if not is_list:
                raise
            line = elements.line_of(error.line or 1)
            raise DataError(element_reason(error.reason), url=reader.url, line=line) from None

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        texts = list[bytes]()
        try:
            for text in whole_text(readers, options.compression):
                if not text.startswith(b"{"):  # a list, or not JSON
                    return None
                texts.append(text if text.endswith(b"\n") else text + b"\n")
        except SingerArrowError:
            return None
        if len(texts) < len(readers):
            return None
        batch = JsonBlockParser(schema, options).parse_good(b"".join(texts))
        return None if batch is None else _split(batch, (text.count(b"\n") for text in texts))

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        position, blocks = open_source(reader, options, progress.resume_point or ResumePoint())
        infer = partial(self.infer, reader, replace(options, on_bad_row="skip"), sample_bytes=_SAMPLE)
        drift = JsonDrift(schema, infer, options).refuse if options.on_drift == "raise" else None
        results = map_ordered(blocks, JsonBlockParser(schema, options), reader.budget.decoded)
        try:
            yield from deliver(results, position, progress, drift, with_records=True)
        except LongRecordError:
            line = position.resume_point.lines + 1
            raise DataError(long_line_reason(), url=reader.url, line=line) from None


def _split(batch: pa.RecordBatch, counts: Iterable[int]) -> list[pa.RecordBatch] | None:
    """Return the batch in pieces of the given numbers of rows; None if they do not add up to the batch."""
    pieces, at = [], 0
    for count in counts:
        pieces.append(batch.slice(at, count))
        at += count
    return pieces if at == batch.num_rows else None
