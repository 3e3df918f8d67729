"""How a file is read, where reading is, and what it leaves out."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from singer_arrow.compression import CODECS
from singer_arrow.errors import DataError
from singer_arrow.settings import setting

if TYPE_CHECKING:
    import pyarrow as pa


# How the files of a stream are read: `ReadOptions`.

RESCUED = "_sdc_rescued"
"""Column of JSON text with the values of a row that do not fit the schema."""


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """Position of a column in a file of fixed width: `width` characters from character `start`, counted from 1."""

    name: str = setting("Name of the column.", required=True)
    start: int = setting("Its first character, counted from 1.", required=True, minimum=1)
    width: int = setting("Its number of characters.", required=True, minimum=1)


@dataclass(frozen=True, slots=True)
class Decryption:
    """With what encrypted objects are decrypted."""

    key: str | None = setting("Secret keys in ASCII armor, such as `${PGP_KEY}`.", secret=True)
    key_file: str | None = setting("Path of a file of secret keys.")
    passphrase: str | None = setting("Passphrase of the keys; without a key, of the objects.", secret=True)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading files; a format ignores those that do not apply to it. Settings of the tap come first.

    Attributes:
        delimiter: One ASCII character.
        header: Without one, columns are `column_1`, `column_2`, ... None: there is one, with a warning if it looks
            like a row.
        escape: Makes the next character literal, inside and outside quoted fields. None: a backslash escapes quotes in
            files that show it; empty: none does.
        null_values: In columns that are not text, quoted and empty fields mean null too.
        date_formats: `strftime` formats, tried in order after ISO 8601; so are those of timestamps.
        true_values: `1` and `0` are booleans only if neither this list nor that of `false_values` is given.
        loose_text: Accept JSON numbers, booleans, arrays and objects as JSON text in text columns, as for a schema that
            allows several types. Otherwise they do not fit.
        rounds_decimals: Round decimals with a fraction in float columns of columnar files, as for a JSON Schema of
            `number`. Otherwise only numbers that a float represents exactly fit.
        cuts_digits: Cut off digits beyond microseconds of columnar files where the schema has microseconds, with a
            warning, as in text. Otherwise such values do not fit.
        exact_columns: Columns, such as keys, in which such values do not fit, whether of text or of columnar files.
        on_bad_row: `fail` raises DataError; `skip` leaves the row out and counts it; `dead_letter` passes the row to
            `ReadProgress.on_skip`; `rescue` moves the values to `RESCUED`.
        on_drift: Policy for columns that the schema lacks and for files with other column types: `ignore` reads the
            columns of the schema only, `count` does too and counts what JSON has beside them in
            `ReadProgress.left_out`, `raise` raises DriftError, `rescue` moves such values to `RESCUED`.
        known_columns: Columns that are not drift although the schema lacks them. None: no column and no object member
            is ever reported as new.
        excluded_members: Paths of object members (names joined by dots, through lists and maps) that are neither read
            nor reported as drift nor rescued, unless the schema has them.
        declared_columns: Columns with a type set by the user. A value that does not fit one of them is a bad row, never
            drift.
        variant_columns: Columns of Parquet that are VARIANT although a file may have them as structs of `metadata` and
            `value`.
        json_output: Treat dates outside the years 1 to 9999 as values that do not fit, because the rows are written as
            JSON.
        needs_end_mark: Refuse Arrow streams without an end mark, which may have been cut off. Files have one always.
        batch_rows: Maximum number of rows of a batch in columnar formats.
        block_bytes: Approximate bytes of text per batch in line formats. Batch boundaries, and so batch ids, depend on
            it: a run that repeats another one needs the same value.
    """

    compression: str = setting(
        "Compression of the objects; `auto`: from their first bytes and names.", default="auto", enum=["auto", *CODECS]
    )
    delimiter: str | None = setting(
        "What separates the values of a line; by default a tab in `.tsv` and `.tab`, `|` in `.psv`, otherwise detected "
        "at the beginning of each file: a comma, a semicolon, a tab or `|`.",
        name="csv.delimiter",
        of_object="How CSV files are written. Options that make sense for lines, fixed-width files and workbooks "
        "apply to them too.",
    )
    quote: str | None = setting("Character that quotes a value. Empty: none.", default='"', name="csv.quote")
    escape: str | None = setting(
        "Character that makes the next one literal, such as a quote inside a quoted value. By default a backslash "
        "before quotes is detected at the beginning of each file, else quotes are doubled. Empty: none.",
        name="csv.escape",
    )
    encoding: str = setting(
        "Encoding of the text, by its Python name. A byte order mark of UTF-16 or UTF-32 takes precedence, and UTF-16 "
        "without a mark is recognised if the first two characters are ASCII.",
        default="utf-8",
        name="csv.encoding",
    )
    header: bool | Literal["auto"] | None = setting(
        "Whether the first line names the columns; else they are `column_1`, `column_2` and so on. `auto`: it does "
        "unless one of its values is a number, a date or a boolean. By default it does, with a warning where it looks "
        "like a row; `true` says that it does not.",
        name="csv.header",
        enum=[True, False, "auto"],
    )
    short_rows: str = setting(
        "What to do with a row that has fewer values than the header: `refuse` makes it a bad row, `fill` gives the "
        "columns at its end null.",
        default="refuse",
        name="csv.short_rows",
        enum=["refuse", "fill"],
    )
    skip_rows: int = setting("Lines to skip before the header.", default=0, name="csv.skip_rows", minimum=0)
    null_values: tuple[str, ...] = setting(
        "Texts that mean null when they are not quoted.", default=("",), name="csv.null_values"
    )
    comment: str | None = setting("Lines that begin with this are skipped.", name="csv.comment")
    date_formats: tuple[str, ...] = setting(
        "How CSV and fixed-width files write dates, beside `YYYY-MM-DD`: a list such as `%d/%m/%Y`, of which the first "
        "that fits a value counts. Without it, `31/12/2025` is text.",
        default=(),
    )
    timestamp_formats: tuple[str, ...] = setting(
        "How they write dates with a time, such as `%d/%m/%Y %H:%M:%S`.", default=()
    )
    decimal_point: str = setting("Character before the fraction of their numbers.", default=".")
    thousands_separator: str | None = setting(
        "Character between groups of three digits of their numbers; by default none."
    )
    true_values: tuple[str, ...] = setting(
        "What they write for true, in any case, beside `true`. `1` is then a number only.", default=()
    )
    false_values: tuple[str, ...] = setting("What they write for false, in any case, beside `false`.", default=())
    type_tolerance: float = setting(
        "Up to which share of the sampled values of a column may be of another type without changing the column's "
        "type, for CSV and fixed-width files: with 0.01, one value in a hundred. `on_bad_row` then decides about these "
        "values. By default one value makes the column text.",
        default=0,
        minimum=0,
        maximum=1,
    )
    fixed_width: tuple[FixedColumn, ...] = setting(
        "Positions of the columns on each line of fixed-width files, in characters.", default=()
    )
    sheet: str | int | None = setting(
        "Which sheet: its name, or its number from 1; by default the first.",
        name="excel.sheet",
        of_object="How workbooks are read.",
        minimum=1,
    )
    record_path: str | None = setting(
        "Path of the elements that are rows, from the root element: `feed/entry`; `*` is any element. By default the "
        "children of the root element, which must then have one name.",
        name="xml.record_path",
        of_object="How XML files are read.",
    )
    attribute_prefix: str = setting(
        "What the names of columns and members that are attributes begin with, such as `_`.",
        default="",
        name="xml.attribute_prefix",
    )
    decryption: Decryption | None = setting(
        "How objects are decrypted whose names end with `.gpg` or `.pgp` ([OpenPGP](reading-files.md#openpgp))."
    )
    on_bad_row: str = setting(
        "What to do with a row that cannot be read, or with a value that does not fit its column: `fail` ends the run "
        "and names file, line and column; `skip` leaves the row out and counts it; `rescue` keeps it, with what does "
        "not fit in the column `_sdc_rescued`; `dead_letter` leaves it out, and our targets put it with the reason "
        "into the table `_sdc_rejected`.",
        default="fail",
        enum=["fail", "skip", "rescue", "dead_letter"],
    )
    loose_text: bool = False
    rounds_decimals: bool = False
    cuts_digits: bool = False
    exact_columns: frozenset[str] = frozenset()
    on_drift: str = "ignore"
    known_columns: frozenset[str] | None = None
    excluded_members: frozenset[str] = frozenset()
    declared_columns: frozenset[str] = frozenset()
    variant_columns: frozenset[str] = frozenset()
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

    The tap writes these fields into its plan log: where objects were cut, and where ranges begin.

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

    `record` is the row as JSON, of text formats with the text of each column; a row that cannot be parsed is an object
    with its text as `_raw`.
    """

    position: int  # number of the line (text formats) or of the row in the file, from 1
    column: str | None  # with the bad value, if there is one
    reason: str
    record: str
    file: str | None = None  # or the member of an archive


@dataclass(slots=True)
class ReadProgress:
    """Progress of reading one file; the reader updates it before it yields each batch.

    `resume_point` is the start of the reading, then the end of the last batch; None if reading cannot resume there, or
    if the format can only start at the beginning of a file. The reading ends before `end`, a resume point of an earlier
    one; None: at the end of the file. With `on_bad_row: dead_letter`, `on_skip` is called for each dropped row, in
    order, before the batch that follows it is yielded.
    """

    resume_point: ResumePoint | None = ResumePoint()
    skipped: int = 0  # rows dropped because they could not be read
    rescued: int = 0  # rows with values in `RESCUED`
    on_skip: Callable[[Skipped], None] | None = None
    rows_read: int = 0  # of a columnar file, up to the end of the last batch, dropped ones included
    end: ResumePoint | None = None
    warned: set[str] = field(default_factory=set)  # columns whose truncated digits were logged
    left_out: Counter[str] = field(default_factory=Counter)  # with `on_drift: count`, values of JSON by path
    file_schema: pa.Schema | None = None  # of a columnar file, once it is open

    def has_reached_end(self, point: ResumePoint, url: object) -> bool:
        """Return whether a reading that is at `point` has reached `end`; DataError: it is beyond it."""
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
