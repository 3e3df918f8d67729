"""How a file is read, where reading is, and what it leaves out."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from singer_arrow.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


# How the files of a stream are read: `ReadOptions`.

RESCUED = "_sdc_rescued"
"""Column of JSON text with the values of a row that do not fit the schema."""


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """Position of a column in a file of fixed width: `width` characters from character `start`, counted from 1."""

    name: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading files; a format ignores those that do not apply to it.

    Attributes:
        compression: A name in `compression.codecs.CODECS` or an archive type; `auto` detects codecs by the first bytes
            of a file and archives by its name.
        delimiter: ASCII character between fields. Default: a tab in `.tsv` and `.tab` files, `|` in `.psv` files,
            otherwise detected from the head of each file (comma, semicolon, tab or `|`).
        quote: Character around quoted fields, doubled within them. None or empty: fields are never quoted.
        escape: Character that makes the next one literal, inside and outside quoted fields.
        encoding: Name of a Python codec; with a Unicode encoding, a UTF-16 or UTF-32 byte order mark has priority.
        header: Whether the first line holds the column names; without a header they are `column_1`, `column_2`, ...
            `auto`: it does, unless one of its fields is a number, a date or a boolean.
        skip_rows: Number of lines before the header, or before the data if there is no header.
        null_values: Unquoted fields that mean null; in columns that are not text, quoted and empty fields too.
        comment: First character of lines that are skipped.
        date_formats: `strftime` formats of dates in text files, tried in order after ISO 8601.
        timestamp_formats: `strftime` formats of dates with a time, tried in order after ISO 8601.
        decimal_point: Character between the integer and the fraction of numbers in text files.
        thousands_separator: Optional character between groups of three digits.
        true_values: Texts for true besides `true` in any case. `1` and `0` count only if neither list is given.
        false_values: Texts for false besides `false` in any case.
        type_tolerance: Share of a column's sampled values (0 to 1) that may be of another type than the column. With 0
            a single value makes the column text.
        fixed_width: Columns of files of fixed width.
        sheet: Name or number (from 1) of a workbook's sheet. Default: the first.
        loose_text: Accept JSON numbers, booleans, arrays and objects as JSON text in text columns, as for a schema that
            allows several types. Otherwise they do not fit.
        rounds_decimals: Round decimals with a fraction in float columns of columnar files, as for a JSON Schema of
            `number`. Otherwise only numbers that a float represents exactly fit.
        cuts_digits: Cut off digits beyond microseconds of columnar files where the schema has microseconds, with a
            warning, as in text. Otherwise such values do not fit.
        on_bad_row: Policy for rows that cannot be read or hold a value that does not fit its column: `fail` raises
            DataError, `skip` drops the row, `dead_letter` drops it and passes it to `ReadProgress.on_skip`, `rescue`
            keeps it and moves those values to `RESCUED`.
        on_drift: Policy for columns that the schema lacks and for files with other column types: `ignore` reads the
            columns of the schema only, `count` does too and counts what JSON has beside them in
            `ReadProgress.left_out`, `raise` raises DriftError, `rescue` moves such values to `RESCUED`.
        known_columns: Columns that are not drift although the schema lacks them. None: no column and no object member
            is ever reported as new.
        excluded_members: Paths of object members (names joined by dots, through lists and maps) that are neither read
            nor reported as drift nor rescued, unless the schema has them.
        declared_columns: Columns with a type set by the user. A value that does not fit one of them is a bad row, never
            drift.
        json_output: Treat dates outside the years 1 to 9999 as values that do not fit, because the rows are written as
            JSON.
        needs_end_mark: Refuse Arrow streams without an end mark, which may have been cut off. Files have one always.
        batch_rows: Maximum number of rows of a batch in columnar formats.
        block_bytes: Approximate bytes of text per batch in line formats. Batch boundaries, and so batch ids, depend on
            it: a run that repeats another one needs the same value.
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
    cuts_digits: bool = False
    on_bad_row: str = "fail"
    on_drift: str = "ignore"
    known_columns: frozenset[str] | None = None
    excluded_members: frozenset[str] = frozenset()
    declared_columns: frozenset[str] = frozenset()
    json_output: bool = False
    needs_end_mark: bool = False
    batch_rows: int = 1 << 17
    block_bytes: int = 4 << 20

    @property
    def rescues(self) -> bool:
        """Whether reading fills `RESCUED`; otherwise a column of that name is like any other."""
        return "rescue" in (self.on_bad_row, self.on_drift)


# Progress of reading one file, and points to resume from: `ReadProgress`, `ResumePoint`.

logger = logging.getLogger(__name__)
MAX_LOGGED = 10
"""Number of bad rows of a file that are logged one by one."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A point between two rows of a file from which reading can resume.

    The tap writes these fields into STATE.

    Attributes:
        rows: Number of rows yielded before the point.
        at: Text formats: bytes before the point, decompressed and in UTF-8. Columnar formats: the part of the file
            that holds the point, which is the number of a row group (Parquet) or record batch (Arrow), the first byte
            of a group of blocks (Avro), or 0 (ORC).
        lines: Text formats: lines before the point. Columnar formats: rows of the part before the point, including
            skipped ones.
    """

    rows: int = 0
    at: int = 0
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that was dropped because it could not be read.

    Attributes:
        position: Line number (text formats) or row number (columnar formats) in the file, from 1.
        column: Column with the bad value, if the error concerns a single column.
        reason: Description of the error.
        record: The row as JSON text, in other text formats with the text of each column; a row that cannot be parsed
            is an object with its text as `_raw`.
        file: The file, or the member of an archive.
    """

    position: int
    column: str | None
    reason: str
    record: str
    file: str | None = None


