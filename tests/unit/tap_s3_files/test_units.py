"""Nanosecond timestamps mixed with dates beyond their range; decimals mixed with floats."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError, DriftError
from tap_s3_files.tap import TapS3Files

EXACT = 1_700_000_000_123_456_789
NANOSECONDS = pa.array([EXACT, None], pa.timestamp("ns"))
ROUND = pa.array([1_700_000_000_123_456_000, None], pa.timestamp("ns"))
FAR = pa.array([253402214400000000, 0], pa.timestamp("us", "UTC"))
FAR_DATE = pa.array([2932896, 0], pa.date32())
AT_EXACT, AT_ROUND, AT_FAR = (
    "2023-11-14T22:13:20.123456789Z",
    "2023-11-14T22:13:20.123456",
    "9999-12-31T00:00:00.000000Z",
)


def run(folder: Path, columns: list[pa.Array], **settings: Any) -> list[Any]:
    """Return the values sent from files of one column each, of which only the first is sampled."""
    for number, column in enumerate(columns):
        pq.write_table(pa.table({"v": column}), folder / f"{number}.parquet")
    stream = {"name": "rows", "path": f"{folder}/*.parquet", **settings}
    config = {"streams": [stream], "plan_root": f"file://{folder}/plan", "metadata_columns": False}
    text = io.StringIO()
    with redirect_stdout(text):
        TapS3Files(config=config).sync_all()
    messages = [json.loads(line, parse_float=Decimal) for line in text.getvalue().splitlines()]
    return [m["record"].get("v") for m in messages if m["type"] == "RECORD"]


@pytest.mark.parametrize("far", [FAR, FAR_DATE], ids=["timestamp", "date"])
@pytest.mark.parametrize("others", [[NANOSECONDS], [ROUND], [NANOSECONDS, ROUND, NANOSECONDS]])
@pytest.mark.parametrize("first", [False, True])
def test_nanoseconds_beside_far_dates_are_exact(
    tmp_path: Path, far: pa.Array, others: list[pa.Array], first: bool
) -> None:
    found = run(tmp_path, [far, *others] if first else [*others, far])
    expected = [AT_EXACT[:26] if other is ROUND else AT_EXACT[:-1] for other in others]
    sent = [v for v in found if v is not None and not v.startswith("1970")]
    far_text = [v for v in sent if v.startswith("9999")]
    assert far_text == [AT_FAR]
    near = [v.removesuffix("Z") for v in sent if not v.startswith("9999")]
    assert [v[:26] if e == AT_ROUND else v for v, e in zip(near, expected, strict=True)] == expected


def test_the_error_gives_both_units(tmp_path: Path) -> None:
    with pytest.raises(
        DriftError, match=r"1\.parquet.*the file has it as timestamp\[us, tz=UTC\], the schema as timestamp\[ns"
    ):
        run(tmp_path, [NANOSECONDS, FAR], on_drift="fail")


def test_a_type_that_is_set_stays(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"0\.parquet.*'2023-11-14 22:13:20\.123456789' is not .* of whole microseconds"
    ):
        run(tmp_path, [NANOSECONDS, FAR], schema={"v": "timestamp"})


FLOATS, NUMBERS = pa.array([1.5, 0.1]), pa.decimal128(38, 9)
FIT = [Decimal("0.1"), Decimal("-2.25"), Decimal("9007199254740993.5"), Decimal("0.000000001")]
LOST = Decimal("12345678901234567890.5")


@pytest.mark.parametrize("first", [False, True])
def test_decimals_become_floats_where_their_digits_stay(tmp_path: Path, first: bool) -> None:
    fit = pa.array([v for v in FIT if v < 10**15], NUMBERS)
    found = run(tmp_path, [fit, FLOATS] if first else [FLOATS, fit])
    assert sorted(found) == sorted([Decimal("1.5"), Decimal("0.1"), *(v for v in FIT if v < 10**15)])


@pytest.mark.parametrize("value", [LOST, Decimal("9007199254740993.5")])
def test_decimals_that_floats_would_change_become_text(tmp_path: Path, value: Decimal) -> None:
    columns = [FLOATS, pa.array([Decimal(2), value], NUMBERS)]
    found = run(tmp_path, columns)
    assert (found[:2], [Decimal(text) for text in found[2:]]) == ([Decimal("1.5"), Decimal("0.1")], [2, value])
    assert isinstance(found[-1], str)
    with pytest.raises(DriftError, match=r"1\.parquet.*column 'v'"):
        run(tmp_path, columns, on_drift="fail")
    assert run(tmp_path, columns, schema={"v": "string"})[-1].startswith(str(value))


def test_decimals_within_a_list(tmp_path: Path) -> None:
    lists = pa.array([[Decimal("0.5"), LOST]], pa.list_(NUMBERS))
    assert run(tmp_path, [pa.array([[1.5]]), lists])[-1] == ["0.500000000", f"{LOST}00000000"]
