"""Whole lines of JSON -> one record batch, by Arrow's JSON reader: fast, or not at all.

The reader with the schema given is strict, but not in everything (it crashes on a first line `null`, takes NaN, two
records on a line and bytes that are not UTF-8, and knows no dates, maps or raw JSON). So what it takes is checked.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import set_column
from singer_arrow.casting.from_json import RECORD_DECODER, BadRowError, convert, parse
from singer_arrow.casting.json_depth import nests_too_deeply
from singer_arrow.enforcement.enforce import fit
from singer_arrow.enforcement.excluded_members import exclude_from_json
from singer_arrow.enforcement.schema_drift import paths_with_exclusions
from singer_arrow.formats.json.line_ends import LineEnds
from singer_arrow.formats.json.numbers import all_finite, all_integers, decimal_to_read, decimals, may_hold_tiny
from singer_arrow.formats.json.unknown_keys import NO_FIELD, Keys
from singer_arrow.schema.arrow_schema import is_json

_ESCAPED_KEY = re.compile(rb'\\[^"]*"[ \t\r]*:')
_FIRST_INEXACT = 2.0**53  # the text of an integer from here on may have been rounded
FAILED = (pa.ArrowException, msgspec.MsgspecError, ValueError, RecursionError)
"""What is raised where lines hold something that needs a closer look."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read lines fast.

    Attributes:
        text_times: Timestamps are read as text and then converted, for files that write them as Arrow's reader does
            not take them.
        float_integers: Columns of integers are read as floats, for files that write them as 1.0.
        wide_decimals: Decimals may have any number of digits, for files where some have many.
        raw_text: Columns of text are read raw, for files that hold other kinds there.
        watch: How keys are noticed that are not known: `infer`, Arrow's reader reads all columns, known or not, which
            costs least but needs that each is of one kind; `scan`, the keys of each line are looked at; none, they are
            not.
        suspects: Columns that are read value by value, as some do not fit.
    """

    text_times: bool = False
    float_integers: bool = False
    wide_decimals: bool = False
    raw_text: bool = False
    watch: str = ""
    suspects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value that does not fit its column; `row` is its index in the batch, `raw` its JSON."""

    row: int
    column: str
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class _Columns:
    """Those that Arrow's reader makes, as it makes them, and those that are made from their raw text."""

    read: pa.Schema
    raw: tuple[pa.Field, ...]


