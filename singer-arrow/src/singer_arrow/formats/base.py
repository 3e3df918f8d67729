"""Protocols that file formats implement: `Format`, `JoiningFormat`, `DivisibleFormat`, `WritableFormat`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, ResumePoint

if TYPE_CHECKING:
    import pyarrow as pa

    from singer_arrow.formats.range_scan import RangeScan
    from singer_arrow.reading.memory_budget import Allowance
    from singer_arrow.reading.object_reader import ObjectReader
    from singer_arrow.reading.range_planner import Span

HELD_BYTES = 64 << 20
"""Default bytes of rows that a writer holds in memory before it encodes them."""


class Format(Protocol):
    """A file format that can be read."""

    @property
    def name(self) -> str:
        """Name in settings and messages."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name suffixes, without those of compression."""
        ...

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """Return the schema of a file: from its metadata if it has any, else from its first `sample_bytes` bytes.

        A column without a value in the sample is of type null, which `merge_schemas` replaces by any other type.

        Raises:
            EmptyObjectError: The object is empty.
            DataError: The object is not of this format.
        """
        ...

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, in order, in batches of exactly `schema`.

        Columns are matched by name. A column that the file lacks is null; `options.on_drift` decides about columns that
        `schema` lacks. Every run yields the same batches, also a run that resumes another one. Memory is bounded by the
        reader's budget, not by the size of the file.

        Args:
            reader: The file.
            schema: Columns and types to return.
            options: How to read the file.
            progress: Where to start and stop, updated before each batch is yielded.

        Raises:
            EmptyObjectError: The object is empty.
            DataError: A value does not fit its type; names line or row group, and column. Earlier batches are valid.
            DriftError: The schema must change before the next batch, and `options.on_drift` is `raise`.
        """
        ...


@runtime_checkable
class JoiningFormat(Format, Protocol):
    """A format that can parse several small files at once."""

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        """Return one batch per file, equal to what `read` yields for it; the files are fetched whole.

        Returns:
            None if a file has errors, drift or anything else that `read` has to report.
        """
        ...


class DivisibleFormat(Format, Protocol):
    """A format whose files can be read in ranges, independently of each other."""

    def scan(self, reader: ObjectReader, options: ReadOptions, span: Span) -> RangeScan:
        """Return what `row_starts` needs to know of a range of a file, whatever comes before it.

        Args:
            reader: The file.
            options: How it is read.
            span: The range, one of `divide`.
        """
        ...

    def row_starts(
        self, reader: ObjectReader, options: ReadOptions, scans: Sequence[RangeScan]
    ) -> Sequence[ResumePoint]:
        """Return where each range of a file begins, for `ReadProgress.resume_point` and, of the range before, `end`.

        Their `rows` are the lines (text) or the rows (columnar formats) before the range. Ranges without a row begin
        where the next one begins, or at `FILE_END`. If the file cannot be read from its middle, the first range holds
        all rows.

        Args:
            reader: The file.
            options: How it is read.
            scans: Of all ranges but the last one, in order.

        Raises:
            DataError: The header or footer cannot be read.
        """
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A file format that can also be written."""

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        path: Path,
        *,
        compression: str | None = None,
        held_bytes: int = HELD_BYTES,
        parallel: Allowance | None = None,
    ) -> int:
        """Write batches of exactly `schema` to a file and return the number of rows.

        Args:
            batches: The rows.
            schema: Schema of the batches.
            path: The file to write.
            compression: A codec of the format; None for its default.
            held_bytes: Bytes of rows to hold before encoding them; the size of row groups in formats that have them.
            parallel: Limits the bytes of rows that are encoded in parallel; None for one row group at a time.

        Raises:
            ConfigError: The format does not support the codec.
            SchemaError: The format cannot represent the type of a column.
        """
        ...
