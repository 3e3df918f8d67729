"""Blocks of JSON Lines -> Arrow columns with pyarrow.json, and checks for what it accepts although it is not exact.

`BlockReader` has the interface of the native parser (the package `singer-arrow-json`). It returns the rows of all lines
that are not blank, and the numbers of the lines that the exact rules (`casting.from_json`) must read. Each other line
is strict JSON of one object, in which every key that is read occurs once and has a value that fits exactly.

pyarrow.json reads a block with an explicit schema. It refuses repeated keys of the schema, however they are spelled,
and values of another kind. The checks for what it accepts:

- two records in one line, or one record in several lines; a line `null`, which as the first one crashes it: every line
  begins with `{` and ends with `}` (`_screened`), and there are as many rows as lines (`_table`)
- bytes that are not UTF-8: a cast of the block to text (`_is_utf8`)
- NaN, infinity, large whole numbers that a float rounds, and `-0`, which is not `-0.0`: the bits of floats
  (`_odd_floats`)
- decimals that overflow when they are scaled: they are read with digits to spare (`_arrow_type`), and `LineParser`
  casts them; exponents of many digits, which make them zero: a search (`_TINY`)
- strings in columns of decimals that must not be quoted: a search for the key and a quote (`_matching`)
- NaN or any depth in the value of a key that is not read: a search of the text (`_unclean`)
- a repeated key whose value is read as JSON text, not by pyarrow.json: a search for the key (`_texts`)

An unknown key stops pyarrow.json. The block is then read without unknown keys, and msgspec finds the lines that have
one. msgspec also finds the bad lines of a block that pyarrow.json refuses, because its errors do not name them.

Pure. Calls share only what follows from the types.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from singer_arrow.casting.from_json import MAX_DEPTH, BadRowError, nests_too_deeply, parse
from singer_arrow.casting.from_text import parse_text
from singer_arrow.formats.json_keys import KnownKeys

Member = tuple[str, str, tuple[Any, ...]]
"""A member of an object: its name, the kind of its values (see `LineParser`), and their members or item."""
Found = tuple[pa.RecordBatch, Sequence[int], Sequence[int], Sequence[int], Sequence[int], Mapping[str, int]]
"""Rows; bad lines; how many values of each member do not fit; blank lines; lines with unknown keys; their counts."""

_Mode = Literal["error", "ignore"]  # what pyarrow.json does with unknown keys

_OFTEN = 64  # a member is unfit if more than one line in so many has another value than expected
_MOST_ALONE = 256  # lines of a block that pyarrow.json reads alone, to find those that only it refuses
_BLANK = b"\t\n\v\f\r "
_CONSTANT = re.compile(rb"[:,\[][ \t\r]*-?(?:NaN|Inf)")
_ESCAPED_KEY = re.compile(rb'"[^"\\]*\\(?:[^"\\]|\\.)*"[ \t\r]*:')
_TINY = re.compile(rb'[:,\["][ \t\r]*-?[0-9.]+[eE]-0*[1-9][0-9]')
_PATTERNS = {
    "date": r"^\d{4}-\d\d-\d\d$",
    "timestamp": r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$",
}
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # errors of msgspec
_UNSUPPORTED = re.compile(r'["\\\x00-\x1f]')  # in names, by msgspec
_TYPES: dict[str, tuple[pa.DataType | None, Any]] = {  # of Arrow and of msgspec, by kind
    "bool": (pa.bool_(), bool),
    "int": (pa.int64(), Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]),
    "float": (pa.float64(), float),
    "float32": (pa.float64(), float),
    "number": (None, float | str),  # a decimal of the schema's type
    "digits": (None, float),
    **dict.fromkeys(("text", "any", "date", "timestamp"), (pa.string(), str)),
}
_MOST_DIGITS = 76  # of decimals of 256 bits
_NO_COLUMN = pa.field("\0", pa.null())  # in place of no column, for which pyarrow.json counts no rows


class _UnfitError(ValueError):
    """pyarrow.json read other rows than the lines have."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How blocks of some members are read."""

    members: tuple[Member, ...]
    record: tuple[Member, ...]  # the members of the record: of the line, or of its last member if `within`
    within: bool
    schema: pa.Schema  # what pyarrow.json reads
    may_be_all: bool  # whether lines may have no other key than these
    has_decimals: bool
    numbers: tuple[re.Pattern[bytes], ...]  # of members whose values must not be strings
    texts: tuple[str, ...]  # names of the members that are read as JSON text
    kinds: Mapping[str, Any]  # msgspec types of the members of the record
    typed: Any  # msgspec decoder that refuses values of another kind
    raw: Any  # msgspec decoder of `texts`
    shape: Any  # msgspec decoder that refuses unknown keys


