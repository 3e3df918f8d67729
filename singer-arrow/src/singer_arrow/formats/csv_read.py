"""CSV: header, blocks, parsed blocks, batches, rows that cannot be read; types; small files joined."""

from __future__ import annotations

import json
import logging
import re
import secrets
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
from pyarrow import types as pt

from singer_arrow.casting.from_text import BadValueError, are_large, is_supported
from singer_arrow.casting.spelling import hint
from singer_arrow.compression import archive_of
from singer_arrow.enforcement.bad_rows import BlockResult, RowError, first_invalid, nulled
from singer_arrow.enforcement.enforce import unknown_columns
from singer_arrow.errors import DataError, SchemaError, SingerArrowError
from singer_arrow.formats.base import NEARLY_TYPED, RangeScan, count_byte, undivided
from singer_arrow.formats.blocks import FilePosition, deliver, until
from singer_arrow.formats.csv_dialect import (
    BACKSLASH,
    HEAD_BYTES,
    QUOTE_HINT,
    CsvHeader,
    Damage,
    Dialect,
    Scan,
    count_lines,
    csv_row_starts,
    endless_header,
    parse_header,
    peek_header,
    scan_csv,
    take_header,
)
from singer_arrow.formats.text import (
    PADDED,
    SAMPLE,
    MismatchError,
    TextDrift,
    TextRows,
    infer_type,
    nearly_typed,
    nulls_of,
    present,
    with_first_row,
)
from singer_arrow.naming import counted
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.chunks import (
    MAX_RECORD_BYTES,
    LongRecordError,
    blocks,
    concatenated,
    decoded,
    read_sample,
    text_offset,
    whole_text,
)
from singer_arrow.reading.objects import ObjectReader, Span
from singer_arrow.reading.parallel import ROW_LOCK, map_ordered

# Find the rows of a block of CSV that cannot be read. Pure.
#
# A quote that is never closed, or that is closed with text after it, makes unreadable the line on which it opens, and
# the lines of the same row before it. The next line begins a row again.

_UNCLOSED = "a quote is opened in this row and never closed"
_INVALID = "invalid UTF-8"
_ENCODING_HINT = "Set csv.encoding to the file's encoding, for instance latin-1 or cp1252"
_ODD_ESCAPE = (
    "it has a backslash before another character than a quote, and at the beginning of the file they escape quotes"
)
_ESCAPE_HINT = 'Set csv.escape: "\\" if it escapes any character, or correct the row'
_SHORT_HINT = "Set csv.short_rows to fill if what is missing at the end is null"


Edit = tuple[int, int, bytes]
"""Bytes of a block from a start to an end, and what takes their place."""


def find_unread(
    block: bytes,
    scan: Scan,
    dialect: Dialect,
    names: Sequence[str],
    selected: Container[str],
    *,
    is_utf8: bool,
    quote_hint: str = QUOTE_HINT,
    fills: bool = False,
) -> tuple[dict[int, RowError], list[Edit], dict[int, int]]:
    """Return the errors of rows with wrong quotes, odd escapes or invalid UTF-8, by row, and how to remove these rows.

    The block begins with a record, and comments are empty lines. Of the columns `names` those `selected` must be UTF-8.
    Of rows with invalid UTF-8 elsewhere, which Arrow's parser cannot report, it `fills` those with fewer fields; they
    are returned too, with their numbers of fields.
    """
    unread, removed = dict[int, RowError](), [(found.start, found.end, b"") for found in scan.damage.values()]
    short = dict[int, int]()
    for row, found in scan.damage.items():
        text, line = block[found.start : found.end], count_lines(block[: found.quote]) + 1
        unread[row] = RowError(row, _damage_in_words(block, found), hint=quote_hint, text=text, line=line)
    has_odd = dialect.has_odd_escape(block)
    if not is_utf8 or has_odd:
        required = [name in selected for name in names]
        for row, (start, following) in enumerate(pairwise([*scan.starts, len(block)])):
            if row in unread:
                continue
            end = dialect.end(block, start)
            raw = block[start:end]
            reason: str | None = None
            hint: str | None = None
            if has_odd and dialect.has_odd_escape(raw):
                reason, hint = _ODD_ESCAPE, _ESCAPE_HINT
            elif first_invalid(block[start:following]) is not None:
                reason = _invalid(raw, dialect, required, fills=fills)
                hint = _ENCODING_HINT if reason is not None and reason.startswith(_INVALID) else None
                if fills and reason is None and (fields := len(dialect.raw_fields(raw))) < len(names):
                    short[row] = fields
                    removed.append(fill(raw, start, len(names) - fields, dialect))
            if reason is not None:
                unread[row] = RowError(row, reason, hint=hint, text=raw)
                removed.append((start, end, b""))
    return unread, removed, short


