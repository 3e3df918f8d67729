"""Decimals and integers of a BATCH file whose SCHEMA declares only `number`."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from singer_arrow.enforcement.enforce import fit_batch
from singer_arrow.errors import DataError
from singer_arrow.read_options import ReadOptions

LONG = Decimal("12345678901234567890.5")
MEMBER = pa.struct([("x", pa.decimal128(38, 10))])
TABLE = pa.table(
    {
        "flat": pa.array([LONG], pa.decimal128(38, 10)),
        "list": pa.array([[LONG, None]], pa.list_(pa.decimal128(38, 10))),
        "part": pa.array([{"x": LONG}], MEMBER),
    }
)
FLOATS = pa.schema(
    [("flat", pa.float64()), ("list", pa.list_(pa.float64())), ("part", pa.struct([("x", pa.float64())]))]
)


def test_they_are_rounded() -> None:
    (batch,) = TABLE.to_batches()
    found = fit_batch(batch, FLOATS, "file", options=ReadOptions(rounds_decimals=True))
    near = float(LONG)
    assert found.to_pylist() == [{"flat": near, "list": [near, None], "part": {"x": near}}]


def test_a_file_of_a_source_keeps_their_digits() -> None:
    (batch,) = TABLE.to_batches()
    with pytest.raises(DataError, match=r"column 'flat': Decimal\('12345678901234567890.5000000000'\) is not a number"):
        fit_batch(batch, FLOATS, "file")


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize(
    ("value", "t"),
    [(2**63 - 1, pa.int64()), (2**64 - 1, pa.uint64()), (Decimal(2**70 + 1), pa.decimal128(38, 10))],
    ids=str,
)
def test_whole_numbers_are_never_rounded(value: int | Decimal, t: pa.DataType, *, rounds: bool) -> None:
    table = pa.table({"flat": pa.array([1, value, 2], t), "list": pa.array([[], [None, value], None], pa.list_(t))})
    schema = pa.schema([("flat", pa.float64()), ("list", pa.list_(pa.float64()))])
    (batch,) = table.to_batches()
    for name, shown in (("flat", str(value)), ("list", "")):
        with pytest.raises(DataError, match=rf"column '{name}': .*{shown}.* is not "):
            fit_batch(batch.select([name]), schema, "file", options=ReadOptions(rounds_decimals=rounds))
    skipping = ReadOptions(rounds_decimals=rounds, on_bad_row="skip")
    found = fit_batch(batch, schema, "file", options=skipping)
    assert found.to_pylist() == [{"flat": 1.0, "list": []}, {"flat": 2.0, "list": None}]
