"""One block of JSON Lines -> one record batch, or what is wrong with it and on which line.

Arrow's JSON reader with the schema given is fast and strict, but not in everything (it crashes on a first line `null`,
takes NaN, two records on a line and bytes that are not UTF-8, and knows no dates, maps or raw JSON). So what it takes
is checked, and where it fails the block is halved until the trouble is in few lines, which are read one by one.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as pt

from singer_arrow.errors import DataError
from singer_arrow.formats.cast import fit
from singer_arrow.formats.jsonl_rows import BadRowError, convert, parse, row
from singer_arrow.schema import is_json

_FEW = 64
_LONG_LINE = 1000
_BLANK = re.compile(rb"(?m)^[ \t\r]*\n")
_OBJECTS = re.compile(rb"(?m)^[ \t]*\{")
_FIRST_INEXACT = 2.0**53  # the text of an integer from here on may have been rounded
_NO_FIELD = '"\\' + "".join(map(chr, range(32)))  # characters that msgspec allows in no field's name
_OBJECT_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FAILED = (pa.ArrowException, msgspec.MsgspecError, ValueError)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A block's rows, or why there are none; `lines` and `line` (from 1) count within the block."""

    lines: int
    batch: pa.RecordBatch | None = None
    line: int = 0
    reason: str = ""
    column: str | None = None

    def error(self, url: object, lines_before: int) -> DataError:
        """The error to raise, given how many lines of the file stand before the block."""
        return DataError(self.reason, url=url, line=lines_before + self.line, column=self.column)


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to read a block fast.

    Attributes:
        text_times: Timestamps are read as text and then converted, for files that write them as Arrow's reader does
            not take them.
        float_integers: Columns of integers are read as floats, for files that write them as 1.0.
        raw_text: Columns of text are read raw, for files that hold other kinds there.
    """

    text_times: bool = False
    float_integers: bool = False
    raw_text: bool = False


class BlockParser:
    """Parses the blocks of files of one schema; may be called from several threads at once.

    Args:
        schema: The columns that are wanted.
        loose_text: Other kinds are taken as their JSON text where the schema says text.
    """

    def __init__(self, schema: pa.Schema, *, loose_text: bool = False) -> None:
        self._schema, self._loose_text = schema, loose_text
        self._read_schemas: dict[_Way, pa.Schema] = {}
        self._ways = [_Way()]
        if any("timestamp" in str(f.type) for f in schema):
            self._ways += [_Way(text_times=True)]
        if any(pt.is_integer(f.type) for f in schema):
            self._ways += [_Way(text_times=True, float_integers=True)]
        if loose_text and any(pt.is_string(f.type) for f in schema):
            self._ways += [replace(way, text_times=True, raw_text=True) for way in self._ways]
        self._nested_floats = any(pt.is_nested(f.type) and "float" in str(f.type) for f in schema)
        self._nested_floats |= any(pt.is_nested(f.type) and "double" in str(f.type) for f in schema)

    def __call__(self, block: memoryview) -> Parsed:
        """Parse a block of whole lines."""
        data = bytes(block)
        if data[-1:] != b"\n":
            data += b"\n"
        lines = data.count(b"\n")
        try:
            return Parsed(lines, self._block(data, lines))
        except _BadLineError as error:
            return Parsed(lines, None, error.line, str(error), error.column)

    def _block(self, data: bytes, lines: int) -> pa.RecordBatch:
        ways = self._ways
        for way in ways:
            try:
                batch = self._fast(data, way, lines)
            except _FAILED:
                continue
            if way != ways[0]:  # the next blocks are probably alike
                self._ways = [way, *(other for other in ways if other != way)]
            return batch
        return self._halves(data, ways[0], 1)

    def _halves(self, data: bytes, way: _Way, first_line: int) -> pa.RecordBatch:
        """Halve until the trouble is in few lines, so that one bad record does not slow its whole block."""
        if data.count(b"\n") <= _FEW:
            return self._rows(data, first_line)
        middle = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
        batches = []
        for part in (data[:middle], data[middle:]):
            try:
                batches.append(self._fast(part, way, part.count(b"\n")))
            except _FAILED:
                batches.append(self._halves(part, way, first_line))
            first_line += part.count(b"\n")
        return pa.concat_batches(batches)

    def _rows(self, data: bytes, first_line: int) -> pa.RecordBatch:
        rows = []
        json_columns = [(i, f) for i, f in enumerate(self._schema) if is_json(f)]
        for number, line in enumerate(data.split(b"\n"), first_line):
            if not line.strip():
                continue
            try:
                rows.append(row(line, self._schema, loose_text=self._loose_text))
            except BadRowError as error:
                raise _BadLineError(number, error) from None
            if json_columns:  # as the fast way has them
                raws = _raw_values(line, tuple(f.name for _, f in json_columns))
                for (i, field), raw in zip(json_columns, raws, strict=True):
                    rows[-1][i] = self._from_raw(raw[0], field)
        columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self._schema)]
        return batch_of(columns, self._schema, len(rows))

    def _fast(self, data: bytes, way: _Way, lines: int) -> pa.RecordBatch:
        """Parse whole lines with Arrow.

        Raises:
            Exception: One of `_FAILED`: the block holds something that needs a closer look.
        """
        if not data.lstrip():
            return batch_of([pa.nulls(0, f.type) for f in self._schema], self._schema, 0)
        self._check(data)
        read = self._read_schema(way)
        table = pj.read_json(
            pa.BufferReader(data),
            pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pj.ParseOptions(explicit_schema=read, unexpected_field_behavior="ignore"),
        )
        if not _one_object_a_line(data, table.num_rows, lines):
            raise _NotPlainError
        found = dict(zip(table.column_names, table.combine_chunks().to_batches()[0].columns, strict=True))
        raws = self._raws(data, [f for f in self._schema if f.name not in found], table.num_rows)
        columns = [raws[f.name] if f.name in raws else _finish(found[f.name], f) for f in self._schema]
        return batch_of(columns, self._schema, table.num_rows)

    def _read_schema(self, way: _Way) -> pa.Schema:
        """The columns that Arrow's reader makes, as it makes them; made once."""
        if way not in self._read_schemas:
            read = [(f.name, t) for f in self._schema if (t := _read_type(f, way)) is not None]
            self._read_schemas[way] = pa.schema(read)
        return self._read_schemas[way]

    def _check(self, data: bytes) -> None:
        if data[:1] != b"{" and data.lstrip()[:1] != b"{":  # a first line `null` crashes the reader
            raise _NotPlainError
        if not data.isascii():
            offsets = pa.py_buffer(struct.pack("=ii", 0, len(data)))
            pa.StringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
        if self._nested_floats and (b"NaN" in data or b"Inf" in data):
            raise _NotPlainError

    def _raws(self, data: bytes, fields: list[pa.Field], rows: int) -> dict[str, pa.Array]:
        """The columns that Arrow's reader cannot make, from their raw text."""
        if not fields:
            return {}
        raws = _raw_values(data, tuple(f.name for f in fields))
        if len(raws[0]) != rows:
            raise _NotPlainError
        return {
            f.name: pa.array([self._from_raw(raw, f) for raw in values], f.type)
            for f, values in zip(fields, raws, strict=True)
        }

    def _from_raw(self, raw: bytes, field: pa.Field) -> Any:
        if raw == b"null":
            return None
        if is_json(field) or (pt.is_string(field.type) and raw[:1] != b'"'):
            return raw.decode()
        if pt.is_string(field.type):
            return msgspec.json.decode(raw)
        return convert(parse(raw), field, loose_text=self._loose_text)


