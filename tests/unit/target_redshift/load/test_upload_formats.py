"""File formats of converted rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError
from singer_arrow.schema.arrow_schema import json_field
from target_redshift import columns as staging
from target_redshift.columns import columns_of
from target_redshift.conversion import Conversion
from target_redshift.sql import NULL_TEXT
from target_redshift.uploads import UploadEncoding

GIVEN = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("n", pa.decimal128(38, 9)),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("clock", pa.time64("us")),
        ("at", pa.timestamp("us", "UTC")),
        ("y", pa.binary()),
        json_field("j"),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 2**63 - 1,
        "s": 'a "b", \\n\n\r|é',
        "n": Decimal("12345678901234567890123456789.123456789"),
        "f": 0.1,
        "b": True,
        "day": date(1, 1, 1),
        "clock": time(23, 59, 59, 999999),
        "at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        "y": b"\0\xff'",
        "j": '{"a": [1, "x"]}',
    },
    {"id": 0, "s": "", "f": -1e308, "y": b""},
]


def written(tmp_path: Path, file_format: str) -> Path:
    columns = columns_of(GIVEN)
    conversion = Conversion(columns, GIVEN)
    batches = conversion.all_batches([("u", [pa.RecordBatch.from_pylist(ROWS, schema=conversion.read_schema)])])
    encoding = UploadEncoding(file_format, staging.file_schema(columns, file_format))
    path = tmp_path / f"file{encoding.suffix}"
    assert encoding.write(batches, path) == 2
    assert encoding.schema.names == [c.name for c in staging.upload_columns(columns, file_format)]
    return path


def test_parquet(tmp_path: Path) -> None:
    found = pq.read_table(written(tmp_path, "parquet"))
    assert str(found.schema.field("n").type) == "decimal128(38, 9)"
    assert found.schema.field("clock").type == pa.string()  # COPY does not read Parquet's TIME
    got = found.to_pylist()
    assert got[0] == ROWS[0] | {"clock": "23:59:59.999999"}
    assert {k: v for k, v in got[1].items() if v is not None} == ROWS[1]


def test_jsonl(tmp_path: Path) -> None:
    lines = gzip.decompress(written(tmp_path, "jsonl").read_bytes()).splitlines()
    got = [json.loads(line) for line in lines]
    assert got[0]["n"] == "12345678901234567890123456789.123456789"  # not a number, which COPY takes for a double
    assert got[0]["at"].startswith("9999-12-31T23:59:59.999999")
    assert got[0]["j"] == {"a": [1, "x"]}
    assert (got[0]["id"], got[0]["clock"]) == (2**63 - 1, "23:59:59.999999")
    assert (got[1]["s"], got[1]["n"], got[1]["day"]) == ("", None, None)


def test_csv(tmp_path: Path) -> None:
    text = gzip.decompress(written(tmp_path, "csv").read_bytes()).decode()
    got = list(csv.reader(io.StringIO(text, newline="")))
    assert got[0] == [
        "9223372036854775807",
        ROWS[0]["s"],
        "12345678901234567890123456789.123456789",
        "0.1",
        "true",
        "0001-01-01",
        "23:59:59.999999",
        "9999-12-31 23:59:59.999999",
        "AP8n",
        '{"a": [1, "x"]}',
    ]
    assert got[1][1] == ""
    assert got[1][2] == NULL_TEXT


def test_csv_refuses_the_text_that_would_become_null(tmp_path: Path) -> None:
    schema = pa.schema([("s", pa.string())])
    encoding = UploadEncoding("csv", schema)
    with pytest.raises(DataError, match="means null in CSV"):
        encoding.write([pa.RecordBatch.from_pylist([{"s": NULL_TEXT}], schema=schema)], tmp_path / "x")


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 10), (38, 37), (18, 18), (1, 0)])
def test_decimals_are_written_in_plain_digits(precision: int, scale: int, file_format: str, tmp_path: Path) -> None:
    digits = [(0,), (1,), (9,) * precision, (1,) + (0,) * (precision - 1)]
    content = [Decimal((sign, d, -scale)) for d in digits for sign in (0, 1) if sign == 0 or any(d)]
    given = pa.schema([("n", pa.decimal128(precision, scale))])
    encoding = UploadEncoding(file_format, staging.file_schema(columns_of(given), file_format))
    batch = pa.record_batch([pa.array([*content, None], given.field("n").type)], schema=given)
    path = tmp_path / "file"
    encoding.write([batch], path)
    found = gzip.decompress(path.read_bytes()).decode().splitlines()
    texts = found if file_format == "csv" else [json.loads(line)["n"] for line in found]
    assert texts == [*(f"{n:f}" for n in content), NULL_TEXT if file_format == "csv" else None]
