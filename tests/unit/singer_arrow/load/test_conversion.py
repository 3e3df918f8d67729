"""Conversions common to all warehouses: names, microseconds, constants and columns; and their hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from recording_target import Plain, column_of

from singer_arrow.errors import DataError
from singer_arrow.load.convert import ORDER, ORDER_BITS, RANK, UploadColumn
from singer_arrow.load.dead_letters import Rejects
from singer_arrow.read_options import Skipped

NANO, MICRO = pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")
MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
GIVEN = pa.schema([("the id", pa.int64()), ("at", NANO), ("added", MICRO)])


class Refusing(Plain):
    """Refuses the value 13."""

    __slots__ = ()

    def check(self, array: pa.Array, column: UploadColumn, url: str) -> None:
        if column.arrow == pa.int64() and 13 in array.to_pylist():
            msg = "13 has no place here"
            raise DataError(msg, url=url, column=column.source)


COLUMNS = (column_of("the_id", "the id", pa.int64()), column_of("at", "at", MICRO), column_of("added", "added", MICRO))


def plain(**options: Any) -> Plain:
    return Refusing(COLUMNS, GIVEN, **{"constants": {"added": MOMENT}, **options})


def batch(*numbers: int | None) -> pa.RecordBatch:
    at = pa.array([1_999] * len(numbers), pa.int64()).cast(NANO)
    return pa.record_batch([pa.array(numbers, pa.int64()), at], schema=plain().read_schema)


def test_files_are_read_by_property_and_uploaded_by_column() -> None:
    assert plain().read_schema == GIVEN.remove(2)
    assert plain().upload_schema == pa.schema([("the_id", pa.int64()), ("at", MICRO), ("added", MICRO)])


def test_rows_get_microseconds_and_constants() -> None:
    (made,) = plain().all_batches([("file", [batch(1, 2)])])
    assert made.schema == plain().upload_schema
    assert made.column("at").cast(pa.int64()).to_pylist() == [1, 1]
    assert made.column("added").to_pylist() == [MOMENT, MOMENT]


@pytest.mark.parametrize("of", [lambda t: t, pa.list_, lambda t: pa.struct([("a", t)])], ids=["flat", "list", "object"])
def test_nanoseconds_are_rounded_down_also_before_1970(of: Callable[[pa.DataType], pa.DataType]) -> None:
    least = -(2**63)
    values: list[int | None] = [1_999, -1, -1_000, -1_001, None, least]
    cut = [1, -1, -1, -2, None, least // 1000]

    def column(numbers: list[int | None], t: pa.DataType) -> pa.Array:
        flat = pa.array(numbers, pa.int64()).view(t)
        if pa.types.is_list(of(t)):
            return pa.ListArray.from_arrays(pa.array(range(len(numbers) + 1), pa.int32()), flat)
        return flat if of(t) == t else pa.StructArray.from_arrays([flat], ["a"])

    schema = pa.schema([("at", of(NANO))])
    conversion = Plain((column_of("at", "at", of(MICRO)),), schema)
    (made,) = conversion.all_batches([("file", [pa.record_batch([column(values, NANO)], schema=schema)])])
    assert made.column("at").equals(column(cut, MICRO))


def test_rows_know_their_place_in_the_item() -> None:
    conversion = plain(place=3)
    made = conversion.all_batches([("a", [batch(1, 2), batch(3)]), ("b", [batch(), batch(4)])])
    places = [place for part in made for place in part.column(ORDER).to_pylist()]
    assert places == [(3 << ORDER_BITS) + n for n in range(4)]


def test_null_keys_and_what_the_warehouse_refuses_name_file_and_column() -> None:
    with pytest.raises(DataError, match=r"^b, row 1, column 'the id': a key property is null\. Set other key"):
        list(plain(keys=("the id",)).all_batches([("a", [batch(1)]), ("b", [batch(None)])]))
    with pytest.raises(DataError, match=r"^b, row \d, column 'the id': 13 has no place here$"):
        list(plain().all_batches([("a", [batch(1)]), ("b", [batch(13)])]))
    assert list(plain().all_batches([("a", [batch(None)])]))


def test_a_day_whose_midnight_no_moment_can_be_is_named() -> None:
    columns = (column_of("day", "day", MICRO),)
    days = pa.record_batch([pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())], names=["day"])
    with pytest.raises(DataError, match=r"^a, row 2, column 'day': .*out of bounds"):
        list(Plain(columns, days.schema).all_batches([("a", [days])]))


def test_rows_have_the_ranks_of_their_places_also_where_others_are_left_out() -> None:
    """Of 9 rows in the first file the rows 2, 3 and 6 cannot be read, and row 8 has no key."""
    ranks = (((3, "a"), (3, "b"), (None, "c")), ((None, "d"),))
    columns = (column_of("id", "id", pa.int64()), column_of(RANK, RANK, pa.string()))
    made = Plain(columns, pa.schema([("id", pa.int64())]), {RANK: None}, ("id",), ranks=ranks)
    rejects = Rejects(10)

    def first() -> Iterator[pa.RecordBatch]:
        on_skip = rejects.skip_callback("one")
        for position in (2, 3, 6):
            on_skip(Skipped(position, None, "bad", "{}"))
        yield ids(1, 4)
        yield ids(5, 7, None, 9)

    def ids(*numbers: int | None) -> pa.RecordBatch:
        return pa.record_batch({"id": pa.array(numbers, pa.int64())})

    sources = [("one", first()), ("two", iter([ids(10, 11)]))]
    rows = pa.Table.from_batches(list(made.all_batches(sources, rejects=rejects)))
    assert rows["id"].to_pylist() == [1, 4, 5, 7, 9, 10, 11]
    assert rows[RANK].to_pylist() == ["a", "b", "b", "c", "c", "d", "d"]
    assert rejects.rows[-1].position == 8
    assert rejects.rows[-1].record == '{"id":null}'
