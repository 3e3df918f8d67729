"""How the files of a stream are read: `ReadOptions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
