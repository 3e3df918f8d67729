"""What a file format is to the rest of the library."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from singer_arrow.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from singer_arrow.reading.objects import ObjectReader

logger = logging.getLogger(__name__)
RESCUED = "_sdc_rescued"
"""The column of JSON text that holds what of a row does not fit the schema."""
HELD_BYTES = 64 << 20
"""Bytes of rows in memory that a writer gathers before it encodes them, where it is not told."""
MOST_TOLD = 10
"""Bad rows of a file that are logged one by one."""


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
        compression: One of `compression.CODECS`, or `auto`: detected by the first bytes; archives by their names.
        delimiter: One ASCII character between fields; by default a tab in `.tsv` and `.tab` files, `|` in `.psv`, else
            what the head of each file tells: a comma, a semicolon, a tab or `|`.
        quote: The character around quoted fields, doubled within them; None or empty: fields are never quoted.
        escape: A character that makes the next one literal, in quoted fields and elsewhere.
        encoding: Any of Python's; where it is one of Unicode, a text that begins as one in UTF-16 or UTF-32 is read so.
        header: Whether the first line names the columns; if not they are `column_1`, `column_2`, ... With `auto` it
            does unless one of its fields is a number, a date or a boolean.
        skip_rows: Lines to skip before the header, or before the data if there is none.
        null_values: Unquoted fields that mean null; in columns other than text, quoted ones and empty ones too.
        comment: Lines that begin with this character are skipped.
        date_formats: How text files write dates, beside ISO 8601: as `strftime` has it, the first one that fits.
        timestamp_formats: How they write dates with a time.
        decimal_point: What is in their numbers before the fraction.
        thousands_separator: What may be in their numbers between groups of three digits.
        true_values: What they write for true, beside `true` in any case; `1` and `0` only if neither list is given.
        false_values: What they write for false, beside `false`.
        type_tolerance: Up to which share of the values of a column in a sample may be of another type than the column;
            0: one value makes it text.
        fixed_width: The columns of files of fixed width.
        sheet: Of a workbook: a name, or a number from 1; by default the first.
        loose_text: Numbers, booleans, arrays and objects of JSON are taken as their JSON text where the schema says
            text, as for a schema that allows several kinds; else they are an error.
        rounds_decimals: Decimals of files of columns become floats where the schema says floats, as a SCHEMA does that
            says no more than number; else only those whose digits a float keeps.
        on_bad_row: What happens to a row that cannot be read, or that holds a value which does not fit its column:
            `fail` raises DataError, `skip` leaves it out, `rescue` keeps the row with what does not fit in `RESCUED`.
        on_drift: What happens to columns that the schema lacks and to files whose columns are of other types: `ignore`
            reads what the schema wants and no more, `raise` raises DriftError, `rescue` puts what does not fit into
            `RESCUED`.
        known: Columns that are no news though the schema lacks them. None: no column is, and no member of an object.
        left_out: Members of objects that the schema lacks and that are no news, nor rescued with what they stand in:
            their paths, which are names joined by dots, also through lists and maps.
        fixed: Columns whose types are set: a value that does not fit such a column is never drift, whatever types files
            have, but as `on_bad_row` says, or rescued.
        in_json: Dates outside the years 1 to 9999, for which JSON has no text, do not fit.
        batch_rows: Rows of a batch, at most, in formats of columns.
        block_bytes: Bytes of text that become one batch, about, in formats of lines. Where batches end depends on it,
            and ids of batches depend on that: a run that repeats another needs the same.
    """

    compression: str = "auto"
    delimiter: str | None = None
    quote: str | None = '"'
    escape: str | None = None
    encoding: str = "utf-8"
    header: bool | Literal["auto"] = True
    skip_rows: int = 0
    null_values: tuple[str, ...] = ("",)
    comment: str | None = None
    date_formats: tuple[str, ...] = ()
    timestamp_formats: tuple[str, ...] = ()
    decimal_point: str = "."
    thousands_separator: str | None = None
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()
    type_tolerance: float = 0.0
    fixed_width: tuple[FixedColumn, ...] = ()
    sheet: str | int | None = None
    loose_text: bool = False
    rounds_decimals: bool = False
    on_bad_row: str = "fail"
    on_drift: str = "ignore"
    known: frozenset[str] | None = None
    left_out: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    in_json: bool = False
    batch_rows: int = 1 << 17
    block_bytes: int = 4 << 20

    @property
    def rescues(self) -> bool:
        """Whether `RESCUED` is filled by the reading; else it is a column like any other."""
        return "rescue" in (self.on_bad_row, self.on_drift)


