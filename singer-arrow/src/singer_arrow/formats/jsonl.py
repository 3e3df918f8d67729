"""JSON: one object a line, or a document that is a list of objects."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.formats.json_array import Elements, take_list
from singer_arrow.formats.jsonl_infer import infer_lines
from singer_arrow.formats.jsonl_parse import BlockParser
from singer_arrow.formats.jsonl_write import JsonLinesWriting
from singer_arrow.formats.protocol import Course, ReadOptions
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
            is_list, chunks = take_list(iter([text]))
            elements = Elements(chunks, reader.url, size=len(text) + 1, whole=whole)
            lines = b"".join(elements) if is_list else text if whole else text[: _last_line_end(text)]
            if lines or whole or sample_bytes >= LONGEST_RECORD:
                break
            sample_bytes *= 4
        if not lines and not whole:
            raise _too_long(reader.url, 1)
        try:
            return infer_lines(lines, url=reader.url)
        except DataError as error:
            raise _placed(error, elements.line_of(error.line or 1)) if is_list else error from None

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, course: Course | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        if course is not None:
            course.place = None
        is_list, chunks = take_list(decoded(reader, compression=options.compression))
        elements = Elements(chunks, reader.url, size=options.block_bytes)
        text = blocks(elements if is_list else chunks, _last_line_end, size=options.block_bytes)
        parse, lines = BlockParser(schema, loose_text=options.loose_text), 0
        try:
            for parsed in ordered(text, parse, reader.budget.decoded):
                if parsed.batch is None:
                    problem = parsed.error(reader.url, lines)
                    raise _placed(problem, elements.line_of(parsed.line)) if is_list else problem
                if is_list:
                    elements.passed(parsed.lines)
                lines += parsed.lines
                if parsed.batch.num_rows:
                    yield parsed.batch
        except LongRecordError:
            raise _too_long(reader.url, lines + 1) from None


def _last_line_end(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def _placed(error: DataError, line: int) -> DataError:
    """The error, of an element of a list that begins on a line."""
    reason = error.reason.replace("each line must hold", "each element of the list must be")
    return DataError(reason, url=error.url, line=line, column=error.column, hint=error.hint)


def _too_long(url: object, line: int) -> DataError:
    reason = f"the line is longer than {LONGEST_RECORD >> 20} MiB; is each record on a line of its own?"
    return DataError(reason, url=url, line=line)
