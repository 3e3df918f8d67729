"""ORC files: the selected columns, batch by batch.

Batches are cut by bytes; columns that are small in the file and large in memory are refused before they are decoded.
Arrow's reader requests many small ranges, so files above 8 MiB are first copied to local disk; the schema needs only
the end of a file. Timestamps are instants in UTC with nanoseconds, from 1677 to 2262; others are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from singer_arrow.enforcement.schema_drift import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.columnar import FilePart, read_part
from singer_arrow.formats.file_errors import too_large
from singer_arrow.formats.orc.footers import (
    MOST_INFLATED,
    NO_CODEC,
    OrcFooter,
    OrcSource,
    Stream,
    count_blocks,
    read_orc_footer,
    read_streams,
)
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.random_access import RangeFile, local_copy, random_access
from singer_arrow.schema.arrow_schema import canonical

_TAIL = 256 << 10
_BATCH_BYTES = 16 << 20  # bytes in memory of a batch of rows of mean size; Arrow's reader holds them twice
_WIDTH = 8
_COUNTED = 1 << 20  # blocks of a stream that are counted; more only if the check needs them


class OrcFormat:
    """The format ORC."""

    name = "orc"
    suffixes = (".orc",)

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        with random_access(reader) as file:
            start, data = file.tail(_TAIL)
            end = RangeFile(start + len(data), [(start, data)], lambda span: file.fetch([span])[0])
            source = OrcSource(pa.PythonFile(end, "r"), reader.url, reader.budget.decoded.limit)
            return canonical(_open(source)[0].schema)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset

        with local_copy(reader) as copy:
            source = OrcSource(copy, reader.url, reader.budget.decoded.limit)
            file, footer = _open(source)
            names = columns_to_read(file.schema, schema, options, reader.url)
            rows = options.batch_rows
            if footer is not None and len(footer.columns) == len(file.schema.names):
                columns = dict(zip(file.schema.names, footer.columns, strict=True))
                rows = min(rows, _rows_at_once(source, footer, {name: columns[name] for name in names}))
            part = FilePart(0, None, file.nrows, reader.url, rows_before=0)
            fragment = dataset.OrcFileFormat().make_fragment(copy)
            try:
                batches = fragment.to_batches(columns=names, batch_size=rows, batch_readahead=1, use_threads=False)
                yield from read_part(part, batches, schema, options, progress or ReadProgress())
            except (pa.ArrowException, OSError) as error:
                reason = f"its data cannot be read ({' '.join(str(error).split())[:200]})"
                hint = "Deselect the column" if "out of range" in reason else "Upload the file again"
                raise DataError(reason, url=reader.url, hint=hint) from None


def _open(source: OrcSource) -> tuple[Any, OrcFooter | None]:
    from pyarrow import orc

    footer = read_orc_footer(source)
    try:
        return orc.ORCFile(source.file), footer
    except (pa.ArrowException, OSError) as error:
        reason = f"not an ORC file, or its footer is broken ({' '.join(str(error).split())[:200]})"
        raise DataError(reason, url=source.url, hint="Upload the file again, or set the stream's format") from None


def _rows_at_once(source: OrcSource, footer: OrcFooter, columns: Mapping[str, range]) -> int:
    """Return how many rows of mean size make a batch of at most 16 MiB, at least one.

    `columns` are the numbers of the columns that are read, by their names at the top level. Raises DataError if a
    column of a stripe, or the mean row of a column, is a few bytes in the file and more in memory than is allowed.
    """
    # Each column in each stripe, by the number of its compressed blocks.
    names = {number: name for name, numbers in columns.items() for number in numbers}
    in_file = dict.fromkeys(columns, 0)
    for number, stripe in enumerate(footer.stripes):
        stored, inflated = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
        for stream in read_streams(source, footer, stripe):
            if (name := names.get(stream.column)) is not None:
                stored[name] += stream.length
                inflated[name] += _inflated(source, footer, stream)
        for name, size in inflated.items():
            if size > source.most and size > MOST_INFLATED * stored[name]:
                raise too_large(f"the column {name!r} of stripe {number}", size, source.most, url=source.url)
            in_file[name] += stored[name]
    # Rows, by the statistics of the file: dictionaries hold a text once for many rows, and runs a number.
    rows, total = max(1, footer.rows), 1
    for name, numbers in columns.items():
        statistics = footer.statistics[numbers.start : numbers.stop]
        size = sum(max(0, s.text_bytes) + _WIDTH * s.values for s in statistics)
        if size > source.most * rows and size > MOST_INFLATED * in_file[name]:
            raise too_large(f"a row of the column {name!r}", size // rows, source.most, url=source.url)
        total += size
    return max(1, _BATCH_BYTES * rows // total)


def _inflated(source: OrcSource, footer: OrcFooter, stream: Stream) -> int:
    """Bytes of a stream without its compression, where all blocks but the last are full."""
    if footer.codec == NO_CODEC:
        return stream.length
    size = max(1, footer.block_bytes)
    enough = max(source.most, MOST_INFLATED * stream.length) // size + 3
    return max(0, count_blocks(source, stream, max(_COUNTED, enough)) - 1) * size
