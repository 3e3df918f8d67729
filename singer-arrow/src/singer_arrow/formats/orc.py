"""ORC files: the selected columns, batch by batch.

Arrow's reader requests many small ranges, so files above 8 MiB are first copied to local disk; the schema needs only
the end of a file. Timestamps are instants in UTC with nanoseconds, from 1677 to 2262; others are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from singer_arrow.enforcement.projection import columns_to_read
from singer_arrow.errors import DataError
from singer_arrow.formats.columnar import FilePart, read_part
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.random_access import RangeFile, local_copy, random_access
from singer_arrow.schema.arrow_schema import canonical

_TAIL = 256 << 10


class Orc:
    """The format ORC."""

    name = "orc"
    suffixes = (".orc",)

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        with random_access(reader) as file:
            start, data = file.tail(_TAIL)
            source = RangeFile(start + len(data), [(start, data)], lambda span: file.fetch([span])[0])
            return canonical(_open(pa.PythonFile(source, "r"), reader.url).schema)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset

        with local_copy(reader) as source:
            file = _open(source, reader.url)
            names = columns_to_read(file.schema, schema, options, reader.url)
            part = FilePart(0, None, file.nrows, reader.url)
            fragment = dataset.OrcFileFormat().make_fragment(source)
            try:
                batches = fragment.to_batches(
                    columns=names, batch_size=options.batch_rows, batch_readahead=1, use_threads=False
                )
                yield from read_part(part, batches, schema, options, progress or ReadProgress())
            except (pa.ArrowException, OSError) as error:
                reason = f"its data cannot be read ({' '.join(str(error).split())[:200]})"
                hint = "Deselect the column" if "out of range" in reason else "Upload the file again"
                raise DataError(reason, url=reader.url, hint=hint) from None


def _open(source: pa.NativeFile, url: object) -> Any:
    from pyarrow import orc

    try:
        return orc.ORCFile(source)
    except (pa.ArrowException, OSError) as error:
        reason = f"not an ORC file, or its footer is broken ({' '.join(str(error).split())[:200]})"
        raise DataError(reason, url=url, hint="Upload the file again, or set the stream's format") from None
