"""Columns of text -> batches of a schema; types; the formats `lines` and `fixed_width`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from operator import attrgetter

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import JSON_DATE, json_fault
from singer_arrow.casting.from_text import (
    DIGITS_OF_ALL_FLOATS,
    TIMESTAMP,
    BadValueError,
    from_text,
    holds_text,
    shorten,
    type_in_words,
    type_of,
)
from singer_arrow.casting.spelling import Spelling, all_match, collect_truncated, set_column
from singer_arrow.casting.to_json import text_as_json
from singer_arrow.enforcement.bad_rows import (
    BlockResult,
    ParsedRows,
    RowError,
    UnknownKeys,
    apply_row_policy,
    batch_of,
    first_invalid,
    fit_text,
    mismatched_rows,
    nulled,
    row_numbers,
    rows_except,
    without_rescued,
)
from singer_arrow.enforcement.enforce import (
    may_be_inexact,
    raise_new_columns,
    type_name,
    unknown_columns,
    widened_field,
)
from singer_arrow.errors import ConfigError, DataError, DriftError
from singer_arrow.formats.base import FIRST_ROW
from singer_arrow.formats.blocks import FilePosition, deliver
from singer_arrow.naming import counted
from singer_arrow.read_options import RESCUED, FixedColumn, ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.chunks import MAX_RECORD_BYTES, LongRecordError, blocks, decoded
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import ROW_LOCK, map_ordered
from singer_arrow.schema.arrow_schema import is_json, merge_fields, setting_type

# Convert columns of text to batches of a schema; find the values that do not fit, and drift.
#
# Two passes. `convert` takes whole columns and succeeds if all values fit. `examine` finds each value that does not
# fit, and applies the policy for bad rows. `read` tries the first and falls back to the second.


_MOST_NAMED, _LONGEST_NAMES = 10, 200  # columns in a message, and characters of their names


class MismatchError(BadValueError):
    """A value does not fit its column."""

    def __init__(self, error: BadValueError, column: pa.Field) -> None:
        super().__init__(error.row, error.value, type_in_words(column.type))
        self.column = column.name


def nulls_of(options: ReadOptions) -> pa.Array:
    """Return the texts that mean null in columns other than text: those of the options, and empty ones."""
    return pa.array(sorted({*options.null_values, ""}), pa.string())


@dataclass(frozen=True)
class TextRows:
    """Conversion of the rows of one file with the columns `names` to the batches of a schema.

    `nulls` are the texts that mean null in columns other than text. In the integer columns `padded`, numbers with
    leading zeros are text; None: in all that `keeps_zeros`.
    """

    names: Sequence[str]
    schema: pa.Schema
    options: ReadOptions
    nulls: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    padded: frozenset[str] | None = None

    @cached_property
    def spelling(self) -> Spelling:
        """Spelling of dates, numbers and booleans in the file."""
        return Spelling.of(self.options)

    @cached_property
    def selected(self) -> list[pa.Field]:
        """Columns of the schema that are read from the file."""
        names = set(self.names)
        return [f for f in self._own if f.name in names]

    @cached_property
    def rescued_columns(self) -> list[str]:
        """Columns of the file that are rescued whole, as the schema lacks them."""
        new = unknown_columns(self.names, self.schema, self.options) if self.options.on_drift == "rescue" else []
        return [*new, *([RESCUED] if self.options.rescues and RESCUED in self.names else [])]

    @property
    def _is_foreign(self) -> bool:
        """Whether the file has none of the columns: its rows would be nulls."""
        return len(self._own) > 0 and not self.selected and not self.rescued_columns

    def _foreign(self) -> BlockResult:
        own, names = (", ".join(map(repr, list(some)[:_MOST_NAMED])) for some in (self._own.names, self.names))
        reason = f"it has none of the columns that are read ({own[:_LONGEST_NAMES]}), but {names[:_LONGEST_NAMES]}"
        hint = "Leave it out by path, or correct its header or the stream's columns"
        return BlockResult(failed=RowError(0, reason, hint=hint))

    @cached_property
    def _own(self) -> pa.Schema:
        return without_rescued(self.schema, self.options)

    def read(
        self,
        columns: Mapping[str, pa.Array],
        rows: int,
        numbers: Callable[[], Sequence[int]],
        unread: Sequence[RowError] = (),
    ) -> BlockResult:
        """Return the rows of a block in which each row is one line, from the texts of the rows that can be read.

        `numbers` returns the numbers of their lines, ascending; `unread` are the errors of the other rows, ascending.
        """
        if not unread:
            try:
                return self.convert(columns, rows)
            except MismatchError:
                pass  # `examine` finds all values that do not fit
        return self.examine(columns, numbers(), unread, int)

    def convert(self, columns: Mapping[str, pa.Array], rows: int) -> BlockResult:
        """Return the rows of columns that are of their types already, or of text.

        Raises MismatchError, which names the first value of a column that does not fit.
        """
        with collect_truncated(self.options.exact_columns) as cuts:
            made = {f.name: self._typed(columns[f.name], f) for f in self.selected}
        if self.options.json_output:
            for f in self.selected:
                if json_fault(made[f.name]):
                    raise MismatchError(BadValueError(0, None, ""), f)
        if rows and self._is_foreign:
            return self._foreign()
        found = ParsedRows(self._batch(made, rows), range(rows), unknown=self._unknown(columns, range(rows)))
        locate = partial(self._locate, line=lambda _: None)
        return replace(apply_row_policy(found, self.schema, self.options, locate), cuts=cuts)

    def examine(
        self,
        columns: Mapping[str, pa.Array],
        numbers: Sequence[int],
        unread: Sequence[RowError],
        line: Callable[[int], int],
    ) -> BlockResult:
        """Return the rows of a block in which some rows cannot be read or some values do not fit.

        `numbers` are those of the rows in `columns`, and `unread` the errors of the others, both ascending. `line`
        returns the line on which the row of a number begins, from 1.
        """

        def locate(error: RowError) -> RowError:
            found = self._locate(error, line)
            if self.options.on_bad_row != "dead_letter":
                return found
            # The row as a JSON object: the texts of its columns, or its own text if it cannot be parsed.
            if error.raw is None:
                record = {"_raw": error.text.rstrip(b"\r\n").decode(errors="backslashreplace")}
            else:
                at = bisect_left(numbers, error.row)
                record = {name: column[at].as_py() for name, column in columns.items()}
            return found._replace(text=msgspec.json.encode(record))

        if numbers and self._is_foreign:
            return self._foreign()
        with ROW_LOCK:
            with collect_truncated(self.options.exact_columns) as cuts:
                made, mismatches = self._fit(columns, numbers)
            errors = sorted([*mismatches, *unread], key=attrgetter("row")) if unread else mismatches
            batch = self._batch(made, len(numbers))
            parsed = ParsedRows(batch, numbers, errors, self._unknown(columns, numbers))
            result = apply_row_policy(parsed, self.schema, self.options, locate)
            firsts = dict[str | None, RowError]()
            for error in mismatches if self.options.on_drift == "raise" else ():
                firsts.setdefault(error.column, error)
            return replace(result, mismatches=[self._locate(error, line) for error in firsts.values()], cuts=cuts)

    def _fit(
        self, columns: Mapping[str, pa.Array], numbers: Sequence[int]
    ) -> tuple[dict[str, pa.Array], list[RowError]]:
        """Return the selected columns, null where a value does not fit, and these values, by row."""
        made, mismatches = dict[str, pa.Array](), list[RowError]()
        for f in self.selected:
            set_column(f.name)
            made[f.name], bad = fit_text(self._normalized(columns[f.name], f), f)
            if self.options.json_output and json_fault(made[f.name]):
                beyond = mismatched_rows(made[f.name], f, json_output=True)
                bad = pc.indices_nonzero(pc.is_in(row_numbers(len(made[f.name])), pa.concat_arrays([bad, beyond])))
                made[f.name] = nulled(made[f.name], bad.cast(pa.int64()))
            for row, value in zip(bad.to_pylist(), columns[f.name].take(bad).to_pylist(), strict=True):
                mismatches.append(RowError(numbers[row], "", f.name, raw=msgspec.json.encode(value)))
        mismatches.sort(key=attrgetter("row"))
        return made, mismatches

    def _locate(self, error: RowError, line: Callable[[int], int | None]) -> RowError:
        if error.column in self.rescued_columns:
            return error._replace(reason="the schema lacks the column")
        found = error if error.line is not None else error._replace(line=line(error.row))
        if error.raw is None:
            return found
        value, t = msgspec.json.decode(error.raw), self.schema.field(error.column).type
        try:
            from_text(pa.array([value], pa.string()), t)
        except BadValueError as exact:
            return found._replace(reason=str(exact))
        return found._replace(
            reason=f"{shorten(value)} is not {JSON_DATE if self.options.json_output else type_in_words(t)}"
        )

    def _typed(self, column: pa.Array, f: pa.Field) -> pa.Array:
        set_column(f.name)
        if is_json(f):
            return text_as_json(column)
        if column.type == f.type:
            return column
        if pt.is_large_string(f.type):
            return column.cast(f.type)
        if pt.is_timestamp(column.type):
            return column.cast(pa.timestamp(column.type.unit, "UTC")).cast(f.type)
        try:
            return from_text(self._normalized(column, f), f.type)
        except BadValueError as error:
            raise MismatchError(error, f) from None

    def _normalized(self, column: pa.Array, f: pa.Field) -> pa.Array:
        """Return the values in the spelling of `from_text`, null where they mean null."""
        if is_json(f):
            return column
        if len(self.nulls) and not (pt.is_string(f.type) or pt.is_large_string(f.type)):
            column = pc.if_else(pc.is_in(column, self.nulls), None, column)
        keeps_zeros = self.keeps_zeros(f) if self.padded is None else f.name in self.padded
        if keeps_zeros and pc.any(is_padded := pc.match_substring_regex(column, PADDED)).as_py():
            column = pc.if_else(is_padded, pc.binary_join_element_wise("text ", column, ""), column)  # no number
        return self.spelling.normalize(column, f.type)

    def keeps_zeros(self, f: pa.Field) -> bool:
        """Return whether leading zeros make a text of a value, as in inference; a declared column leaves them out."""
        return pt.is_integer(f.type) and f.name not in self.options.declared_columns

    def _unknown(self, columns: Mapping[str, pa.Array], numbers: Sequence[int]) -> Sequence[UnknownKeys]:
        """Return the values of the columns that are rescued whole, by row."""
        found = dict[int, dict[str, bytes]]()
        for name in self.rescued_columns:
            for number, value in zip(numbers, columns[name].to_pylist(), strict=True):
                if value is not None:
                    found.setdefault(number, {})[name] = msgspec.json.encode(value)
        return [UnknownKeys(number, found[number]) for number in sorted(found)]

    def _batch(self, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """Return the columns as a batch, with nulls in those that the file lacks."""
        made = [columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in self._own]
        return batch_of(made, self._own, rows)


SAMPLE = 1 << 20
"""Bytes at the beginning of a file from which the types of its columns are inferred, to detect drift."""


@dataclass(frozen=True)
class TextDrift:
    """Detection of drift in one file; `infer` returns the types of its columns, inferred from its beginning."""

    rows: TextRows
    infer: Callable[[], pa.Schema]

    def refuse(self, block: BlockResult, position: FilePosition) -> None:
        """Raise DriftError if the schema must change before a block is delivered."""
        has_rows = block.failed is not None or (block.batch is not None and block.batch.num_rows > 0)
        new = unknown_columns(self.rows.names, self.rows.schema, self.rows.options) if has_rows else ()
        raise_new_columns([self._found(pa.field(name, pa.null())) for name in new], position.url)
        drifted = [
            (mismatch, own, merged)
            for mismatch in block.mismatches
            if mismatch.column not in self.rows.options.declared_columns
            for own in [self.rows.schema.field(mismatch.column)]
            if (merged := widened_field(own, self._found(own), has_misfit=may_be_inexact(mismatch.raw))) is not None
        ]
        if drifted:
            reason = "; ".join(
                f"{mismatch.reason}, as the file has {own.name!r} as {type_name(self._found(own))}, "
                f"the schema as {type_name(own)}"
                for mismatch, own, _ in drifted
            )
            first = position.error(drifted[0][0])
            fields = [merged for *_, merged in drifted]
            raise DriftError(reason, fields, url=position.url, line=first.line, column=first.column)

    def _found(self, own: pa.Field) -> pa.Field:
        """Return a column with its type in the file; text if neither the file nor the schema has a value of it."""
        at = self._types.get_field_index(own.name)
        found = self._types.field(at) if at >= 0 else pa.field(own.name, pa.null())
        return found.with_type(pa.string()) if pt.is_null(found.type) and pt.is_null(own.type) else found

    @cached_property
    def _types(self) -> pa.Schema:
        return self.infer()


# Infer the names and the types of the columns of a text file. Pure.
#
# The type of a column is the first one in this list that fits all values (empty fields and null values are ignored):
#
# - boolean: `true` and `false` in any case; 0 and 1 are integers.
# - integer: digits without leading zeros or `+`: `007` is text. int64; decimal(38, 0) if one lies beyond.
# - float64: numbers with a point or an exponent, of at most 17 digits, as many as a float64 prints; with more, text.
#   Values may also be `NaN`, `inf` or `infinity`, in any case.
# - decimal(38, 9): such numbers, if a float64 does not hold all whole ones among them; text if that does not either.
# - date: YYYY-MM-DD.
# - timestamp in microseconds, UTC: ISO 8601, `T` or blank, with or without fraction and zone; dates may be among them.
# - text: everything else; with `type_tolerance`, the type of nearly all values.
#
# Other spellings of dates, numbers and booleans are options. A column without a value is of type null.

PADDED = r"^ *[+-]?0\d+ *$"
"""Whole numbers with leading zeros."""
_INTEGER = r"^ *-?(0|[1-9]\d*) *$"
_DIGITS_OF_FLOAT = 17
_NUMBER = r"^ *-?(0|[1-9]\d*)?(\.\d+|\.)?([eE][+-]?\d{1,3})? *$"
_SPECIAL = r"^ *(?i:nan|-?inf(inity)?) *$"
_HAS_DIGIT = r"^ *-?\.?\d"
_BOOLEAN = r"^ *(?i:true|false) *$"
_DATE = r"^ *\d{4}-\d\d-\d\d *$"


def present(column: pa.Array, nulls: pa.Array) -> pa.Array:
    """Return the values of a column that are not null and not among `nulls`."""
    return column.filter(pc.fill_null(pc.invert(pc.is_in(column, nulls)), False)).drop_null()


def infer_type(column: pa.Array, nulls: pa.Array, options: ReadOptions) -> pa.DataType:
    """Return the type of a column of text, null if all its values are null or among `nulls`."""
    values = present(column.unique(), nulls)  # far fewer, and of the same type
    if len(values) == 0:
        return pa.null()
    spelling = Spelling.of(options)
    for kind in _KINDS:
        if (t := kind.fits(spelling.normalize(values, kind.usual))) is not None:
            return t
    return _type_of_most(present(column, nulls), spelling, options.type_tolerance) or pa.string()


def _type_of_most(values: pa.Array, spelling: Spelling, tolerance: float) -> pa.DataType | None:
    """Return the type of most values, if the share of the others is within the tolerance."""
    best, most = None, len(values) * (1 - tolerance)
    for kind in _KINDS if tolerance else ():
        texts = spelling.normalize(values, kind.usual)
        likely = texts.filter(pc.match_substring_regex(pc.utf8_trim_whitespace(texts), kind.pattern))
        _, bad = fit_text(likely, pa.field("", kind.usual))
        good = likely.take(rows_except(len(likely), bad))
        if len(good) and len(good) >= most and (best is None or len(good) > most) and (t := kind.fits(good)):
            best, most = t, len(good)
    return best


_FEW = 0.1
_SHOWN = 3


def nearly_typed(name: str, values: pa.Array, options: ReadOptions) -> str:
    """Return why a column is text although nearly all of its values have another type; empty for other columns."""
    spelling = Spelling.of(options)
    t = _type_of_most(values, spelling, _FEW)
    if t is None or pt.is_string(t):
        return ""
    _, bad = fit_text(spelling.normalize(values, t), pa.field("", t))
    others, kind = values.take(bad), setting_type(pa.field("", t))
    texts = [shorten(text) for text in others.unique().to_pylist()]
    shown = ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")
    return (
        f"{len(others):,} of {counted(len(values), 'value')} cannot be read as {kind} ({shown}). To load it as "
        f"{kind}, add {name}: {kind} to the stream's 'schema', and such values to csv.null_values, or set on_bad_row"
    )


def _converts(values: pa.Array, t: pa.DataType) -> bool:
    try:
        from_text(values, t)
    except BadValueError:
        return False
    return True


def _integer(values: pa.Array) -> pa.DataType | None:
    if not all_match(values, _INTEGER):
        return None
    return next((t for t in (pa.int64(), pa.decimal128(38, 0)) if _converts(values, t)), None)


def _float(values: pa.Array) -> pa.DataType | None:
    numbers, values = values, values.filter(pc.invert(pc.match_substring_regex(values, _SPECIAL)))
    if not (len(values) and all_match(values, _NUMBER) and all_match(values, _HAS_DIGIT)):
        return None
    long = values.filter(pc.greater(pc.utf8_length(values), DIGITS_OF_ALL_FLOATS))
    if not all(holds_text(pa.float64(), v.strip().encode()) for v in long.to_pylist()):
        if len(numbers) > len(values) or pc.any(pc.match_substring_regex(values, "[eE]")).as_py():
            return pa.string()
        parts = pc.extract_regex(values, r"^[ \-]*0*(?P<before>[0-9]*)\.?(?P<after>[0-9]*?)0* *$")
        before, after = (pc.max(pc.utf8_length(parts.field(i))).as_py() for i in range(2))
        return type_of(before=before, after=after, is_held=False)
    digits = pc.replace_substring_regex(pc.replace_substring_regex(values, r"[eE].*", ""), r"^[ \-0.]*|[. ]", "")
    digits = pc.replace_substring_regex(digits, r"0+$", "")
    longest = pc.max(pc.utf8_length(digits)).as_py()
    return pa.float64() if longest <= _DIGITS_OF_FLOAT else None


def _timestamp(values: pa.Array) -> pa.DataType | None:
    t = pa.timestamp("us", "UTC")
    return t if all_match(pc.utf8_trim_whitespace(values), TIMESTAMP) and _converts(values, t) else None


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of values: its usual type, the pattern of its texts, and a function that returns the type of texts."""

    usual: pa.DataType
    pattern: str
    fits: Callable[[pa.Array], pa.DataType | None]


