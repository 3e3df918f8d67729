"""Whole numbers with leading zeros, such as 007, in columns of integers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError, DriftError

CODES = pa.schema([("zip", pa.int64()), ("n", pa.int64()), ("city", pa.string())])
ROWS = b"zip,n,city\n" + b"".join(b"1%04d,5,0%d\n" % (n, n) for n in range(40))
PADDED = ROWS + b"02134,6,Boston\n" + b"11111,7,x\n"


@pytest.mark.parametrize("block", [1, 100, 4 << 20])
@pytest.mark.parametrize("value", [b"02134", b'"02134"', b" 007", b"-01", b"00"])
def test_they_are_bad_values(objects: Any, value: bytes, block: int) -> None:
    data = PADDED.replace(b"02134", value)
    with pytest.raises(DataError, match=r"codes.csv, line 42.*is not an integer"):
        objects.read(data, "codes.csv", CODES, block_bytes=block)
    found = objects.read(data, "codes.csv", CODES, block_bytes=block, on_bad_row="skip")
    assert (found.num_rows, found["zip"][-1].as_py(), found["n"][-1].as_py()) == (41, 11111, 7)


def test_a_column_becomes_text_by_drift(objects: Any) -> None:
    with pytest.raises(DriftError) as caught:
        objects.read(PADDED, "codes.csv", CODES, on_drift="raise")
    assert [(f.name, f.type) for f in caught.value.fields] == [("zip", pa.string())]


def test_a_declared_column_leaves_them_out_with_a_warning(objects: Any, caplog: pytest.LogCaptureFixture) -> None:
    found = objects.read(PADDED, "codes.csv", CODES, declared_columns=frozenset({"zip"}))
    assert found["zip"][-2].as_py() == 2134
    assert "Column 'zip' is declared as an integer, and has numbers with leading zeros in files of" in caplog.text


@pytest.mark.parametrize("text", [b"0", b"-0", b"0.5", b"", b"10", b"1.0"])
def test_other_numbers_are_taken_as_before(objects: Any, text: bytes) -> None:
    t = pa.float64() if text == b"0.5" else pa.int64()
    found = objects.read(b"a,b\n" + text + b",x\n", "other.csv", pa.schema([("a", t), ("b", pa.string())]))
    assert found["a"].to_pylist() == [float(text) if text else None]