def fill(row: bytes, start: int, fields: int, dialect: Dialect) -> Edit:
    """Return how empty fields are added to a row."""
    end = start + len(row.rstrip(b"\r\n"))
    return end, end, dialect.delimiter.encode() * fields


def edited(block: bytes, edits: Iterable[Edit]) -> bytes:
    """Return a text with parts of it replaced."""
    pieces, at = list[bytes](), 0
    for start, end, text in sorted(edits):
        pieces += (block[at:start], text)
        at = end
    return b"".join((*pieces, block[at:])) if pieces else block


def _damage_in_words(block: bytes, found: Damage) -> str:
    if found.closed is None:
        return _UNCLOSED
    below = count_lines(block[found.quote : found.closed])
    where = f" {counted(below, 'line')} below" if below else ""
    return f"a quote that opens on this line is closed{where}, and text follows the closing quote"


def wrong_fields(fields: int, due: int) -> str:
    """Return the reason of the error of a row with another number of fields than the header."""
    return f"row has {fields} {'field' if fields == 1 else 'fields'}, header has {due}"


def _invalid(raw: bytes, dialect: Dialect, required: Sequence[bool], *, fills: bool) -> str | None:
    """Return the error of a row that is not UTF-8; None if its invalid bytes are in columns that are not read."""
    fields = dialect.raw_fields(raw)
    if len(fields) > len(required) or (len(fields) < len(required) and not fills):
        return wrong_fields(len(fields), len(required))
    for field, is_required in zip(fields, required, strict=False):
        if is_required and (at := first_invalid(field)) is not None:
            return f"{_INVALID} (byte 0x{field[at]:02x})"
    return None


# Parse one block of CSV into the rows of a schema.
#
# Two passes. The first parses the block with the types of the schema, by Arrow's CSV reader. If that fails, the second
# finds the rows that cannot be read, parses the others as text, and applies the policy for bad rows.

_TRUE, _FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
_ZONED = re.compile(rb"\d\d:\d\d(?::\d\d)?(?:[.]\d+)? ?(?:[Zz]|UTC|[+-]\d\d)")
_FIRST_BYTES = 4096  # searched for a timestamp with a zone, to spare a parse that would fail
_ERROR_COLUMN = re.compile(r"In CSV column #(\d+):")