_KINDS = (
    _Kind(pa.bool_(), _BOOLEAN, lambda values: pa.bool_() if all_match(values, _BOOLEAN) else None),
    _Kind(pa.int64(), _INTEGER, _integer),
    _Kind(pa.float64(), f"{_NUMBER}|{_SPECIAL}", _float),
    _Kind(pa.date32(), _DATE, lambda v: pa.date32() if all_match(v, _DATE) and _converts(v, pa.date32()) else None),
    _Kind(pa.timestamp("us", "UTC"), TIMESTAMP, _timestamp),
)


def with_first_row(schema: pa.Schema, values: Sequence[str | None], options: ReadOptions) -> pa.Schema:
    """Return an inferred schema with `FIRST_ROW`, if the values that name its columns look like those of a row.

    They do if each has the type of its column, and one of these is not text. Nobody has said whether they are names.
    """
    if options.header is not None:
        return schema
    nulls, is_typed = nulls_of(options), False
    for value, column in zip(values, schema, strict=False):
        if pt.is_string(column.type) or pt.is_null(column.type):  # any value is text
            continue
        own = pa.field(column.name, infer_type(pa.array([value], pa.string()), nulls, options))
        if merge_fields(column, own).type != column.type:
            return schema
        is_typed |= not pt.is_null(own.type)
    shown = {FIRST_ROW: ", ".join(v or "" for v in values)}
    return schema.with_metadata({**(schema.metadata or {}), **shown}) if is_typed else schema


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to repetitions: `a`, `a_2`, `a_3`."""
    found = list[str]()
    for name in names:
        own, number = name, 1
        while own in found or (number > 1 and own in names):
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found


def numbered(names: Iterable[str | None]) -> list[str]:
    """Return the names, with `column_1`, `column_2` and so on for empty ones."""
    return [name or f"column_{i}" for i, name in enumerate(names, 1)]


# Read an object of text in which each row is a line.

_ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines of a block."""

    lines: pa.Array  # that are UTF-8
    numbers: Sequence[int]  # from 1
    bad: Sequence[RowError]  # errors of the other lines
    bytes: int
    count: int  # of all lines of the block, those that `skip_rows` leaves out included

    def after(self, skip: int) -> LineBlock:
        """Return the block without its first lines."""
        if not skip:
            return self
        first = next((i for i, number in enumerate(self.numbers) if number > skip), len(self.numbers))
        bad = [error for error in self.bad if error.row > skip]
        return replace(self, lines=self.lines.slice(first), numbers=self.numbers[first:], bad=bad)


