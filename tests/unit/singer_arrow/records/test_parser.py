"""RECORD lines give the same rows as a plain reader, or the same error at the same line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_parsers import json_parser  # noqa: F401 - used by each test of the module
from pyarrow import types as pt
from record_reference import RefusalError, Schema, reference_row
from record_streams import LEAVES, encode, streams

from singer_arrow.casting.from_json import BadRowError
from singer_arrow.formats.json_keys import KnownKeys
from singer_arrow.formats.json_lines import LineParser
from singer_arrow.records.parse import LACKS_KEY, Message, NoMessageError, RecordParser, message_of
from singer_arrow.records.schema import rules_for, rules_unchecked
from singer_arrow.records.validation import check_dates, check_record, date_format, validator
from singer_arrow.schema.arrow_schema import is_json
from singer_arrow.schema.json_schema import from_json_schema


def parser(
    schema: Schema,
    keys: Sequence[str],
    *,
    checks: bool = True,
    skips_bad_records: bool = False,
    around: Sequence[str] = (),
) -> RecordParser:
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
    return RecordParser(
        fields, around=around, rules=rules, check=check, checks_types=checks, skips_bad_records=skips_bad_records
    )


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows in the form of the reference, with JSON text parsed."""
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
        return json.loads(value, parse_float=Decimal, parse_int=Decimal)  # `int` takes 4,300 digits
    if pt.is_struct(field.type):
        return {f.name: _opened(value[f.name], f) for f in field.type}
    if pt.is_list(field.type):
        return [_opened(v, field.type.value_field) for v in value]
    return value


def compare(schema: Schema, keys: Sequence[str], lines: Sequence[bytes], *, checks: bool = True) -> None:
    schema = json.loads(json.dumps(schema), parse_float=Decimal)  # as SCHEMA messages are read
    expected, refused = [], None
    for index, line in enumerate(lines):
        try:
            expected.append(reference_row(line, schema, keys, checks=checks))
        except RefusalError:
            refused = index
            break
    parsed = parser(schema, keys, checks=checks)(b"".join(line + b"\n" for line in lines), len(lines))
    assert (parsed.bad_line.index if parsed.bad_line else None) == refused, parsed.bad_line
    assert rows_of(parsed.rows) == expected


def compare_rejecting(schema: Schema, keys: Sequence[str], lines: Sequence[bytes], *, checks: bool = True) -> None:
    """Compare like `compare`, with a parser that skips bad records."""
    schema = json.loads(json.dumps(schema), parse_float=Decimal)
    expected, refused, ended = [], list[int](), None
    for index, line in enumerate(lines):
        try:
            expected.append(reference_row(line, schema, keys, checks=checks))
        except RefusalError:
            try:
                message_of(line)
            except NoMessageError:
                ended = index
                break
            refused.append(index)
    parsed = parser(schema, keys, checks=checks, skips_bad_records=True)(
        b"".join(line + b"\n" for line in lines), len(lines)
    )
    assert (parsed.bad_line.index if parsed.bad_line else None) == ended, parsed.bad_line
    assert [bad_line.index for bad_line in parsed.refused] == refused
    assert [bad_line.line for bad_line in parsed.refused] == [lines[index] for index in refused]
    assert rows_of(parsed.rows) == expected
    assert parsed.rows_of(len(lines) if ended is None else ended) == len(expected)


@given(streams(), st.booleans())
def test_bad_records_are_left_out_where_rows_are_rejected(
    stream: tuple[Schema, list[str], list[bytes]], checks: bool
) -> None:
    compare_rejecting(*stream, checks=checks)


@settings(max_examples=10, deadline=None)
@given(streams())
def test_bad_records_are_left_out_of_blocks_of_many_lines(stream: tuple[Schema, list[str], list[bytes]]) -> None:
    schema, keys, lines = stream
    compare_rejecting(schema, keys, (lines * 200)[:200])


@given(streams())
def test_rows_and_refusals_are_those_of_a_plain_reader(stream: tuple[Schema, list[str], list[bytes]]) -> None:
    compare(*stream)


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(streams(), st.booleans())
def test_blocks_of_many_lines_are_read_alike(stream: tuple[Schema, list[str], list[bytes]], ends_badly: bool) -> None:
    schema, keys, lines = stream
    compare(schema, keys, [*(lines * 200)[:300], *([b"null"] if ends_badly else [])])