class CsvBlockParser:
    """Parser of the blocks of one file; safe to call from several threads at once."""

    def __init__(self, rows: TextRows, dialect: Dialect, *, as_text: Iterable[str] = ()) -> None:
        """Make the parser; Arrow reads the columns `as_text` as text, and `rows` converts them."""
        self._rows, self.dialect = rows, dialect
        self._names, self._selected = list(rows.names), rows.selected
        for field in self._selected:
            if not is_supported(field.type):
                msg = f"Column {field.name!r} is to be {field.type}, which CSV cannot hold; make it json or string"
                raise SchemaError(msg)
        self._texts = rows.rescued_columns
        spelling = rows.spelling
        others = (f.name for f in self._selected if not _is_read(f.type) or spelling.applies_to(f.type))
        self._as_text = {*self._texts, *others, *as_text}
        self._timestamps = {f.name for f in self._selected if pt.is_timestamp(f.type)}
        self._is_searched = self._has_zones = False
        self._fills = rows.options.short_rows == "fill"
        token = f"end of block {secrets.token_hex(8)}"  # a row that no file holds, with one field too many
        self._end = token + dialect.delimiter * len(self._names)

    def __call__(self, block: memoryview, *, ends_exactly: bool = False) -> BlockResult | None:
        """Return the rows of a block that begins with a record; None if it does not end where a record ends.

        If it is known to end with a record (`ends_exactly`), an open quote is an error of a row.
        """
        line_end = b"" if bytes(block[-1:]) in (b"\n", b"\r") else b"\n"
        text = self.dialect.without_comments(concatenated((block, line_end, self._end.encode(), b"\n")))
        lines = count_byte(text, b"\n") - 1 or bytes(text).count(b"\r")
        cause: Exception | None = None
        if (is_utf8 := _is_utf8(text)) and self._is_regular(text):
            invalid = _InvalidRows(self._end)
            try:
                table = self._parse(self._filled(text) if self._fills else text, invalid, self._types)
                if invalid.ends and not invalid.fields:
                    result = self._rows.convert(_columns(table), table.num_rows)
                    return replace(result, bytes=len(block), lines=lines)
            except (pa.ArrowException, BadValueError) as error:
                cause = error
        data = bytes(text)[: -len(self._end) - 1]
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
        names, count = [*(f.name for f in self._selected), *self._texts], len(self._names)
        hint = self._quote_hint(data) if scan.damage else QUOTE_HINT
        unread, edits, short = find_unread(  # short: numbers of fields of rows that are filled
            data, scan, self.dialect, self._names, names, is_utf8=is_utf8, quote_hint=hint, fills=self._fills
        )
        rows: Sequence[int] = range(len(scan.starts))
        rows = [row for row in rows if row not in unread] if unread else rows
        invalid = _InvalidRows(self._end)
        try:
            table = self._parse_edited(data, edits, invalid, names)
            # Rows with a wrong number of fields, which Arrow's parser numbers without the unread ones.
            wrong = {rows[i]: fields for i, fields in invalid.fields.items()}
            if self._fills and (more := {row: fields for row, fields in wrong.items() if fields < count}):
                for row, fields in more.items():
                    start = scan.starts[row]
                    edits.append(fill(self._row(data, start), start, count - fields, self.dialect))
                short |= more
                table = self._parse_edited(data, edits, invalid, names)
                wrong = {rows[i]: fields for i, fields in invalid.fields.items()}
        except pa.ArrowException as error:
            return BlockResult(failed=RowError(0, " ".join(str(error).split()), line=1))
        numbers = [row for row in rows if row not in wrong] if wrong else rows
        for row, fields in wrong.items():
            raw, hint = self._row(data, scan.starts[row]), _SHORT_HINT if fields < count else ""
            unread[row] = RowError(row, wrong_fields(fields, count), hint=hint or None, text=raw)
        if not invalid.ends or table.num_rows != len(numbers):
            return BlockResult(failed=RowError(0, f"the block cannot be parsed ({cause})", line=1))
        columns = _columns(table)
        texts = {name: columns[name].cast(pa.string()) for name in names}
        if short and "" not in self._rows.options.null_values:
            texts = self._without_filled(texts, short, numbers)
        errors = [unread[row] for row in sorted(unread)]
        return self._rows.examine(texts, numbers, errors, lambda row: count_lines(data[: scan.starts[row]]) + 1)

    def _is_regular(self, text: bytes | pa.Buffer) -> bool:
        """Return whether Arrow's parser reads a text as it is meant, but for numbers of fields and values."""
        return self.dialect.is_regular(text) and not (
            self.dialect.is_detected and self.dialect.has_odd_escape(bytes(text))
        )

    def _filled(self, text: bytes | pa.Buffer) -> bytes | pa.Buffer:
        """Return a text with its short rows filled, if each line is a row and an empty field is null; else the text."""
        data, special = bytes(text), (self.dialect.quote, self.dialect.escape, "\r")
        if "" not in self._rows.options.null_values or any(c and c.encode() in data for c in special):
            return text
        lines = pa.array(data.split(b"\n"), pa.binary())
        missing = pc.subtract(len(self._names) - 1, pc.count_substring(lines, self.dialect.delimiter))
        missing = pc.if_else(pc.equal(pc.binary_length(lines), 0), 0, pc.max_element_wise(missing, 0))
        if not pc.any(pc.greater(missing, 0)).as_py():
            return text
        added = pc.binary_repeat(pa.scalar(self.dialect.delimiter.encode()), missing)
        return b"\n".join(pc.binary_join_element_wise(lines, added, b"").to_pylist())

    def _row(self, data: bytes, start: int) -> bytes:
        """Return the row that begins there."""
        return data[start : self.dialect.end(data, start)]

    def _parse_edited(
        self, data: bytes, edits: Iterable[Edit], invalid: _InvalidRows, names: Sequence[str]
    ) -> pa.Table:
        """Parse a text that was edited, as bytes."""
        invalid.reset()
        text = b"".join((edited(data, edits), self._end.encode(), b"\n"))
        return self._parse(text, invalid, lambda: dict.fromkeys(names, pa.binary()))

    def _without_filled(
        self, texts: Mapping[str, pa.Array], short: Mapping[int, int], numbers: Sequence[int]
    ) -> dict[str, pa.Array]:
        """Return columns with null in the fields that rows do not have, where an empty text is none."""
        places = {number: i for i, number in enumerate(numbers)}
        found = dict(texts)
        for at, name in enumerate(self._names):
            if name in found and (lacking := [places[row] for row, fields in short.items() if fields <= at]):
                found[name] = nulled(found[name], pa.array(lacking, pa.int64()))
        return found

    def _quote_hint(self, data: bytes) -> str:
        """Return what to do about wrong quotes: the setting with which each row of a text has its fields."""
        others = [(replace(self.dialect, quote=None), 'csv.quote: ""')]
        if self.dialect.escape is None and BACKSLASH not in (self.dialect.delimiter, self.dialect.comment):
            others.insert(0, (self.dialect.with_escape(), f'csv.escape: "{BACKSLASH * 2}"'))
        text = b"".join((data, self._end.encode(), b"\n"))
        for dialect, setting in others:
            parser, invalid = CsvBlockParser(self._rows, dialect), _InvalidRows(self._end)
            if not parser._is_regular(text):
                continue
            try:
                parser._parse(text, invalid, lambda: {self._names[0]: pa.binary()})
            except pa.ArrowException:
                continue
            if invalid.ends and not invalid.fields:
                return f"{QUOTE_HINT}; with {setting} each of these rows has {counted(len(self._names), 'field')}"
        return QUOTE_HINT

    def together(self, texts: Sequence[bytes]) -> list[pa.RecordBatch] | None:
        """Return the rows of each of several texts of whole records; None unless all rows are good.

        A row of its own ends each text, so that a quote that is open at the end of one does not reach into the next.
        """
        mark = self._end.encode() + b"\n"
        parts = (part for text in texts for part in (text, b"" if text.endswith((b"\n", b"\r")) else b"\n", mark))
        joined, invalid = self.dialect.without_comments(b"".join(parts)), _InvalidRows(self._end)
        if not (_is_utf8(joined) and self._is_regular(joined)):
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


