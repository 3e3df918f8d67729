"""JSON: one object a line, or a document that is a list of objects.

Keys that the schema lacks, and members of objects that their struct lacks, are drift; a null under them is not. What is
rescued of a row is, by column, the JSON of a value that did not fit, or of a new column's value, or an object of the
members of a column's value that are new.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from singer_arrow.casting.cut_digits import warn_truncated
from singer_arrow.enforcement.row_json import line_to_json
from singer_arrow.errors import DataError
from singer_arrow.formats.json.array_document import Elements, of_element, take_list
from singer_arrow.formats.json.bad_rows import Fault
from singer_arrow.formats.json.drift import Drift
from singer_arrow.formats.json.infer import infer_lines
from singer_arrow.formats.json.line_blocks import last_line_end, too_long
from singer_arrow.formats.json.parser import BlockParser
from singer_arrow.formats.json.small_files import join
from singer_arrow.formats.json.source import Source
from singer_arrow.formats.json.writer import JsonLinesWriting
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import MAX_LOGGED, ReadProgress, ResumePoint, Skipped
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.ordered_map import map_ordered
from singer_arrow.reading.text_blocks import MAX_RECORD_BYTES, LongRecordError, sample

logger = logging.getLogger(__name__)
_SHOWN = 1 << 20  # bytes that show which types a file has


class JsonLines(JsonLinesWriting):
    """See the module."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".json")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """See `Format.infer`; the types are those of `jsonl_infer`. Bad rows are left out unless they are to fail."""
        while True:
            text, whole = sample(reader, sample_bytes, compression=options.compression)
            is_list, chunks = take_list(iter([text]))
            elements = Elements(chunks, reader.url, size=len(text) + 1, whole=whole)
            lines = b"".join(elements) if is_list else text if whole else text[: last_line_end(text)]
            if lines or whole or sample_bytes >= MAX_RECORD_BYTES:
                break
            sample_bytes *= 4
        if not lines and not whole:
            raise DataError(too_long(), url=reader.url, line=1)
        try:
            return infer_lines(lines, url=reader.url, strict=options.on_bad_row == "fail")
        except DataError as error:
            if not is_list:
                raise
            line = elements.line_of(error.line or 1)
            raise DataError(of_element(error.reason), url=reader.url, line=line) from None

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        """See `JoiningFormat`."""
        return join(readers, schema, options)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`; a reading can begin after each batch, also in a list."""
        progress = progress or ReadProgress()
        source, warned = Source(reader, options, progress.resume_point or ResumePoint()), set[str]()
        lenient = replace(options, on_bad_row="skip")
        drift = Drift(schema, lambda: self.infer(reader, lenient, sample_bytes=_SHOWN), reader.url, options)
        try:
            for parsed in map_ordered(source.blocks(), BlockParser(schema, options), reader.budget.decoded):
                if options.on_drift == "raise" and (parsed.faults or parsed.news):
                    drift.refuse(parsed, source.line_of)
                warn_truncated(logger, reader.url, parsed.cuts, warned)
                found = parsed.settled
                if found.failed is not None:
                    raise source.error(found.failed)
                _skip(progress, found.skipped, source)
                _tell(progress.rescue, found.rescued, source)
                source.passed(parsed)
                progress.resume_point = source.place
                is_over = progress.has_reached_end(source.place, reader.url)
                if found.batch is not None and found.batch.num_rows:
                    yield found.batch
                if is_over:
                    return
        except LongRecordError:
            raise DataError(too_long(), url=reader.url, line=source.place.lines + 1) from None


def _skip(progress: ReadProgress, faults: Sequence[Fault], source: Source) -> None:
    """Count rows that are left out, and tell whoever wants them."""
    if progress.on_skip is None:
        _tell(progress.skip, faults, source)
        return
    for fault in faults:
        reason = source.error(fault).reason
        progress.on_skip(Skipped(source.line_of(fault.line), fault.column, reason, line_to_json(fault.text)))
    progress.skipped += len(faults)


def _tell(count: Callable[[DataError, int], None], faults: Sequence[Fault], source: Source) -> None:
    """Count rows, one for each fault; no more of them are made errors than are told of."""
    for fault in faults[:MAX_LOGGED]:
        count(source.error(fault), 1)
    if rest := faults[MAX_LOGGED:]:
        count(source.error(rest[0]), len(rest))