def batch_of(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch that has its rows also where it has no columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    struct_ = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(struct_).replace_schema_metadata(schema.metadata)


class _NotPlainError(ValueError):
    """Something that Arrow's reader takes and JSON Lines does not."""


class _BadLineError(Exception):
    def __init__(self, line: int, error: BadRowError) -> None:
        super().__init__(str(error))
        self.line, self.column = line, error.column


def _raw_values(data: bytes, names: tuple[str, ...]) -> list[list[bytes]]:
    """The raw text of some members of each record, member by member."""
    null = msgspec.Raw(b"null")
    if any(c in name for name in names for c in _NO_FIELD):
        objects: list[dict[str, msgspec.Raw]] = _OBJECT_DECODER.decode_lines(data)
        return [[bytes(o.get(name, null)) for o in objects] for name in names]
    records = _raw_decoder(names).decode_lines(data)
    return [[bytes(getattr(r, f"f{i}")) for r in records] for i in range(len(names))]


@lru_cache(maxsize=64)
def _raw_decoder(names: tuple[str, ...]) -> Any:
    fields = [(f"f{i}", msgspec.Raw, msgspec.Raw(b"null")) for i in range(len(names))]
    rename = {f"f{i}": name for i, name in enumerate(names)}
    return msgspec.json.Decoder(msgspec.defstruct("Raws", fields, rename=rename, gc=False))


def _one_object_a_line(data: bytes, rows: int, lines: int) -> bool:
    if rows == lines and data[:1] == b"{":
        # Counting two characters passes over every byte, finding one skips: better where lines are long.
        objects = _objects(data) if len(data) > lines * _LONG_LINE else data.count(b"\n{") + 1
        if objects == rows:
            return True
    return len(_OBJECTS.findall(data)) == rows == lines - len(_BLANK.findall(data))


def _objects(data: bytes) -> int:
    """How many of the first lines begin with an object."""
    count = start = 0
    while data[start : start + 1] == b"{":
        count += 1
        start = data.find(b"\n", start) + 1
    return count


def _read_type(field: pa.Field, way: _Way, *, nested: bool = False) -> pa.DataType | None:
    """What Arrow's reader is to make of a column; None if it can make nothing of it."""
    t = field.type
    if is_json(field) or pt.is_map(t) or pt.is_float16(t):
        return None
    if pt.is_struct(t):
        parts = [(f.name, _read_type(f, way, nested=True)) for f in t]
        return None if any(part is None for _, part in parts) else pa.struct(parts)
    if pt.is_list(t):
        inner = _read_type(t.value_field, way, nested=True)
        return None if inner is None else pa.list_(inner)
    if pt.is_integer(t):
        return pa.float64() if way.float_integers and not nested else t
    if pt.is_timestamp(t) and t.tz == "UTC" and not way.text_times:
        return t
    if pt.is_boolean(t) or pt.is_floating(t) or pt.is_decimal128(t) or pt.is_decimal256(t) or pt.is_null(t):
        return t
    return None if way.raw_text and pt.is_string(t) else pa.string()


def _finish(column: pa.Array, field: pa.Field) -> pa.Array:
    if pt.is_floating(column.type):
        if pc.all(pc.is_finite(column)).as_py() is False:
            raise _NotPlainError
        if pt.is_integer(field.type) and pc.any(pc.greater_equal(pc.abs(column), _FIRST_INEXACT)).as_py():
            raise _NotPlainError
    return fit(column, field)
