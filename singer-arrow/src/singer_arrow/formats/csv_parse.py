"""One block of CSV -> one record batch, or what is wrong with it and on which line."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc_csv
from pyarrow import compute as pc
from pyarrow import types as pt

from singer_arrow.errors import DataError, SchemaError
from singer_arrow.formats.csv_dialect import Dialect, count_lines
from singer_arrow.formats.json_values import as_json
from singer_arrow.formats.values import BadValueError, describe, from_text, shorten, supported
from singer_arrow.schema import is_json

_TRUE, _FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
_ERROR_COLUMN = re.compile(r"In CSV column #(\d+):")
_ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1 or cp1252"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a block cannot be read; `line` counts from 1 within the block."""

    line: int
    reason: str
    column: str | None = None
    hint: str | None = None

    def error(self, url: object, lines_before: int) -> DataError:
        """The error to raise, given how many lines of the file stand before the block."""
        return DataError(self.reason, url=url, line=lines_before + self.line, column=self.column, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What became of a block of so many bytes and lines.

    `torn` says that the block does not end where a record ends: it was cut at the wrong place.
    """

    bytes: int
    lines: int
    batch: pa.RecordBatch | None = None
    problem: Problem | None = None
    torn: bool = False


class BlockParser:
    """Parses the blocks of one file; may be called from several threads at once.

    Args:
        names: The file's columns.
        schema: The columns that are wanted.
        dialect: The file's syntax.
        null_values: Fields that mean null.

    Raises:
        SchemaError: A column's type cannot stand in CSV.
    """

    def __init__(self, names: Sequence[str], schema: pa.Schema, dialect: Dialect, null_values: Sequence[str]) -> None:
        self._names, self._schema, self._dialect = list(names), schema, dialect
        self._wanted = [f for f in schema if f.name in set(names)]
        for field in self._wanted:
            if not supported(field.type):
                msg = f"Column {field.name!r} is to be {field.type}, which CSV cannot hold; make it json or string"
                raise SchemaError(msg)
        self._nulls = pa.array(sorted({*null_values, ""}), pa.string())
        self._null_values = list(null_values)
        self._as_text = {f.name for f in self._wanted if not _direct(f.type)}
        token = f"end of block {secrets.token_hex(8)}"  # a row that no file holds, and of one field too many
        self._end = token + dialect.delimiter * len(self._names)

    def __call__(self, block: memoryview) -> Parsed:
        """Parse a block of whole records."""
        line_end = b"" if bytes(block[-1:]) in (b"\n", b"\r") else b"\n"
        text = self._dialect.without_comments(b"".join((block, line_end, self._end.encode(), b"\n")))
        lines = text.count(b"\n") - 1 or text.count(b"\r")
        rows, error = _Rows(self._end), None
        try:
            batch = self._convert(self._parse(text, rows))
        except (pa.ArrowException, BadValueError) as caught:
            error = caught
        if error is None and rows.whole and rows.bad is None:
            return Parsed(len(block), lines, batch)
        return self._explain(len(block), text[: -len(self._end) - 1], lines, error)

    def _parse(self, text: bytes, rows: _Rows) -> pa.Table:
        """Parse with each column as its type, and those that do not fit Arrow's own syntax as text."""
        wanted = [f.name for f in self._wanted] or self._names[:1]
        read = pc_csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1)
        syntax = pc_csv.ParseOptions(
            delimiter=self._dialect.delimiter,
            quote_char=self._dialect.quote or False,
            double_quote=True,
            escape_char=self._dialect.escape or False,
            newlines_in_values=True,
            invalid_row_handler=rows,
        )
        while True:
            types = {f.name: pa.string() if f.name in self._as_text else f.type for f in self._wanted}
            convert = pc_csv.ConvertOptions(
                column_types=types or dict.fromkeys(wanted, pa.binary()),
                include_columns=wanted,
                null_values=self._null_values,
                true_values=_TRUE,
                false_values=_FALSE,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            try:
                return pc_csv.read_csv(pa.BufferReader(text), read, syntax, convert)
            except pa.ArrowInvalid as error:
                found = _ERROR_COLUMN.search(str(error))
                name = self._names[int(found[1])] if found else None
                if name is None or types.get(name) in (None, pa.string()):
                    raise
                self._as_text = self._as_text | {name}  # for this block and those after it
                rows.reset()

    def _convert(self, table: pa.Table) -> pa.RecordBatch:
        found = dict(zip(table.column_names, (c.combine_chunks() for c in table.columns), strict=True))
        columns = []
        for field in self._schema:
            column = found.get(field.name) if field in self._wanted else None
            if column is None:
                column = pa.nulls(table.num_rows, field.type)
            elif is_json(field):
                column = as_json(column)
            elif column.type != field.type:
                column = self._typed(column, field)
            columns.append(column)
        if not columns:
            return _rows_only(self._schema, table.num_rows)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _typed(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if pt.is_large_string(field.type):
            return column.cast(field.type)
        try:
            return from_text(pc.if_else(pc.is_in(column, self._nulls), None, column), field.type)
        except BadValueError as error:
            raise _BadColumnError(error, field) from None

    def _explain(self, size: int, data: bytes, lines: int, error: Exception | None) -> Parsed:
        def problem(line: int, reason: str, **more: Any) -> Parsed:
            return Parsed(size, lines, problem=Problem(line, reason, **more))

        torn = self._dialect.is_whole(data)
        if torn > 0:
            text = "a quote is opened in this row and never closed"
            unclosed = Problem(torn, text, hint="Check csv.quote and csv.escape")
            return Parsed(size, lines, problem=unclosed, torn=True)
        try:
            data.decode()
        except UnicodeDecodeError as bad:
            reason = f"invalid UTF-8 (byte 0x{data[bad.start]:02x})"
            return problem(count_lines(data[: bad.start]) + 1, reason, hint=_ENCODING_HINT)
        due = len(self._names)
        row = error.row if isinstance(error, BadValueError) else -1
        for number, record in enumerate(self._dialect.records(data)):
            fields = self._dialect.fields(data[record.start : record.end])
            if len(fields) != due:
                word = "field" if len(fields) == 1 else "fields"
                return problem(record.line, f"row has {len(fields)} {word}, header has {due}")
            if number == row and isinstance(error, _BadColumnError):
                return problem(record.line, str(error), column=error.column)
        return problem(1, " ".join(str(error).split()) if error else "the block cannot be parsed")


class _BadColumnError(BadValueError):
    def __init__(self, error: BadValueError, field: pa.Field) -> None:
        super().__init__(error.row, error.value, describe(field.type))
        self.column = field.name


class _Rows:
    """Told by Arrow's parser of rows with a wrong number of fields; the one at the end is ours."""

    def __init__(self, end: str) -> None:
        self._end = end
        self.reset()

    def reset(self) -> None:
        self.whole = False
        self.bad: str | None = None

    def __call__(self, row: Any) -> str:
        if row.text == self._end:
            self.whole = True
        elif self.bad is None:
            self.bad = shorten(row.text)
        return "skip"


def _direct(t: pa.DataType) -> bool:
    """Whether Arrow's CSV reader converts to the type by the rules of `values`."""
    return bool(
        pt.is_string(t)
        or pt.is_integer(t)
        or pt.is_boolean(t)
        or pt.is_date32(t)
        or (pt.is_floating(t) and t.bit_width > 16)
        or pt.is_decimal128(t)
    )


def _rows_only(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch without columns that still has rows."""
    struct = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(struct).replace_schema_metadata(schema.metadata)
