"""Random streams of RECORD lines: SCHEMAs of all kinds, and lines of which some are invalid."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from hypothesis import strategies as st
from record_reference import Schema

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
    """Generate a property, and values that mostly match it."""
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
    """Generate a SCHEMA, its keys, and lines of which some are invalid."""
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