@dataclass(frozen=True, slots=True)
class Place:
    """Between two rows of a file, where a reading can begin.

    Attributes:
        rows: Rows that were given before it.
        at: Bytes of text before it, decompressed and in UTF-8. In formats of columns where the part of the file begins
            that holds it: the number of its row group (Parquet) or record batch (Arrow), the first byte of its blocks
            (Avro); 0 in ORC.
        lines: Lines before it, in formats of text; in formats of columns rows of that part before it, given or not.
    """

    rows: int = 0
    at: int = 0
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that was left out because it could not be read.

    Attributes:
        position: Its number in the file, from 1: of its line in formats of text, else of the row.
        column: Where it is bad, if it is one column's fault.
        reason: Why.
        record: The row as JSON text; of a line that is no JSON, an object with the text as `_raw`.
    """

    position: int
    column: str | None
    reason: str
    record: str


@dataclass(slots=True)
class Course:
    """How far the reading of one file has come, and what it left out so far.

    Attributes:
        place: Before the reading, where it begins. After each batch, where that ends; None if no reading can begin
            there, and where the format cannot begin anywhere else than at the start.
        skipped: Rows that were left out because they could not be read.
        rescued: Rows of which something is in `RESCUED`.
        on_skip: Hears of each row of JSON or of columns that is left out, in order, before the batch that it would have
            been in is given; by default the first ones of a file are logged.
        seen: Rows of a file of columns that were read, given or not.
        end: Where the reading ends: a place that another reading of the same file gave; None at the end of the file.
    """

    place: Place | None = Place()
    skipped: int = 0
    rescued: int = 0
    on_skip: Callable[[Skipped], None] | None = None
    seen: int = 0
    end: Place | None = None

    def has_reached_end(self, place: Place, url: object) -> bool:
        """Whether a reading that has come to a place is at its end.

        Raises:
            DataError: No batch ends where the reading must end.
        """
        if self.end is None or (place.at, place.lines) < (self.end.at, self.end.lines):
            return False
        if (place.at, place.lines) > (self.end.at, self.end.lines):
            raise no_such_place(self.end, url)
        return True

    def skip(self, error: DataError, rows: int = 1) -> None:
        """Count rows that are left out; the first of a file are logged."""
        self._tell(self.skipped, "skipped", error)
        self.skipped += rows

    def rescue(self, error: DataError, rows: int = 1) -> None:
        """Count rows of which something is in `RESCUED`; the first of a file are logged."""
        self._tell(self.rescued, "rescued", error)
        self.rescued += rows

    @staticmethod
    def _tell(before: int, word: str, error: DataError) -> None:
        if before < MOST_TOLD:
            more = "; further ones of this file are counted only" if before == MOST_TOLD - 1 else ""
            logger.warning("A row was %s: %s%s", word, error, more)


def no_such_place(place: Place, url: object) -> DataError:
    """Return the error for a place that a file does not have."""
    reason = f"no row begins at byte or part {place.at}, line or row {place.lines}, where an earlier run ended"
    hint = "Read it as the earlier run did (csv, format, compression, encoding), or from its start with a new plan_root"
    return DataError(reason, url=url, hint=hint)


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
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, course: Course | None = None
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
