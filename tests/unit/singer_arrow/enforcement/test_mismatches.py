"""All invalid values are found, and no others."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.from_text import BadValueError
from singer_arrow.enforcement.bad_rows import mismatched_rows
from singer_arrow.schema.arrow_schema import json_field

NAIVE = {"min_value": datetime(1700, 1, 1), "max_value": datetime(2200, 1, 1)}  # noqa: DTZ001 - as Parquet has them
TEXTS = st.one_of(
    st.sampled_from(
        ["1", " 2 ", "+3", "1.0", "1.5", "1e3", "0x1f", "inf", "NaN", "true", "FALSE", "yes", "", "é", "-"]
    ),
    st.sampled_from(["2024-02-29", "2024-02-30", "2024-02-29T12:00Z", "12:30", "12:61", "YQ==", "YQ", "9" * 40]),
    st.text(max_size=4),
    st.integers(-(2**65), 2**65).map(str),
)
SOURCES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "int64": (pa.int64(), st.one_of(st.integers(-3, 300), st.integers(-(2**63), 2**63 - 1))),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "double": (pa.float64(), st.one_of(st.integers(-300, 300).map(float), st.floats())),
    "decimal": (pa.decimal128(10, 3), st.decimals(-(10**6), 10**6, places=3, allow_nan=False)),
    "nanoseconds": (pa.timestamp("ns"), st.datetimes(**NAIVE)),
    "microseconds": (pa.timestamp("us", "UTC"), st.datetimes(**NAIVE)),
    "date": (pa.date32(), st.dates()),
    "bool": (pa.bool_(), st.booleans()),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["1", "x", "2.5"])),
    "list": (pa.list_(pa.float64()), st.lists(st.sampled_from([1.0, 1.5]), max_size=3)),
    "object": (
        pa.struct([("x", pa.string()), ("y", pa.int64())]),
        st.fixed_dictionaries({"x": st.sampled_from(["1", "a", None]), "y": st.none() | st.integers(0, 300)}),
    ),
}
TARGETS = [
    *(pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(6, 1)),
    *(pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC"), pa.time64("us"), pa.null()),
    *(pa.list_(pa.int64()), pa.struct([("x", pa.int64()), ("y", pa.int8())])),
]
FIELDS = [*(pa.field("c", t) for t in TARGETS), json_field("c")]


def _refused(column: pa.Array, field: pa.Field) -> list[int]:
    found = []
    for row in range(len(column)):
        try:
            fit(column.take(pa.array([row])), field)
        except BadValueError:
            found.append(row)
    return found


@pytest.mark.parametrize("source", SOURCES)
@given(data=st.data())
def test_mismatches_are_the_rows_that_do_not_fit_alone(source: str, data: st.DataObject) -> None:
    t, values = SOURCES[source]
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=20)), t)
    field = data.draw(st.sampled_from(FIELDS))
    found = mismatched_rows(column, field).to_pylist()
    assert found == _refused(column, field)
    good = column.take(pa.array([i for i in range(len(column)) if i not in found], pa.int64()))
    assert fit(good, field).type == field.type


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ([f"word {i}" for i in range(20_000)], pa.int64()),
        (["beta", "0x", "N"] * 7_000, pa.int64()),
        ([str(Decimal(i) / 10) for i in range(5_000)], pa.int64()),
        ([i + 0.5 for i in range(20_000)], pa.int64()),
        ([date.fromordinal(i + 1) for i in range(20_000)], pa.int64()),
        ([{"a": i} for i in range(20_000)], pa.int64()),
    ],
    ids=["words", "a few words", "numbers", "doubles", "dates", "objects"],
)
@pytest.mark.timeout(100)  # a quadratic search takes many minutes
@pytest.mark.full("numbers")
def test_columns_full_of_mismatches_take_no_quadratic_time(values: list[Any], target: pa.DataType) -> None:
    column, field = pa.array(values), pa.field("c", target)
    assert len(mismatched_rows(column, field)) >= 0.9 * len(values)
