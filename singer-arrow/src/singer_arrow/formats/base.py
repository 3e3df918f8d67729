"""What a file format is to the rest of the library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress

if TYPE_CHECKING:
    import pyarrow as pa

    from singer_arrow.reading.object_reader import ObjectReader

HELD_BYTES = 64 << 20
"""Bytes of rows in memory that a writer gathers before it encodes them, where it is not told."""


class Format(Protocol):
    """A file format that is read."""

    @property
    def name(self) -> str:
        """As in settings and messages."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of its files' names, without that of their compression."""
        ...

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """The schema of a file: from its own metadata where it has some, else from its first `sample_bytes` bytes.

        A column without a value in the sample is of type null, which gives way to any other in `merge_schemas`.

        Raises:
            EmptyObjectError: The object holds no byte.
            DataError: It is not of this format.
        """
        ...

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, course: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The file's rows, in order, in batches of exactly `schema`.

        Columns are found by name. One that the file lacks is null, one that `schema` lacks is as `options.on_drift`
        says. The same file gives the same batches on every run, also to one that begins at a place of another.
        Memory is bounded by the reader's budget, not by the file.

        Args:
            reader: The file.
            schema: What is wanted of it.
            options: How it is read.
            course: Where the reading begins, and what it tells of itself; it is up to date after each batch.

        Raises:
            EmptyObjectError: The object holds no byte.
            DataError: A value does not fit its type; names line or row group, and column. Batches before it are good.
            DriftError: The schema must change before the next batch, and `options.on_drift` is `raise`.
        """
        ...


@runtime_checkable
class JoiningFormat(Format, Protocol):
    """A format of which small files can be parsed together."""

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        """The rows of each of some files that are fetched whole: just what `read` gives of each.

        Returns:
            None if one of them is not plain: `read` says then what is to be said of it.
        """
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A file format that is also written."""

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        path: Path,
        *,
        compression: str | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> int:
        """Write a file of batches of exactly `schema`, holding no more than a row group of them in memory.

        Args:
            batches: The rows.
            schema: Theirs.
            path: The file.
            compression: A codec that the format knows, or None for its default.
            held_bytes: Bytes of rows that are gathered before they are encoded, and so of a row group, where the
                format has them.

        Returns:
            The number of rows.

        Raises:
            ConfigError: The format does not know the codec.
            SchemaError: It cannot hold a column's type.
        """
        ...
