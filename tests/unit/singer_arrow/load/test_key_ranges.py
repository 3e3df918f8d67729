"""Ranges of staged values: every value is within one, and gaps between distant values are excluded."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_target import Plain, column_of

from singer_arrow.errors import DataError
from singer_arrow.load.staging import MOST_SPANS, Extent, Extents, Grid, integers, together

INT64 = st.integers(-(2**63), 2**63 - 1)
DAYS = Grid(-719_162, 1, 2_932_897)
HOURS = Grid(-719_162 * 86_400_000_000, 3_600_000_000, 2_932_897 * 86_400_000_000)
KINDS: dict[str, tuple[pa.DataType, Any, Grid | None]] = {
    "int": (pa.int64(), INT64, None),
    "ranges": (pa.int64(), INT64 | st.integers(-50, 1050), Grid(0, 10, 1000)),
    "ranges from the least": (pa.int64(), INT64, Grid(-(2**63), 2**40, 2**62)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1), Grid(-7, 3, 11)),
    "days": (pa.date32(), st.dates(), DAYS),
    "moments": (pa.timestamp("us", "UTC"), st.datetimes(), HOURS),
    "any moments": (pa.timestamp("us", "UTC"), INT64, HOURS),
    "text": (pa.string(), st.text(), None),
    "decimals": (pa.decimal128(38, 9), st.decimals(-(10**20), 10**20, places=9), None),
}


def lies_within(extent: Extent, value: Any) -> bool:
    return any(low <= value <= high for low, high in extent.spans())


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_value_is_within(kind: str, data: st.DataObject) -> None:
    arrow, values, grid = KINDS[kind]
    chunks = data.draw(st.lists(st.lists(st.none() | values, max_size=30), max_size=4))
    extents = [Extent(grid), Extent(grid)]
    for number, chunk in enumerate(chunks):
        extents[number % 2].add(pa.array(chunk, arrow))
    extents[0].include(extents[1])
    (extent, _), flat = extents, [v for chunk in chunks for v in chunk]
    raw = integers(pa.array([v for v in flat if v is not None], arrow)).to_pylist()
    assert all(lies_within(extent, value) for value in raw)
    assert extent.has_nulls == (None in flat)
    spans, few = extent.spans(), extent.spans(3)
    assert all(low <= high for low, high in spans)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))
    assert len(spans) <= (MOST_SPANS if grid else 1)
    assert len(few) <= 3
    assert all(any(low <= value <= high for low, high in few) for value in raw)
    if raw:
        assert (spans[0][0], spans[-1][1]) == (min(raw), max(raw))


@given(st.lists(st.integers(0, 999), min_size=1))
def test_cells_without_a_value_are_left_out_while_there_are_few(values: list[int]) -> None:
    extent = Extent(Grid(0, 100, 1000))
    extent.add(pa.array(values, pa.int64()))
    covered = {cell for low, high in extent.spans() for cell in range(low // 100, high // 100 + 1)}
    assert covered == {value // 100 for value in values}


def test_one_late_row_does_not_cover_all_days_in_between() -> None:
    extent = Extent(HOURS)
    start = datetime(2024, 2, 29, tzinfo=UTC)
    extent.add(pa.array([start + timedelta(minutes=n) for n in range(120)], pa.timestamp("us", "UTC")))
    extent.add(pa.array([datetime(1969, 12, 31, 23, 59, tzinfo=UTC), None], pa.timestamp("us", "UTC")))
    assert [(high - low) // HOURS.width for low, high in extent.spans()] == [0, 1]


def test_the_smallest_gaps_are_closed_where_there_are_too_many() -> None:
    extent = Extent(Grid(0, 1, 10_000))
    extent.add(pa.array([1, 3, 50, 53, 5000], pa.int64()))
    assert extent.spans(3) == [(1, 3), (50, 53), (5000, 5000)]
    assert extent.spans(2) == [(1, 53), (5000, 5000)]
    assert extent.spans(1) == [(1, 5000)]
    many = Extent(Grid(0, 1, 10_000))
    many.add(pa.array([*range(0, 6000, 2), 9999], pa.int64()))
    assert len(many.spans()) == MOST_SPANS
    assert many.spans(2) == [(0, 5998), (9999, 9999)]


def test_without_values_there_is_no_span() -> None:
    extent = Extent()
    assert (extent.spans(), extent.has_nulls) == ([], False)
    extent.add(pa.nulls(3, pa.int64()))
    assert (extent.spans(), extent.has_nulls) == ([], True)


def test_other_values_are_kept_as_they_are() -> None:
    extent = Extent()
    extent.add(pa.array(["b", "é", "", "a"]))
    assert extent.spans() == [("", "é")]
    numbers = Extent()
    numbers.add(pa.array([Decimal("1.5"), Decimal("-2.5")]))
    assert numbers.spans() == [(Decimal("-2.5"), Decimal("1.5"))]


def plain(extents: Extents | None, **more: Any) -> Plain:
    return Plain((column_of("day", "d", pa.date32()),), pa.schema([("d", pa.date32())]), extents=extents, **more)


def rows(*days: date | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"d": pa.array(days, pa.date32())})


def test_a_conversion_notes_what_it_made_the_last_time() -> None:
    extents = Extents({"day": DAYS})
    conversion, day = plain(extents), date(1970, 1, 11)
    list(conversion.all_batches([("u", [rows(date(1970, 1, 2)), rows(day)])]))
    assert (extents.rows, extents.columns["day"].spans()) == (2, [(1, 1), (10, 10)])
    list(conversion.all_batches([("u", [rows(day)])]))
    assert (extents.rows, extents.columns["day"].spans()) == (1, [(10, 10)])
    begun = conversion.all_batches([("u", [rows(day), rows(day, day)])])
    next(begun)
    assert extents.rows == 1


def test_extents_count_only_for_all_rows_of_all_items() -> None:
    first, second = Extents({"day": DAYS}), Extents({"day": DAYS})
    list(plain(first).all_batches([("u", [rows(date(1970, 1, 2))])]))
    list(plain(second).all_batches([("u", [rows(date(1970, 1, 5), None)])]))
    joined = together([first, second], 3)["day"]
    assert (joined.spans(), joined.has_nulls) == ([(1, 1), (4, 4)], True)
    assert together([first, second], 4) == {}
    assert together([first, None], 1) == {}
    assert together([], 0) == {}
    with pytest.raises(DataError):
        list(plain(second, keys=("d",)).all_batches([("u", [rows(date(1970, 1, 2)), rows(None)])]))
    assert together([first, second], 3) == {}
