"""ORC files: only the columns that are wanted, a batch of rows at a time.

Arrow's reader asks for many small ranges, so what is larger than 8 MiB is first copied to local disk; for its schema
the end of a file is enough. Timestamps are instants in UTC, in nanoseconds: from 1677 to 2262, others are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.formats.cast import fit_batch
from singer_arrow.formats.protocol import Course, ReadOptions
from singer_arrow.reading.files import RangeFile, local_copy, random_access
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.schema import canonical

_TAIL = 256 << 10


class Orc:
    """See the module."""

    name = "orc"
    suffixes = (".orc",)

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        """The schema that the footer tells, in canonical types."""
        with random_access(reader) as file:
            start, data = file.tail(_TAIL)
            source = RangeFile(start + len(data), [(start, data)], lambda span: file.fetch([span])[0])
            return canonical(_schema(pa.PythonFile(source, "r"), reader.url))

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, course: Course | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        if course is not None:
            course.place = None
        from pyarrow import dataset, orc

        with local_copy(reader) as source:
            names = _schema(source, reader.url).names
            due, rows = orc.ORCFile(source).nrows, 0
            wanted = [name for name in names if name in set(schema.names)]
            if twice := next((name for name in wanted if names.count(name) > 1), None):
                raise DataError("the file has it twice", url=reader.url, column=twice)
            fragment = dataset.OrcFileFormat().make_fragment(source)
            try:
                for batch in fragment.to_batches(
                    columns=wanted, batch_size=options.batch_rows, batch_readahead=1, use_threads=False
                ):
                    rows += batch.num_rows
                    if batch.num_rows:
                        yield fit_batch(batch, schema, reader.url)
            except (pa.ArrowException, OSError) as error:
                reason = f"its data cannot be read ({' '.join(str(error).split())[:200]})"
                hint = "Leave the column out by selection" if "out of range" in reason else "Upload the file again"
                raise DataError(reason, url=reader.url, hint=hint) from None
            if rows != due:
                reason = f"its footer tells of {due} rows, there are {rows}"
                raise DataError(reason, url=reader.url, hint="Upload the file again")


def _schema(source: pa.NativeFile, url: object) -> pa.Schema:
    from pyarrow import orc

    try:
        return orc.ORCFile(source).schema
    except (pa.ArrowException, OSError) as error:
        reason = f"not an ORC file, or its footer is broken ({' '.join(str(error).split())[:200]})"
        raise DataError(reason, url=url, hint="Upload the file again, or set the stream's format") from None
