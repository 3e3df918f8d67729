"""Whole numbers beside fractions, in every text format: all digits arrive, as a decimal or text, or the row is bad."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError
from singer_arrow.read_options import FixedColumn

NUMERIC = pa.decimal128(38, 9)
FORMATS = ["csv", "jsonl", "fixed_width"]
BIG = 2**53 + 7


def text_of(format: str, numbers: list[str]) -> tuple[bytes, str, dict[str, Any]]:
    """Return a file with a number on each line, its name, and its options."""
    if format == "csv":
        return "".join(f"{n}\n" for n in ["n", *numbers]).encode(), "a.csv", {}
    if format == "jsonl":
        return "".join(f'{{"n":{n}}}\n' for n in numbers).encode(), "a.jsonl", {"loose_text": True}
    options = {"fixed_width": (FixedColumn("n", 1, 90),)}
    return "".join(f"{n}\n" for n in numbers).encode(), "a.fixed_width", options


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (["0.25", str(BIG)], NUMERIC),
        ([str(-BIG), "-3.5", "98765432109876543"], NUMERIC),
        (["7.000000001", f"{BIG}.0"], NUMERIC),
        (["7.0000000001", str(BIG)], pa.string()),
        (["7.5", "9" * 30], pa.string()),
        (["8" * 39, "1"], pa.string()),
        (["8" * 30, "1"], pa.decimal128(38, 0)),
        (["0.25", str(2**53), str(BIG - 1), "1e300", "3" + "0" * 22], pa.float64()),
        (["0.5", "1200000000000000000000"], pa.float64()),
    ],
)
def test_types_that_keep_all_digits(objects: Any, format: str, numbers: list[str], expected: pa.DataType) -> None:
    data, name, options = text_of(format, numbers)
    table = objects.read(data, name, **options)
    assert table.schema.field("n").type == expected
    assert [Decimal(str(value)) for value in table["n"].to_pylist()] == [Decimal(n) for n in numbers]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("t", "number"), [(pa.float64(), str(-BIG)), (pa.float32(), "16777219")], ids=str)
@pytest.mark.parametrize("before", [0, 300])
def test_a_float_column_refuses_what_it_would_change(
    objects: Any,
    format: str,
    t: pa.DataType,
    number: str,
    before: int,
) -> None:
    data, name, options = text_of(format, ["0.5"] * before + [number, "1e30", "2.5"])
    schema = pa.schema([("n", t)])
    with pytest.raises(
        DataError, match=rf"line {before + 1 + (format == 'csv')}, column 'n': .*{number}.* is not a number"
    ):
        objects.read(data, name, schema, **options)
    table = objects.read(data, name, schema, on_bad_row="skip", **options)
    assert table["n"].cast(pa.float64()).to_pylist()[before:] == [pa.scalar(1e30, t).as_py(), 2.5]
