"""What a file format is to the rest of the library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from singer_arrow.reading.objects import ObjectReader


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """Where a column stands on a line: `width` characters from the character `start`, of which the first is 1."""

    name: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files of a stream are read. What does not concern a format is ignored by it.

    Attributes:
        compression: One of `compression.CODECS`, or `auto`: told by the first bytes; zip archives by their names.
        delimiter: One ASCII character between fields; by default a tab in `.tsv` files, `|` in `.psv`, else a comma.
        quote: The character around quoted fields, doubled within them; None or empty: fields are never quoted.
        escape: A character that makes the next one literal, in quoted fields and elsewhere.
        encoding: Any of Python's.
        header: Whether the first line names the columns; if not they are `column_1`, `column_2`, ...
        skip_rows: Lines to skip before the header, or before the data if there is none.
        null_values: Unquoted fields that mean null; in columns other than text, quoted ones and empty ones too.
        comment: Lines that begin with this character are skipped.
        fixed_width: The columns of files of fixed width.
        loose_text: Numbers, booleans, arrays and objects of JSON are taken as their JSON text where the schema says
            text, as for a schema that allows several kinds; else they are an error.
        batch_rows: Rows of a batch, at most, in formats of columns.
        block_bytes: Bytes of text that become one batch, about, in formats of lines. Where batches end depends on it,
            and ids of batches depend on that: a run that repeats another needs the same.
    """

    compression: str = "auto"
    delimiter: str | None = None
    quote: str | None = '"'
    escape: str | None = None
    encoding: str = "utf-8"
    header: bool = True
    skip_rows: int = 0
    null_values: tuple[str, ...] = ("",)
    comment: str | None = None
    fixed_width: tuple[FixedColumn, ...] = ()
    loose_text: bool = False
    batch_rows: int = 1 << 17
    block_bytes: int = 4 << 20


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

    def read(self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """The file's rows, in order, in batches of exactly `schema`.

        Columns are found by name. One that the file lacks is null, one that `schema` lacks is not read. The same file
        gives the same batches on every run. Memory is bounded by the reader's budget, not by the file.

        Raises:
            EmptyObjectError: The object holds no byte.
            DataError: A value does not fit its type; names line or row group, and column. Batches before it are good.
        """
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A file format that is also written."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, *, compression: str | None = None
    ) -> int:
        """Write a file of batches of exactly `schema`, holding no more than a row group of them in memory.

        Args:
            compression: A codec that the format knows, or None for its default.

        Returns:
            The number of rows.

        Raises:
            ConfigError: The format does not know the codec.
            SchemaError: It cannot hold a column's type.
        """
        ...
