"""RECORD lines become the rows that a plain reader makes of them, or the refusal with the line where that one stops.

The reference is json and jsonschema, one record at a time, and knows nothing of blocks, columns and ways.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import validators
from pyarrow import types as pt

from singer_arrow.formats.jsonl_rows import BadRowError
from singer_arrow.schema import from_json_schema, is_json
from singer_arrow.singer.record_message import Message
from singer_arrow.singer.record_parse import RecordParser
from singer_arrow.singer.rules import rules_for, rules_unchecked
from singer_arrow.singer.sdk_errors import LACKS_KEY
from singer_arrow.singer.sdk_validation import check_dates, check_record, date_format, validator

Schema = dict[str, Any]


class RefusalError(Exception):
    """The reference does not take a line."""


# The reference ------------------------------------------------------------------------------------------------------


def _is_integer(_: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, Decimal) and value == value.to_integral_value())


Validator = validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


PARSERS: dict[str, Any] = {"date-time": _moment, "date": date.fromisoformat, "time": time.fromisoformat}


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < 4000 else Decimal(digits)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise RefusalError("a key stands twice")
    return dict(pairs)


def reference_row(line: bytes, schema: Schema, keys: Sequence[str], *, checks: bool = True) -> dict[str, Any]:
    """One record, by the rules alone."""
    try:
        text = line.decode()
        hooks = {"parse_float": Decimal, "parse_int": _integer, "parse_constant": float, "object_pairs_hook": _pairs}
        record = json.loads(text, **hooks)["record"]  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError) as error:
        raise RefusalError(str(error)) from None
    if not isinstance(record, dict):
        raise RefusalError("no object")
    try:
        if checks and not Validator(schema).is_valid(record):
            raise RefusalError("not as the SCHEMA says")
    except (ArithmeticError, TypeError):
        raise RefusalError("cannot be checked") from None
    for name, prop in schema["properties"].items():
        said = [p for p in (prop, *prop.get("anyOf", ())) if isinstance(p, dict)]
        formats = [p.get("format") for p in said if "string" in p.get("type", [])]
        kind = next((f for f in formats if f in PARSERS), None)
        if kind and record.get(name) is not None:
            try:
                PARSERS[kind](record[name])
            except (ValueError, TypeError, OverflowError):
                raise RefusalError("no date") from None
    if not set(keys) <= record.keys():
        raise RefusalError("no key")
    return {f.name: plain(record.get(f.name), f) for f in from_json_schema(schema)}


def plain(value: Any, field: pa.Field) -> Any:
    """A value of JSON as a row has it."""
    t = field.type
    if value is None:
        return None
    if is_json(field):
        return _checked_json(value)
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if pt.is_struct(t) and isinstance(value, dict):
        return {f.name: plain(value.get(f.name), f) for f in t}
    if pt.is_list(t) and isinstance(value, list):
        return [plain(v, t.value_field) for v in value]
    if pt.is_map(t) and isinstance(value, dict):
        return [(_text(k), plain(v, t.item_field)) for k, v in value.items()]
    if pt.is_string(t):
        return _text(value) if isinstance(value, str) else TextOf(_checked_json(value))
    if pt.is_boolean(t) and isinstance(value, bool):
        return value
    if pt.is_int64(t) and number and value == int(value) and -(2**63) <= value < 2**63:
        return int(value)
    if pt.is_float64(t) and number and math.isfinite(_float(value)):
        return float(value)
    if pt.is_decimal(t) and (number or isinstance(value, str)):
        return _decimal(value, t)
    if isinstance(value, str):
        return _from_text(value, t)
    raise RefusalError(f"{value!r} as {t}")


def _checked_json(value: Any) -> Any:
    _text(json.dumps(value, ensure_ascii=False, default=str))
    try:
        json.dumps(value, default=str, allow_nan=False)
    except ValueError:
        raise RefusalError("NaN") from None
    return value


class TextOf:
    """Equals each JSON text of a value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        found = json.loads(other, parse_float=Decimal, parse_int=_integer) if isinstance(other, str) else None
        return bool(found == self.value and type(found) is type(self.value))

    def __repr__(self) -> str:
        return f"TextOf({self.value!r})"

    __hash__ = None  # type: ignore[assignment]


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusalError("no Unicode") from None
    return value


