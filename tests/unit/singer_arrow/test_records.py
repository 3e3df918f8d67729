"""Records hold exact values in the words of JSON, nested ones and slices too."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError
from singer_arrow.schema import json_field
from singer_arrow.singer import records as module
from singer_arrow.singer.records import to_records


def records(values: list[Any], field: pa.DataType | pa.Field) -> list[Any]:
    field = field if isinstance(field, pa.Field) else pa.field("x", field)
    batch = pa.RecordBatch.from_arrays([pa.array(values, field.type)], schema=pa.schema([field]))
    return [r["x"] for r in to_records(batch)]


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (2**63 - 1, pa.int64(), 2**63 - 1),
        (2**64 - 1, pa.uint64(), 2**64 - 1),
        (Decimal("12345678901234567890.10"), pa.decimal128(38, 2), Decimal("12345678901234567890.10")),
        (Decimal(10**37), pa.decimal128(38, 0), 10**37),
        (0.1, pa.float64(), 0.1),
        (float("nan"), pa.float64(), None),
        (float("-inf"), pa.float32(), None),
        (True, pa.bool_(), True),
        ("", pa.string(), ""),
        (b"\x00\xff", pa.binary(), "AP8="),
        (date(1, 1, 1), pa.date32(), "0001-01-01"),
        (time(1, 2, 3, 4), pa.time64("us"), "01:02:03.000004"),
        (datetime(2024, 5, 1, 10, 0, 0, 5, UTC), pa.timestamp("us", "UTC"), "2024-05-01T10:00:00.000005Z"),
        ('{"a": [1, 1.10]}', json_field("x"), {"a": [1, Decimal("1.10")]}),
        ([1.5, float("nan"), None], pa.list_(pa.float64()), [1.5, None, None]),
        ({"a": b"x", "b": None}, pa.struct([("a", pa.binary()), ("b", pa.date32())]), {"a": "eA==", "b": None}),
        ([("k", Decimal("1.0"))], pa.map_(pa.string(), pa.decimal128(3, 1)), {"k": Decimal("1.0")}),
        ([{"a": [1]}, None], pa.list_(pa.struct([("a", pa.list_(pa.int64()))])), [{"a": [1]}, None]),
    ],
)
def test_values_are_exact(given: Any, kind: pa.DataType | pa.Field, expected: Any) -> None:
    assert records([given, None, given], kind) == [expected, None, expected]


def test_large_batches_are_worked_off_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CELLS", 7)
    table = pa.table({"a": list(range(10)), "l": [[n] * (n % 3) for n in range(10)]})
    (batch,) = table.to_batches()
    assert list(to_records(batch)) == table.to_pylist()


def test_slices_keep_their_rows() -> None:
    table = pa.table({"l": [[n, n] for n in range(10)], "s": [{"a": n} for n in range(10)], "t": list("abcdefghij")})
    (batch,) = table.slice(4, 3).to_batches()
    assert list(to_records(batch)) == table.to_pylist()[4:7]


@pytest.mark.parametrize("days", [-719_163, 2_932_897])
def test_years_that_json_has_no_text_for_are_refused(days: int) -> None:
    with pytest.raises(DataError, match="column 'x': a date lies outside the years 1 to 9999"):
        records([days], pa.date32())


def test_a_key_that_stands_twice_in_a_map_is_refused() -> None:
    with pytest.raises(DataError, match="column 'x': a map has the key 'k' twice"):
        records([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))


def test_records_are_json() -> None:
    batch = pa.RecordBatch.from_pylist([{"a": 1, "b": [datetime(2024, 1, 1, tzinfo=UTC)]}])
    assert json.dumps(list(to_records(batch))) == '[{"a": 1, "b": ["2024-01-01T00:00:00.000000Z"]}]'
