"""One block of CSV -> one record batch, or what is wrong with it and on which line."""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
from pyarrow import types as pt

from singer_arrow.casting.from_text import BadValueError, supported
from singer_arrow.errors import SchemaError
from singer_arrow.formats.csv.bad_rows import FoundRows, find_rows
from singer_arrow.formats.csv.dialect import Dialect
from singer_arrow.formats.text.byte_count import count
from singer_arrow.formats.text.rows import MisfitError, Outcome, Problem, TextRows
from singer_arrow.reading.ordered_map import ROW_BY_ROW

_TRUE, _FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
_ZONED = re.compile(rb"\d\d:\d\d(?::\d\d)?(?:[.]\d+)? ?(?:[Zz]|UTC|[+-]\d\d)")
_FIRST_BYTES = 4096  # in which a moment with a zone is looked for, to spare a parse that would fail
_ERROR_COLUMN = re.compile(r"In CSV column #(\d+):")


_NOTHING = Outcome()


@dataclass(frozen=True, slots=True)
class Parsed:
    """What became of a block of so many bytes and lines.

    `torn` says that the block does not end where a record ends: it was cut at the wrong place.
    """

    bytes: int
    lines: int
    outcome: Outcome = _NOTHING
    torn: bool = False


class BlockParser:
    """Parses the blocks of one file; may be called from several threads at once.

    Args:
        rows: How its rows become batches.
        dialect: The file's syntax.

    Raises:
        SchemaError: A column's type cannot stand in CSV.
    """

    def __init__(self, rows: TextRows, dialect: Dialect) -> None:
        self._rows, self.dialect = rows, dialect
        self._names, self._wanted = list(rows.names), rows.wanted
        for field in self._wanted:
            if not supported(field.type):
                msg = f"Column {field.name!r} is to be {field.type}, which CSV cannot hold; make it json or string"
                raise SchemaError(msg)
        self._texts = rows.rescued_columns
        spelling = rows.spelling
        as_text = (f.name for f in self._wanted if not _direct(f.type) or spelling.concerns(f.type))
        self._as_text = {*self._texts, *as_text}
        self._moments, self._looked = {f.name for f in self._wanted if pt.is_timestamp(f.type)}, False
        token = f"end of block {secrets.token_hex(8)}"  # a row that no file holds, and of one field too many
        self._end = token + dialect.delimiter * len(self._names)

    def __call__(self, block: memoryview, *, checked: bool = False) -> Parsed:
        """Parse a block of whole records.

        Args:
            block: The text.
            checked: That it was cut at the right place is known: what is torn in it is torn in the file.
        """
        line_end = b"" if bytes(block[-1:]) in (b"\n", b"\r") else b"\n"
        text = self.dialect.without_comments(b"".join((block, line_end, self._end.encode(), b"\n")))
        lines = count(text, b"\n") - 1 or text.count(b"\r")
        why: Exception | None = None
        if valid := _is_utf8(text):
            found = _Rows(self._end)
            try:
                table = self._parse(text, found, self._types)
                if found.whole and not found.wrong:
                    return Parsed(len(block), lines, self._rows.convert(_columns(table), table.num_rows))
            except (pa.ArrowException, BadValueError) as error:
                why = error
        data = text[: -len(self._end) - 1]
        del text
        with ROW_BY_ROW:
            scan = self.dialect.scan(data)
            if scan.damage and not checked:
                return Parsed(len(block), lines, torn=True)
            names = [*(f.name for f in self._wanted), *self._texts]
            rows = find_rows(data, scan, self.dialect, self._names, names, valid=valid)
            return Parsed(len(block), lines, self._sort_out(rows, names, why))

    def together(self, texts: Sequence[bytes]) -> list[pa.RecordBatch] | None:
        """The rows of each of some texts of whole records, if they are all as they should be.

        Behind each stands a row that is none of theirs, so a quote that is not closed in one does not go unnoticed.
        """
        mark = self._end.encode() + b"\n"
        parts = (part for text in texts for part in (text, b"" if text.endswith((b"\n", b"\r")) else b"\n", mark))
        joined, found = self.dialect.without_comments(b"".join(parts)), _Rows(self._end)
        if not _is_utf8(joined):
            return None
        try:
            table = self._parse(joined, found, self._types)
            if found.wrong or len(found.ends) != len(texts):
                return None
            outcome = self._rows.convert(_columns(table), table.num_rows)
        except (pa.ArrowException, BadValueError, MisfitError):
            return None
        batch = outcome.batch
        ends = [end - i for i, end in enumerate(found.ends)]
        if outcome.cuts or batch is None or batch.num_rows != ends[-1] or outcome.skipped.rows or outcome.rescued.rows:
            return None
        return [batch.slice(a, b - a) for a, b in pairwise([0, *ends])]

    def _types(self) -> dict[str, pa.DataType]:
        """Each column as its type, and those that do not fit Arrow's own syntax as text."""
        types = {f.name: pa.string() if f.name in self._as_text else _read_type(f.type) for f in self._wanted}
        return types | dict.fromkeys(self._texts, pa.string())

    def _sort_out(self, found: FoundRows, names: Sequence[str], why: Exception | None) -> Outcome:
        """Read the rows that can be read, whatever the others are."""
        told = _Rows(self._end)
        try:
            text = b"".join((found.text, self._end.encode(), b"\n"))
            table = self._parse(text, told, lambda: dict.fromkeys(names, pa.binary()))
        except pa.ArrowException as error:
            return Outcome(failed=Problem(1, " ".join(str(error).split())))
        rows, unread = found.without(told.wrong, self.dialect, len(self._names))
        if not told.whole or table.num_rows != len(rows):
            return Outcome(failed=Problem(1, f"the block cannot be parsed ({why})"))
        columns = _columns(table)
        texts = {name: columns[name].cast(pa.string()) for name in names}
        return self._rows.sort_out(texts, rows, unread, found.line)

    def _parse(self, text: bytes, rows: _Rows, types: Callable[[], dict[str, pa.DataType]]) -> pa.Table:
        read = pc_csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1)
        syntax = pc_csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote or False,
            double_quote=True,
            escape_char=self.dialect.escape or False,
            newlines_in_values=True,
            invalid_row_handler=rows,
        )
        if not self._looked and _ZONED.search(text, 0, _FIRST_BYTES):
            self._as_text = self._as_text | self._moments
        self._looked = True
        while True:
            wanted = types() or {self._names[0]: pa.binary()}  # rows are counted by it
            convert = pc_csv.ConvertOptions(
                check_utf8=False,  # it was checked
                column_types=wanted,
                include_columns=list(wanted),
                null_values=self._rows.options.null_values,
                true_values=_TRUE,
                false_values=_FALSE,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            try:
                table = pc_csv.read_csv(pa.BufferReader(text), read, syntax, convert)
                if not (infinite := _infinite(table)):
                    return table
                self._as_text = self._as_text | infinite  # where numbers are too large, Arrow makes them infinite
                rows.reset()
            except pa.ArrowInvalid as error:
                found = _ERROR_COLUMN.search(str(error))
                name = self._names[int(found[1])] if found else None
                if name is None or wanted.get(name) in (None, pa.string(), pa.binary()):
                    raise
                alike = self._moments if name in self._moments else {name}
                self._as_text = self._as_text | alike  # for this block and those after it
                rows.reset()


class _Rows:
    """Told by Arrow's parser of rows with a wrong number of fields; the one at the end is ours.

    Attributes:
        whole: That the end was found.
        ends: How many rows stand before each end that was found, earlier ends among them.
        wrong: How many fields each of the others has, by its number from 0, empty lines not counted.
    """

    def __init__(self, end: str) -> None:
        self._end = end
        self.reset()

    def reset(self) -> None:
        self.whole, self.wrong, self.ends = False, dict[int, int](), list[int]()

    def __call__(self, row: Any) -> str:
        if row.text == self._end:
            self.whole = True
            self.ends.append(row.number - 1)
        else:
            self.wrong[row.number - 1] = row.actual_columns
        return "skip"


def _infinite(table: pa.Table) -> frozenset[str]:
    """Columns of floats that hold an infinity."""
    floats = [f.name for f in table.schema if pt.is_floating(f.type)]
    return frozenset(
        name
        for name in floats
        if not isfinite(pc.sum(table[name]).as_py() or 0.0) and pc.any(pc.is_inf(table[name])).as_py()
    )


def _columns(table: pa.Table) -> dict[str, pa.Array]:
    return {name: _whole(c) for name, c in zip(table.column_names, table.columns, strict=True)}


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_utf8(text: bytes) -> bool:
    ends = pa.py_buffer(struct.pack("=ii", 0, len(text)))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(text)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _read_type(t: pa.DataType) -> pa.DataType:
    """What Arrow's CSV reader is to make of a type that is `_direct`; with a zone it would want one in every value."""
    return pa.timestamp(t.unit) if pt.is_timestamp(t) else t


def _direct(t: pa.DataType) -> bool:
    """Whether Arrow's CSV reader converts to the type by the rules of `values`, as far as it takes a text at all."""
    return bool(
        pt.is_string(t)
        or pt.is_timestamp(t)
        or pt.is_integer(t)
        or pt.is_boolean(t)
        or pt.is_date32(t)
        or (pt.is_floating(t) and t.bit_width > 16)
        or pt.is_decimal128(t)
    )