# Whole numbers with leading zeros, such as 007, which Arrow reads as 7.
#
# Looking at each value would cost as much as parsing it. So the first rows of a file decide, wherever a reading of it
# begins: where an integer column has such a number there, the whole file is read by the exact rules, by which it is
# text.


def padded_columns(rows: TextRows, dialect: Dialect, first_rows: bytes, url: object) -> frozenset[str]:
    """Return the integer columns that have numbers with leading zeros in the first rows; warn of declared ones."""
    integers = [f for f in rows.selected if pt.is_integer(f.type)]
    if not integers or not _padded(dialect.delimiter).search(first_rows):
        return frozenset()
    whole = first_rows[: dialect.exact_cut(first_rows)]
    options = replace(rows.options, on_bad_row="skip", on_drift="ignore")
    texts = replace(rows, schema=pa.schema([(f.name, pa.string()) for f in integers]), options=options)
    found = CsvBlockParser(texts, dialect)(memoryview(whole), ends_exactly=True) if whole else None
    if found is None or found.batch is None:
        return frozenset()
    padded = [f for f in integers if pc.any(pc.match_substring_regex(found.batch[f.name], PADDED)).as_py()]
    for f in padded:
        if not rows.keeps_zeros(f):
            _warn_of_zeros(f.name, str(url).rpartition("/")[0])
    return frozenset(f.name for f in padded if rows.keeps_zeros(f))