def read_rows(
    reader: ObjectReader,
    rows: TextRows,
    progress: ReadProgress | None,
    parse: Callable[[LineBlock], BlockResult],
    infer: Callable[[], pa.Schema],
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an object of lines, as `Format.read`.

    `parse` returns the rows of a block, and `infer` the types of all columns from the beginning of the object.
    """
    progress = progress or ReadProgress()
    position = FilePosition(reader.url, progress.resume_point or ResumePoint())

    def results() -> Iterator[BlockResult]:
        for block in read_lines(reader, rows.options, position.resume_point):
            yield replace(parse(block), bytes=block.bytes, lines=block.count)

    drift = TextDrift(rows, infer).refuse if rows.options.on_drift == "raise" else None
    return deliver(results(), position, progress, drift)


def read_lines(reader: ObjectReader, options: ReadOptions, begin: ResumePoint) -> Iterator[LineBlock]:
    """Yield the lines of an object from a point on, without those that `skip_rows` leaves out."""
    text = decoded(reader, compression=options.compression, encoding=options.encoding, start=begin.at)
    cut = blocks(text, lambda data: data.rfind(b"\n") + 1, size=options.block_bytes)
    lines, skip = begin.lines, max(0, options.skip_rows - begin.lines)
    try:
        for block in map_ordered(cut, _split, reader.budget.decoded):
            yield block.after(min(skip, block.count))
            lines, skip = lines + block.count, max(0, skip - block.count)
    except LongRecordError:
        reason = f"the line is longer than {MAX_RECORD_BYTES >> 20} MiB"
        raise DataError(reason, url=reader.url, line=lines + 1) from None


def _split(block: memoryview) -> LineBlock:
    lines = bytes(block).replace(b"\r\n", b"\n").split(b"\n")
    if not lines[-1]:
        lines.pop()
    numbers: Sequence[int] = range(1, len(lines) + 1)
    try:
        return LineBlock(pa.array(lines, pa.binary()).cast(pa.string()), numbers, (), len(block), len(lines))
    except pa.ArrowInvalid:
        wrong = {n for n, line in zip(numbers, lines, strict=True) if first_invalid(line) is not None}
    bad = [RowError(n, "it is not UTF-8", hint=_ENCODING_HINT, text=lines[n - 1]) for n in sorted(wrong)]
    good = [n for n in numbers if n not in wrong]
    return LineBlock(pa.array([lines[n - 1] for n in good], pa.string()), good, bad, len(block), len(lines))


# Text in which each column has a fixed range of characters, set by the option `fixed_width`.
#
# Positions are characters, from 1. Blanks around a value are removed; a blank value is null, and so is one of
# `null_values`. A line that is too short has nulls at its end. Empty lines and lines that begin with `comment` are no
# rows. The options `csv.encoding`, `csv.skip_rows`, `csv.null_values` and `csv.comment` apply. Types are inferred as
# for CSV.

_SAMPLE_BLOCK = 256 << 10


class FixedWidthFormat:
    """The format `fixed_width`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        columns = _columns(options)
        few = replace(options, block_bytes=min(_SAMPLE_BLOCK, sample_bytes))
        found, lines = list[pa.RecordBatch](), 0
        for block in islice(read_lines(reader, few, ResumePoint()), max(1, sample_bytes // few.block_bytes)):
            texts, _, unread = _rows_of_lines(block, columns, options)
            if unread and options.on_bad_row == "fail":
                bad = unread[0]
                raise DataError(bad.reason, url=reader.url, line=lines + bad.row, hint=bad.hint)
            found.append(pa.RecordBatch.from_pydict(texts))
            lines += block.count
        if not found:
            return pa.schema([(c.name, pa.null()) for c in columns])
        sample = pa.Table.from_batches(found).combine_chunks()
        return pa.schema(
            [(c.name, infer_type(sample[c.name].combine_chunks(), pa.array([], pa.string()), options)) for c in columns]
        )

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        columns = _columns(options)
        rows = TextRows([c.name for c in columns], schema, options)
        needed = {*(f.name for f in rows.selected), *rows.rescued_columns}
        read = [c for c in columns if c.name in needed]

        def parse(block: LineBlock) -> BlockResult:
            texts, places, unread = _rows_of_lines(block, read, options)
            return rows.read(texts, len(places), lambda: [block.numbers[i] for i in places.to_pylist()], unread)

        types = partial(self.infer, reader, replace(options, on_bad_row="skip"), sample_bytes=SAMPLE)
        return read_rows(reader, rows, progress, parse, types)


def _columns(options: ReadOptions) -> Sequence[FixedColumn]:
    columns = options.fixed_width
    if not columns:
        msg = "The format fixed_width needs the stream's setting 'fixed_width': name, start and width of each column"
        raise ConfigError(msg)
    names = [c.name for c in columns]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise ConfigError(f"Setting 'fixed_width' names the column {twice!r} twice")
    if bad := next((c for c in columns if c.start < 1 or c.width < 1), None):
        raise ConfigError(f"Setting 'fixed_width': start and width of column {bad.name!r} must be at least 1")
    return columns


def _rows_of_lines(
    block: LineBlock, columns: Sequence[FixedColumn], options: ReadOptions
) -> tuple[dict[str, pa.Array], pa.Array, list[RowError]]:
    """Return the columns of the lines that are rows, the places of these lines in the block, and the bad ones."""
    are_rows = pc.not_equal(pc.utf8_trim_whitespace(block.lines), "")
    if options.comment:
        are_rows = pc.and_not(are_rows, pc.starts_with(block.lines, options.comment))
    at = pc.indices_nonzero(are_rows)
    rows = block.lines.take(at)
    nulls, cut = nulls_of(options), dict[str, pa.Array]()
    for column in columns:
        start = column.start - 1
        value = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(rows, start, start + column.width))
        cut[column.name] = pc.if_else(pc.is_in(value, nulls), pa.scalar(None, pa.string()), value)
    comment = options.comment.encode() if options.comment else None
    bad = [e for e in block.bad if comment is None or not e.text.startswith(comment)]
    return cut, at, bad


# Text without a format: each line is a row with one column of text, `line`.
#
# Lines end with LF or CRLF. An empty line is a row too; text after the last line break is a row if it is not empty. The
# options `csv.encoding` and `csv.skip_rows` apply.

COLUMN = "line"


class LinesFormat:
    """The format `lines`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        """Return the one column."""
        reader.head_bytes(1)  # an empty object has no schema
        return pa.schema([(COLUMN, pa.string())])

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        rows, infer = TextRows([COLUMN], schema, options), partial(self.infer, reader, options, sample_bytes=1)

        def parse(block: LineBlock) -> BlockResult:
            return rows.read({COLUMN: block.lines}, len(block.lines), lambda: block.numbers, block.bad)

        return read_rows(reader, rows, progress, parse, infer)
