"""How the files of a stream are read: `ReadOptions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RESCUED = "_sdc_rescued"
"""The column of JSON text that holds what of a row does not fit the schema."""


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
