"""Whole lines by Arrow's reader, with checks of what it accepts although it must not; records within messages."""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import isfinite
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.from_json import BadRowError, convert_value, nests_too_deeply, parse
from singer_arrow.casting.from_text import are_large, holds_text, large_rows
from singer_arrow.casting.spelling import set_column
from singer_arrow.enforcement.bad_rows import RowError, batch_of
from singer_arrow.enforcement.enforce import exclude_from_json, paths_with_exclusions
from singer_arrow.formats.json_checks import NO_FIELD, KnownKeys, types_within
from singer_arrow.schema.arrow_schema import DIGITS_OF_128, MOST_DIGITS, is_json

# Read whole lines of JSON by Arrow's JSON reader; fail if a line is bad or needs the exact reader.
#
# Arrow's reader is strict with a given schema, with exceptions: it crashes if the first line is `null`, accepts NaN,
# two records on a line and bytes that are not UTF-8, and has no dates, maps or raw JSON. So its input and output are
# checked.

_ESCAPED_KEY = re.compile(rb'\\[^"]*"[ \t\r]*:')
_TINY = re.compile(rb'-(?<=[eE]-)0*[1-9][0-9]+["\s,}\]]')  # a number that Arrow's reader scales by a wrong power of ten
_NO_INTEGER = re.compile(rb"\.\d*[1-9]|[eE]")
_FIRST_INEXACT = 2.0**53  # the text of an integer from here on may have been rounded
_LONG = 2048
_BLANK = re.compile(rb"(?m)^[ \t\r]*\n")
_BORDER = re.compile(rb"\}[ \t\r]*+\n[ \t\r\n]*+\{")
FAST_PATH_ERRORS = (pa.ArrowException, msgspec.MsgspecError, ValueError, RecursionError)
"""Errors of the fast path: a line is bad, or needs the exact reader."""


class FastPathError(ValueError):
    """Lines that Arrow's reader accepts need the exact reader."""


@dataclass(frozen=True, slots=True)
class ReadStrategy:
    """A strategy to read lines by Arrow's JSON reader.

    `key_check` is `infer`: Arrow's reader reads all columns, unknown ones included, which is cheapest but requires that
    each has one kind of values; or `scan`: the keys of each line are compared. Empty: no check.
    """

    text_timestamps: bool = False  # read as text and converted, for spellings that Arrow's reader refuses
    float_integers: bool = False  # read as floats, for files that write integers as 1.0
    wide_decimals: bool = False  # read with any number of digits
    raw_text: bool = False  # read columns of text raw, for files that hold other kinds of values in them
    key_check: str = ""
    suspects: frozenset[str] = frozenset()  # columns to read value by value, as some values do not fit


def read_strategies(schema: pa.Schema, *, loose_text: bool) -> list[ReadStrategy]:
    """Return the strategies for lines of a schema, the cheapest first."""
    strategies = [ReadStrategy()]
    wide = any(
        pt.is_decimal(t) and t.precision > DIGITS_OF_128 - max(0, t.scale) for f in schema for t in types_within(f.type)
    )
    if wide or any("timestamp" in str(f.type) for f in schema):
        strategies += [ReadStrategy(text_timestamps=True, wide_decimals=wide)]
    if any(pt.is_integer(f.type) for f in schema):
        strategies += [ReadStrategy(text_timestamps=True, wide_decimals=wide, float_integers=True)]
    if loose_text and any(pt.is_string(f.type) for f in schema):
        strategies += [replace(s, text_timestamps=True, wide_decimals=wide, raw_text=True) for s in strategies]
    return strategies


