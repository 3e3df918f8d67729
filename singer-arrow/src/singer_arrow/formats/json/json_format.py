"""The format `jsonl`: one JSON object a line, or a document that is a list of objects; the path of one file.

`read` opens the text as blocks of whole lines (`source`), parses the blocks in parallel (`parser`), and delivers the
batches in order (`delivery`).

Keys that the schema lacks, and members of objects that their struct lacks, are drift, unless their value is null.
`RESCUED` holds, by column, the JSON of a value that does not fit, of the value of a new column, or of an object of the
new members of a column's value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.compression.codecs import archive_of
from singer_arrow.enforcement.row_policy import BlockResult
from singer_arrow.enforcement.schema_drift import type_name, widened_field, without_excluded
from singer_arrow.errors import DataError, DriftError, SingerArrowError
from singer_arrow.formats.delivery import FilePosition, deliver
from singer_arrow.formats.json.array_document import MAX_BLANK, ListElements, element_reason, take_list
from singer_arrow.formats.json.infer import infer_lines
from singer_arrow.formats.json.parser import JsonBlockParser
from singer_arrow.formats.json.source import last_line_end, long_line_reason, open_source
from singer_arrow.formats.json.writer import JsonLinesWriting
from singer_arrow.formats.range_scan import RangeScan, line_starts, scan_lines, undivided
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered
from singer_arrow.reading.range_planner import Span
from singer_arrow.reading.text_blocks import (
    MAX_RECORD_BYTES,
    LongRecordError,
    decoded,
    read_sample,
    text_offset,
    whole_text,
)
from singer_arrow.schema.arrow_schema import merge_fields


class JsonDrift:
    """Detection of drift in one file; `infer` returns the types of its beginning, once a value does not fit."""

    def __init__(self, schema: pa.Schema, infer: Callable[[], pa.Schema], options: ReadOptions) -> None:
        self._schema, self._options = schema, options
        self._inferred = cache(infer)

    def refuse(self, block: BlockResult, position: FilePosition) -> None:
        """Raise DriftError if the schema must change before a block is delivered."""
        if not (block.mismatches or block.unknown):
            return
        found = dict[str, tuple[pa.Field, str]]()  # by name: the field with which the value fits, and the reason
        # New columns, and columns with new members.
        values = defaultdict[str, list[bytes]](list)
        for keys in block.unknown:
            for name, raw in keys.values.items():
                values[name].append(raw)
        values.pop(RESCUED, None)
        for name, raws in values.items():
            seen = _seen(name, raws)
            if name not in self._schema.names:
                found[name] = (seen, f"the file has a new column: {name!r} ({type_name(seen)})")
            else:
                merged = merge_fields(self._schema.field(name), seen)
                found[name] = (merged, f"the file has new members in it, with which it is {type_name(merged)}")
        # Columns with a value that does not fit.
        values.clear()
        for error in block.mismatches:
            column = error.column
            if error.raw is not None and column is not None and column not in self._options.declared_columns:
                values[column].append(error.raw)
        for name, raws in values.items():
            field = self._schema.field(name)
            if pt.is_null(field.type):
                seen = _seen(name, raws)
            elif name in self._inferred().names:
                seen = without_excluded(self._inferred().field(name), field, self._options.excluded_members)
            else:
                continue
            if (widened := widened_field(field, seen)) is not None:
                found[name] = (widened, f"the file has it as {type_name(seen)}, the schema as {type_name(field)}")
        if not found:
            return
        lines = [(keys.row, name) for keys in block.unknown for name in keys.values]
        lines += [(e.row, e.column) for e in block.mismatches if e.column is not None]
        line, first = min((line, name) for line, name in lines if name in found)
        more = f", and so it is with {len(found) - 1} more" if len(found) > 1 else ""
        raise DriftError(
            f"{found[first][1]}{more}",
            [field for field, _ in found.values()],
            url=position.url,
            line=position.line_of(line),
            column=first,
        )


def _seen(name: str, raws: Iterable[bytes]) -> pa.Field:
    lines = b"".join(b'{"seen":%b}\n' % raw for raw in raws)
    seen: pa.Field = infer_lines(lines, url=None, strict=False).field(0)
    return seen.with_name(name)


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
        counts = [text.count(b"\n") for text in texts]
        if batch is None or batch.num_rows != sum(counts):
            return None
        ends = list(accumulate(counts))
        return [batch.slice(end - count, count) for end, count in zip(ends, counts, strict=True)]

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        position, blocks = open_source(reader, options, progress.resume_point or ResumePoint(), progress.end)
        infer = partial(self.infer, reader, replace(options, on_bad_row="skip"), sample_bytes=_SAMPLE)
        drift = JsonDrift(schema, infer, options).refuse if options.on_drift == "raise" else None
        results = map_ordered(blocks, JsonBlockParser(schema, options), reader.budget.decoded)
        try:
            yield from deliver(results, position, progress, drift)
        except LongRecordError:
            line = position.resume_point.lines + 1
            raise DataError(long_line_reason(), url=reader.url, line=line) from None

    def scan(self, reader: ObjectReader, options: ReadOptions, span: Span) -> RangeScan:
        is_plain = text_offset(reader, options.compression) is not None and not archive_of(reader.url.name)
        if not is_plain or take_list(iter([read_sample(reader, MAX_BLANK + 1, compression="none")[0]]))[0]:
            return RangeScan(span)
        text = decoded(reader, compression=options.compression, start=span[0], end=span[1])
        return RangeScan(span, {False: scan_lines(text)})

    def row_starts(
        self,
        reader: ObjectReader,  # noqa: ARG002 - the scans have it all
        options: ReadOptions,  # noqa: ARG002 - as above
        scans: Sequence[RangeScan],
    ) -> Sequence[ResumePoint]:
        return line_starts(scans) if scans[0].found else undivided(len(scans) + 1)