class ArrowLines:
    """Reads lines of one schema; may be called from several threads at once.

    Args:
        schema: The columns that are wanted.
        keys: The keys that are known, where others are to be noticed.
        excluded: As `ReadOptions.excluded_members`.
        loose_text: Other kinds are taken as their JSON text where the schema says text.
    """

    def __init__(self, schema: pa.Schema, keys: Keys | None, excluded: frozenset[str], *, loose_text: bool) -> None:
        self._schema, self._keys, self._excluded, self._loose_text = schema, keys, excluded, loose_text
        self._made: dict[Way, _Columns] = {}
        self._decimals = any(True for f in schema for _ in decimals(f.type))
        self._integers = tuple(f.name for f in schema if pt.is_integer(f.type))

    def __call__(self, data: bytes, way: Way, ends: LineEnds) -> tuple[pa.RecordBatch, list[Misfit]]:
        """The rows of whole lines; values of suspects that do not fit are null, and told.

        Raises:
            Exception: One of `FAILED`: the lines hold something that needs a closer look.
        """
        if not data.lstrip():
            return batch_of([pa.nulls(0, f.type) for f in self._schema], self._schema, 0), []
        self._check(data, way)
        columns, infers = self._columns(way), way.watch == "infer"
        table = read_lines(data, columns.read, ends, unexpected="infer" if infers else "ignore")
        if infers and not self._is_known(table.schema, columns.read):
            raise NotPlainError
        found = dict(zip(table.schema.names, table.columns, strict=True))
        self._check_integers(data, way)
        raws, misfits = self._raws(data, columns.raw, table.num_rows, way)
        made = [raws[f.name] if f.name in raws else finish(found[f.name], f) for f in self._schema]
        return batch_of(made, self._schema, table.num_rows), misfits

    def _is_known(self, found: pa.Schema, read: pa.Schema) -> bool:
        """Whether no key was found that is not known and not always null, at any depth."""
        assert self._keys is not None
        if found.equals(read):
            return True
        new = set(found.names).difference(self._keys.names)
        return all(pt.is_null(found.field(name).type) for name in new) and all(
            _holds_no_more(found.field(f.name).type, f.type, self._excluded, f.name) for f in read
        )

    def _columns(self, way: Way) -> _Columns:
        if way not in self._made:
            read = [(f.name, t) for f in self._schema if (t := _read_type(f, way)) is not None]
            names = {name for name, _ in read}
            self._made[way] = _Columns(pa.schema(read), tuple(f for f in self._schema if f.name not in names))
        return self._made[way]

    def _check(self, data: bytes, way: Way) -> None:
        if data[:1] != b"{" and data.lstrip()[:1] != b"{":  # a first line `null` crashes the reader
            raise NotPlainError
        if nests_too_deeply(data):  # which crashes the reader where it infers
            raise NotPlainError
        if not data.isascii():
            offsets = pa.py_buffer(struct.pack("=ii", 0, len(data)))
            pa.StringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
        if self._decimals and may_hold_tiny(data):
            raise NotPlainError
        if way.watch == "scan" and self._keys is not None and not self._keys.all_known(data):
            raise NotPlainError

    def _check_integers(self, data: bytes, way: Way) -> None:
        """Refuse integers that are read as floats, of which a fraction may be rounded away."""
        names = tuple(n for n in self._integers if n not in way.suspects) if way.float_integers else ()
        if names and not all(all_integers(texts) for texts in self._raw_values(data, names)):
            raise NotPlainError

    def _raws(
        self, data: bytes, fields: Sequence[pa.Field], rows: int, way: Way
    ) -> tuple[dict[str, pa.Array], list[Misfit]]:
        """The columns that Arrow's reader cannot make, from their raw text."""
        if not fields:
            return {}, []
        raws = self._raw_values(data, tuple(f.name for f in fields))
        if len(raws[0]) != rows or (way.suspects and _stands_twice(data, way.suspects)):
            raise NotPlainError
        made, misfits = {}, []
        for field, values in zip(fields, raws, strict=True):
            set_column(field.name)
            found: list[Any] = []
            if field.name in paths_with_exclusions(self._excluded):
                values = [exclude_from_json(bytes(raw), field, self._excluded, field.name) for raw in values]  # noqa: PLW2901
            for row, raw in enumerate(map(bytes, values)):
                try:
                    found.append(from_raw(raw, field, loose_text=self._loose_text))
                except BadRowError as error:
                    if field.name not in way.suspects:
                        raise
                    found.append(None)
                    misfits.append(Misfit(row, field.name, str(error), raw))
            made[field.name] = pa.array(found, field.type)
        return made, misfits

    def _raw_values(self, data: bytes, names: tuple[str, ...]) -> list[list[Any]]:
        """As `raw_values`."""
        return raw_values(data, names)


def read_lines(data: bytes, read: pa.Schema, ends: LineEnds, *, unexpected: str) -> pa.RecordBatch:
    """Whole lines by Arrow's reader, one object a line.

    Args:
        data: The lines; not all of them blank.
        read: The columns that are wanted.
        ends: Their ends.
        unexpected: What becomes of other members: `ignore`, `infer` or `error`.

    Raises:
        Exception: One of `FAILED`.
    """
    table = pj.read_json(
        pa.BufferReader(data),
        pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pj.ParseOptions(explicit_schema=read, unexpected_field_behavior=unexpected),
    )
    if not ends.hold_one_each(data, table.num_rows):
        raise NotPlainError
    return table.combine_chunks().to_batches()[0]


def from_raw(raw: bytes, field: pa.Field, *, loose_text: bool) -> Any:
    """A value's JSON as `pa.array` takes it for the field's type.

    Raises:
        BadRowError: It does not fit.
    """
    if raw == b"null":
        return None
    if is_json(field) or (loose_text and pt.is_string(field.type) and raw[:1] != b'"'):
        return raw.decode()
    if pt.is_string(field.type) and raw[:1] == b'"':
        with suppress(msgspec.MsgspecError):  # what it refuses, the exact way tells about
            return msgspec.json.decode(raw)
    return convert(parse(raw), field, loose_text=loose_text)