class BlockReader:
    """Reader of blocks of one schema; safe to call from several threads at once.

    The types of decimals are those of the `schema`. `keys` are the known ones. With `is_closed` a line with an unknown
    key is returned whatever the key's value is, and also if the key is around the record.
    """

    def __init__(self, schema: pa.Schema, keys: KnownKeys | None, *, is_closed: bool) -> None:
        self._type, self._keys, self._is_closed = pa.struct(list(schema)), keys, is_closed
        self._plan = cache(self._planned)

    def __call__(self, data: bytes, members: Sequence[Member], reports: bool) -> Found:
        """Return the rows of whole lines; unknown keys are found if `reports`."""
        plan = self._plan(tuple(members))
        lines, bad, blank = _screened(data)
        unfit, unknown = Counter[str](), Counter[str]()

        # The columns of pyarrow.json, and the values in them that only the exact rules may judge
        batch, out, mode = _read(lines, plan, unfit)
        source = dict(zip(batch.schema.names, batch.columns, strict=True))
        if plan.within:
            record = source.pop("record")
            beside, source = source, dict(zip([f.name for f in record.type], record.flatten(), strict=True))
        columns = dict[str, pa.Array]()
        for name, kind, inner in plan.record:
            if kind not in ("json", "nothing"):
                columns[name], odd = _exact(source[name], kind, inner)
                unfit[name] += len(odd)
                out |= odd
        for pattern in plan.numbers:
            out |= _matching(lines, pattern)
        if plan.has_decimals and _TINY.search(lines.data):
            out.update(row for row, line in enumerate(lines.split) if _TINY.search(line))

        # Members that are JSON text, and unknown keys
        if plan.texts:
            columns |= _texts(lines, plan, out)
        drifted = set[int]()
        finds_unknown = plan.members[-1][1] == "record" if plan.within else reports
        if self._keys is not None and finds_unknown and mode == "ignore":
            for row, line in enumerate(lines.split):
                if row not in out and (counts := self._unknown(line, plan)) is not None:
                    (out if counts is _UNCLEAR else drifted).add(row)
                    unknown += counts

        # The rows of all lines that are not blank
        columns = {name: columns[name] for name, kind, _ in plan.record if kind != "nothing"}
        if plan.within:
            parts = pa.StructArray.from_arrays(list(columns.values()), list(columns), mask=record.is_null())
            columns = {**beside, "record": parts}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), list(columns)) if columns else batch.select([])
        if bad:
            places = {number: row for row, number in enumerate(lines.numbers)}
            rows = _spread(rows, [places.get(number) for number in sorted([*places, *bad])])
        return (
            rows,
            sorted([*bad, *(lines.numbers[row] for row in out)]),
            [unfit[name] for name, _, _ in plan.record],
            blank,
            [lines.numbers[row] for row in sorted(drifted)],
            unknown,
        )

    def _planned(self, members: tuple[Member, ...]) -> _Plan:
        within = bool(members) and members[-1][1] in ("record", "open")
        record: tuple[Member, ...] = members[-1][2] if within else members
        texts = tuple(name for name, kind, _ in record if kind == "json")
        fields = _fields(record, self._type) or [_NO_COLUMN]
        kinds = _typed(record)
        typed, raw, shape = _struct(kinds), _struct(dict.fromkeys(texts, msgspec.Raw)), _shape(record)
        if within:
            around = {name: _TYPES[kind] for name, kind, _ in members[:-1]}
            fields = [*(pa.field(name, t) for name, (t, _) in around.items()), pa.field("record", pa.struct(fields))]
            typed = _struct({**{name: t for name, (_, t) in around.items()}, "record": typed})
            raw = _struct({"record": raw})
            shape = _struct({**dict.fromkeys(around, msgspec.Raw), "record": shape}, is_closed=self._is_closed)
        return _Plan(
            members=members,
            record=record,
            within=within,
            schema=pa.schema(fields),
            may_be_all=not any(kind == "json" for _, kind, _ in _walk(record)),
            has_decimals=any(kind in ("number", "digits") for _, kind, _ in _walk(record)),
            numbers=tuple(_key(name) for name, kind, _ in _walk(record) if kind == "digits"),
            texts=texts,
            kinds=kinds,
            typed=msgspec.json.Decoder(typed),
            raw=msgspec.json.Decoder(raw),
            shape=msgspec.json.Decoder(shape),
        )

    def _unknown(self, line: bytes, plan: _Plan) -> Counter[str] | None:
        """Return how often a line has each unknown key, None if it has none, or `_UNCLEAR`."""
        assert self._keys is not None
        with suppress(*_REFUSED):
            plan.shape.decode(line)
            return None
        try:
            found = msgspec.json.decode(line)
        except _REFUSED:  # such as a number that is larger than all floats
            return _UNCLEAR
        counts = self._keys.count_of(found["record"] if plan.within else found)
        return counts if counts or self._is_closed else None


