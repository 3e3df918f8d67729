"""Batches as they are read -> batches that Redshift takes, and the values that it has no place for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.to_json import json_texts
from singer_arrow.errors import DataError
from singer_arrow.load import convert
from singer_arrow.schema.arrow_schema import is_json, json_field
from target_redshift import columns
from target_redshift.columns import NUL_FAIL
from target_redshift.types import MAX_VARBYTE, MAX_VARCHAR, Column


def read_field(column: Column, given: pa.Field) -> pa.Field:
    """Return the field with which a column is read from batch files: the property's name, and a lossless type.

    Columns of SUPER are read as JSON text; times are read in the unit of SCHEMA (`given`), before they become
    microseconds.
    """
    if column.is_quoted:
        return pa.field(column.source, pa.string())
    if column.is_foreign:
        return pa.field(column.source, pa.null())
    if column.is_day:
        return pa.field(column.source, pa.date32())
    if column.kind == "SUPER" or (column.kind == "VARCHAR" and (is_json(given) or pt.is_nested(given.type))):
        return json_field(column.source)
    if pt.is_null(given.type) or not (pt.is_timestamp(given.type) or pt.is_time(given.type)):
        return pa.field(column.source, column.arrow)
    return pa.field(column.source, given.type)


class Conversion(convert.Conversion[Column]):
    __slots__ = ()

    @property
    def read_schema(self) -> pa.Schema:
        """Schema that files are read with; `Check` adds the column of long texts."""
        read = (c for c in self.columns if c.source not in self.constants and not c.holds_long_texts)
        return pa.schema([self.read_field(c) for c in read])

    def read_field(self, column: Column) -> pa.Field:
        return read_field(column, self.given.field(column.source))

    def array(self, array: pa.Array, column: Column) -> pa.Array:
        if column.is_quoted:
            return pc.if_else(array.is_valid(), json_texts(array, pa.field("", pa.string())), None)
        return convert.Conversion.array(self, array, column)


MAX_JSON = 4 << 20
"""Bytes of a row of JSON Lines that COPY takes, so also of a value."""
MAX_BASE64 = MAX_VARCHAR // 4 * 3
"""Bytes of a binary value that text formats have room for, in base64 that is staged as text."""
_NUL_HINT = "Remove it in the tap, or set nul_text to replace or remove"
_SHORTEN = "Shorten it or leave the column out in the tap"


class NulError(DataError):
    """Text holds a NUL."""

    code = "nul"


class LongTextError(DataError):
    """Text is too long for its column."""

    code = "long-text"


class ConvertibleTextError(LongTextError):
    """Text is too long for its column, and conversion of its file can keep it: among the long texts, or as JSON."""


@dataclass(frozen=True, slots=True)
class UnloadableValue:
    """A value that Redshift cannot hold: its row among those that were looked at, from 0, and what is wrong."""

    row: int
    reason: str
    hint: str
    kind: type[DataError] = DataError

    def error(self, url: str, column: str, before: int, file_format: str) -> DataError:
        """Return the error for a value of a file, with the number of rows before those that were checked."""
        number = before + self.row + 1
        if file_format == "jsonl":
            return self.kind(self.reason, url=url, line=number, column=column, hint=self.hint)
        return self.kind(self.reason, url=url, row=number, column=column, hint=self.hint)

    def place(self, column: str, before: int, file_format: str) -> str:
        """Return the place of the value in its file."""
        return f"{'line' if file_format == 'jsonl' else 'row'} {before + self.row + 1}, column {column!r}"


@dataclass(slots=True)
class ValueReport:
    """Values of an item that were changed: their number, and the file, row and column of the first."""

    count: int = 0
    url: str = ""
    place: str = ""

    def note(self, count: int, url: str, place: str) -> None:
        """Count values of a column of a file; `place` is that of the first."""
        if not self.count:
            self.url, self.place = url, place
        self.count += count


@dataclass(frozen=True, slots=True)
class Check:
    """Checks batches before the upload; its errors name file, row and column.

    VARCHAR columns get `varchar_max` bytes, unless they have more already. `found` counts the NULs that were replaced
    or removed, `rescued` the long texts that were moved to the column for them.
    """

    columns: Sequence[Column]
    file_format: str = "parquet"
    varchar_max: int = MAX_VARCHAR
    upload_format: str = "parquet"
    nul_text: str = NUL_FAIL
    found: ValueReport = field(default_factory=ValueReport)
    rescued: ValueReport = field(default_factory=ValueReport)

    def __call__(self, batch: pa.RecordBatch, url: str, before: int, is_trial: bool = False) -> pa.RecordBatch:
        """Convert a batch, as it was read after `before` rows of its file, to one that Redshift takes."""
        rescues = any(c.holds_long_texts for c in self.columns)
        limits = {c.source: (c, most) for c in self.columns if (most := limit(c, self.varchar_max, self.upload_format))}
        fit, long, notes = batch, dict[Column, pa.Array](), list[tuple[ValueReport, int, str]]()
        for index, (name, array) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            if name not in limits:
                continue
            column, most = limits[name]
            is_json = holds_json(column)
            bad = first_unloadable(array, most, is_json=is_json)
            if bad and bad.kind is NulError and self.nul_text != NUL_FAIL:
                count = columns.nul_count(array, is_json=is_json)
                notes.append((self.found, count, bad.place(name, before, self.file_format)))
                without = columns.without_nuls(array, self.nul_text, is_json=is_json)
                fit = fit.set_column(index, batch.schema.field(index), without)
                bad = first_unloadable(without, most, is_json=is_json)
            if bad and bad.kind is LongTextError and column.is_rescued:
                short, long[column] = columns.split_long_texts(fit.column(index), most)
                fit = fit.set_column(index, fit.schema.field(index), short)
                count = len(short) - long[column].null_count
                notes.append((self.rescued, count, bad.place(name, before, self.file_format)))
                continue
            if bad:
                if rescues and bad.kind is LongTextError and column.kind == "VARCHAR":  # although others are rescued
                    why = "A key, or a column that must not be null, is not rescued; shorten it in the tap"
                    bad = replace(bad, hint=why)
                raise bad.error(url, name, before, self.file_format)
        if rescues:
            texts = columns.long_texts_as_json(batch.num_rows, {c.name: a for c, a in long.items()})
            for row in pc.indices_nonzero(texts.is_valid()).to_pylist():
                if (size := columns.json_bytes(fit, row, texts[row].as_py())) > MAX_JSON:
                    reason = f"the row has {size:,} bytes with its long texts, and COPY takes {MAX_JSON:,}"
                    at = next(c.source for c, a in long.items() if a[row].is_valid)
                    raise UnloadableValue(row, reason, _SHORTEN).error(url, at, before, self.file_format)
            fit = fit.append_column(columns.LONG_TEXTS_COLUMN, texts)
        for report, count, place in () if is_trial else notes:
            report.note(count, url, place)
        return fit


def holds_json(column: Column) -> bool:
    """Return whether a column is read as JSON text."""
    return column.kind == "SUPER" and not column.is_quoted


def limit(column: Column, varchar_max: int = MAX_VARCHAR, upload_format: str = "parquet") -> int | None:
    """Return the most bytes that a value of the column may have; None if it is of another kind.

    JSON that is too long to be staged as text goes as JSON Lines (see `has_long_json`).
    """
    match column.kind:
        case "VARCHAR":
            return max(column.length or 0, varchar_max)
        case "SUPER":
            return MAX_VARCHAR if upload_format == "csv" else MAX_JSON
        case "VARBYTE":
            most = column.length or MAX_VARBYTE
            return most if upload_format == "parquet" else min(most, MAX_BASE64)
    return None


def has_long_json(batch: pa.RecordBatch) -> bool:
    """Return whether converted rows hold JSON that is too long to be staged as text."""
    texts = (a for f, a in zip(batch.schema, batch.columns, strict=True) if is_json(f))
    return any((pc.max(pc.binary_length(a)).as_py() or 0) > MAX_VARCHAR for a in texts)


def first_unloadable(array: pa.Array, most: int, *, is_json: bool = False) -> UnloadableValue | None:
    """Return the first value that is longer than `most` bytes, or text that is no UTF-8 or holds a NUL."""
    is_text = pa.types.is_string(array.type)
    if is_text and (row := _not_utf8(array)) is not None:
        return UnloadableValue(row, "the text is no UTF-8", "Correct it in the tap, or read the column as binary")
    if is_text and (row := columns.first_nul(array, is_json=is_json)) is not None:
        return UnloadableValue(row, "the text holds a NUL character, which Redshift does not take", _NUL_HINT, NulError)
    lengths = pc.binary_length(array)
    if (pc.max(lengths).as_py() or 0) > most:
        row = pc.index(pc.greater(lengths, most), True).as_py()
        reason = f"has {lengths[row].as_py():,} bytes, and Redshift's column takes {most:,}"
        if not is_text:
            return UnloadableValue(row, f"the value {reason}", _SHORTEN)
        other = "set long_text: rescue" if most >= MAX_VARCHAR else "raise varchar_max"
        hint = _SHORTEN if is_json or most > MAX_VARCHAR else f"{_SHORTEN}, or {other}"
        return UnloadableValue(row, f"the text {reason}", hint, LongTextError)
    return None


def _not_utf8(array: pa.Array) -> int | None:
    """Return the row of the first text that is no UTF-8, which Parquet files may hold; None if there is none."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(array.view(pa.binary())):
            try:
                (value.as_py() or b"").decode()
            except UnicodeDecodeError:
                return row
    return None