def _decimal(value: Any, t: pa.DataType) -> Decimal:
    try:
        found = Decimal(value)
        fits = pa.scalar(found, pa.decimal256(76, t.scale)).as_py() == found and found.copy_abs() < Decimal(10) ** (
            t.precision - t.scale
        )
    except (pa.ArrowException, ArithmeticError):
        raise RefusalError("no such decimal") from None
    if not fits:
        raise RefusalError("no such decimal")
    return found


def _from_text(value: str, t: pa.DataType) -> Any:
    try:
        if pt.is_timestamp(t):
            return _moment(value)
        if pt.is_date(t):
            return date.fromisoformat(value)
        if pt.is_time(t):
            return time.fromisoformat(value)
        if pt.is_binary(t):
            return base64.b64decode(value, validate=True)
    except (ValueError, OverflowError):
        raise RefusalError("no such text") from None
    raise RefusalError(f"text as {t}")


# What is tried ------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
INTEGERS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, 1.0, -2.5, 1e16]))
MOMENTS = st.one_of(
    st.datetimes().map(datetime.isoformat),
    st.sampled_from(
        [
            "2026-01-01",
            "2026-01-01T00:00:00Z",
            "2026-01-01 10:00:00.5+02:00",
            "2026-01-01T10:00",
            "2026-01-01T10:00:00-0330",
            "2026-01-01T00:00:00.1234567Z",
            "2026-02-30T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "0000-12-31T23:59:59Z",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "",
        ]
    ),
)
DATES = st.one_of(
    st.dates().map(date.isoformat), st.sampled_from(["2026-02-30", "10000-01-01", "0000-01-01", "0001-01-01", "x"])
)
TIMES = st.one_of(st.times().map(time.isoformat), st.sampled_from(["10:00", "25:00:00"]))
CENTS = st.decimals(-(10**6), 10**6, places=2).map(float)
AMOUNTS = st.one_of(st.integers(-5, 10**4), st.sampled_from([10**29, 10**29 - 1, 4 * 10**29, int("1" * 36)]))
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    INTEGERS,
    st.integers(2**63, 2**65),
    FLOATS,
    TEXTS,
    st.sampled_from(["1.5", "2026-01-01", "\ud800", [], {}, [None], {"a": None}, [1], {"a": 1}, "x" * 30]),
)
LEAVES: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    ({"type": "integer"}, INTEGERS),
    ({"type": "integer", "minimum": -3, "maximum": 4}, st.integers(-3, 4)),
    ({"type": "number"}, st.one_of(INTEGERS, FLOATS)),
    ({"type": "number", "minimum": 0}, st.floats(0, 10)),
    ({"type": "number", "multipleOf": 0.01}, CENTS),
    ({"type": "string", "format": "singer.decimal"}, st.one_of(AMOUNTS, AMOUNTS.map(str))),
    ({"type": "string", "format": "singer.decimal", "precision": 6, "scale": 2}, AMOUNTS.map(str)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "string"}, TEXTS),
    ({"type": "string", "maxLength": 4}, TEXTS),
    ({"type": "string", "enum": ["a", "b", None]}, st.sampled_from(["a", "b"])),
    ({"type": "string", "pattern": "^a"}, TEXTS.map(lambda t: f"a{t}")),
    ({"type": "string", "format": "date-time"}, MOMENTS),
    ({"type": "string", "format": "date"}, DATES),
    ({"type": "string", "format": "time"}, TIMES),
    ({"type": "string", "format": "uuid"}, TEXTS),
    (
        {"type": "string", "contentEncoding": "base64"},
        st.binary(max_size=5).map(lambda b: base64.b64encode(b).decode()),
    ),
    ({"type": ["string", "integer"]}, st.one_of(TEXTS, INTEGERS)),
    ({"type": ["string", "object"], "format": "date-time"}, st.one_of(MOMENTS, st.just({"i": 1.0}))),
    ({"anyOf": [True, {"type": "string", "format": "date"}]}, DATES),
    ({"type": "object"}, st.dictionaries(TEXTS, INTEGERS, max_size=2)),
    ({"type": "array"}, st.lists(TEXTS, max_size=2)),
    ({}, JUNK),
    ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}, MOMENTS),
    ({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string"}]}, st.one_of(MOMENTS, TEXTS)),
    ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, INTEGERS),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, st.dictionaries(TEXTS, INTEGERS, max_size=2)),
]


