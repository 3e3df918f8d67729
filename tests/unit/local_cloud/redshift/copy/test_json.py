"""COPY of JSON: objects separated by any white space, mapped by name or by path."""

import decimal
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cloud.redshift.copy import Column
from local_cloud.redshift.copy.json import objects as json_objects
from local_cloud.redshift.copy.json import paths as jsonpaths

N, S, D, V = Column("n", "integer"), Column("s", "varchar", 10), Column("d", "double precision"), Column("v", "super")
PATHS = "s3://bucket/paths.json"


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        ("'auto'", b'{"n":1,"s":"a"}\n{"s":"","n":null}\n', [("1", "a"), (None, "")]),
        ("'auto'", b'{"n":1}{"s":"b"}  {"x":[1]}', [("1", None), (None, "b"), (None, None)]),
        ("'auto'", b'\n\n{\n "n": 1,\n "s": "a"\n}\n{\n"n":2}\n', [("1", "a"), ("2", None)]),
        ("'auto'", b'{"N":1,"s":"a"}\n', [(None, "a")]),
        ("'auto ignorecase'", b'{"N":1,"s":"a"}\n{"n":2,"S":"b"}\n', [("1", "a"), ("2", "b")]),
        ("'auto ignorecase'", b'{"N":1,"S":"a"}\n{"N":2,"S":"b"}\n', [("1", "a"), ("2", "b")]),
        ("'auto'", b'{"n":"7","s":1.50}\n', [("7", "1.50")]),
        ("'auto'", b'{"n":1,"s":true}\n{"s":{"a": 1}}\n', [("1", "true"), (None, '{"a": 1}')]),
        ("'auto'", b'{"s":"\\\\N"}\n', [(None, "\\N")]),
        ("'auto' NULL AS 'nil'", b'{"s":"nil","n":1}\n', [("1", None)]),
        ("'auto'", '{"s":"\\u00e9é\\ud83d\\ude00"}\n'.encode(), [(None, "éé😀")]),
        ("'auto'", b'{"n":1,"n":2}\n', [("2", None)]),
        ("'auto' TRUNCATECOLUMNS", b'{"s":"0123456789abc"}', [(None, "0123456789")]),
        ("'auto' ACCEPTINVCHARS", b'{"s":"a\xa4"}\n{"s":"\\ud800b"}', [(None, "a?"), (None, "?b")]),
        ("'auto'", b"\xef\xbb\xbf", []),
        (
            "'auto' GZIP",
            gzip.compress(b'{"n":1}\n', mtime=0) + gzip.compress(b'{"n":2}', mtime=0),
            [("1", None), ("2", None)],
        ),
    ],
)
def test_objects(copied: Any, options: str, data: bytes, expected: list[tuple[str | None, ...]]) -> None:
    found = copied(f"JSON {options}", [N, S], data)
    assert (found.rows, found.plan.errors, found.failed) == (expected, [], None)


@pytest.mark.parametrize(
    ("data", "reasons"),
    [
        (b'{"n":1}\n{"n":"x"}\n', [(2, "n", 1207)]),
        (b'{"n":1.5}\n', [(1, "n", 1207)]),
        (b'{"n":true}\n', [(1, "n", 1207)]),
        (b'{"n":2147483648}\n', [(1, "n", 1222)]),
        (b'{"n":99999999999999999999}\n', [(1, "n", 1222)]),
        (b'{\n"n":1}\n{"s":\n"0123456789a"}', [(3, "s", 1204)]),
        (b'{"n":1}\n{"n":\n', [(2, "", 1216)]),
        (b'{"n":1}\n[1]\n', [(2, "", 1216)]),
        (b"{'n':1}\n", [(1, "", 1216)]),
        (b'{"n":NaN}\n', [(1, "", 1216)]),
        (b'{"s":"a\xa4"}\n', [(1, "s", 1220)]),
        (b'{"s":"\\u0000"}\n', [(1, "s", 1220)]),
        (b'{"s":"\\udc00"}\n', [(1, "s", 1220)]),
    ],
)
def test_the_first_wrong_object_fails_the_load(copied: Any, data: bytes, reasons: list[tuple[int, str, int]]) -> None:
    found = copied("JSON 'auto'", [N, S], data)
    assert found.failed.message.startswith("Load into table 't' failed")
    assert found.reasons == reasons