def read_types(fields: Iterable[pa.Field], strategy: ReadStrategy, *, nested: bool = False) -> dict[str, pa.DataType]:
    """Return the types in which Arrow's reader reads fields, by name; without those that it can read in none."""
    types = dict[str, pa.DataType]()
    for field in fields:
        t = field.type
        if (field.name in strategy.suspects and not nested) or is_json(field) or pt.is_map(t) or pt.is_float16(t):
            continue
        if pt.is_struct(t):
            members = read_types(t, strategy, nested=True)
            if len(members) < t.num_fields:
                continue
            t = pa.struct(members)
        elif pt.is_list(t):
            if not (item := read_types([t.value_field], strategy, nested=True)):
                continue
            t = pa.list_(item[t.value_field.name])
        elif pt.is_integer(t):
            t = pa.float64() if strategy.float_integers and not nested else t
        elif pt.is_decimal128(t) or pt.is_decimal256(t):
            # So few digits that the reader can scale each number that it accepts; safely cast to those of the column
            # later.
            digits, scale = DIGITS_OF_128 - max(0, t.scale), max(0, t.scale)
            is_wide = strategy.wide_decimals or digits <= 0
            t = pa.decimal256(max(1, MOST_DIGITS - scale), t.scale) if is_wide else pa.decimal128(digits, t.scale)
        elif pt.is_string(t) and strategy.raw_text:
            continue
        elif not (pt.is_boolean(t) or pt.is_floating(t) or pt.is_null(t)):
            is_read = pt.is_timestamp(t) and t.tz == "UTC" and not strategy.text_timestamps
            t = t if is_read else pa.string()
        types[field.name] = t
    return types


@dataclass(frozen=True, slots=True)
class LineEnds:
    """Line ends of a text of whole lines."""

    count: int
    are_borders: bool  # each is directly between the end of an object and the beginning of the next one

    @classmethod
    def of(cls, data: bytes) -> LineEnds:
        """Return the line ends of a text, in one pass without the GIL."""
        text = pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])
        ends = pc.equal(text, pa.scalar(ord("\n"), pa.uint8()))
        are_borders = data[:1] == b"{" and data[-1:] == b"\n"
        if are_borders:
            behind = text.slice(1).filter(ends.slice(0, len(ends) - 1)).unique().to_pylist()
            before = text.slice(0, len(text) - 1).filter(ends.slice(1)).unique().to_pylist()
            if before == [ord("\r")]:
                before = text.slice(0, len(text) - 2).filter(ends.slice(2)).unique().to_pylist()
            are_borders = behind in ([], [ord("{")]) and before in ([], [ord("}")])
        return cls(ends.true_count, are_borders)


