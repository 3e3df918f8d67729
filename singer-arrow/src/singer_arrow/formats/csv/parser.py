"""Parse one block of CSV into the rows of a schema.

Two passes. The first parses the block with the types of the schema, by Arrow's CSV reader. If that fails, the second
finds the rows that cannot be read, parses the others as text, and applies the policy for bad rows.
"""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc_csv
from pyarrow import types as pt

from singer_arrow.casting.from_text import BadValueError, is_supported
from singer_arrow.casting.whole_numbers import are_large
from singer_arrow.enforcement.row_policy import BlockResult, RowError
from singer_arrow.errors import SchemaError
from singer_arrow.formats.csv.dialect import Dialect, count_lines
from singer_arrow.formats.csv.malformed_rows import find_unread, wrong_fields
from singer_arrow.formats.range_scan import count_byte
from singer_arrow.formats.text.rows import MismatchError, TextRows
from singer_arrow.reading.ordered_map import ROW_LOCK

_TRUE, _FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
_ZONED = re.compile(rb"\d\d:\d\d(?::\d\d)?(?:[.]\d+)? ?(?:[Zz]|UTC|[+-]\d\d)")
_FIRST_BYTES = 4096  # searched for a timestamp with a zone, to spare a parse that would fail
_ERROR_COLUMN = re.compile(r"In CSV column #(\d+):")