_UNCLEAR = Counter[str]()
"""Stands for a line whose keys msgspec cannot read."""


class _Lines:
    """Lines of a block that begin with `{` and end with `}`, and their line numbers in the block, from 0."""

    def __init__(self, data: bytes, numbers: Sequence[int]) -> None:
        self.data, self.numbers = data, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def split(self) -> list[bytes]:
        """The text of each line."""
        return self.data.split(b"\n")[:-1]

    def take(self, rows: Sequence[int]) -> _Lines:
        """Return some of the lines; their numbers are their places in these."""
        return _Lines(b"".join(self.split[row] + b"\n" for row in rows), rows)


def _screened(data: bytes) -> tuple[_Lines, list[int], list[int]]:
    """Return the lines that may be records, and the numbers of the bad lines and of the blank ones."""
    if not data.endswith(b"\n"):
        data += b"\n"
    count = data.count(b"\n")
    if data[:1] == b"{" and data.endswith(b"}\n") and data.count(b"}\n{") == count - 1 and _is_utf8(data):
        return _Lines(data, range(count)), [], []
    good, numbers, bad, blank = list[bytes](), list[int](), list[int](), list[int]()
    for number, line in enumerate(data.split(b"\n")[:-1]):
        text = line.strip(b" \t\r")
        if not text.strip(_BLANK):
            blank.append(number)
        elif text[:1] == b"{" and text[-1:] == b"}" and _is_utf8(text):
            good.append(text)
            numbers.append(number)
        else:
            bad.append(number)
    return _Lines(b"\n".join([*good, b""]), numbers), bad, blank


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    offsets = pa.array([0, len(data)], pa.int32()).buffers()[1]
    try:
        pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)]).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _matching(lines: _Lines, pattern: re.Pattern[bytes]) -> set[int]:
    """Return the lines that have a key before a quote, or a key with an escape, which may be the same."""
    if not (pattern.search(lines.data) or (b"\\" in lines.data and _ESCAPED_KEY.search(lines.data))):
        return set()
    return {row for row, line in enumerate(lines.split) if pattern.search(line) or _ESCAPED_KEY.search(line)}