def has_wide_line(data: bytes, lines: int) -> bool:
    """Return whether a line may have so many more keys than the others that a column for each takes too much memory."""
    long = max(_LONG, 16 * len(data) // max(lines, 1))
    begin = 0
    while (limit := begin + long) < len(data):
        begin = data.rfind(b"\n", begin, limit) + 1
        if not begin:
            begin, end = limit - long, data.find(b"\n", limit)
            if data.count(b":", begin, end) * lines > 4 * len(data):
                return True
            begin = end + 1 or len(data)
    return False


def is_exact(column: pa.Array, t: pa.DataType | None = None) -> bool:
    """Return whether Arrow's reader rounded no value of a column that is to be of type `t`, and no float is infinite.

    It rounds what is read as a float, and makes infinities of too large numbers, also within lists and objects.
    """
    if pt.is_floating(column.type):
        total = pc.sum(column).as_py() or 0.0  # of finite numbers it may overflow
        if not isfinite(total) and pc.all(pc.is_finite(column)).as_py() is False:
            return False
        rounds = t is not None and pt.is_integer(t)
        return not (rounds and pc.any(pc.greater_equal(pc.abs(column), _FIRST_INEXACT)).as_py())
    if pt.is_struct(column.type):
        return all(map(is_exact, column.flatten()))
    return not pt.is_list(column.type) or is_exact(column.flatten())


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows of some lines, values of suspects that do not fit, and how often the lines hold each unknown key."""

    batch: pa.RecordBatch
    mismatches: Sequence[RowError] = ()
    unknown: Mapping[str, int] = dataclasses.field(default_factory=dict)


class ArrowJsonReader:
    """Reader of lines of one schema; safe to call from several threads at once.

    `keys` are None to ignore drift. Unknown keys are counted if `counts_unknown`; otherwise lines that have any need
    the exact reader.
    """

    _of_messages: ClassVar[bool] = False  # whether a record is the member `record` of its line

    def __init__(
        self,
        schema: pa.Schema,
        keys: KnownKeys | None,
        excluded: frozenset[str],
        *,
        loose_text: bool,
        counts_unknown: bool = False,
    ) -> None:
        self._schema, self._keys, self._excluded, self._loose_text = schema, keys, excluded, loose_text
        self._counts_unknown = counts_unknown
        self._types = cache(lambda strategy: read_types(schema, strategy))
        self._decimals = any(map(pt.is_decimal, (t for f in schema for t in types_within(f.type))))
        self._integers = tuple(f.name for f in schema if pt.is_integer(f.type))
        self._floats = [f for f in schema if any(map(pt.is_floating, types_within(f.type)))]

    def __call__(self, data: bytes, strategy: ReadStrategy, ends: LineEnds) -> ReadRows:
        """Return the rows of whole lines; values of suspects that do not fit are null.

        Raises one of `FAST_PATH_ERRORS` if a line is bad, or needs the exact reader.
        """
        if not data.lstrip():
            return ReadRows(batch_of([pa.nulls(0, f.type) for f in self._schema], self._schema, 0))
        self._check(data)
        keys, infers = self._keys, strategy.key_check == "infer"
        all_known = keys is None or strategy.key_check != "scan" or keys.all_known(data)
        if not (all_known or self._counts_unknown) or (infers and has_wide_line(data, ends.count)):
            raise FastPathError
        types = self._types(strategy)
        read = pa.schema(types)
        table = read_objects(data, read, ends, unexpected="infer" if infers else "ignore")

        # Keys that Arrow's reader found beside those that are read
        unknown: Mapping[str, int] = {}
        if infers and not table.schema.equals(read):
            assert keys is not None
            if self._counts_unknown:
                unknown = keys.count_in(dict(zip(table.schema.names, table.columns, strict=True)), self._schema)
                if any(table.schema.field(f.name).type != f.type for f in read):  # structs with more members
                    table = read_objects(data, read, ends, unexpected="ignore")
            else:  # a key that is always null is not new
                new = set(table.schema.names).difference(keys.names)
                if not all(pt.is_null(table.schema.field(name).type) for name in new):
                    raise FastPathError
                if not all(
                    _holds_no_more(table.schema.field(f.name).type, f.type, self._excluded, f.name) for f in read
                ):
                    raise FastPathError
        elif keys is not None and not all_known:
            unknown = keys.count(data.split(b"\n"))

        # The columns in their own types
        found = dict(zip(table.schema.names, table.columns, strict=True))
        if self._floats or strategy.float_integers:
            self._check_numbers(data, strategy, found)
        from_json = [f for f in self._schema if f.name not in types]
        made, mismatches = self._raws(data, from_json, table.num_rows, strategy) if from_json else ({}, [])
        for field in self._schema:
            if field.name in types:
                if not is_exact(found[field.name], field.type):
                    raise FastPathError
                set_column(field.name)
                made[field.name] = fit(found[field.name], field)
        columns = [made[name] for name in self._schema.names]
        return ReadRows(batch_of(columns, self._schema, table.num_rows), mismatches, unknown)

    def _check(self, data: bytes) -> None:
        if data[:1] != b"{" and data.lstrip()[:1] != b"{":  # a first line `null` crashes the reader
            raise FastPathError
        if nests_too_deeply(data):  # which crashes the reader where it infers
            raise FastPathError
        if not data.isascii():
            offsets = pa.py_buffer(struct.pack("=ii", 0, len(data)))
            pa.StringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
        if self._decimals and b"-" in data and _TINY.search(data):
            raise FastPathError

    def _check_numbers(self, data: bytes, strategy: ReadStrategy, found: Mapping[str, pa.Array]) -> None:
        """Refuse integers that are read as floats and may have a fraction, and rounded whole numbers."""
        names = tuple(n for n in self._integers if n not in strategy.suspects) if strategy.float_integers else ()
        if names and any(_NO_INTEGER.search(b" ".join(texts)) for texts in self._raw_values(data, names)):
            raise FastPathError
        large = [f for f in self._floats if f.name in found and are_large(found[f.name])]
        for field, raws in zip(
            large, self._raw_values(data, tuple(f.name for f in large)) if large else (), strict=True
        ):
            if pt.is_floating(field.type):
                rows = large_rows(found[field.name]).to_pylist()
                if not all(holds_text(field.type, bytes(raws[row])) for row in rows):
                    raise FastPathError
            else:
                for raw in map(bytes, raws):
                    from_raw(raw, field, loose_text=self._loose_text)

    def _raws(
        self, data: bytes, fields: Sequence[pa.Field], rows: int, strategy: ReadStrategy
    ) -> tuple[dict[str, pa.Array], list[RowError]]:
        """Return the columns that Arrow's reader cannot make, from their raw JSON."""
        raws = self._raw_values(data, tuple(f.name for f in fields))
        if len(raws[0]) != rows or (strategy.suspects and _has_repeated_key(data, strategy.suspects)):
            raise FastPathError
        made, mismatches = {}, []
        for field, values in zip(fields, raws, strict=True):
            set_column(field.name)
            found: list[Any] = []
            if field.name in paths_with_exclusions(self._excluded):
                values = [exclude_from_json(bytes(raw), field, self._excluded, field.name) for raw in values]  # noqa: PLW2901
            for row, raw in enumerate(map(bytes, values)):
                try:
                    found.append(from_raw(raw, field, loose_text=self._loose_text))
                except BadRowError as error:
                    if field.name not in strategy.suspects:
                        raise
                    found.append(None)
                    mismatches.append(RowError(row, str(error), field.name, raw=raw))
            made[field.name] = pa.array(found, field.type)
        return made, mismatches

    def _raw_values(self, data: bytes, names: tuple[str, ...]) -> list[list[Any]]:
        """Return the raw JSON of some members of each record, member by member, as buffers."""
        is_odd = any(c in name for name in names for c in NO_FIELD)
        records = _decoder(None if is_odd else names, self._of_messages).decode_lines(data)
        if self._of_messages:
            records = [line.record for line in records]
        if is_odd:
            null = msgspec.Raw(b"null")
            return [[record.get(name, null) for record in records] for name in names]
        return [list(map(attrgetter(f"f{i}"), records)) for i in range(len(names))]


@lru_cache(maxsize=64)
def _decoder(names: tuple[str, ...] | None, of_messages: bool) -> Any:
    """Return a decoder of records to the raw JSON of some members, as `f0`, `f1` ..., or of all (None), as a dict."""
    record: Any = dict[str, msgspec.Raw]
    if names is not None:
        fields = [(f"f{i}", msgspec.Raw, msgspec.Raw(b"null")) for i in range(len(names))]
        record = msgspec.defstruct("Raws", fields, rename={f"f{i}": n for i, n in enumerate(names)}, gc=False)
    if of_messages:
        record = msgspec.defstruct("Line", [("record", record)], gc=False)
    return msgspec.json.Decoder(record)


def read_objects(data: bytes, read: pa.Schema, ends: LineEnds, *, unexpected: str) -> pa.RecordBatch:
    """Read whole lines of one object each, not all blank, by Arrow's reader; raises one of `FAST_PATH_ERRORS`.

    Other members than those of `read` are `unexpected`: `ignore`, `infer` or `error`.
    """
    table = pj.read_json(
        pa.BufferReader(data),
        pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pj.ParseOptions(explicit_schema=read, unexpected_field_behavior=unexpected),
    )
    # Each line that is not blank must hold one object. A JSON string holds no line end, and `}` followed by `{` occurs
    # only between two objects of the top level. So if that surrounds each line end, no line end is within an object,
    # and each line holds at least one object.
    rows = table.num_rows
    if not (ends.are_borders and rows == ends.count):
        text = data.strip(b" \t\r\n")
        is_bordered = text[:1] == b"{" and text[-1:] == b"}" and len(_BORDER.findall(text)) == rows - 1
        if not is_bordered or rows != ends.count - len(_BLANK.findall(data)):
            raise FastPathError
    return table.combine_chunks().to_batches()[0]


def from_raw(raw: bytes, field: pa.Field, *, loose_text: bool) -> Any:
    """Return a value from its JSON, as `pa.array` accepts it for the field's type; BadRowError if it does not fit."""
    if raw == b"null":
        return None
    if is_json(field) or (loose_text and pt.is_string(field.type) and raw[:1] != b'"'):
        return raw.decode()
    return convert_value(parse(raw), field, loose_text=loose_text)


def _has_repeated_key(data: bytes, names: Iterable[str]) -> bool:
    """Return whether a record repeats one of some keys; Arrow's reader checks only the keys that it reads."""
    quoted = [b'"%b"' % name.encode() for name in names]
    escaped = any(c in name for name in names for c in NO_FIELD)
    for line in data.split(b"\n"):
        twice_named = escaped or any(line.count(name) > 1 for name in quoted)
        if (twice_named or _ESCAPED_KEY.search(line)) and line and not line.isspace():
            twice: frozenset[str] = parse(line).twice
            if not twice.isdisjoint(names):
                return True
    return False


def _holds_no_more(found: pa.DataType, read: pa.DataType, excluded: frozenset[str], path: str) -> bool:
    """Return whether Arrow's reader found only members that are read or excluded."""
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


# Read lines of JSON whose record is a member of an object, as in messages, by Arrow's JSON reader.
#
# Arrow's reader makes the record and the other selected members in one pass.

TextCheck = Callable[[pa.Array, pa.Field], bool]
"""Return whether all texts of a column can become values of the field."""
_ANY_ROW = "\0"  # column that no record has, for records without a column that Arrow's reader makes


class EnvelopeReader(ArrowJsonReader):
    """Reader of lines whose member `record` is the record; safe to call from several threads at once.

    `around` are the other members to read; a line that repeats one of them needs the exact reader. If it `is_closed`,
    so does a line with any other member, also within records. `keys` are the known keys of the record, if others are
    counted. `fits` returns whether a column of text can be converted to a field.
    """

    _of_messages = True

    def __init__(
        self,
        schema: pa.Schema,
        *,
        around: pa.Schema,
        is_closed: bool = False,
        loose_text: bool = False,
        keys: KnownKeys | None = None,
        fits: TextCheck | None = None,
    ) -> None:
        super().__init__(schema, keys, frozenset(), loose_text=loose_text)
        self._around, self._fits = around, fits
        self._unexpected = "error" if is_closed else "ignore" if keys is None else "infer"

    def rows(
        self, data: bytes, strategy: ReadStrategy
    ) -> tuple[pa.RecordBatch, dict[str, pa.Array], Mapping[str, int]]:
        """Return the records of whole lines, the members around them, and how often they hold each unknown key.

        Raises one of `FAST_PATH_ERRORS` if a line is bad, or needs the exact reader.
        """
        self._check(data)
        types = self._types(strategy)
        read = [pa.field(name, t) for name, t in types.items()] or [pa.field(_ANY_ROW, pa.null())]
        whole = self._around.append(pa.field("record", pa.struct(read)))
        ends, unexpected = LineEnds.of(data), self._unexpected
        try:
            table = read_objects(data, whole, ends, unexpected="ignore" if unexpected == "scan" else unexpected)
        except FAST_PATH_ERRORS:
            if unexpected != "infer":
                raise
            table = read_objects(data, whole, ends, unexpected="ignore")
            self._unexpected = unexpected = "scan"  # for the next blocks too: a key has several kinds of values
        record = table.column("record")
        unknown: Mapping[str, int] = {}
        if unexpected == "infer" and self._keys is not None and record.type != whole.field("record").type:
            found = dict(zip((f.name for f in record.type), record.flatten(), strict=True))
            unknown = self._keys.count_in(found, self._schema)
            if any(found[f.name].type != f.type for f in read):  # structs with more members
                record = read_objects(data, whole, ends, unexpected="ignore").column("record")
        if record.null_count:
            raise FastPathError
        found = dict(zip((f.name for f in record.type), record.flatten(), strict=True))
        self._check_numbers(data, strategy, found)
        from_json = [f for f in self._schema if f.name not in types]
        made = self._raws(data, from_json, table.num_rows, strategy)[0] if from_json else {}
        for field in self._schema:
            if field.name in types:
                column = found[field.name]
                fits = self._fits is None or column.type == field.type or self._fits(column, field)
                if not (fits and is_exact(column, field.type)):
                    raise FastPathError
                set_column(field.name)
                made[field.name] = fit(column, field)
        columns = [made[name] for name in self._schema.names]
        around = {f.name: table.column(f.name) for f in self._around}
        if unexpected == "scan" and self._keys is not None:
            unknown = self._keys.count_below("record", data)
        return batch_of(columns, self._schema, table.num_rows), around, unknown
