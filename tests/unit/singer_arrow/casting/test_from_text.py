"""Exact conversions from text to typed columns, and from one type to another."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.from_text import BadValueError, from_text
from singer_arrow.schema.arrow_schema import json_field

MICROSECONDS = pa.timestamp("us", "UTC")

zones = st.sampled_from([None, UTC, timezone(timedelta(hours=2)), timezone(-timedelta(hours=11, minutes=30))])
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=zones)  # noqa: DTZ001 - the bounds must be naive
digits = st.sampled_from(["", "1", "12", "1234567", "123456789"])


@given(
    moments=st.lists(moments, min_size=1),
    between=st.sampled_from("T "),
    fraction=digits,
    mark=st.sampled_from(["Z", "UTC", ""]),
)
def test_timestamps_of_any_iso_form(moments: list[datetime], between: str, fraction: str, mark: str) -> None:
    texts, due = [], []
    for moment in moments:
        whole = moment.replace(microsecond=0)
        zone = mark if moment.tzinfo in (None, UTC) else whole.isoformat()[19:]
        texts.append(whole.isoformat()[:19].replace("T", between) + ("." + fraction if fraction else "") + zone)
        micros = timedelta(microseconds=int(fraction.ljust(6, "0")[:6] or 0))
        due.append((whole if whole.tzinfo else whole.replace(tzinfo=UTC)) + micros)
    found = from_text(pa.array([*texts, None]), MICROSECONDS)
    assert found.to_pylist() == [*due, None]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_integers(values: list[int | None]) -> None:
    texts = [None if v is None else str(v) for v in values]
    assert from_text(pa.array(texts, pa.string()), pa.int64()).to_pylist() == values


def test_integers_of_all_forms_in_one_column() -> None:
    texts = pa.array(["0x1F", "1.0", " +2 ", "3e2", "18446744073709551615", "18446744073709551615.00", "5.", None])
    largest = 2**64 - 1
    assert from_text(texts, pa.uint64()).to_pylist() == [31, 1, 2, 300, largest, largest, 5, None]
    for bad in ("0x1.0", "1.05", "1.0.0", ".", "-1"):
        with pytest.raises(BadValueError, match="is not an integer of the type uint64"):
            from_text(pa.array([*texts.to_pylist(), bad]), pa.uint64())


FORMS = {
    "numbers": "1 -1 +1 1.0 1. -1.00 1e3 1E-1 10e-1 0x1F -0x1 0x 1e 00 007 -0 .5 1_0 ++1 nan inf 127 128.0 99999 1.234"
    " 9223372036854775808 18446744073709551615 18446744073709551615.0 100000000000000000000.0 1e20 1e39 1e40 1e400",
    "moments": "2024-01-01 2024-01-01T00 2024-01-01T00Z 2024-01-01T23+0100 2024-01-01t12 2024-01-01T00.5 20240101 2024"
    " 2024-01-01T00:00 2024-01-01T00:00:00Z 2024-01-01T00:00:00.123456789 2024-01-01T00:00:00,5 2024-01-01T00:00+0230"
    " 2024-01-01T24:00:00 2024-01-01T00:00:60Z 2024-01-01T0000 2024-1-1 2024-02-30 1677-01-01 0001-01-01"
    " 9999-12-31T23:59:59Z 12:00 12:00:00.5 24:00 12",
}


@pytest.mark.parametrize(
    ("forms", "t"),
    [
        *(
            ("numbers", t)
            for t in (pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.float32(), pa.decimal128(9, 2))
        ),
        *(("moments", t) for t in (MICROSECONDS, pa.timestamp("ns"), pa.timestamp("s"), pa.date32(), pa.time64("us"))),
    ],
    ids=str,
)
def test_what_becomes_of_a_value_does_not_depend_on_those_beside_it(forms: str, t: pa.DataType) -> None:
    good, bad = dict[str, pa.Array](), []
    for text in (padded for form in FORMS[forms].split() for padded in (form, f" {form} ")):
        try:
            good[text] = from_text(pa.array([text]), t)
        except BadValueError:
            bad.append(text)
    alone = pa.concat_arrays(good.values())
    assert len(good) >= 4
    assert len(bad) >= 4
    assert from_text(pa.array(list(good)), t).cast(pa.string()).equals(alone.cast(pa.string()))
    for text in bad:
        with pytest.raises(BadValueError) as refused:
            from_text(pa.array([*good, text]), t)
        assert refused.value.value == text


@given(st.lists(st.floats(allow_nan=False)))
def test_floats(values: list[float]) -> None:
    assert from_text(pa.array([repr(v) for v in values], pa.string()), pa.float64()).to_pylist() == values


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("x", pa.int64()),
        ("1.5", pa.int64()),
        ("9223372036854775808", pa.int64()),
        ("-1", pa.uint8()),
        ("1,5", pa.float64()),
        ("1.234", pa.decimal128(10, 2)),
        ("123456789", pa.decimal128(5, 2)),
        ("yes", pa.bool_()),
        ("2024-02-30", pa.date32()),
        ("2024-01-01T25:00:00", MICROSECONDS),
        ("2024-01-01T00:00:00.1234567890", MICROSECONDS),
        ("yesterday", MICROSECONDS),
        ("1700000000", MICROSECONDS),
        ("25:00", pa.time64("us")),
        ("13:14:15+25:00", pa.time64("us")),
        ("13:14:15+2", pa.time64("us")),
        ("not base64!", pa.binary()),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 5])
def test_the_first_bad_value_is_named(text: str, t: pa.DataType, before: int) -> None:
    column = pa.array([None] * before + [text, text, None])
    with pytest.raises(BadValueError) as caught:
        from_text(column, t)
    assert caught.value.row == before
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("values", "source", "target", "due"),
    [
        ([1, None], pa.int32(), pa.int64(), [1, None]),
        ([1.0, None], pa.float64(), pa.int64(), [1, None]),
        ([2**53], pa.int64(), pa.float64(), [2.0**53]),
        ([Decimal("1.50")], pa.decimal128(10, 2), pa.decimal128(20, 4), [Decimal("1.5000")]),
        ([1.5], pa.float64(), pa.decimal128(10, 2), [Decimal("1.50")]),
        ([0], pa.timestamp("ms"), MICROSECONDS, [datetime(1970, 1, 1, tzinfo=UTC)]),
        ([1000], pa.timestamp("ns", "America/New_York"), MICROSECONDS, [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
        ([date(2024, 1, 1)], pa.date32(), MICROSECONDS, [datetime(2024, 1, 1, tzinfo=UTC)]),
        (["2024-01-01"], pa.string(), pa.date32(), [date(2024, 1, 1)]),
        ([1, None], pa.int64(), pa.string(), ["1", None]),
        ([True], pa.bool_(), pa.string(), ["true"]),
        ([0], MICROSECONDS, pa.string(), ["1970-01-01T00:00:00.000000Z"]),
        ([{"a": [1, None]}, None], pa.struct([("a", pa.list_(pa.int64()))]), pa.string(), ['{"a":[1,null]}', None]),
        ([b"ab"], pa.binary(), pa.string(), ["ab"]),
        ([None, None], pa.null(), pa.int64(), [None, None]),
        ([[1], None, []], pa.large_list(pa.int32()), pa.list_(pa.int64()), [[1], None, []]),
        ([{"x": 1, "y": "a"}, None], pa.struct([("x", pa.int32()), ("y", pa.string())]),
         pa.struct([("y", pa.string()), ("z", pa.bool_())]), [{"y": "a", "z": None}, None]),
        ([[("k", 1)], None], pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), [[("k", 1)], None]),
        ([[(1, 2)]], pa.map_(pa.int32(), pa.int32()), pa.list_(pa.struct([("key", pa.int64()), ("value", pa.int64())])),
         [[{"key": 1, "value": 2}]]),
        (["a", "b"], pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", "b"]),
        ([5], pa.duration("s"), pa.int64(), [5]),
    ],
)  # fmt: skip
def test_exact_casts(values: list[Any], source: pa.DataType, target: pa.DataType, due: list[Any]) -> None:
    column = pa.array([*values, *values, *values], source)
    assert fit(column, pa.field("c", target)).to_pylist() == due * 3
    sliced = fit(column.slice(len(values), len(values)), pa.field("c", target))
    sliced.validate(full=True)
    assert sliced.to_pylist() == due


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([1.5], pa.float64(), pa.int64()),
        ([2**53 + 1], pa.int64(), pa.float64()),
        ([300], pa.int64(), pa.int8()),
        ([0.1], pa.float64(), pa.decimal128(4, 0)),
        ([1001], pa.timestamp("ns"), MICROSECONDS),
        (["x"], pa.string(), pa.int64()),
        ([b"\xff"], pa.binary(), pa.string()),
        ([[1]], pa.list_(pa.int64()), pa.int64()),
        ([[1.5]], pa.list_(pa.float64()), pa.list_(pa.int64())),
        ([{"x": "a"}], pa.struct([("x", pa.string())]), pa.struct([("x", pa.int64())])),
    ],
)
def test_casts_that_would_lose_something(values: list[Any], source: pa.DataType, target: pa.DataType) -> None:
    column = pa.array([None, None, *values], source)
    with pytest.raises(BadValueError) as caught:
        fit(column, pa.field("c", target))
    assert "\n" not in str(caught.value)


def test_any_kind_becomes_json_text() -> None:
    column = pa.array(
        [{"d": Decimal("1.10"), "f": float("nan")}], pa.struct([("d", pa.decimal128(5, 2)), ("f", pa.float64())])
    )
    assert fit(column, json_field("j")).to_pylist() == ['{"d":1.10,"f":null}']
    texts = pa.array(["[1]", "text", "", None, '{"a": NaN}'])
    assert fit(texts, json_field("j")).to_pylist() == ["[1]", '"text"', '""', None, '"{\\"a\\": NaN}"']


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_time_with_an_offset_is_the_one_in_utc(unit: str) -> None:
    texts = [
        "13:14:15+02:00",
        "00:30:00.000001+02:00",
        "23:59:59-0330",
        "13:14:15Z",
        "13:14+05",
        " 13:14:15 UTC ",
        None,
    ]
    expected = ["11:14:15", "22:30:00.000001", "03:29:59", "13:14:15", "08:14:00", "13:14:15", None]
    t = pa.time64(unit)
    assert from_text(pa.array(texts), t).equals(from_text(pa.array(expected), t))
    column = pa.array([[{"a": text}] for text in texts])
    inner = pa.list_(pa.struct([("a", t)]))
    assert fit(column, pa.field("c", inner)).equals(
        pa.array([[{"a": v}] for v in from_text(pa.array(expected), t)], inner)
    )


def test_a_timestamp_at_midnight_is_a_date() -> None:
    texts = pa.array(["2024-01-01T00:00:00Z", "2024-01-02", None])
    assert from_text(texts, pa.date32()).to_pylist() == [date(2024, 1, 1), date(2024, 1, 2), None]
    with pytest.raises(BadValueError, match="'2024-01-01T00:00:01Z' is not a date"):
        from_text(pa.array(["2024-01-01T00:00:01Z"]), pa.date32())


def test_uuids_are_texts_in_their_usual_form() -> None:
    texts = ["00112233-4455-6677-8899-aabbccddeeff", None, "ffffffff-ffff-ffff-ffff-ffffffffffff"]
    column = pa.array([text and UUID(text).bytes for text in texts], pa.uuid())

    assert fit(column, pa.field("c", pa.string())).to_pylist() == texts
    assert fit(column.slice(1), pa.field("c", pa.large_string())).to_pylist() == texts[1:]
    lists = pa.ListArray.from_arrays([0, 2, 3], column)
    assert fit(lists, pa.field("c", pa.list_(pa.string()))).to_pylist() == [texts[:2], texts[2:]]


@pytest.mark.parametrize("t", [pa.binary(), pa.binary(2), pa.large_binary()], ids=str)
def test_bytes_are_text_where_they_are_utf8(t: pa.DataType) -> None:
    assert fit(pa.array(["é".encode(), None], t), pa.field("c", pa.string())).to_pylist() == ["é", None]
    with pytest.raises(BadValueError, match=r"b'\\x00\\xff' is not text"):
        fit(pa.array([b"\x00\xff"], t), pa.field("c", pa.string()))