def test_maxerror_continues_after_a_wrong_object(copied: Any) -> None:
    data = b'{"n":1}\n{"n":\n{"n":"x"}\n{"s":"ok"}\n'
    found = copied("JSON 'auto' MAXERROR 3", [N, S], data)
    assert found.rows == [("1", None), (None, "ok")]
    assert found.reasons == [(2, "", 1216), (3, "n", 1207)]


def test_the_error_of_a_wrong_object(copied: Any) -> None:
    (error,) = copied("JSON 'auto'", [N, S], b'{"n":1,"s":"\xc3\xa9","x":0}\n{"s":{},"n":"1x"}').plan.errors
    assert (error.line, error.position, error.raw_value, error.raw_line) == (2, 0, "1x", '{"s":{},"n":"1x"}')
    assert error.reason == "Invalid digit, Value 'x', Pos 1, Type: Integer"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0.29", "0.28"),
        ('"0.29"', "0.29"),
        ("1", "1"),
        ("1.5", "1.50"),
        ('"1.999"', "1.99"),
        ("null", None),
        ("-3e2", "-300.00"),
    ],
)
@pytest.mark.parametrize("first", ["1.5", '"1.5"', "null"])
def test_numbers_for_decimals_go_through_a_double(copied: Any, first: str, value: str, expected: str | None) -> None:
    column = Column("v", "numeric", precision=18, scale=2)
    found = copied("JSON 'auto'", [column], f'{{"v":{first}}}\n{{"v":{value}}}\n'.encode())
    text = found.rows[1][0]
    assert (text and decimal.Decimal(text)) == (expected and decimal.Decimal(expected))


def test_long_integers_stay_exact(copied: Any) -> None:
    columns = [Column("b", "bigint"), Column("v", "numeric", precision=20, scale=0)]
    data = b'{"b":9223372036854775807,"v":9007199254740993}\n{"b":-9223372036854775808,"v":"12345678901234567890"}\n'
    assert copied("JSON 'auto'", columns, data).rows == [
        ("9223372036854775807", "9007199254740993"),
        ("-9223372036854775808", "12345678901234567890"),
    ]


def test_super_is_the_very_text(copied: Any) -> None:
    data = b'{"v":{"a": [1.10, null], "b":"\\u00e9"}}\n{"v":12345678901234567890.12345}\n'
    data += b'{"v":"t"}\n{"v":null}\n{}\n{"v":[]}'
    assert copied("JSON 'auto'", [V], data).rows == [
        ('{"a": [1.10, null], "b":"\\u00e9"}',),
        ("12345678901234567890.12345",),
        ('"t"',),
        (None,),
        (None,),
        ("[]",),
    ]
    assert copied("JSON 'noshred'", [V], b'{"a":1}\n{"b": [2]}').rows == [('{"a":1}',), ('{"b": [2]}',)]


def test_varbyte_is_refused(copied: Any) -> None:
    assert "VARBYTE from JSON" in copied("JSON 'auto'", [Column("v", "varbyte", 9)], b"{}").failed.message


def _paths(*paths: str) -> dict[str, bytes]:
    return {PATHS: json.dumps({"jsonpaths": paths}).encode()}


def test_jsonpaths(copied: Any) -> None:
    paths = _paths("$.a.b[1]", "$['x y']", '$["v"]')
    data = b'{"a":{"b":[1,2]},"x y":"t","v":[1.10]}\n{"a":{"b":[1]},"x y":null}\n{"a":3}'
    found = copied(f"JSON '{PATHS}'", [N, S, V], data, others=paths)
    assert found.rows == [("2", "t", "[1.10]"), (None, None, None), (None, None, None)]
    listed = copied(f"JSON '{PATHS}'", [N, S], b'[1, "a"]\n[2, "b"]', others=_paths("$[0]", "$[1]"))
    assert listed.rows == [("1", "a"), ("2", "b")]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (_paths("$.a"), "JSONPath size: 1, Number of columns in table or column list: 2"),
        (_paths("a", "$.b"), "'a' is no path"),
        (_paths("$.a[*]", "$.b"), "is no path"),
        ({PATHS: b"{"}, "Invalid JSONPath format"),
    ],
)
def test_wrong_jsonpaths(copied: Any, others: dict[str, bytes], message: str) -> None:
    assert message in copied(f"JSON '{PATHS}'", [N, S], b"{}", others=others).failed.message