@cache
def _padded(delimiter: str) -> re.Pattern[bytes]:
    """Return a pattern that finds such a number as a field."""
    end = rf"[\r\n]|{re.escape(delimiter)}"
    return re.compile(rf"(?:^|{end})[\"' ]*[+-]?0\d+[\"' ]*(?:{end}|$)".encode())


@cache
def _warn_of_zeros(column: str, folder: str) -> None:
    """Warn once of a column of the files in a folder."""
    text = (
        "Column %r is declared as an integer, and has numbers with leading zeros in files of %s; the zeros are left out"
    )
    logger.warning(f"{text}. Declare it as string to keep them", column, folder)


# The format `csv`: the path of one file.
#
# `read` finds the header (`header`), cuts the text into blocks (`_results`), parses the blocks in parallel (`parser`),
# and delivers the batches in order (`delivery`). A block is cut where a record probably ends. If its parse finds that
# wrong, the file is read again from that block on, cut by the exact rules. So where a block ends depends only on where
# it begins.
#
# Empty fields without quotes are null; `""` is empty text, and null in columns of other types. With `on_bad_row` skip
# or rescue, a quote that is not closed within 64 MiB, or has text after its closing quote, makes unreadable the line on
# which it opens, and the lines of the same row before it; the next line begins a row again. A longer line is always an
# error.

logger = logging.getLogger(__name__)
_LONGEST_SAMPLE = 64 << 20


