"""COPY of Parquet: exact values, strict types, nothing skipped."""

import datetime
import decimal
import io
import json
import math
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cloud.redshift.copy import Column
from local_cloud.redshift.copy.json import nested
from local_cloud.redshift.copy.parquet import fits, hexadecimal, repeating_columns

SUPER = Column("v", "super")


def _file(*columns: pa.Array, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(list(columns), names=[f"c{index}" for index in range(len(columns))]), out, **options)
    return out.getvalue()


def _values(copied: Any, column: Column, array: pa.Array, options: str = "") -> list[str | None]:
    found = copied(f"FORMAT PARQUET {options}", [column], _file(array))
    assert found.failed is None
    return [row[0] for row in found.rows]


@pytest.mark.parametrize(
    ("column", "array", "expected"),
    [
        (Column("v", "smallint"), pa.array([-128, None], pa.int8()), ["-128", None]),
        (Column("v", "smallint"), pa.array([-32768], pa.int16()), ["-32768"]),
        (Column("v", "integer"), pa.array([2**31 - 1], pa.int32()), ["2147483647"]),
        (Column("v", "bigint"), pa.array([-(2**63)], pa.int64()), ["-9223372036854775808"]),
        (Column("v", "real"), pa.array([0.1, math.inf], pa.float32()), ["0.1", "inf"]),
        (
            Column("v", "double precision"),
            pa.array([5e-324, math.nan, -math.inf, -0.0]),
            ["5e-324", "nan", "-inf", "-0"],
        ),
        (Column("v", "boolean"), pa.array([True, False, None]), ["true", "false", None]),
        (
            Column("v", "date"),
            pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
            ["0001-01-01", "9999-12-31"],
        ),
        (Column("v", "date"), pa.array([-719163, None], pa.int32()).cast(pa.date32()), ["0001-12-31 BC", None]),
        (Column("v", "timestamp"), pa.array([1001], pa.timestamp("ms")), ["1970-01-01 00:00:01.001000"]),
        (Column("v", "timestamp"), pa.array([-1], pa.timestamp("us", "Asia/Tokyo")), ["1969-12-31 23:59:59.999999"]),
        (Column("v", "timestamp"), pa.array([253402300800000000], pa.timestamp("us")), ["10000-01-01 00:00:00.000000"]),
        (Column("v", "varchar", 8), pa.array(["", None, "\\N", "a\tb\r\nc"]), ["", None, "\\N", "a\tb\r\nc"]),
        (Column("v", "varchar", 2), pa.array(["é", "ab"], pa.large_string()), ["é", "ab"]),
        (Column("v", "varchar", 9), pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (Column("v", "char", 3), pa.array(["abc", "a"]), ["abc", "a"]),
        (Column("v", "varbyte", 3), pa.array([b"\x00\\\xff", b"", None], pa.binary()), ["\\x005cff", "\\x", None]),
        (
            Column("v", "numeric", precision=38, scale=10),
            pa.array(
                [decimal.Decimal("-1234567890123456789012345678.0123456789"), decimal.Decimal("1E-10")],
                pa.decimal128(38, 10),
            ),
            ["-1234567890123456789012345678.0123456789", "1E-10"],
        ),
    ],
)
def test_values_are_exact(copied: Any, column: Column, array: pa.Array, expected: list[str | None]) -> None:
    assert _values(copied, column, array) == expected


def test_int96_is_a_timestamp(copied: Any) -> None:
    data = _file(pa.array([1_600_000_000_123_456], pa.timestamp("us")), use_deprecated_int96_timestamps=True)
    assert copied("FORMAT PARQUET", [Column("v", "timestamp")], data).rows == [("2020-09-13 12:26:40.123456",)]


@pytest.mark.parametrize(
    ("column", "array"),
    [
        (Column("v", "bigint"), pa.array([1], pa.int32())),
        (Column("v", "integer"), pa.array([1], pa.int64())),
        (Column("v", "integer"), pa.array([1], pa.int16())),
        (Column("v", "integer"), pa.array([1], pa.uint32())),
        (Column("v", "smallint"), pa.array([1], pa.uint8())),
        (Column("v", "real"), pa.array([1.0], pa.float64())),
        (Column("v", "real"), pa.array([1.0], pa.float16())),
        (Column("v", "double precision"), pa.array([1.0], pa.float32())),
        (Column("v", "numeric", precision=10, scale=2), pa.array([decimal.Decimal(1)], pa.decimal128(10, 3))),
        (Column("v", "numeric", precision=10, scale=2), pa.array([decimal.Decimal(1)], pa.decimal128(9, 2))),
        (Column("v", "numeric", precision=10, scale=0), pa.array([1], pa.int64())),
        (Column("v", "timestamp"), pa.array([1], pa.timestamp("ns"))),
        (Column("v", "timestamptz"), pa.array([1], pa.timestamp("us", "UTC"))),
        (Column("v", "date"), pa.array([1], pa.timestamp("us"))),
        (Column("v", "time"), pa.array([1], pa.time64("us"))),
        (Column("v", "varchar", 9), pa.array([1])),
        (Column("v", "varchar", 9), pa.array([b"x"])),
        (Column("v", "varchar", 9), pa.array([[1]])),
        (Column("v", "varbyte", 9), pa.array(["x"])),
        (Column("v", "varchar", 9), pa.nulls(1)),
    ],
)
def test_other_types_are_refused(copied: Any, column: Column, array: pa.Array) -> None:
    found = copied("FORMAT PARQUET", [column], _file(array))
    assert "has an incompatible Parquet schema for column 's3://bucket/data/0.c0'" in found.failed.message
    assert found.rows == []
    assert found.plan.errors == []


def test_columns_go_by_position_and_must_all_be_there(copied: Any) -> None:
    columns = [Column("a", "bigint"), Column("b", "varchar", 9)]
    assert copied("FORMAT PARQUET", columns, _file(pa.array([1]), pa.array(["x"]))).rows == [("1", "x")]
    assert copied("FORMAT PARQUET", columns, _file(pa.array(["x"]), pa.array([1])), names="(b, a)").rows == [("x", "1")]
    few = copied("FORMAT PARQUET", columns, _file(pa.array([1])))
    assert "Table columns: 2, Data columns: 1, File name: s3://bucket/data/0" in few.failed.message
    many = copied("FORMAT PARQUET FILLRECORD", columns, _file(*[pa.array([1])] * 3))
    assert "Table columns: 2, Data columns: 3" in many.failed.message
    assert copied("FORMAT PARQUET FILLRECORD", columns, _file(pa.array([1]))).rows == [("1", None)]


def test_the_second_file_may_be_wrong(copied: Any) -> None:
    found = copied("FORMAT PARQUET", [Column("v", "bigint")], _file(pa.array([1])), _file(pa.array(["x"])))
    assert "s3://bucket/data/1" in found.failed.message
    assert [file.url for file in found.plan.files] == ["s3://bucket/data/0"]


@pytest.mark.parametrize(
    ("column", "array", "message"),
    [
        (
            Column("v", "varchar", 3),
            pa.array(["abc", "éé"]),
            "The length of the data column v is longer .* Table: 3, Data: 4",
        ),
        (
            Column("v", "varbyte", 1),
            pa.array([b"ab"]),
            "The length of the data column v is longer .* Table: 1, Data: 2",
        ),
        (Column("v", "char", 9), pa.array(["é"]), "Multibyte character not supported for CHAR: column v"),
        (Column("v", "varchar", 9), pa.array(["a\0"]), "NUL .* column v"),
        (Column("v", "bigint", nullable=False), pa.array([1, None]), "NULL in column v, which is NOT NULL"),
        (Column("v", "timestamp"), pa.array([2**63 - 1], pa.timestamp("us")), "timestamp out of range in column v"),
        (Column("v", "date"), pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "date out of range in column v"),
    ],
)
def test_values_that_do_not_fit(copied: Any, column: Column, array: pa.Array, message: str) -> None:
    found = copied("FORMAT PARQUET", [column], _file(array))
    assert found.failed is not None
    assert re.search(message, found.failed.message)


def test_text_that_is_no_utf8(copied: Any) -> None:
    broken = pa.array([b"ok", b"a\xa4\xc3b", None]).cast(pa.binary()).view(pa.string())
    found = copied("FORMAT PARQUET", [Column("v", "varchar", 9)], _file(broken))
    assert "Bad UTF8 hex sequence: a4 (error 3)" in found.failed.message
    assert _values(copied, Column("v", "varchar", 9), broken, "ACCEPTINVCHARS '^'") == ["ok", "a^^b", None]


def test_what_is_no_parquet(copied: Any) -> None:
    assert "is no Parquet" in copied("FORMAT PARQUET", [Column("v", "bigint")], b"a,b\n").failed.message
    whole = _file(pa.array(list(range(10_000))))
    torn = whole[:100] + b"\xff" * 500 + whole[600:]
    assert "cannot be read" in copied("FORMAT PARQUET", [Column("v", "bigint")], torn).failed.message


def test_nested_values_are_json(copied: Any) -> None:
    array = pa.array(
        [
            {"a": [decimal.Decimal("1.10"), None], "m": [("k", 2**62)], "t": 'q"\\\n\x01é'},
            {"a": None, "m": [], "t": None},
            None,
        ],
        pa.struct([("a", pa.list_(pa.decimal128(9, 2))), ("m", pa.map_(pa.string(), pa.int64())), ("t", pa.string())]),
    )
    assert _values(copied, SUPER, array, "SERIALIZETOJSON") == [
        '{"a":[1.10,null],"m":{"k":4611686018427387904},"t":"q\\"\\\\\\n\\u0001é"}',
        '{"a":null,"m":{},"t":null}',
        None,
    ]
    assert _values(copied, SUPER, pa.array(['{"a": 1}']), "SERIALIZETOJSON") == ['"{\\"a\\": 1}"']


def test_nul_inside_nested_values(copied: Any) -> None:
    assert _values(copied, SUPER, pa.array([["\\u0000"]]), "SERIALIZETOJSON") == ['["\\\\u0000"]']
    found = copied("FORMAT PARQUET SERIALIZETOJSON", [SUPER], _file(pa.array([["\0"]])))
    assert "Invalid text inside column v: NUL" in found.failed.message


def test_nested_values_need_serializetojson(copied: Any) -> None:
    found = copied("FORMAT PARQUET", [SUPER], _file(pa.array([[1]])))
    assert "requires SERIALIZETOJSON" in found.failed.message
    wrong = copied("FORMAT PARQUET SERIALIZETOJSON", [SUPER], _file(pa.array([1])))
    assert "incompatible Parquet schema" in wrong.failed.message
    inside = copied("FORMAT PARQUET SERIALIZETOJSON", [SUPER], _file(pa.array([[b"x"]])))
    assert "holds binary, which SERIALIZETOJSON cannot write" in inside.failed.message


def test_many_row_groups_keep_their_order(copied: Any) -> None:
    data = _file(pa.array(range(200_000)), row_group_size=30_000)
    found = copied("FORMAT PARQUET", [Column("v", "bigint")], data)
    assert [int(row[0]) for row in found.rows] == list(range(200_000))
    assert found.plan.rows == found.plan.files[0].rows == 200_000


def test_no_rows(copied: Any) -> None:
    assert _values(copied, Column("v", "bigint"), pa.array([], pa.int64())) == []


def test_a_type_of_numeric_needs_the_same_digits() -> None:
    column = Column("v", "numeric", precision=20, scale=4)
    assert fits(column, pa.decimal128(20, 4))
    assert not fits(column, pa.decimal256(20, 4))


@given(st.lists(st.none() | st.binary(max_size=9)), st.integers(0, 3))
def test_hexadecimal_of_any_bytes(values: list[bytes | None], skipped: int) -> None:
    found = hexadecimal(pa.array(values, pa.binary()).slice(skipped))
    assert found.to_pylist() == [None if value is None else "\\x" + value.hex() for value in values[skipped:]]


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_TREES = st.fixed_dictionaries(
    {
        "list": st.none() | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
        "deep": st.none() | st.fixed_dictionaries({"text": st.none() | _WORDS, "yes": st.none() | st.booleans()}),
        "map": st.none()
        | st.dictionaries(_WORDS, st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    }
)
_TREE = pa.struct(
    [
        ("list", pa.list_(pa.int64())),
        ("deep", pa.struct([("text", pa.string()), ("yes", pa.bool_())])),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)


@given(st.lists(st.none() | _TREES, max_size=5), st.integers(0, 2))
def test_json_of_any_tree(values: list[dict[str, Any] | None], skipped: int) -> None:
    def pairs(tree: dict[str, Any] | None) -> dict[str, Any] | None:
        return tree and tree | {"map": None if tree["map"] is None else list(tree["map"].items())}

    array = pa.array([pairs(value) for value in values], _TREE).slice(skipped)
    found = nested.json_text(array).to_pylist()
    assert [None if text is None else json.loads(text) for text in found] == values[skipped:]


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_any_text_arrives(copied: Any, values: list[str | None]) -> None:
    assert _values(copied, Column("v", "varchar", 65535), pa.array(values, pa.string())) == values


@given(st.lists(st.none() | st.decimals(-(10**27), 10**27, places=10), max_size=8))
def test_any_decimal_arrives(copied: Any, values: list[decimal.Decimal | None]) -> None:
    found = _values(copied, Column("v", "numeric", precision=38, scale=10), pa.array(values, pa.decimal128(38, 10)))
    assert [None if text is None else decimal.Decimal(text) for text in found] == values


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=8))
def test_any_double_arrives(copied: Any, values: list[float | None]) -> None:
    found = _values(copied, Column("v", "double precision"), pa.array(values, pa.float64()))
    assert [None if text is None else float(text) for text in found] == values


@given(st.lists(st.none() | st.datetimes(), max_size=8))
def test_any_moment_arrives(copied: Any, values: list[datetime.datetime | None]) -> None:
    found = _values(copied, Column("v", "timestamp"), pa.array(values, pa.timestamp("us")))
    assert [None if text is None else datetime.datetime.fromisoformat(text) for text in found] == values


def test_text_that_repeats_is_looked_at_once_a_value(copied: Any) -> None:
    texts = ["tab\t", "back\\slash", None, "é", "\\N", ""] * 2000
    column = Column("a", "varchar", 12)
    array = pa.array(texts)
    file = _file(array)

    assert repeating_columns(pq.read_metadata(io.BytesIO(file))) == ["c0"]
    assert repeating_columns(pq.read_metadata(io.BytesIO(_file(pa.array([f"text {n}" for n in range(2000)]))))) == []
    assert _values(copied, column, array) == texts