class CsvBlockParser:
    """Parser of the blocks of one file; safe to call from several threads at once."""

    def __init__(self, rows: TextRows, dialect: Dialect) -> None:
        self._rows, self.dialect = rows, dialect
        self._names, self._selected = list(rows.names), rows.selected
        for field in self._selected:
            if not is_supported(field.type):
                msg = f"Column {field.name!r} is to be {field.type}, which CSV cannot hold; make it json or string"
                raise SchemaError(msg)
        self._texts = rows.rescued_columns
        spelling = rows.spelling
        as_text = (f.name for f in self._selected if not _is_read(f.type) or spelling.applies_to(f.type))
        self._as_text = {*self._texts, *as_text}
        self._timestamps = {f.name for f in self._selected if pt.is_timestamp(f.type)}
        self._is_searched = self._has_zones = False
        token = f"end of block {secrets.token_hex(8)}"  # a row that no file holds, with one field too many
        self._end = token + dialect.delimiter * len(self._names)

    def __call__(self, block: memoryview, *, ends_exactly: bool = False) -> BlockResult | None:
        """Return the rows of a block that begins with a record; None if it does not end where a record ends.

        If it is known to end with a record (`ends_exactly`), an open quote is an error of a row.
        """
        line_end = b"" if bytes(block[-1:]) in (b"\n", b"\r") else b"\n"
        text = self.dialect.without_comments(b"".join((block, line_end, self._end.encode(), b"\n")))
        lines = count_byte(text, b"\n") - 1 or text.count(b"\r")
        cause: Exception | None = None
        if is_utf8 := _is_utf8(text):
            invalid = _InvalidRows(self._end)
            try:
                table = self._parse(text, invalid, self._types)
                if invalid.ends and not invalid.fields:
                    result = self._rows.convert(_columns(table), table.num_rows)
                    return replace(result, bytes=len(block), lines=lines)
            except (pa.ArrowException, BadValueError) as error:
                cause = error
        data = text[: -len(self._end) - 1]
        del text
        with ROW_LOCK:
            examined = self._examine(data, cause, is_utf8=is_utf8, ends_exactly=ends_exactly)
            return examined and replace(examined, bytes=len(block), lines=lines)

    def _examine(
        self, data: bytes, cause: Exception | None, *, is_utf8: bool, ends_exactly: bool
    ) -> BlockResult | None:
        """Return the rows of a block that the first pass could not parse."""
        scan = self.dialect.scan(data)
        if scan.damage and not ends_exactly:
            return None
        names = [*(f.name for f in self._selected), *self._texts]
        unread, others = find_unread(data, scan, self.dialect, self._names, names, is_utf8=is_utf8)
        invalid = _InvalidRows(self._end)
        try:
            text = b"".join((others, self._end.encode(), b"\n"))
            table = self._parse(text, invalid, lambda: dict.fromkeys(names, pa.binary()))
        except pa.ArrowException as error:
            return BlockResult(failed=RowError(0, " ".join(str(error).split()), line=1))
        # Rows with a wrong number of fields, which Arrow's parser numbers without the unread ones.
        rows: Sequence[int] = range(len(scan.starts))
        rows = [row for row in rows if row not in unread] if unread else rows
        wrong = {rows[i]: fields for i, fields in invalid.fields.items()}
        numbers = [row for row in rows if row not in wrong] if wrong else rows
        for row, fields in wrong.items():
            start = scan.starts[row]
            raw = data[start : self.dialect.end(data, start)]
            unread[row] = RowError(row, wrong_fields(fields, len(self._names)), text=raw)
        if not invalid.ends or table.num_rows != len(numbers):
            return BlockResult(failed=RowError(0, f"the block cannot be parsed ({cause})", line=1))
        columns = _columns(table)
        texts = {name: columns[name].cast(pa.string()) for name in names}
        errors = [unread[row] for row in sorted(unread)]
        return self._rows.examine(texts, numbers, errors, lambda row: count_lines(data[: scan.starts[row]]) + 1)

    def together(self, texts: Sequence[bytes]) -> list[pa.RecordBatch] | None:
        """Return the rows of each of several texts of whole records; None unless all rows are good.

        A row of its own ends each text, so that a quote that is open at the end of one does not reach into the next.
        """
        mark = self._end.encode() + b"\n"
        parts = (part for text in texts for part in (text, b"" if text.endswith((b"\n", b"\r")) else b"\n", mark))
        joined, invalid = self.dialect.without_comments(b"".join(parts)), _InvalidRows(self._end)
        if not _is_utf8(joined):
            return None
        try:
            table = self._parse(joined, invalid, self._types)
            if invalid.fields or len(invalid.ends) != len(texts):
                return None
            result = self._rows.convert(_columns(table), table.num_rows)
        except (pa.ArrowException, BadValueError, MismatchError):
            return None
        batch, rejected = result.batch, result.skipped.count + result.rescued.count
        ends = [end - i for i, end in enumerate(invalid.ends)]
        if result.cuts or batch is None or batch.num_rows != ends[-1] or rejected:
            return None
        return [batch.slice(a, b - a) for a, b in pairwise([0, *ends])]

    def _types(self) -> dict[str, pa.DataType]:
        """Return each column's type for Arrow; text for columns whose values are not in Arrow's syntax."""
        zone = "UTC" if self._has_zones else None
        types = {f.name: pa.timestamp(f.type.unit, zone) if pt.is_timestamp(f.type) else f.type for f in self._selected}
        return types | dict.fromkeys((*self._as_text, *self._texts), pa.string())

    def _parse(self, text: bytes, invalid: _InvalidRows, types: Callable[[], dict[str, pa.DataType]]) -> pa.Table:
        """Parse a text by Arrow; columns that Arrow refuses are read as text from this block on.

        Arrow requires a zone in all timestamps of a column, or in none: both are tried before text.
        """
        read = pc_csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1)
        syntax = pc_csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote or False,
            double_quote=True,
            escape_char=self.dialect.escape or False,
            newlines_in_values=True,
            invalid_row_handler=invalid,
        )
        if not self._is_searched:
            self._has_zones = _ZONED.search(text, 0, _FIRST_BYTES) is not None
            self._is_searched = True
        while True:
            columns = types() or {self._names[0]: pa.binary()}  # rows are counted by it
            convert = pc_csv.ConvertOptions(
                check_utf8=False,  # `_is_utf8` did
                column_types=columns,
                include_columns=list(columns),
                null_values=self._rows.options.null_values,
                true_values=_TRUE,
                false_values=_FALSE,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            try:
                table = pc_csv.read_csv(pa.BufferReader(text), read, syntax, convert)
                floats = [f.name for f in table.schema if pt.is_floating(f.type)]
                if not (large := {name for name in floats if any(map(are_large, table[name].chunks))}):
                    return table
                self._as_text = self._as_text | large  # Arrow rounds whole numbers, and makes infinities
            except pa.ArrowInvalid as error:
                found = _ERROR_COLUMN.search(str(error))
                name = self._names[int(found[1])] if found else None
                if name is None or columns.get(name) in (None, pa.string(), pa.binary()):
                    raise
                if name not in self._timestamps:
                    self._as_text = self._as_text | {name}
                elif columns[name].tz is None:
                    self._has_zones = True
                else:
                    self._as_text = self._as_text | self._timestamps
            invalid.reset()


class _InvalidRows:
    """Callback of Arrow's parser for rows with a wrong number of fields: real ones, and the marks of the parser.

    `ends` are the numbers of rows before each mark, earlier marks included; `fields` the numbers of fields of the real
    ones, by the number of the row from 0, without empty lines.
    """

    def __init__(self, end: str) -> None:
        self._end = end
        self.reset()

    def reset(self) -> None:
        self.fields, self.ends = dict[int, int](), list[int]()

    def __call__(self, row: Any) -> str:
        if row.text == self._end:
            self.ends.append(row.number - 1)
        else:
            self.fields[row.number - 1] = row.actual_columns
        return "skip"  # Arrow parses on; the rows are examined afterwards


def _columns(table: pa.Table) -> dict[str, pa.Array]:
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for name, c in columns}


def _is_utf8(text: bytes) -> bool:
    ends = pa.py_buffer(struct.pack("=ii", 0, len(text)))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(text)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_read(t: pa.DataType) -> bool:
    """Return whether Arrow's CSV reader converts to the type as `from_text` does, as far as it takes a text."""
    return bool(
        pt.is_string(t)
        or pt.is_timestamp(t)
        or pt.is_integer(t)
        or pt.is_boolean(t)
        or pt.is_date32(t)
        or (pt.is_floating(t) and t.bit_width > 16)
        or pt.is_decimal128(t)
    )