def _unclean(lines: _Lines) -> set[int]:
    """Return the lines in which NaN, infinity or too great a depth may be in the value of a key that is not read."""
    found = set[int]()
    if (b"NaN" in lines.data or b"Inf" in lines.data) and _CONSTANT.search(lines.data):
        found = {row for row, line in enumerate(lines.split) if _CONSTANT.search(line)}
    if lines.data.count(b"{") + lines.data.count(b"[") > MAX_DEPTH + len(lines):
        found |= {row for row, line in enumerate(lines.split) if nests_too_deeply(line)}
    return found


def _texts(lines: _Lines, plan: _Plan, out: set[int]) -> dict[str, pa.Array]:
    """Return the members that are read as JSON text; lines in which one occurs twice are added to `out`."""
    texts = {name: list[bytes | None]() for name in plan.texts}
    attributes = [(column, f"m{i}", _quoted(name)) for i, (name, column) in enumerate(texts.items())]
    if any(map(_UNSUPPORTED.search, texts)):
        out.update(range(len(lines)))
    for row, line in enumerate(lines.split):
        found = None
        if row not in out:
            try:
                found = plan.raw.decode(line)
                if plan.within:
                    found = found.m0
                if any(line.count(key) > 1 for *_, key in attributes) or (b"\\" in line and _ESCAPED_KEY.search(line)):
                    record: Any = parse(line)["record"] if plan.within else parse(line)
                    if record is not None and not record.twice.isdisjoint(texts):
                        out.add(row)
            except (*_REFUSED, BadRowError):
                out.add(row)
        for column, attribute, _ in attributes:
            value = bytes(getattr(found, attribute, None) or b"null")  # of None too
            column.append(None if value == b"null" else value)
    return {name: pa.array(column, pa.binary()) for name, column in texts.items()}


# What pyarrow.json reads


def _read(lines: _Lines, plan: _Plan, unfit: Counter[str]) -> tuple[pa.RecordBatch, set[int], _Mode]:
    """Return the rows of lines, the bad lines, whose rows are arbitrary, and what was done with unknown keys."""
    mode: _Mode = "error" if plan.may_be_all else "ignore"
    out = set[int]() if mode == "error" else _unclean(lines)
    if not out:
        try:
            return _table(lines, plan.schema, mode), out, mode
        except pa.ArrowException as error:
            if mode == "error" and "unexpected field" in str(error) and not _unclean(lines):
                with suppress(pa.ArrowException, _UnfitError):
                    return _table(lines, plan.schema, "ignore"), out, "ignore"
        except _UnfitError:
            pass
    # Without the lines that msgspec finds, then by halves without those that only pyarrow.json refuses
    out |= _unclean(lines)
    for row, line in enumerate(lines.split):
        try:
            plan.typed.decode(line)
        except _REFUSED:
            out.add(row)
            unfit.update(_unfit_members(line, plan))
            if any(count * _OFTEN > len(lines) for count in unfit.values()):
                # The caller reads these members in another way, and then the block again.
                return _spread(_nulls(plan.schema), [None] * len(lines)), set(range(len(lines))), mode
    rest = [row for row in range(len(lines)) if row not in out]
    batches, left = list[pa.RecordBatch](), [_MOST_ALONE]
    places: list[int | None] = [None] * len(lines)
    for part, batch in _halves(lines.take(rest), plan.schema, left):
        if batch is None:
            out.update(rest[row] for row in part)
            continue
        start = sum(map(len, batches))
        for at, row in enumerate(part):
            places[rest[row]] = start + at
        batches.append(batch)
    return _spread(pa.concat_batches([*batches, _nulls(plan.schema)]), places), out, "ignore"


def _halves(
    lines: _Lines, schema: pa.Schema, left: list[int], first: int = 0
) -> Iterator[tuple[range, pa.RecordBatch | None]]:
    """Yield the rows of parts of some lines, None for a line that is refused, or if no more may be parsed alone."""
    here = range(first, first + len(lines))
    if not lines:
        return
    if left[0] <= 0:
        yield here, None
        return
    left[0] -= len(lines) == 1
    try:
        yield here, _table(lines, schema, "ignore")
    except (pa.ArrowException, _UnfitError):
        if len(lines) == 1:
            yield here, None
            return
        middle = len(lines) // 2
        yield from _halves(lines.take(range(middle)), schema, left, first)
        yield from _halves(lines.take(range(middle, len(lines))), schema, left, first + middle)