def batch_of(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch that has its rows also where it has no columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    struct_ = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(struct_).replace_schema_metadata(schema.metadata)


class NotPlainError(ValueError):
    """Something that Arrow's reader takes and JSON Lines does not."""


def raw_values(data: bytes, names: tuple[str, ...]) -> list[list[Any]]:
    """The raw text of some members of each record, member by member; each has the buffer protocol."""
    if any(c in name for name in names for c in NO_FIELD):
        return by_name(RECORD_DECODER.decode_lines(data), names)
    return by_number(_raw_decoder(names).decode_lines(data), len(names))


def by_name(objects: Iterable[dict[str, msgspec.Raw]], names: Iterable[str]) -> list[list[Any]]:
    """The members of objects, one by one."""
    found, null = list(objects), msgspec.Raw(b"null")
    return [[each.get(name, null) for each in found] for name in names]


def by_number(records: Iterable[Any], count: int) -> list[list[Any]]:
    """The fields `f0`, `f1`, ... of records, one by one."""
    found = list(records)
    return [list(map(attrgetter(f"f{i}"), found)) for i in range(count)]


@lru_cache(maxsize=64)
def _raw_decoder(names: tuple[str, ...]) -> Any:
    fields = [(f"f{i}", msgspec.Raw, msgspec.Raw(b"null")) for i in range(len(names))]
    rename = {f"f{i}": name for i, name in enumerate(names)}
    return msgspec.json.Decoder(msgspec.defstruct("Raws", fields, rename=rename, gc=False))


def _stands_twice(data: bytes, names: Iterable[str]) -> bool:
    """Whether one of some keys stands twice in a record, as Arrow's reader tells of those that it reads."""
    quoted = [b'"%b"' % name.encode() for name in names]
    escaped = any(c in name for name in names for c in NO_FIELD)
    for line in data.split(b"\n"):
        twice_named = escaped or any(line.count(name) > 1 for name in quoted)
        if (twice_named or _ESCAPED_KEY.search(line)) and line and not line.isspace():
            twice: frozenset[str] = parse(line).twice
            if not twice.isdisjoint(names):
                return True
    return False


def _read_type(field: pa.Field, way: Way, *, nested: bool = False) -> pa.DataType | None:
    """What Arrow's reader is to make of a column; None if it can make nothing of it."""
    t = field.type
    if field.name in way.suspects and not nested:
        return None
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
    if pt.is_decimal128(t) or pt.is_decimal256(t):
        return decimal_to_read(t, wide=way.wide_decimals)
    if pt.is_boolean(t) or pt.is_floating(t) or pt.is_null(t):
        return t
    return None if way.raw_text and pt.is_string(t) else pa.string()


def _holds_no_more(found: pa.DataType, read: pa.DataType, excluded: frozenset[str], path: str) -> bool:
    """Whether what Arrow's reader found of a value is what it was to read, and members that are left out."""
    if found == read or path not in paths_with_exclusions(excluded):
        return bool(found == read)
    if pt.is_list(found) and pt.is_list(read):
        return _holds_no_more(found.value_type, read.value_type, excluded, path)
    if not (pt.is_struct(found) and pt.is_struct(read)):
        return False
    own = {f.name: f.type for f in read}
    return all(
        _holds_no_more(f.type, own[f.name], excluded, f"{path}.{f.name}")
        if f.name in own
        else pt.is_null(f.type) or f"{path}.{f.name}" in excluded
        for f in found
    )


def finish(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column as Arrow's reader makes it -> as a schema wants it.

    Raises:
        Exception: One of `FAILED`: a value does not fit, or may not be what the text says.
    """
    set_column(field.name)
    if not all_finite(column):
        raise NotPlainError
    rounds = pt.is_floating(column.type) and pt.is_integer(field.type)
    if rounds and pc.any(pc.greater_equal(pc.abs(column), _FIRST_INEXACT)).as_py():
        raise NotPlainError
    return fit(column, field)
