"""Both parsers give what the exact rules give, whatever the text."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given
from json_parsers import PARSERS, use

from singer_arrow.casting.spelling import collect_truncated
from singer_arrow.enforcement.bad_rows import batch_of
from singer_arrow.formats import json_lines
from singer_arrow.formats.json_keys import KnownKeys
from singer_arrow.formats.json_lines import LineParser, ReadLines, line_numbers
from singer_arrow.schema.arrow_schema import json_field

INNER = pa.struct([("i", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us", "UTC")), ("d", pa.decimal128(9, 2))])
SCHEMA = pa.schema(
    [
        ("b", pa.bool_()),
        ("i", pa.int64()),
        ("i8", pa.int8()),
        ("u64", pa.uint64()),
        ("f", pa.float64()),
        ("f32", pa.float32()),
        ("f16", pa.float16()),
        ("d", pa.decimal128(12, 3)),
        ("w", pa.decimal256(60, 5)),
        ("s", pa.string()),
        ("day", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("ns", pa.timestamp("ns", "UTC")),
        ("clock", pa.time64("us")),
        ("x", pa.binary()),
        ("o", INNER),
        ("l", pa.list_(pa.float64())),
        ("lo", pa.list_(INNER)),
        ("ll", pa.list_(pa.list_(pa.int64()))),
        ("m", pa.map_(pa.string(), pa.int64())),
        json_field("j"),
        ("none", pa.null()),
        ('q"\\', pa.int64()),
        ("é", pa.string()),
    ]
)
NUMBERS = (
    *(
        "0",
        "-0",
        "-0.0",
        "1",
        "-1",
        "1.0",
        "1.50",
        "1e2",
        "1E+2",
        "1.5e-3",
        "127",
        "128",
        "-129",
        "255.0",
        "9007199254740993",
    ),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615", "1e400", "-1e308", "16777217", "3.5e38"),
    *("1e9999999999999999999999", "0e-9999999999999999999999", "1e-400", "9007199254740991.5", "1" * 5000, "9" * 19),
    *("01", "1.", ".5", "+1", "-", "1e", "NaN", "Infinity", "0.1234567", "123456789012345678901234567890.5", "1e23"),
)
TEXTS = (
    *("", "a", "é", "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\n", "\\x", "1", "1.25", "true", "YWJj", "YWJ", "\t"),
    *("2024-02-29", "2023-02-29", "0000-01-01", "2024-1-1", "2024-02-29T12:34:56", "2024-02-29 12:34:56Z"),
    *(
        "2024-02-29T12:34:56.123456+02:00",
        "2024-02-29T12:34:56.1234567Z",
        "2024-02-29T24:00:00",
        "1969-12-31T23:59:59.5Z",
    ),
    *(
        "2024-02-29T12:34:56-00:30",
        "2024-02-29T12:34:56.5+23:59",
        "2024-02-29T12:34:56+24:00",
        "2024-02-29T12:34:56+0200",
    ),
    *("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-01:00", "2024-02-29T12:34:56+02", "2024-02-29T12:34:56.+02:00"),
    *(
        "2024-02-29t12:34:56z",
        "2024-02-29T23:59:60Z",
        "10000-01-01",
        "9999-12-31T23:59:59.9999999Z",
        "\\u0000",
        "\ufeff",
    ),
    *("2024-02-29T12:34", "12:34:56", "25:00:00", "9999-12-31T23:59:59.999999", "0001-01-01T00:00:00Z", "1500-02-29"),
)
SCALARS = st.sampled_from([*NUMBERS, *(f'"{text}"' for text in TEXTS), "true", "false", "null", "nul", "tru"])
NAMES = st.sampled_from([*map(json.dumps, SCHEMA.names), '"new"', '"kept"', r'"\u0069"', '"I"', "i"])


def joined(items: list[str], brackets: str, blank: str) -> str:
    return f"{brackets[0]}{blank}{f'{blank},{blank}'.join(items)}{blank}{brackets[1]}"


BLANKS = st.sampled_from(["", "", " ", "\t"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.builds(joined, st.lists(inner, max_size=3), st.just("[]"), BLANKS)
        | st.builds(
            joined,
            st.lists(st.builds('"{}":{}'.format, st.sampled_from(["i", "s", "t", "d", "new", "i"]), inner), max_size=3),
            st.just("{}"),
            BLANKS,
        )
    ),
    max_leaves=6,
)
RECORDS = st.builds(joined, st.lists(st.builds("{}:{}".format, NAMES, VALUES), max_size=6), st.just("{}"), BLANKS)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    line = draw(RECORDS).encode()
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 2))
        line = (
            line[:at]
            + draw(st.sampled_from([b"", b'"', b",", b"}", b"{", b"]", b"\x00", b"\xff", b"\\", b"1"]))
            + line[at + cut :]
        )
    return line.replace(b"\n", b" ")


def read(text: bytes, parser: str, drift: str, excluded: frozenset[str], *, loose: bool) -> list[Any]:
    keys = None if drift == "ignored" else KnownKeys(SCHEMA, frozenset({"kept"}), excluded)
    with pytest.MonkeyPatch.context() as patch, collect_truncated() as cuts:
        use(patch, parser)
        reader = LineParser(SCHEMA, keys, excluded, loose_text=loose, counts_unknown=drift == "counted")
        found = unread(text) if parser == "exact" else reader(text)
        rows, unknown = reader.complete(found, text)
    assert found.lines == text.count(b"\n")
    rows.batch.validate(full=True)
    numbers = list(rows.numbers or found.numbers)
    floats = repr(rows.batch.column("f").to_pylist())  # with the signs of zeros
    return [rows.batch, floats, numbers, list(rows.errors), list(rows.unknown), dict(unknown), set(cuts)]


def unread(text: bytes) -> ReadLines:
    """Return that all lines are for the exact rules."""
    numbers = line_numbers(text)
    nulls = batch_of([pa.nulls(len(numbers), f.type) for f in SCHEMA], SCHEMA, len(numbers))
    return ReadLines(nulls, {}, numbers, frozenset(numbers), (), (), {}, text.count(b"\n"))


@pytest.mark.parametrize("parser", PARSERS)
@given(
    found=st.lists(lines(), min_size=1, max_size=6),
    loose=st.booleans(),
    drift=st.sampled_from(["ignored", "counted", "found"]),
    often=st.sampled_from([0, 64]),
    end=st.sampled_from([b"\n", b"\r\n", b" \n\n"]),
    excluded=st.sampled_from([frozenset[str](), frozenset({"s.new", "o.new", "lo.t", "j.i", "new.i"})]),
)
@example(
    found=[b'{"i":1,"i":2}', b'{"i":1}{"i":2}', b'{"j":{"a":1,"a":2}}'],
    loose=False,
    drift="found",
    often=64,
    end=b"\n",
    excluded=frozenset(),
)
@example(
    found=[b'{"o":{"i":1,"new":2}}', b'{"lo":[{"new":1}]}'],
    loose=False,
    drift="counted",
    often=64,
    end=b"\n",
    excluded=frozenset(),
)
@example(
    found=[b'{"s":5}', b'{"s":"\\ud83d"}', b'{"j":"\\ud83d"}'],
    loose=True,
    drift="found",
    often=64,
    end=b"\n",
    excluded=frozenset(),
)
@example(
    found=[b'{"i":1}\x00', b'{"i":1\x00}', b'{"i":1}\x0c', b"\x0b", b"\x0c"],
    loose=True,
    drift="found",
    often=64,
    end=b"\n",
    excluded=frozenset(),
)
@example(found=[b'{"s":0}', b'{"b":0}'], loose=False, drift="ignored", often=64, end=b"\n", excluded=frozenset())
@example(found=[b'{"f":-0}', b'{"f":-0.0}'], loose=False, drift="ignored", often=1, end=b"\n", excluded=frozenset())
@example(
    found=[b'{"l":["x",1],"l":[1]}', b'{"lo":[{"i":"x"}],"i8":300}'],
    loose=False,
    drift="found",
    often=1,
    end=b"\n",
    excluded=frozenset(),
)
@example(
    found=[b'{"s":{"i":1,"new":2},"j":{"i":1,"new":2}}', b'{"o":{"i":1,"new":2}}'],
    loose=True,
    drift="found",
    often=64,
    end=b"\n",
    excluded=frozenset({"s.new", "j.i"}),
)
@example(
    found=[b'{"b":0,"day":"9999-12-31T23:59:59.9999999Z","b":0}'],
    loose=False,
    drift="ignored",
    often=64,
    end=b"\n",
    excluded=frozenset(),
)
def test_a_parser_gives_what_the_exact_rules_give(
    parser: str, found: list[bytes], loose: bool, drift: str, often: int, end: bytes, excluded: frozenset[str]
) -> None:
    text = b"".join(line + end for line in found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "OFTEN", often)
        *rows, cut = read(text, parser, drift, excluded, loose=loose)
    *exact_rows, exact_cut = read(text, "exact", drift, excluded, loose=loose)
    assert rows == exact_rows
    assert exact_cut <= cut  # a warning may also name a value of a line that is refused


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("is_around", [False, True])
@pytest.mark.parametrize("value", ["1e2", '"5"', "300"])
def test_columns_of_another_spelling_are_read_together(parser: str, value: str, is_around: bool) -> None:
    schema = pa.schema([(f"c{i}", pa.int8()) for i in range(100)])
    record = "{" + ",".join(f'"c{i}":{value}' for i in range(100)) + "}"
    text = f'{{"record":{record}}}\n' if is_around else f"{record}\n"
    with pytest.MonkeyPatch.context() as patch:
        use(patch, parser)
        patch.setattr(LineParser, "read_one_by_one", None)  # no line is read by the exact rules as a whole
        found = LineParser(schema, None, loose_text=False, around=pa.schema([]) if is_around else None)(
            text.encode() * 10
        )
    assert len(found.mismatches) == (1000 if value != "1e2" else 0)
    assert not found.unread


def test_the_parser_of_another_version_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for other in (SimpleNamespace(read_lines=print), SimpleNamespace(read_lines=print, INTERFACE=0)):
        monkeypatch.setitem(sys.modules, "singer_arrow_json", other)
        assert json_lines.native_parser.__wrapped__() is None
    assert "is of another version and is not used" in caplog.text


GRAMMAR = {  # whether a document is JSON, as RFC 8259 has it
    '{"a":[]}': True,
    '{"a":[1,]}': False,
    '{"a":[,1]}': False,
    '{"a":[1 2]}': False,
    '{"a":{}}': True,
    '{"a":{"b":1,}}': False,
    '{"a":1,}': False,
    '{,"a":1}': False,
    "{a:1}": False,
    "{'a':1}": False,
    '{"a"}': False,
    '{"a":}': False,
    '{"a"::1}': False,
    '{"a":1 "b":2}': False,
    '{"a":1}x': False,
    '{"a":1}}': False,
    '{"a":1': False,
    '{"a":-}': False,
    '{"a":-01}': False,
    '{"a":00}': False,
    '{"a":0x1}': False,
    '{"a":1.}': False,
    '{"a":.1}': False,
    '{"a":1e}': False,
    '{"a":1e+}': False,
    '{"a":-0.0e-0}': True,
    '{"a":1E22}': True,
    '{"a":nan}': False,
    '{"a":-Infinity}': False,
    '{"a":True}': False,
    '{"a":nulll}': False,
    '{"a":"\\a"}': False,
    '{"a":"\\u12"}': False,
    '{"a":"\\u0000"}': True,
    '{"a":"\\uD800"}': False,
    '{"a":"\\uDC00\\uD800"}': False,
    '{"a":"\x01"}': False,
    '{"a":"\x7f"}': True,
    '{"a":"': False,
    '{"a":"\\': False,
    ' \t{ "a" \t: 1 } \r': True,
    '\x0b{"a":1}': False,
    '{"a":/**/1}': False,
    "[]": False,
    "1": False,
    "": True,
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(("text", "is_json"), GRAMMAR.items())
def test_what_is_not_json_is_left_to_the_exact_rules(parser: str, text: str, is_json: bool) -> None:
    for t, is_loose in (
        (json_field("a").type, False),
        (pa.string(), True),
        (pa.list_(pa.float64()), False),
        (pa.float64(), False),
    ):
        for name in ("a", "other"):
            field = json_field(name) if t == json_field("a").type and not is_loose else pa.field(name, t)
            schema = pa.schema([field])
            with pytest.MonkeyPatch.context() as patch:
                use(patch, parser)
                found = LineParser(schema, KnownKeys(schema, frozenset(), frozenset()), loose_text=is_loose)(
                    text.encode() + b"\n"
                )
            if not is_json:
                assert found.unread == ({1} if text else set())
            elif is_loose and "\\uD" not in text:
                assert not found.unread


@pytest.mark.parametrize("parser", PARSERS)
def test_unknown_members_below_a_column_without_a_name_have_a_path(parser: str) -> None:
    schema = pa.schema([("", pa.struct([("a", pa.int64()), ("", pa.struct([("b", pa.int64())]))])), ("i", pa.int64())])
    text = b'{"":{"a":1,"new":2,"":{"b":1,"new":3}},"i":1,"new":4}\n'
    keys = KnownKeys(schema, frozenset(schema.names), frozenset())
    with pytest.MonkeyPatch.context() as patch:
        use(patch, parser)
        reader = LineParser(schema, keys, frozenset(), loose_text=False, counts_unknown=True)
        _, unknown = reader.complete(reader(text), text)
    assert dict(unknown) == {".new": 1, "..new": 1, "new": 1}