@pytest.mark.parametrize("separator", ["\n", "\r\n", " ", "", "\n\n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_blocks_are_put_together(
    copied: Any, monkeypatch: pytest.MonkeyPatch, separator: str, indent: int | None
) -> None:
    monkeypatch.setattr("local_cloud.redshift.copy.text.blocks.BLOCK", 64)
    data = separator.join(
        json.dumps({"n": at, "s": f"é{at}", "x": {"n": -1}}, indent=indent) for at in range(200)
    ).encode()
    assert copied("JSON 'auto'", [N, S], data).rows == [(str(at), f"é{at}") for at in range(200)]
    wrong = copied("JSON 'auto'", [N, S], data + b'\n{"n":"x"}')
    assert wrong.reasons == [(data.count(b"\n") + 2, "n", 1207)]


def test_an_object_may_have_4_mb(copied: Any) -> None:
    column = Column("s", "varchar", 10)
    fits = json.dumps({"s": "a", "x": "b" * ((4 << 20) - 40)}).encode()
    assert copied("JSON 'auto'", [column], fits).rows == [("a",)]
    larger = json.dumps({"s": "a", "x": "b" * (4 << 20)}).encode()
    assert copied("JSON 'auto'", [column], b"{}\n" + larger).reasons == [(2, "", 1216)]


_WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
_OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-(2**31), 2**31 - 1),
        "s": st.none() | _WORDS.filter(lambda word: len(word.encode()) <= 10),
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "v": st.none() | st.lists(st.integers() | _WORDS, max_size=3),
    },
)


@given(st.lists(_OBJECTS, max_size=5), st.booleans(), st.sampled_from([None, 1]))
def test_any_objects_arrive(copied: Any, objects: list[dict[str, Any]], ascii_only: bool, indent: int | None) -> None:
    data = "\n".join(json.dumps(each, ensure_ascii=ascii_only, indent=indent) for each in objects).encode()
    found = copied("JSON 'auto'", [N, S, D, V], data)
    assert found.failed is None
    rows = [(n and int(n), s, d and float(d), v and json.loads(v)) for n, s, d, v in found.rows]
    assert rows == [tuple(each.get(name) for name in "nsdv") for each in objects]


_ODD = st.sampled_from(
    [
        '"a"',
        "1",
        "1.0",
        "-0",
        "1e2",
        "true",
        "null",
        "{}",
        "[1]",
        '"1"',
        '"x\\ny"',
        "3000000000",
        "tru",
        '"v"',
        '{"v": 1}',
        '["v", {"n": 2}]',
        '"{"',
    ]
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["n", "N", "s", "d", "v", "V", "w"]), _ODD, max_size=3), max_size=4),
    st.booleans(),
)
def test_at_once_and_one_by_one_are_the_same(copied: Any, objects: list[dict[str, str]], folding: bool) -> None:
    lines = ["{" + ", ".join(f'"{name}": {value}' for name, value in each.items()) + "}" for each in objects]
    options = f"JSON '{'auto ignorecase' if folding else 'auto'}' MAXERROR 99"
    quick = copied(options, [N, S, D, V], "\n".join(lines).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_objects, "at_once", lambda *_: None)
        slow = copied(options, [N, S, D, V], "\n".join(lines).encode())

    def numbers(rows: list[tuple[str | None, ...]]) -> list[tuple[object, ...]]:
        return [(n and int(n), s, d and float(d), v) for n, s, d, v in rows]

    assert (numbers(quick.rows), quick.plan.errors) == (numbers(slow.rows), slow.plan.errors)


@pytest.mark.parametrize(
    ("path", "found"), [((), "{"), (("a",), "["), (("a", 1), "{"), (("a", 1, "b"), "2"), (("a", 9), None)]
)
def test_where_a_path_leads(path: tuple[str | int, ...], found: str | None) -> None:
    text = '{"a" : [1, {"b": 2}] , "a2": {}}'
    span = jsonpaths.span(text, 0, path)
    assert (None if span is None else text[span[0]]) == found


@pytest.mark.parametrize(
    "line",
    [
        '{"a": {"x": 1}, "b": [1, 2]}',
        '{"b":[{"a":1}],"a":2}',
        '{"x": "{", "a": "t\\"\\\\", "b": null}',
        '{"x": {"a": 1}, "b": 2}',
        '{"x": "a", "a": "b"}',
        '{"a": 1, "a": 2, "b": {}}',
        '{"\\u0061": 1, "x": {"a": 2}}',
        " {} ",
    ],
)
def test_members_are_cut_out_of_the_line(line: str) -> None:
    expected = {name: value for name, value in json.loads(line).items() if name in ("a", "b") and value is not None}
    assert {name: json.loads(text) for name, text in json_objects.members(line, ["a", "b"]).items()} == expected