@st.composite
def properties(draw: st.DrawFn, depth: int = 2) -> tuple[Schema, st.SearchStrategy[Any]]:
    """A property, and values that mostly are as it says."""
    kind = draw(st.integers(0, 9))
    if kind == 0 and depth:
        prop, values = draw(properties(depth - 1))
        prop, values = {"type": "array", "items": prop}, st.lists(values, max_size=3)
    elif kind == 1 and depth:
        members = draw(st.dictionaries(st.sampled_from(["a", "b", "ü"]), properties(depth - 1), min_size=1))
        prop = {"type": "object", "properties": {name: p for name, (p, _) in members.items()}}
        if draw(st.booleans()):
            prop["required"] = [next(iter(members))]
        values = st.fixed_dictionaries({}, optional={name: v for name, (_, v) in members.items()})
    else:
        prop, values = draw(st.sampled_from(LEAVES))
    if isinstance(prop.get("type"), str) and draw(st.booleans()):
        return {**prop, "type": [prop["type"], "null"]}, st.one_of(values, values, st.none())
    return prop, values


@st.composite
def streams(draw: st.DrawFn) -> tuple[Schema, list[str], list[bytes]]:
    """A SCHEMA, its keys, and lines of which some are bad."""
    members = draw(st.dictionaries(st.sampled_from(["id", "b c", "é", 'q"', "d", "e"]), properties(), min_size=1))
    schema: Schema = {"type": "object", "properties": {name: p for name, (p, _) in members.items()}}
    if draw(st.integers(0, 4)) == 0:
        schema["additionalProperties"] = False
    keys = draw(st.sampled_from([[], [next(iter(members))]]))
    if draw(st.integers(0, 4)) == 0:
        schema["required"] = [next(iter(members))]
    good = st.fixed_dictionaries({name: v for name, (_, v) in members.items()})
    partly = st.fixed_dictionaries({}, optional={name: v for name, (_, v) in members.items()})
    odd = st.fixed_dictionaries({}, optional={**dict.fromkeys(members, JUNK), "more": JUNK})
    count = draw(st.sampled_from([1, 3, 12]))
    bad = draw(st.integers(0, 3)) == 0
    chosen = st.one_of(*[good] * 6, partly, *([odd] if bad else []))
    records = draw(st.lists(chosen, min_size=count, max_size=count))
    lines = [encode(record, draw(st.sampled_from(STYLES))) for record in records]
    if bad and draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(ODD_LINES)))
    return schema, keys, lines


STYLES: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"ensure_ascii": False}]
ENVELOPE = {"type": "RECORD", "stream": "s"}
ODD_LINES = [
    b"null",
    b"",
    b"  ",
    b"[]",
    b"{}",
    b'{"type":"RECORD","stream":"s"}',
    b'{"type":"RECORD","stream":"s","record":null}',
    b'{"type":"RECORD","stream":"s","record":[{}]}',
    b'{"type":"RECORD","stream":"s","record":{"id":NaN}}',
    b'{"type":"RECORD","stream":"s","record":{"more":-Infinity}}',
    b'{"type":"RECORD","stream":"s","record":{"id":1e400}}',
    b'{"type":"RECORD","stream":"s","record":{"id":[2e308]}}',
    b'{"type":"RECORD","stream":"s","record":{"id":0.99999999999999999999}}',
    b'{"type":"RECORD","stream":"s","record":{"id":"\xff"}}',
    b'{"type":"RECORD","stream":"s","record":{"id":1},"record":{"id":2}}',
    b'{"type":"RECORD","stream":"s","record":{"id":1}} {"type":"RECORD","stream":"s","record":{"id":2}}',
    b'{"type":"RECORD","stream":"s","record":{"id":1}',
    b'{"type":"RECORD","stream":"s","record":{"id":1}}}',
    b'{"type":"RECORD","stream":"s","record":{"id":' + b"9" * 5000 + b"}}",
]