def test_plain_streams_are_read_fast() -> None:
    """SCHEMAs that need no check of single records; a regression makes targets slow."""
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
        bad_line = parser(schema, [])(block, block.count(b"\n")).bad_line
        assert bad_line is not None
        assert bad_line.index == 1


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
@pytest.mark.full
def test_streams_that_are_written_in_another_way(prop: Schema, value: Any) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "a": prop}}
    lines = [encode({"id": n, "a": value}, {}) for n in range(1000)]
    compare(schema, ["a"], lines)
    missing = [encode({"id": n}, {}) for n in range(300)]
    compare(schema, ["id"], [*lines, *missing])
    compare(schema, ["a"], [*lines, *missing])
    compare(schema, [], [*missing, b"[]", *lines])


@pytest.mark.parametrize("beside", [b"1", b"1.0"])
def test_a_decimal_of_many_digits_is_a_multiple_beside_any_value(beside: bytes) -> None:
    schema = {"properties": {"i": {"type": "integer"}, "d": {"type": "number", "multipleOf": Decimal("0.01")}}}
    line = b'{"type":"RECORD","stream":"s","record":{"i":%b,"d":1234567890123456789012345678.12}}\n' % beside
    parsed = parser(schema, [])(line, 1)
    assert parsed.bad_line is None
    assert parsed.rows.to_pylist() == [{"i": 1, "d": Decimal("1234567890123456789012345678.12")}]


@pytest.mark.parametrize(
    ("record", "rows", "reason"),
    [
        (b'{"n":2.5,"j":[1.5,1e5],"x":"\\ud800"}', [{"n": Decimal("2.5"), "j": "[1.5,1E+5]"}], None),
        (b'{"n":2.5,"x":null}', [], "Additional properties are not allowed"),
    ],
)
def test_members_that_the_schema_lacks_leave_the_others_as_they_are(
    record: bytes, rows: list[Message], reason: str | None
) -> None:
    props: Schema = {"n": {"type": ["null", "number"], "multipleOf": Decimal("0.1")}, "j": {}}
    line = b'{"type":"RECORD","stream":"s","record":%b}\n' % record
    parsed = parser({"properties": props, "additionalProperties": reason is None}, [])(line, 1)
    assert parsed.rows.to_pylist() == rows
    assert (parsed.bad_line is None) == (reason is None)
    assert reason is None or reason in str(parsed.bad_line)


@pytest.mark.parametrize(
    "version", [b"1e1000000", b"1e9999999999999999999999", b"9223372036854775808", b"1.5", b"true"]
)
def test_a_version_of_too_many_digits_is_refused_at_once(version: bytes) -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    read = parser(schema, [], around=["version"])
    parsed = read(b'{"type":"RECORD","stream":"s","record":{"a":1},"version":%b}\n' % version, 1)
    assert "is no integer of 64 bits" in str(parsed.bad_line)


@pytest.mark.parametrize("levels", [100, 900, 3_000, 50_000, 200_000])
@pytest.mark.parametrize("beside", [b"1", b"1.0"])
def test_deep_values_are_read_or_refused_with_their_line(levels: int, beside: bytes) -> None:
    deep = b"[" * levels + b"]" * levels
    line = b'{"type":"RECORD","stream":"s","record":{"i":%b,"a":%b}}\n'
    schema = {"properties": {"i": {"type": "integer"}, "a": {}}}
    parsed = parser(schema, [])(line % (b"1", b"[]") + line % (beside, deep), 2)
    if parsed.bad_line is None:
        assert parsed.rows.column("a").to_pylist() == ["[]", deep.decode()]
    else:
        assert levels > 100
        assert (parsed.bad_line.index, parsed.rows.num_rows) == (1, 1)
        assert "nested too deeply" in parsed.bad_line.reason


def test_a_parser_learns_how_its_stream_is_written(json_parser: str) -> None:  # noqa: F811 - the fixture
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    lines = b"".join(encode({"at": "2026-01-01T00:00:00.1234567Z"}, {}) + b"\n" for _ in range(500))
    read = parser(schema, [])
    assert read(lines, 500).rows.num_rows == 500
    assert not read(lines, 500).is_slow


@given(streams())
def test_records_that_are_not_validated(stream: tuple[Schema, list[str], list[bytes]]) -> None:
    compare(*stream, checks=False)


def test_an_unknown_key_of_several_kinds_of_values_is_counted_at_the_same_speed(json_parser: str) -> None:  # noqa: F811 - the fixture
    """Once it is met, later blocks are read at once too: none goes line by line."""
    schema = pa.schema([("id", pa.int64())])
    around = pa.schema([("type", pa.string())])
    parse = LineParser(schema, KnownKeys(schema, frozenset(), frozenset()), loose_text=True, around=around)
    for _ in range(3):
        lines = [{"type": "RECORD", "record": {"id": n, "x": n if n % 2 else "text"}} for n in range(4)]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        read = parse(data)
        assert (read.batch.column("id").to_pylist(), read.unread, read.unknown) == ([0, 1, 2, 3], frozenset(), {"x": 4})
