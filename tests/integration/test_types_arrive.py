"""The main types, from a Parquet file on S3 through each kind of message: exact in both warehouses."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from warehouses import Warehouse

from tap_s3_files.tap import TapS3Files

PLACE = pa.struct([("name", pa.string()), ("since", pa.timestamp("us", "UTC")), ("height", pa.decimal128(9, 3))])
TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    **{t: pa.type_for_alias(t) for t in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64")},
    **{"half": pa.float16(), "single": pa.float32(), "double": pa.float64(), "yes": pa.bool_()},
    **{"price": pa.decimal128(12, 2), "exact": pa.decimal128(38, 9), "fine": pa.decimal128(38, 18)},
    **{"text": pa.string(), "word": pa.dictionary(pa.int32(), pa.string()), "raw": pa.binary()},
    **{
        "day": pa.date32(),
        "clock": pa.time64("us"),
        "at": pa.timestamp("us"),
        "at_ms": pa.timestamp("ms", "Asia/Tokyo"),
    },
    **{"tags": pa.list_(pa.string()), "place": PLACE, "counts": pa.map_(pa.string(), pa.int64()), "free": pa.json_()},
    "nothing": pa.null(),
}
EXTREMES: dict[str, Any] = {
    **{"id": 1, "int8": -128, "int16": -(2**15), "int32": -(2**31)},
    **{"uint8": 255, "uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1},
    **{"half": 65504.0, "single": 16777216.0, "double": 1.7976931348623157e308, "yes": True},
    "price": Decimal("-9999999999.99"),
    "exact": Decimal("12345678901234567890123456789.123456789"),
    "fine": Decimal("12345678901234567890.123456789012345678"),
    **{"text": 'é😀 "q", a\nb', "word": "é", "raw": bytes(range(256))},
    **{"day": date(1, 1, 1), "clock": time(23, 59, 59, 999999)},
    "at": datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - taken as UTC
    "at_ms": datetime(2024, 2, 29, 12, 0, 0, 123000, UTC),
    "tags": ["a", "", "é"],
    "place": {"name": "here", "since": datetime(2024, 2, 29, 12, 0, 0, 123456, UTC), "height": Decimal("-1.005")},
    "counts": [("a", 1), ("é", -(2**31))],
    "free": '{"a": [1, 1.5, null]}',
    "nothing": None,
}
EMPTY: dict[str, Any] = {
    **dict.fromkeys(TYPES),
    **{"id": 2, "text": "", "word": "", "raw": b"", "double": -0.0, "price": Decimal(0), "day": date(9999, 12, 31)},
    **{"clock": time(0), "at": datetime(1970, 1, 1), "tags": [], "counts": []},  # noqa: DTZ001
}
NULLS: dict[str, Any] = {**dict.fromkeys(TYPES), "id": 3}
KINDS = {
    "bigquery": [
        *["INTEGER"] * 7,
        *("NUMERIC", "FLOAT", "FLOAT", "FLOAT", "BOOLEAN", "NUMERIC", "NUMERIC", "BIGNUMERIC", "STRING", "STRING"),
        *("BYTES", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP", "STRING", "JSON", "JSON", "STRING"),
    ],
    "redshift": [
        *("bigint", "smallint", "smallint", "integer", "smallint", "integer", "bigint", "decimal(20,0)"),
        *("real", "real", "double precision", "boolean", "decimal(12,2)", "decimal(38,9)", "decimal(38,18)"),
        *("varchar(256)", "varchar(256)", "binary varying", "date", "time without time zone"),
        *("timestamp with time zone", "timestamp with time zone", "super", "super", "super", "varchar(256)"),
    ],
}
"""Of all columns but `place`, which is a RECORD or SUPER."""
MODES: dict[str, dict[str, Any]] = {"parquet": {"format": "parquet"}, "jsonl": {"format": "jsonl"}, "records": {}}


def arrives(row: dict[str, Any], warehouse: str) -> dict[str, Any]:
    """A row as a client of the warehouse sees it."""
    seen = dict(row)
    if row["at"] is not None:
        seen["at"] = row["at"].replace(tzinfo=UTC)
    seen["counts"] = None if row["counts"] is None else dict(row["counts"])
    if row["free"]:
        seen["free"] = {"a": [1, 1.5, None]}
    if warehouse == "bigquery":
        seen["tags"] = row["tags"] or []  # its arrays are never null
    elif row["place"]:
        seen["place"] = {"name": "here", "since": "2024-02-29T12:00:00.123456Z", "height": -1.005}
    return seen


def column(values: list[Any], t: pa.DataType) -> pa.Array:
    if isinstance(t, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(t, pa.array(values, t.storage_type))
    return pa.array(values, t)


@pytest.mark.parametrize("mode", MODES)
def test_the_main_types_arrive_exactly(
    mode: str, s3: Any, bucket: str, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [EXTREMES, EMPTY, NULLS]
    out = io.BytesIO()
    pq.write_table(pa.table({name: column([r[name] for r in rows], t) for name, t in TYPES.items()}), out)
    s3.put_object(Bucket=bucket, Key="in/a.parquet", Body=out.getvalue())
    config: dict[str, Any] = {
        "streams": [{"name": "typed", "path": f"s3://{bucket}/in/*.parquet", "key_properties": ["id"]}],
        "metadata_columns": False,
    }
    if MODES[mode]:
        config["batch_config"] = {"encoding": MODES[mode], "storage": {"root": f"s3://{bucket}/stage"}}
    TapS3Files(config=config).sync_all()
    running = warehouse.target(config=dict(warehouse.config))
    running.listen(io.StringIO(capsys.readouterr().out))
    running.close()
    kinds = [kind for name, kind in warehouse.columns("typed").items() if name != "place"]
    assert kinds == KINDS[warehouse.name]
    found = [{name: row[name] for name in TYPES} for row in warehouse.table("typed")]
    for row, wanted in zip(found, rows, strict=True):
        assert row == arrives(wanted, warehouse.name)