def encode(record: Mapping[str, Any], style: Mapping[str, Any]) -> bytes:
    message = {**ENVELOPE, "record": record, "time_extracted": "2026-01-01T00:00:00Z"}
    return json.dumps(message, **style).encode(errors="surrogatepass")


def parser(schema: Schema, keys: Sequence[str], *, checks: bool = True) -> RecordParser:
    fields, against = from_json_schema(schema), validator(schema)
    dates = {name: kind for name, prop in schema["properties"].items() if (kind := date_format(prop))}

    def check(message: Message) -> None:
        if checks:
            check_record(message["record"], against)
        check_dates(message["record"], dates)
        for key in keys:
            if key not in message["record"]:
                raise BadRowError(LACKS_KEY, key)

    rules = (rules_for if checks else rules_unchecked)(schema, fields, keys)
    return RecordParser(fields, around=(), rules=rules, check=check, checks_types=checks)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as the reference has them: JSON text as what it stands for."""
    batch.validate(full=True)
    rows = batch.to_pylist()
    for row in rows:
        for field in batch.schema:
            row[field.name] = _opened(row[field.name], field)
    return list(rows)


def _opened(value: Any, field: pa.Field) -> Any:
    if value is None:
        return None
    if is_json(field):
        return json.loads(value, parse_float=Decimal)
    if pt.is_struct(field.type):
        return {f.name: _opened(value[f.name], f) for f in field.type}
    if pt.is_list(field.type):
        return [_opened(v, field.type.value_field) for v in value]
    return value


def compare(schema: Schema, keys: Sequence[str], lines: Sequence[bytes], *, checks: bool = True) -> None:
    schema = json.loads(json.dumps(schema), parse_float=Decimal)  # as SCHEMA messages are read
    wanted, refused = [], None
    for index, line in enumerate(lines):
        try:
            wanted.append(reference_row(line, schema, keys, checks=checks))
        except RefusalError:
            refused = index
            break
    parsed = parser(schema, keys, checks=checks)(b"".join(line + b"\n" for line in lines), len(lines))
    assert (parsed.fault.index if parsed.fault else None) == refused, parsed.fault
    assert rows_of(parsed.rows) == wanted


@given(streams())
def test_rows_and_refusals_are_those_of_a_plain_reader(stream: tuple[Schema, list[str], list[bytes]]) -> None:
    compare(*stream)


@settings(max_examples=20, deadline=None)
@given(streams(), st.booleans())
def test_blocks_of_many_lines_are_read_alike(stream: tuple[Schema, list[str], list[bytes]], ends_badly: bool) -> None:
    schema, keys, lines = stream
    compare(schema, keys, [*(lines * 200)[:300], *([b"null"] if ends_badly else [])])


def test_plain_streams_are_read_fast() -> None:
    """Which SCHEMAs need no look at single records; where this breaks, targets get slow."""
    for prop, _ in LEAVES:
        schema = {"type": "object", "properties": {"a": prop, "b": {"type": ["null", "array"], "items": prop}}}
        schema = json.loads(json.dumps(schema), parse_float=Decimal)
        rules = rules_for(schema, from_json_schema(schema), ["a"])
        is_odd = (
            "additionalProperties" in prop or True in prop.get("anyOf", ()) or prop.get("format") == "singer.decimal"
        )
        assert (rules is None) == is_odd, prop


def test_a_message_over_two_lines_is_refused_also_where_another_line_holds_two() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    line = b'{"type":"RECORD","stream":"s","record":{"a":1}}'
    for spread in (b'{"type":"RECORD","stream":"s","record":\n{"a":1}}', b'{"type":"RECORD","record":{"a":1}\n}'):
        block = b"\n".join([line, spread, line + line, line, b""])
        fault = parser(schema, [])(block, block.count(b"\n")).fault
        assert fault is not None
        assert fault.index == 1


@pytest.mark.parametrize(
    ("prop", "value"),
    [
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00.1234567Z"),
        ({"type": "integer"}, 1.0),
        ({"type": ["string", "integer"]}, 5),
        ({"type": "number", "minimum": 0}, 0),
        ({"type": ["integer", "null"]}, None),
        ({"type": ["string", "object"], "format": "date-time"}, "hello"),
        ({"type": ["string", "object"], "format": "date-time"}, "2026-01-01"),
        ({"type": ["string", "object"], "format": "date-time"}, {}),
        ({"type": "array", "items": {"type": "string", "format": "date"}}, ["0000-01-01"]),
        ({"type": "array", "items": {"type": "string", "format": "date-time"}}, ["9999-12-31T23:59:59-14:00"]),
        ({"type": "string", "format": "date-time"}, "0001-01-01T00:00:00+00:01"),
        ({"type": "array", "items": {"type": "string", "format": "date"}}, ["\ud800"]),
        ({"type": "string", "contentEncoding": "base64"}, "\ud800"),
        ({"type": "string", "format": "singer.decimal"}, "\ud800"),
        ({"type": "object", "additionalProperties": {"type": "integer"}, "properties": {}}, {"\ud800": 1}),
    ],
)
def test_streams_that_are_written_in_another_way(prop: Schema, value: Any) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "a": prop}}
    lines = [encode({"id": n, "a": value}, {}) for n in range(1000)]
    compare(schema, ["a"], lines)
    missing = [encode({"id": n}, {}) for n in range(300)]
    compare(schema, ["id"], [*lines, *missing])
    compare(schema, ["a"], [*lines, *missing])
    compare(schema, [], [*missing, b"[]", *lines])


@pytest.mark.parametrize("beside", [b"1", b"1.0"])
def test_a_decimal_of_many_digits_is_a_multiple_whatever_stands_beside_it(beside: bytes) -> None:
    schema = {"properties": {"i": {"type": "integer"}, "d": {"type": "number", "multipleOf": Decimal("0.01")}}}
    line = b'{"type":"RECORD","stream":"s","record":{"i":%b,"d":1234567890123456789012345678.12}}\n' % beside
    parsed = parser(schema, [])(line, 1)
    assert parsed.fault is None
    assert parsed.rows.to_pylist() == [{"i": 1, "d": Decimal("1234567890123456789012345678.12")}]


@pytest.mark.parametrize("levels", [100, 900, 3_000, 50_000, 200_000])
@pytest.mark.parametrize("beside", [b"1", b"1.0"])
def test_deep_values_are_read_or_refused_with_their_line(levels: int, beside: bytes) -> None:
    deep = b"[" * levels + b"]" * levels
    line = b'{"type":"RECORD","stream":"s","record":{"i":%b,"a":%b}}\n'
    schema = {"properties": {"i": {"type": "integer"}, "a": {}}}
    parsed = parser(schema, [])(line % (b"1", b"[]") + line % (beside, deep), 2)
    if parsed.fault is None:
        assert parsed.rows.column("a").to_pylist() == ["[]", deep.decode()]
    else:
        assert levels > 100
        assert (parsed.fault.index, parsed.rows.num_rows) == (1, 1)
        assert "nested too deeply" in parsed.fault.reason


def test_a_parser_learns_how_its_stream_is_written() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    lines = b"".join(encode({"at": "2026-01-01T00:00:00.1234567Z"}, {}) + b"\n" for _ in range(500))
    read = parser(schema, [])
    assert read(lines, 500).rows.num_rows == 500
    assert not read(lines, 500).is_slow
    assert read._fast(lines, 500).rows.num_rows == 500


@settings(max_examples=40, deadline=None)
@given(streams())
def test_records_that_are_not_validated(stream: tuple[Schema, list[str], list[bytes]]) -> None:
    compare(*stream, checks=False)