@dataclass(slots=True)
class ReadProgress:
    """Progress of reading one file; the reader updates it before it yields each batch.

    Attributes:
        resume_point: Initially the start of the reading, then the end of the last batch. None if reading cannot resume
            there, or if the format can only start at the beginning of a file.
        skipped: Number of rows dropped because they could not be read.
        rescued: Number of rows with values in `RESCUED`.
        on_skip: With `on_bad_row: dead_letter`, callback for each dropped row, in order, before the batch that follows
            it is yielded.
        rows_read: Number of the rows of a columnar file up to the end of the last batch, including dropped ones.
        warned: Columns whose truncated digits were logged.
        left_out: With `on_drift: count`, the number of values of JSON without a place in the schema, by path.
        file_schema: Schema of a columnar file; None until it is open.
        end: Exclusive end of the reading: a resume point of an earlier reading of the same file. None: end of the file.
    """

    resume_point: ResumePoint | None = ResumePoint()
    skipped: int = 0
    rescued: int = 0
    on_skip: Callable[[Skipped], None] | None = None
    rows_read: int = 0
    end: ResumePoint | None = None
    warned: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    file_schema: pa.Schema | None = None

    def has_reached_end(self, point: ResumePoint, url: object) -> bool:
        """Return whether a reading that is at `point` has reached `end`.

        Raises:
            DataError: `point` is beyond `end`, so no batch ends there.
        """
        if self.end is None or (point.at, point.lines) < (self.end.at, self.end.lines):
            return False
        if point.at > self.end.at:
            raise no_such_resume_point(self.end, url)
        return True

    def skip(self, error: DataError, rows: int = 1) -> None:
        """Count dropped rows; log the first ones of a file."""
        _log_row(self.skipped, "skipped", error)
        self.skipped += rows

    def rescue(self, error: DataError, rows: int = 1) -> None:
        """Count rows with values in `RESCUED`; log the first ones of a file."""
        _log_row(self.rescued, "rescued", error)
        self.rescued += rows


def _log_row(before: int, action: str, error: DataError) -> None:
    if before < MAX_LOGGED:
        more = "; further ones of this file are counted only" if before == MAX_LOGGED - 1 else ""
        logger.warning("A row was %s: %s%s", action, error, more)


def no_such_resume_point(point: ResumePoint, url: object) -> DataError:
    """Return the error for a resume point that a file does not have."""
    reason = f"no row begins at byte or part {point.at}, line or row {point.lines}, where an earlier run ended"
    hint = "Read it as the earlier run did (csv, format, compression, encoding), or from its start with a new plan_root"
    return DataError(reason, url=url, hint=hint)