class CsvFormat:
    """The format `csv`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        size = max(sample_bytes, HEAD_BYTES)
        while True:
            text, whole = read_sample(reader, size, compression=options.compression, encoding=options.encoding)
            if whole and text and not text.endswith((b"\n", b"\r")):
                text += b"\n"
            header = parse_header(text, reader, options, final=whole) if whole or len(text) >= HEAD_BYTES else None
            end = len(text) if whole else header.bytes + header.dialect.exact_cut(text[header.bytes :]) if header else 0
            if whole or (header and end > header.bytes) or size >= _LONGEST_SAMPLE:
                break
            size *= 4
        if header is None and not whole:
            raise endless_header(reader.url)
        if header is None:
            return pa.schema([])
        schema = _infer_columns(text[header.bytes : max(end, header.bytes)], header, options, reader.url)
        return with_first_row(schema, header.values, options)

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        bodies, firsts, headers = list[bytes](), list[bytes](), set[tuple[Dialect, tuple[str, ...]]]()
        try:
            texts = whole_text(readers, options.compression, encoding=options.encoding)
            for reader, text in zip(readers, texts, strict=False):
                header = parse_header(text, reader, options, final=True)
                if header is None:
                    return None
                headers.add((header.dialect, tuple(header.names)))
                if len(headers) > 1:
                    return None
                bodies.append(text[header.bytes :])
                firsts.append(header.first_rows)
        except SingerArrowError:
            return None
        if len(bodies) < len(readers):
            return None
        dialect, names = headers.pop()
        if options.on_drift != "ignore" and unknown_columns(names, schema, options):
            return None
        rows = TextRows(names, schema, options, nulls_of(options), padded=frozenset())
        if any(padded_columns(rows, dialect, first_rows, readers[0].url) for first_rows in firsts):
            return None
        return CsvBlockParser(rows, dialect).together(bodies)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        begin, end = progress.resume_point or ResumePoint(), progress.end.at if progress.end else None

        def text_from(at: int) -> Iterator[Any]:
            text = _text(reader, options, at, end)
            return text if progress.end is None else until(text, progress.end, reader.url)

        peeks = begin.at > 0 or end is not None
        header, text = (peek_header(reader, options), None) if peeks else take_header(reader, options)
        if header is None:
            return
        if not begin.at:
            begin = ResumePoint(0, header.bytes, header.lines)
        text = text or text_from(begin.at)
        position = FilePosition(reader.url, begin)
        rows = TextRows(header.names, schema, options, nulls_of(options))
        rows = replace(rows, padded=padded_columns(rows, header.dialect, header.first_rows, reader.url))
        infer = partial(self.infer, reader, replace(options, on_bad_row="skip"), sample_bytes=SAMPLE)
        drift = TextDrift(rows, infer).refuse if options.on_drift == "raise" else None
        parser = CsvBlockParser(rows, header.dialect, as_text=rows.padded or ())
        results = _results(reader, options, parser, text, begin.at, text_from=text_from)
        try:
            yield from deliver(results, position, progress, drift)
        except LongRecordError:
            reason = f"a row is longer than {MAX_RECORD_BYTES >> 20} MiB, or a quote in it is never closed"
            raise DataError(reason, url=reader.url, line=position.resume_point.lines + 1) from None

    def scan(self, reader: ObjectReader, options: ReadOptions, span: Span) -> RangeScan:
        header = _divisible_header(reader, options)
        span = span if span[0] or header is None else (header.bytes, span[1])
        if header is None or span[0] >= span[1]:
            return RangeScan(span)
        return scan_csv(partial(_text, reader, options), header.dialect, span)

    def row_starts(
        self, reader: ObjectReader, options: ReadOptions, scans: Sequence[RangeScan]
    ) -> Sequence[ResumePoint]:
        header = _divisible_header(reader, options)
        if header is None or header.bytes >= scans[0].span[1]:
            return undivided(len(scans) + 1)
        return csv_row_starts(partial(_text, reader, options), header, scans)


def _infer_columns(data: bytes, header: CsvHeader, options: ReadOptions, url: object) -> pa.Schema:
    """Return the types of the columns in whole records; a DataError for a bad row if the policy is to fail."""
    if not data:
        return pa.schema([(name, pa.null()) for name in header.names])
    rows = TextRows(header.names, pa.schema([(name, pa.string()) for name in header.names]), options)
    result = CsvBlockParser(rows, header.dialect)(memoryview(data), ends_exactly=True)
    assert result is not None
    if result.failed is not None:
        raise FilePosition(url, ResumePoint(0, header.bytes, header.lines)).error(result.failed)
    assert result.batch is not None
    nulls, found, nearly = nulls_of(options), list[pa.Field](), dict[str, str]()
    for name, column in zip(header.names, result.batch.columns, strict=True):
        t = infer_type(column, nulls, options)
        found.append(pa.field(name, t))
        if not pt.is_string(t):
            continue
        if setting := hint(values := present(column, nulls)):
            logger.info("%s, column %r is text; set %s to read it as more", url, name, setting)
        elif why := nearly_typed(name, values, options):
            nearly[name] = f"of {url}, {why}"
    return pa.schema(found, {NEARLY_TYPED: json.dumps(nearly)} if nearly else None)


def _divisible_header(reader: ObjectReader, options: ReadOptions) -> CsvHeader | None:
    """Return the header of a file that can be read from its middle; None for other files."""
    if text_offset(reader, options.compression, options.encoding) is None or archive_of(reader.url.name):
        return None
    header = peek_header(reader, options)
    return None if header is None or header.dialect.escape or header.dialect.comment else header


def _text(reader: ObjectReader, options: ReadOptions, begin: int, end: int | None) -> Iterator[Any]:
    return decoded(reader, compression=options.compression, encoding=options.encoding, start=begin, end=end)


def _results(
    reader: ObjectReader,
    options: ReadOptions,
    parser: CsvBlockParser,
    text: Iterator[Any],
    at: int,
    *,
    text_from: Callable[[int], Iterator[Any]],
) -> Iterator[BlockResult]:
    """Yield the parsed blocks of a text that begins at the byte `at`; `text_from` returns it from a later byte on.

    LongRecordError for a record that is too long is raised after the blocks before it.
    """
    dialect = parser.dialect
    cut = dialect.likely_cut
    parse: Callable[[memoryview], BlockResult | None] = parser
    while True:
        try:
            for result in map_ordered(blocks(text, cut, size=options.block_bytes), parse, reader.budget.decoded):
                if result is None:
                    break  # the cut was wrong
                at += result.bytes
                yield result
            else:
                return
        except LongRecordError:
            if options.on_bad_row == "fail":
                raise
            # The rows up to the end of the line on which a quote opens that is not closed, unless that is too long
            head = bytes(next(blocks(text_from(at), len, size=MAX_RECORD_BYTES)))
            end = dialect.damaged(head, dialect.whole(head))
            if end == len(head):
                raise
            result = parser(memoryview(head)[:end], ends_exactly=True)
            assert result is not None
            at += result.bytes
            yield result
        text, cut, parse = text_from(at), dialect.checked_cut, partial(parser, ends_exactly=True)