def _table(lines: _Lines, schema: pa.Schema, mode: _Mode) -> pa.RecordBatch:
    """Return the rows of lines; ArrowException or _UnfitError if one is not a record that fits."""
    if not lines:
        return _nulls(schema)
    options = pj.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=mode)
    whole = pj.ReadOptions(use_threads=False, block_size=len(lines.data) + 1)
    table = pj.read_json(pa.BufferReader(lines.data), whole, options)
    if table.num_rows != len(lines):
        raise _UnfitError
    return table.combine_chunks().to_batches()[0]


def _unfit_members(line: bytes, plan: _Plan) -> list[str]:
    """Return the members of a record whose values are of another kind."""
    try:
        record = msgspec.json.decode(line)
        if plan.within:
            record = record["record"]
        return [name for name, t in plan.kinds.items() if name in record and not _is_of(record[name], t)]
    except (*_REFUSED, TypeError, KeyError):  # not JSON, or not a record
        return []


def _is_of(value: Any, t: Any) -> bool:
    try:
        msgspec.convert(value, t | None)
    except msgspec.ValidationError:
        return False
    return True


def _nulls(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _spread(rows: pa.RecordBatch, places: Sequence[int | None]) -> pa.RecordBatch:
    """Return rows by their places, and nulls for None."""
    return rows.take(pa.array(places, pa.int64()))


# Values of columns


def _exact(column: pa.Array, kind: str, inner: tuple[Member, ...]) -> tuple[pa.Array, set[int]]:
    """Return a column as the native parser does, and the rows that only the exact rules may judge."""
    if column.null_count == len(column):
        return (_as_temporal(column, kind) if kind in _PATTERNS else column), set()
    if kind in _PATTERNS:
        return _temporal(column, kind)
    if kind in ("float", "float32"):
        return column, _odd_floats(column, 2.0 ** (24 if kind == "float32" else 53))
    if kind == "struct":
        parts, out = list[pa.Array](), set[int]()
        found = {f.name: part for f, part in zip(column.type, column.flatten(), strict=True)}
        members = [member for member in inner if member[1] != "nothing"]
        for name, of, within in members:
            part, odd = _exact(found[name], of, within)
            parts.append(part)
            out |= odd
        names = [name for name, _, _ in members]
        return pa.StructArray.from_arrays(parts, names, mask=column.is_null()), out
    if kind == "list":
        (_, of, within), *_ = inner
        items, odd = _exact(column.flatten(), of, within)
        if odd:
            parents = pc.list_parent_indices(column)
            odd = {parents[row].as_py() for row in odd}
        if items.type != column.type.value_type:
            lengths = pc.fill_null(pc.list_value_length(column), 0)
            ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
            column = pa.ListArray.from_arrays(ends, items, mask=column.is_null())
        return column, odd
    return column, set()


def _temporal(column: pa.Array, kind: str) -> tuple[pa.Array, set[int]]:
    """Return texts as dates or timestamps, and the rows of other texts."""
    out = _rows(pc.invert(pc.match_substring_regex(column, _PATTERNS[kind])))
    if out:
        column = pc.if_else(pc.match_substring_regex(column, _PATTERNS[kind]), column, None)
    try:
        return _as_temporal(column, kind), out
    except (pa.ArrowException, ValueError, ArithmeticError):  # such as of the 30th of February
        wrong = {row for row, text in enumerate(column.to_pylist()) if text is not None and not _exists(text)}
        kept = pa.array([row not in wrong for row in range(len(column))])
        return _as_temporal(pc.if_else(kept, column, None), kind), out | wrong


def _as_temporal(column: pa.Array, kind: str) -> pa.Array:
    if kind == "date":
        return column.cast(pa.date32())
    return parse_text(column, pa.timestamp("us", "UTC"))


def _exists(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _odd_floats(column: pa.Array, limit: float) -> set[int]:
    """Return the rows of NaN, of infinities, of numbers from a limit on, which may be rounded, and of `-0`."""
    # The bits of floats are in the order of the floats, below the sign.
    bits = column.view(pa.int64())
    top = pa.array([limit], pa.float64()).view(pa.int64())[0].as_py()
    ends = pc.min_max(bits).as_py()
    if ends["min"] >= 0 and ends["max"] < top:
        return set()
    size = pc.bit_wise_and(bits, pa.scalar(2**63 - 1, pa.int64()))
    is_odd = pc.or_(pc.greater_equal(size, pa.scalar(top, pa.int64())), pc.equal(bits, pa.scalar(-(2**63), pa.int64())))
    return _rows(is_odd)


def _rows(mask: pa.Array) -> set[int]:
    return set(pc.indices_nonzero(mask).to_pylist())


# Types of what is read


def _walk(members: Sequence[Member]) -> Iterator[Member]:
    """Yield members, and all within them."""
    for member in members:
        yield member
        yield from _walk(member[2])


def _fields(members: Sequence[Member], own: pa.DataType) -> list[pa.Field]:
    """Return the fields that pyarrow.json reads; `own` is the type of the struct in the schema."""
    return [
        pa.field(name, _arrow_type(kind, inner, own.field(name).type))
        for name, kind, inner in members
        if kind not in ("json", "nothing")
    ]


def _arrow_type(kind: str, inner: tuple[Member, ...], own: pa.DataType) -> pa.DataType:
    if kind == "struct":
        return pa.struct(_fields(inner, own) or [_NO_COLUMN])
    if kind == "list":
        return pa.list_(_arrow_type(inner[0][1], inner[0][2], own.value_type))
    if kind in ("number", "digits"):  # with digits to spare, as scaling may overflow without an error
        fits = own.precision + own.scale <= _MOST_DIGITS
        return pa.decimal256(max(own.precision, 38) if fits else 1, own.scale)
    return _TYPES[kind][0]


def _typed(members: Sequence[Member]) -> dict[str, Any]:
    return {name: _typed_value(kind, inner) for name, kind, inner in members if kind not in ("json", "nothing")}


def _typed_value(kind: str, inner: tuple[Member, ...]) -> Any:
    """Return the type of msgspec for values of a kind."""
    if kind == "struct":
        return _struct(_typed(inner))
    if kind == "list":
        return list[_typed_value(inner[0][1], inner[0][2]) | None]  # type: ignore[misc]
    return _TYPES[kind][1]


def _shape(members: Sequence[Member]) -> Any:
    """Return the type of msgspec for an object of no other keys than these, and so for all objects within it."""
    return _struct({name: _shape_value(kind, inner) for name, kind, inner in members}, is_closed=True)


def _shape_value(kind: str, inner: tuple[Member, ...]) -> Any:
    if kind == "struct":
        return _shape(inner)
    if kind == "list" and any(k == "struct" for _, k, _ in _walk(inner)):
        return list[_shape_value(inner[0][1], inner[0][2]) | None]  # type: ignore[misc]
    return msgspec.Raw


def _struct(types: Mapping[str, Any], *, is_closed: bool = False) -> Any:
    """Return a struct of msgspec, with members m0, m1, ... of these names and types, or null.

    It lacks members with names that msgspec does not support; their values and keys are left to the exact rules.
    """
    names = {f"m{i}": name for i, name in enumerate(types) if not _UNSUPPORTED.search(name)}
    members = [(m, types[n] if types[n] is msgspec.Raw else types[n] | None, None) for m, n in names.items()]
    return msgspec.defstruct("Object", members, rename=names, forbid_unknown_fields=is_closed, gc=False)


def _key(name: str) -> re.Pattern[bytes]:
    """Return the pattern of a key before a quote."""
    return re.compile(re.escape(_quoted(name)) + rb'[ \t\r]*:[ \t\r]*"')


def _quoted(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode()
