"""JSON Lines and lists: source, parsed blocks, batches; types; small files joined."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from itertools import accumulate
from math import isinf
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import json_fault
from singer_arrow.casting.from_json import BadRowError, json_kind, parse, raw_members
from singer_arrow.casting.from_text import (
    DIGITS_OF_ALL_FLOATS,
    TIMESTAMP,
    BadValueError,
    from_text,
    holds,
    nearest_float,
    type_of,
)
from singer_arrow.casting.spelling import collect_truncated
from singer_arrow.compression import archive_of
from singer_arrow.enforcement.bad_rows import (
    BlockResult,
    ParsedRows,
    RowError,
    apply_row_policy,
    batch_of,
    mismatched_rows,
    nulled,
    without_rescued,
)
from singer_arrow.enforcement.enforce import may_be_inexact, type_name, widened_field, without_excluded
from singer_arrow.errors import DataError, DriftError, SingerArrowError
from singer_arrow.formats.base import RangeScan, line_starts, scan_lines, undivided
from singer_arrow.formats.blocks import FilePosition, deliver, until
from singer_arrow.formats.json_array import (
    MAX_BLANK,
    ListElements,
    element_reason,
    has_cr_lines,
    take_list,
    take_rest,
    with_line_feeds,
)
from singer_arrow.formats.json_keys import KnownKeys
from singer_arrow.formats.json_lines import LineParser, line_numbers
from singer_arrow.formats.json_write import JsonLinesWriting
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading import chunks as limits
from singer_arrow.reading.chunks import (
    MAX_RECORD_BYTES,
    LongRecordError,
    blocks,
    decoded,
    read_sample,
    text_offset,
    whole_text,
)
from singer_arrow.reading.objects import ObjectReader, Span
from singer_arrow.reading.parallel import map_ordered
from singer_arrow.schema.arrow_schema import json_field, merge_fields

# Open a text of JSON at a point, as blocks of whole lines; an element of a list becomes a line.

_KEPT = 1 << 20


class LongLine(bytes):
    """Beginning of a line that is too long; a block of its own. `size` is the size of the whole line in bytes."""

    size: int


class ListPosition(FilePosition):
    """Position in a document that is a list of records."""

    def __init__(self, url: object, resume_point: ResumePoint, elements: ListElements) -> None:
        super().__init__(url, resume_point)
        self._elements = elements

    def line_of(self, line: int) -> int:
        return self._elements.line_of(line)

    def error(self, error: RowError) -> DataError:
        return super().error(error._replace(reason=element_reason(error.reason)))

    def advance(self, block: BlockResult) -> None:
        rows = self.resume_point.rows + (0 if block.batch is None else block.batch.num_rows)
        self.resume_point = ResumePoint(rows, *self._elements.drop(block.lines))


def open_source(
    reader: ObjectReader, options: ReadOptions, begin: ResumePoint, end: ResumePoint | None = None
) -> tuple[FilePosition, Iterator[memoryview]]:
    """Return the position of the first block, and the blocks of whole lines from one resume point to another.

    A resume point in lines is behind a line break, one in a list directly behind an element. So the byte before it
    shows whether the text is a list. The blocks raise LongRecordError for a line that is too long, if the policy for
    bad rows is to fail.
    """
    is_list, follows, text = _open(reader, options, begin, end)
    size = options.block_bytes
    if is_list:
        if end is not None:  # the list does not end there
            _, follows, text = _open(reader, options, begin, None)
        elements = ListElements(text, reader.url, size=size, at=begin.at, lines=begin.lines, follows=follows)
        return ListPosition(reader.url, begin, elements), blocks(elements, last_line_end, size=size)
    position = FilePosition(reader.url, begin)
    if end is not None:
        text = until(text, end, reader.url)
    if options.on_bad_row == "fail":
        return position, blocks(text, last_line_end, size=size)
    return position, _blocks_without_long_lines(text, size=size)


def _open(
    reader: ObjectReader, options: ReadOptions, begin: ResumePoint, end: ResumePoint | None
) -> tuple[bool, bool, Iterator[Any]]:
    """Return whether the text is a list, whether an element must follow, and the text between two points."""
    text = decoded(reader, compression=options.compression, start=max(0, begin.at - 1), end=end.at if end else None)
    text = with_line_feeds(text, resumes=begin.at > 0)
    if begin.at:
        return take_rest(text)
    is_list, text = take_list(text)
    return is_list, False, text


def last_line_end(data: bytes) -> int:
    """Return where the last whole line of a text ends."""
    return data.rfind(b"\n") + 1


def long_line_reason(more: str = "") -> str:
    """Return the reason of the error of a line that is too long."""
    return f"the line is longer than {limits.MAX_RECORD_BYTES >> 20} MiB{more}; is each record on a line of its own?"


def _blocks_without_long_lines(chunks: Iterable[Any], *, size: int) -> Iterator[memoryview]:
    """Yield blocks of whole lines; a line that is too long becomes a block that is a view of a LongLine.

    A block after a long line begins as if the text began there.
    """
    head, length = b"", 0  # of a long line that has begun

    def cut(data: bytes) -> int:
        if length:
            return data.find(b"\n") + 1 or len(data)
        end = last_line_end(data)
        return len(data) if not end and len(data) >= limits.MAX_RECORD_BYTES else end

    for block in blocks(chunks, cut, size=size):
        rest = block
        if length or (len(block) >= limits.MAX_RECORD_BYTES and b"\n" not in bytes(block)):
            end = bytes(block).find(b"\n") + 1
            head, length, rest = head or bytes(block[:_KEPT]), length + (end or len(block)), block[end or len(block) :]
            if end:
                yield _long_line(head, length)
                head, length = b"", 0
        if rest:
            yield rest
    if length:
        yield _long_line(head, length)


def _long_line(head: bytes, size: int) -> memoryview:
    line = LongLine(head)
    line.size = size
    return memoryview(line)


# Parse one block of JSON Lines into the rows of a schema.


class JsonBlockParser:
    """Parser of blocks of one schema; safe to call from several threads at once."""

    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._schema, self._options = schema, options
        own, keys = without_rescued(schema, options), None  # None: drift is ignored
        if options.known_columns is not None and options.on_drift != "ignore":
            known = options.known_columns - {RESCUED} if options.rescues else options.known_columns
            keys = KnownKeys(own, known, options.excluded_members)
        self._read = LineParser(
            own,
            keys,
            options.excluded_members,
            loose_text=options.loose_text,
            counts_unknown=options.on_drift == "count",
        )
        self._own = own

    def __call__(self, block: memoryview) -> BlockResult:
        """Return the rows of a block of whole lines, or of a view of a LongLine."""
        unknown: Mapping[str, int] = {}
        cuts: Mapping[str, str] = {}
        if isinstance(block.obj, LongLine):
            data, size, line_count = b"", block.obj.size, 1
            reason = long_line_reason(", of which no more than the first MiB is kept")
            empty = batch_of([pa.nulls(0, f.type) for f in self._own], self._own, 0)
            rows = ParsedRows(empty, (), (RowError(1, reason, text=bytes(block.obj)),))
        else:
            data, size = pa.BufferReader(block).read(), len(block)  # a copy without Python's lock
            if data[-1:] != b"\n":
                data += b"\n"
            with collect_truncated(self._options.exact_columns) as cuts:
                read = self._read(data)
                rows, unknown = self._read.complete(read, data)
                line_count = read.lines
            if self._options.json_output:
                rows = self._without_faults(rows, data)

        # What the policy for bad rows makes of them
        lines = list[bytes]()

        def locate(error: RowError) -> RowError:
            """Return an error with the line and the text of its row."""
            if not error.text and not lines:
                lines.extend(data.split(b"\n"))
            return error._replace(line=error.row, text=error.text or lines[error.row - 1])

        result = apply_row_policy(
            rows if self._options.on_drift == "rescue" else replace(rows, unknown=()),
            self._schema,
            self._options,
            locate,
            text_of=lambda line: line.rstrip(b"\r").decode(errors="replace"),
        )
        return replace(
            result,
            mismatches=rows.errors,
            unknown=rows.unknown,
            cuts=cuts,
            left_out=unknown,
            bytes=size,
            lines=line_count,
        )

    def _without_faults(self, rows: ParsedRows, data: bytes) -> ParsedRows:
        """Return the rows with errors for the values that JSON cannot hold, such as a year 10000 in UTC."""
        made, errors, numbers = rows.batch.columns, list(rows.errors), rows.numbers
        for i, field in enumerate(rows.batch.schema):
            if (fault := json_fault(made[i])) is None:
                continue
            numbers = numbers or line_numbers(data)
            texts = data.split(b"\n")
            bad = mismatched_rows(made[i], field, json_output=True)
            for row in bad.to_pylist():
                number = numbers[row]
                raw = self._read.included(raw_members(texts[number - 1]), field.name)
                errors.append(RowError(number, f"{raw.decode()[:60]} is not {fault}", field.name, raw=raw))
            made[i] = nulled(made[i], bad)
        if len(errors) == len(rows.errors):
            return rows
        batch = batch_of(made, rows.batch.schema, rows.batch.num_rows)
        return replace(rows, batch=batch, numbers=numbers, errors=sorted(errors, key=lambda error: error.row))


# Infer the types of the columns of JSON Lines from a sample. Pure.
#
# - integers: int64; decimal(38, 0) if one lies beyond; text if one has more digits.
# - other numbers, integers among them: float64; if it does not hold all integers, decimal(38, 9), or text if that does
#   not hold all numbers.
# - text: date if all values are YYYY-MM-DD; timestamp in microseconds, UTC, if all are ISO 8601 dates with times (dates
#   may be among them); else text.
# - objects: struct; arrays: list; those without any member or item, and mixed kinds: JSON text.
# - a column of more than 32 levels of objects and arrays: JSON text.
#
# A column without a value is of type null. The order is that in which the columns first appear.

_MOST_KEYS = 200  # an object with more keys is used as a map
_MOST_LEVELS = 32  # Arrow IPC refuses types of 64 levels, BigQuery those of 15
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(TIMESTAMP)
_TEMPORAL = ((_DATE, pa.date32()), (_TIMESTAMP, pa.timestamp("us", "UTC")))


def infer_lines(data: bytes, *, url: object, strict: bool = True) -> pa.Schema:
    """Return the types of the columns in a text of whole lines.

    A line without an object is a DataError if `strict`, and ignored otherwise.
    """
    columns = dict[str, _Seen]()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse(line)
            if not isinstance(record, dict):
                raise BadRowError(f"each line must hold an object, this one holds {json_kind(record)}")
        except BadRowError as error:
            if not strict:
                continue
            raise DataError(str(error), url=url, line=number) from None
        for name, value in record.items():
            if name not in columns:
                columns[name] = _Seen()
            columns[name].add_column(value)
    return pa.schema([seen.field(name) for name, seen in columns.items()])


class _DeepError(Exception):
    """A value of more levels than a type may have."""


class _Seen:
    """Values seen under one path of the records."""

    def __init__(self) -> None:
        self.kinds: set[type] = set()
        self.members: dict[str, _Seen] = {}
        self.items: _Seen | None = None
        self._texts: list[str] | None = []  # None once they cannot all be dates or timestamps
        self._is_deep = False
        self._low, self._high = 0, 0
        self._before, self._zero = 0, Decimal(0)  # most digits before and after the point
        self._is_held = True  # by a float64

    def add_column(self, value: Any) -> None:
        """Take the value of a column into account."""
        try:
            self._add(value, 0)
        except _DeepError:
            self._is_deep = True

    def _add(self, value: Any, levels: int) -> None:
        if value is None:
            return
        if levels == _MOST_LEVELS and isinstance(value, dict | list):
            raise _DeepError
        kind = dict if isinstance(value, dict) else Decimal if isinstance(value, Decimal) else type(value)
        self.kinds.add(kind)
        if kind is dict:
            for key, member in value.items():
                if key not in self.members:
                    self.members[key] = _Seen()
                self.members[key]._add(member, levels + 1)
        elif kind is list:
            self.items = self.items or _Seen()
            for item in value:
                self.items._add(item, levels + 1)
        elif kind is int or kind is Decimal:
            if isinstance(value, int):
                self._low, self._high = min(self._low, value), max(self._high, value)
            exact = Decimal(value)
            if exact.adjusted() >= DIGITS_OF_ALL_FLOATS and not isinf(nearest_float(pa.float64(), value)):
                self._is_held = self._is_held and holds(pa.float64(), value)
            self._before = max(self._before, exact.adjusted() + 1)
            self._zero += exact * 0 if exact.is_finite() else 0  # keeps the most digits after the point
        elif kind is str and self._texts is not None:
            if _TIMESTAMP.fullmatch(value):
                self._texts.append(value)
            else:
                self._texts = None

    def field(self, name: str) -> pa.Field:
        """Return the field for the values seen."""
        t = self._type()
        return json_field(name) if t is None else pa.field(name, t)

    def _type(self) -> pa.DataType | None:
        """Return the type; None for JSON text."""
        if self._is_deep:
            return None
        if self.kinds in ({Decimal}, {int, Decimal}):
            return type_of(before=self._before, after=-int(self._zero.as_tuple().exponent), is_held=self._is_held)
        if len(self.kinds) > 1:
            return None
        match next(iter(self.kinds), None):
            case None:
                return pa.null()
            case kind if kind is bool:
                return pa.bool_()
            case kind if kind is int:
                if self._low >= -(2**63) and self._high < 2**63:
                    return pa.int64()
                return pa.decimal128(38, 0) if max(-self._low, self._high) < 10**38 else pa.string()
            case kind if kind is str:
                texts = pa.array(self._texts or [], pa.string())
                for pattern, t in _TEMPORAL:
                    if self._texts and all(pattern.fullmatch(text) for text in self._texts):
                        with suppress(BadValueError):
                            from_text(texts, t)
                            return t
                return pa.string()
            case kind if kind is list:
                assert self.items is not None
                inner = self.items.field("item")
                return None if inner.metadata else pa.list_(inner.type)
        if not 0 < len(self.members) <= _MOST_KEYS:
            return None
        return pa.struct([seen.field(key) for key, seen in self.members.items()])


# The format `jsonl`: one JSON object a line, or a document that is a list of objects; the path of one file.
#
# `read` opens the text as blocks of whole lines (`source`), parses the blocks in parallel (`parser`), and delivers the
# batches in order (`delivery`).
#
# Keys that the schema lacks, and members of objects that their struct lacks, are drift, unless their value is null.
# `RESCUED` holds, by column, the JSON of a value that does not fit, of the value of a new column, or of an object of
# the new members of a column's value.


class JsonDrift:
    """Detection of drift in one file; `infer` returns the types of its beginning, once a value does not fit."""

    def __init__(self, schema: pa.Schema, infer: Callable[[], pa.Schema], options: ReadOptions) -> None:
        self._schema, self._options = schema, options
        self._inferred = cache(infer)

    def refuse(self, block: BlockResult, position: FilePosition) -> None:
        """Raise DriftError if the schema must change before a block is delivered."""
        if not (block.mismatches or block.unknown):
            return
        found = dict[str, tuple[pa.Field, str]]()  # by name: the field with which the value fits, and the reason
        # New columns, and columns with new members.
        values = defaultdict[str, list[bytes]](list)
        for keys in block.unknown:
            for name, raw in keys.values.items():
                values[name].append(raw)
        values.pop(RESCUED, None)
        for name, raws in values.items():
            seen = _seen(name, raws)
            if name not in self._schema.names:
                found[name] = (seen, f"the file has a new column: {name!r} ({type_name(seen)})")
            else:
                merged = merge_fields(self._schema.field(name), seen)
                found[name] = (merged, f"the file has new members in it, with which it is {type_name(merged)}")
        # Columns with a value that does not fit.
        values.clear()
        for error in block.mismatches:
            column = error.column
            if error.raw is not None and column is not None and column not in self._options.declared_columns:
                values[column].append(error.raw)
        for name, raws in values.items():
            field = self._schema.field(name)
            if pt.is_null(field.type):
                seen = _seen(name, raws)
            elif name in self._inferred().names:
                seen = without_excluded(self._inferred().field(name), field, self._options.excluded_members)
            else:
                continue
            if (widened := widened_field(field, seen, has_misfit=any(map(may_be_inexact, raws)))) is not None:
                found[name] = (widened, f"the file has it as {type_name(seen)}, the schema as {type_name(field)}")
        if not found:
            return
        lines = [(keys.row, name) for keys in block.unknown for name in keys.values]
        lines += [(e.row, e.column) for e in block.mismatches if e.column is not None]
        line, first = min((line, name) for line, name in lines if name in found)
        more = f", and so it is with {len(found) - 1} more" if len(found) > 1 else ""
        raise DriftError(
            f"{found[first][1]}{more}",
            [field for field, _ in found.values()],
            url=position.url,
            line=position.line_of(line),
            column=first,
        )


def _seen(name: str, raws: Iterable[bytes]) -> pa.Field:
    lines = b"".join(b'{"seen":%b}\n' % raw for raw in raws)
    seen: pa.Field = infer_lines(lines, url=None, strict=False).field(0)
    return seen.with_name(name)


_SAMPLE = 1 << 20  # bytes from which the types of a file are inferred, to detect drift


class JsonLinesFormat(JsonLinesWriting):
    """The format `jsonl`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        while True:
            text, whole = read_sample(reader, sample_bytes, compression=options.compression)
            text = b"".join(with_line_feeds(iter([text])))
            is_list, chunks = take_list(iter([text]))
            elements = ListElements(chunks, reader.url, size=len(text) + 1, whole=whole)
            lines = b"".join(elements) if is_list else text if whole else text[: last_line_end(text)]
            if lines or whole or sample_bytes >= MAX_RECORD_BYTES:
                break
            sample_bytes *= 4
        if not lines and not whole:
            raise DataError(long_line_reason(), url=reader.url, line=1)
        try:
            return infer_lines(lines, url=reader.url, strict=options.on_bad_row == "fail")
        except DataError as error:
            if not is_list:
                raise
            line = elements.line_of(error.line or 1)
            raise DataError(element_reason(error.reason), url=reader.url, line=line) from None

    def join(
        self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions
    ) -> list[pa.RecordBatch] | None:
        texts = list[bytes]()
        try:
            for text in whole_text(readers, options.compression):
                if not text.startswith(b"{"):  # a list, or not JSON
                    return None
                texts.append(text if text.endswith(b"\n") else text + b"\n")
        except SingerArrowError:
            return None
        if len(texts) < len(readers):
            return None
        result = JsonBlockParser(schema, options)(memoryview(b"".join(texts)))
        batch, counts = result.batch, [text.count(b"\n") for text in texts]
        has_reports = result.mismatches or result.unknown or result.left_out or result.cuts
        if batch is None or has_reports or batch.num_rows != sum(counts):
            return None
        ends = list(accumulate(counts))
        return [batch.slice(end - count, count) for end, count in zip(ends, counts, strict=True)]

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        position, blocks = open_source(reader, options, progress.resume_point or ResumePoint(), progress.end)
        infer = partial(self.infer, reader, replace(options, on_bad_row="skip"), sample_bytes=_SAMPLE)
        drift = JsonDrift(schema, infer, options).refuse if options.on_drift == "raise" else None
        results = map_ordered(blocks, JsonBlockParser(schema, options), reader.budget.decoded)
        try:
            yield from deliver(results, position, progress, drift)
        except LongRecordError:
            line = position.resume_point.lines + 1
            raise DataError(long_line_reason(), url=reader.url, line=line) from None

    def scan(self, reader: ObjectReader, options: ReadOptions, span: Span) -> RangeScan:
        is_plain = text_offset(reader, options.compression) is not None and not archive_of(reader.url.name)
        head = read_sample(reader, MAX_BLANK + 1, compression="none")[0] if is_plain else b""
        if not is_plain or has_cr_lines(head) or take_list(iter([head]))[0]:
            return RangeScan(span)
        text = decoded(reader, compression=options.compression, start=span[0], end=span[1])
        return RangeScan(span, {False: scan_lines(text)})

    def row_starts(
        self,
        reader: ObjectReader,  # noqa: ARG002 - the scans have it all
        options: ReadOptions,  # noqa: ARG002 - as above
        scans: Sequence[RangeScan],
    ) -> Sequence[ResumePoint]:
        return line_starts(scans) if scans[0].found else undivided(len(scans) + 1)
