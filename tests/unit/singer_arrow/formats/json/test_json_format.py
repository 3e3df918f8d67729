"""Reading of JSON Lines: round trips, types, and bad input."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from json_parsers import json_parser  # noqa: F401 - used by each test of the module

from singer_arrow.errors import DataError, EmptyObjectError
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.read_options import ReadOptions
from singer_arrow.schema.arrow_schema import json_field

JSONL = WRITABLE["jsonl"]
MICROSECONDS = pa.timestamp("us", "UTC")


def _lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _one(name: str, t: pa.DataType) -> pa.Schema:
    return pa.schema([(name, t)])


# ---- round trips

leaves: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.float32(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.binary(), st.binary(max_size=10)),
    (pa.date32(), st.dates()),
    (MICROSECONDS, st.datetimes(timezones=st.just(UTC))),
    (pa.time64("us"), st.times()),
    (pa.decimal128(38, 9), st.decimals(-(10**28), 10**28, places=9)),
    (pa.decimal256(60, 0), st.integers(-(10**60) + 1, 10**60 - 1).map(Decimal)),
    (pa.null(), st.none()),
]


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def lists(of: Any) -> Any:
        return pa.list_(of[0]), st.lists(st.none() | of[1], max_size=3)

    def structs(of: Any) -> Any:
        names = [f"f{i}" for i in range(len(of))]
        values = {n: st.none() | s for n, (_, s) in zip(names, of, strict=True)}
        return pa.struct([(n, t) for n, (t, _) in zip(names, of, strict=True)]), st.fixed_dictionaries(values)

    def maps(of: Any) -> Any:
        keys = st.text('ab"\\é', max_size=3)
        return pa.map_(pa.string(), of[0]), st.dictionaries(keys, st.none() | of[1], max_size=3).map(
            lambda d: list(d.items())
        )

    return inner.map(lists) | st.lists(inner, min_size=1, max_size=3).map(structs) | inner.map(maps)


kinds = st.recursive(st.sampled_from(leaves), _nested, max_leaves=4)


@st.composite
def tables(draw: Any) -> pa.Table:
    columns = draw(st.lists(kinds, min_size=1, max_size=5))
    rows = draw(st.integers(0, 6))
    names = draw(st.lists(st.text('ab "\\é\n:', max_size=5), min_size=len(columns), max_size=len(columns), unique=True))
    arrays = [pa.array([draw(st.none() | values) for _ in range(rows)], t) for t, values in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(zip(names, (t for t, _ in columns), strict=True))))


@given(table=tables(), compression=st.sampled_from([None, "gzip", "none"]), block=st.integers(1, 300))
def test_what_is_written_is_read_as_it_was(objects: Any, table: pa.Table, compression: str | None, block: int) -> None:
    path = objects.url("written.jsonl").local_path()
    assert JSONL.write(iter(table.to_batches(max_chunksize=2)), table.schema, path, WriteOptions(compression)) == len(
        table
    )
    data = path.read_bytes()
    if data:
        found = objects.read(data, "read.jsonl", table.schema, block_bytes=block)
        assert found.to_pylist() == table.to_pylist()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(rows=st.lists(st.dictionaries(st.sampled_from("abc"), json_values), max_size=8), block=st.integers(1, 200))
def test_any_json_is_kept_as_json_text(objects: Any, rows: list[dict[str, Any]], block: int) -> None:
    data = _lines(rows)
    if not data:
        return
    schema = pa.schema([json_field("a"), json_field("b")])
    found = objects.read(data, "any.jsonl", schema, block_bytes=block).to_pylist()
    assert [{k: None if v is None else json.loads(v) for k, v in row.items()} for row in found] == [
        {k: row.get(k) for k in "ab"} for row in rows
    ]


@given(rows=st.lists(st.dictionaries(st.sampled_from("abc"), json_values), min_size=1, max_size=8))
def test_what_was_inferred_from_a_whole_file_reads_it(objects: Any, rows: list[dict[str, Any]]) -> None:
    data = _lines(rows)
    try:
        found = objects.read(data, "any.jsonl")
    except DataError as error:
        problem = str(error)
        assert "surrogate" in problem or "too large" in problem
        return
    for name in found.column_names:
        nulls = sum(row.get(name) is None for row in rows)
        assert found[name].null_count == nulls, name


# ---- types


def test_types_are_inferred_from_the_values(objects: Any) -> None:
    rows = [
        {"i": 1, "n": 1, "b": True, "s": "x", "d": "2024-01-01", "t": "2024-01-01T00:00:00Z", "none": None,
         "big": 2**63, "o": {"x": 1, "y": {"z": "a"}}, "l": [1], "mixed": 1, "empty": {}, "both": "2024-01-01"},
        {"i": -5, "n": 1.5, "b": None, "s": "2024-01-01", "d": "2024-02-30", "t": "2024-01-01 00:00:00.123456789",
         "o": {"x": 2.5, "w": None}, "l": [None, 2.5], "mixed": "a", "both": "2024-01-01T00:00:00+02:00"},
    ]  # fmt: skip
    found = objects.infer(_lines(rows), "a.jsonl")
    assert found.equals(
        pa.schema([
            ("i", pa.int64()), ("n", pa.float64()), ("b", pa.bool_()), ("s", pa.string()), ("d", pa.string()),
            ("t", MICROSECONDS), ("none", pa.null()), ("big", pa.decimal128(38, 0)),
            ("o", pa.struct([("x", pa.float64()), ("y", pa.struct([("z", pa.string())])), ("w", pa.null())])),
            ("l", pa.list_(pa.float64())), json_field("mixed"), json_field("empty"), ("both", MICROSECONDS),
        ]),
        check_metadata=True,
    )  # fmt: skip


def test_a_sample_is_cut_at_a_whole_line(objects: Any) -> None:
    data = b'{"a":1}\n' + b'{"a":' + b" " * 5000 + b'1}\n{"a":"x"}\n'
    assert objects.infer(data, "a.jsonl", sample_bytes=10).types == [pa.int64()]
    only = b'{"a":' + b" " * 5000 + b"1}\n"
    assert objects.infer(only, "a.jsonl", sample_bytes=10).types == [pa.int64()]


def test_values_are_exact(objects: Any) -> None:
    schema = pa.schema([
        ("i", pa.int64()), ("d", pa.decimal128(20, 2)), ("t", MICROSECONDS), ("day", pa.date32()),
        ("time", pa.time64("us")), ("b", pa.binary()), json_field("j"),
    ])  # fmt: skip
    data = (
        b'{"i":9223372036854775807,"d":123456789012345678.25,"t":"2024-01-01T02:00:00.123456789+02:00",'
        b'"day":"2024-01-01","time":"12:00:00.5","b":"YWI=","j":{"x":  [1.10]}}\n'
        b'{"i":5.0,"d":"1.5","t":"2024-01-01","extra":[{}],"j":"text"}\n'
        b'\n  {"i":1e3,"t":"2024-01-01 00:00:00","j":null}  \r\n'
    )
    assert objects.read(data, "a.jsonl", schema).to_pylist() == [
        {
            "i": 2**63 - 1, "d": Decimal("123456789012345678.25"), "day": date(2024, 1, 1), "b": b"ab",
            "t": datetime(2024, 1, 1, 0, 0, 0, 123456, UTC), "time": time(12, 0, 0, 500000), "j": '{"x":  [1.10]}',
        },
        {"i": 5, "d": Decimal("1.50"), "t": datetime(2024, 1, 1, tzinfo=UTC), "day": None, "time": None, "b": None,
         "j": '"text"'},
        {"i": 1000, "d": None, "t": datetime(2024, 1, 1, tzinfo=UTC), "day": None, "time": None, "b": None, "j": None},
    ]  # fmt: skip


def test_integers_written_as_floats_stay_exact(objects: Any) -> None:
    rows = [b'{"a":%d.0}' % i for i in range(5000)]
    found = objects.read(b"\n".join(rows), "a.jsonl", _one("a", pa.int64()), block_bytes=1000)
    assert found["a"].to_pylist() == list(range(5000))
    mixed = b'{"a":1.0}\n{"a":9007199254740993}\n'
    assert objects.read(mixed, "a.jsonl", _one("a", pa.int64()))["a"].to_pylist() == [1, 2**53 + 1]


def test_other_kinds_are_text_only_where_that_is_asked_for(objects: Any) -> None:
    data = b'{"a":"x"}\n{"a":1.50}\n{"a":true}\n{"a":{"b":[1]}}\n{"a":null}\n'
    with pytest.raises(DataError, match="line 2, column 'a': expected text, found a number 1.50"):
        objects.read(data, "a.jsonl", _one("a", pa.string()))
    found = objects.read(data, "a.jsonl", _one("a", pa.string()), loose_text=True)
    assert found["a"].to_pylist() == ["x", "1.50", "true", '{"b":[1]}', None]


def test_rows_count_without_any_column(objects: Any) -> None:
    batches = list(JSONL.read(objects.reader(b'{"a":1}\n{}\n'), pa.schema([]), ReadOptions()))
    assert [b.num_rows for b in batches] == [2]


# ---- bad input

A = _one("a", pa.int64())
BAD: list[tuple[bytes, pa.Schema, str]] = [
    (b"null", A, "each line must hold an object, this one holds null"),
    (b"5", A, "each line must hold an object, this one holds an integer"),
    (b'[{"a":1},', A, "each line must hold an object, this one begins an array"),
    (b'{"a":1}{"a":2}', A, "something follows the value that ends at character 7; each line holds one record"),
    (b'{"a":1', A, "not JSON"),
    (b'{"a":01}', A, "not JSON"),
    (b"{", A, "not JSON"),
    (
        b'{\n  "a": 1\n}\n',
        A,
        "not JSON: the record goes on after its line, as in pretty-printed JSON; write each record on one",
    ),
    (b'{"a":1.5}', A, "column 'a': expected an integer, found a number 1.5"),
    (b'{"a":9223372036854775808}', A, "column 'a': the number 9223372036854775808 is too large for the type int64"),
    (b'{"a":"1"}', A, "column 'a': expected an integer, found text '1'"),
    (b'{"a":true}', A, "column 'a': expected an integer, found true or false true"),
    (b'{"a":[1]}', A, "column 'a': expected an integer, found an array"),
    (b'{"a":1,"a":2}', A, "column 'a': the key occurs twice"),
    (b'{"a":"\xff"}', A, "invalid UTF-8 (byte 0xff)"),
    (b'{"a":NaN}', _one("a", pa.float64()), "NaN is not JSON; write null"),
    (b'{"a":[-Infinity]}', _one("a", pa.list_(pa.float64())), "-Infinity is not JSON; write null"),
    (b'{"a":1e999}', _one("a", pa.float64()), "column 'a': the number 1E+999 is too large for the type double"),
    (b'{"a":1}', _one("a", pa.string()), "column 'a': expected text, found an integer 1"),
    (b'{"a":"\\ud800"}', _one("a", pa.string()), "column 'a': a lone surrogate"),
    (
        b'{"a":"2024-02-30"}',
        _one("a", pa.date32()),
        "column 'a': expected a date (YYYY-MM-DD), found text '2024-02-30'",
    ),
    (b'{"a":1700000000}', _one("a", MICROSECONDS), "column 'a': expected a date and time"),
    (b'{"a":1.255}', _one("a", pa.decimal128(5, 2)), "column 'a': expected a decimal of at most 3 digits before and 2"),
    (b'{"a":{"b":"x"}}', _one("a", pa.struct([("b", pa.int64())])), "column 'a': expected an integer, found text 'x'"),
    (
        b'{"a":{"b":{}}}',
        _one("a", pa.map_(pa.string(), pa.int64())),
        "column 'a': expected an integer, found an object",
    ),
    (b'{"a":"%%"}', _one("a", pa.binary()), "column 'a': expected base64, found text '%%'"),
]


@pytest.mark.parametrize(("line", "schema", "message"), BAD)
@pytest.mark.parametrize("before", [0, 3, 300])
def test_bad_lines_are_named(objects: Any, line: bytes, schema: pa.Schema, message: str, before: int) -> None:
    data = b"{}\n" * before + line + b"\n{}\n"
    if data[:1] == b"[":
        # A document with this beginning is one list, and its second element is bad.
        before, message = 1, "the list is not closed"
    for block in (100, 4 << 20):
        with pytest.raises(DataError) as caught:
            objects.read(data, "bad.jsonl", schema, block_bytes=block)
        assert str(caught.value).startswith(f"{objects.url('bad.jsonl')}, line {before + 1}")
        assert message in str(caught.value)


@given(data=st.binary(min_size=1, max_size=100) | st.text('{}[]",:a1. \nnul', min_size=1).map(str.encode))
def test_any_bytes_are_read_or_refused_with_the_line(objects: Any, data: bytes) -> None:
    try:
        found = objects.read(data, "any.jsonl")
    except DataError as error:
        problem = error
        assert problem.line is not None or " stream" in str(problem)
        assert "\n" not in str(problem)
    else:
        assert found.num_rows <= data.count(b"\n") + 1


@pytest.mark.parametrize("end", ["\n", "\r\n", " \t\n", "\n\n", "\n \r\n"])
@pytest.mark.parametrize(
    "spread", ['{"a":LF{"x":1}}', '{"a":{"x":1}LF}', '{"a":LF{"x":1}LF}', '{LF"b":1}', '{"b":1LF}']
)
@pytest.mark.parametrize("long", ["", "y" * 2000])
def test_each_line_holds_a_record_of_its_own(objects: Any, spread: str, end: str, long: str) -> None:
    schema = pa.schema([("a", pa.struct([("x", pa.int64())])), ("b", pa.int64())])
    first, count = f'{{"b":0,"c":"{long}"}}', spread.count("LF")
    for lines in ([spread] + ['{"b":2}{"b":3}'] * count, ['{"b":2}{"b":3}'] * count + [spread]):
        text = end.join([first, *lines, first]).replace("LF", end) + end
        with pytest.raises(DataError, match="line "):
            list(JSONL.read(objects.reader(text.encode(), "a.jsonl"), schema, ReadOptions()))


@given(
    st.lists(
        st.sampled_from(
            ['{"b":1}', "\n", "\n{", "}", '{"b":2}\n', '{"a":', '{"a":{"x":1}}', "\r\n", '"b":3', ",", " "]
        ),
        max_size=9,
    )
)
@example(['{"a":', '{"b":1}', "}"])
def test_rows_are_those_of_the_lines(objects: Any, parts: list[str]) -> None:
    text = "".join(parts).encode()
    text += b"" if text.endswith(b"\n") else b"\n"
    try:
        expected = [json.loads(line) for line in text.split(b"\n") if line.strip()]
    except ValueError:
        expected = None
    if expected is not None and not all(isinstance(row, dict) for row in expected):
        expected = None
    schema = pa.schema([("a", pa.struct([("x", pa.int64())])), ("b", pa.int64())])
    if expected is None:
        with pytest.raises(DataError):
            objects.read(text, "a.jsonl", schema)
    else:
        found = objects.read(text, "a.jsonl", schema).to_pylist()
        assert found == [{"a": row.get("a") and {"x": row["a"].get("x")}, "b": row.get("b")} for row in expected]


def test_rows_before_a_bad_one_are_given(objects: Any) -> None:
    data = b'{"a":1}\n' * 1000 + b'{"a":"x"}\n'
    batches = JSONL.read(objects.reader(data), A, ReadOptions(block_bytes=800))
    assert sum(next(batches).num_rows for _ in range(10)) == 1000
    with pytest.raises(DataError, match="line 1001"):
        next(batches)


def test_what_holds_no_row(objects: Any) -> None:
    for data in (b"\n \n\n", gzip.compress(b"")):
        assert objects.infer(data, "nothing.jsonl") == pa.schema([])
        assert objects.read(data, "nothing.jsonl", A).num_rows == 0
    with pytest.raises(EmptyObjectError):
        objects.read(b"", "empty.jsonl")
