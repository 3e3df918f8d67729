"""Values of all types, from Parquet files on S3 through each kind of message: exact in both warehouses.

BigQuery loads flat values as Parquet and nested ones as Avro, because these need JSON columns.
"""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import file_bytes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from singer_lines import Batches, schema, state
from warehouses import Warehouse

from singer_arrow.errors import DataError
from tap_s3_files.tap import TapS3Files

Row = dict[str, Any]
Types = dict[str, pa.DataType]
LATE = 253_402_300_800_000_000
"""Microseconds from 1970 to the year 10000."""
PLAIN: Types = {
    "id": pa.int64(),
    **{t: pa.type_for_alias(t) for t in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{"half": pa.float16(), "single": pa.float32(), "double": pa.float64(), "odd": pa.float64(), "yes": pa.bool_()},
    **{"price": pa.decimal128(12, 2), "exact": pa.decimal128(38, 9), "fine": pa.decimal128(38, 18)},
    **{"whole": pa.decimal128(38, 0), "wide": pa.decimal256(76, 0), "tiny": pa.decimal256(76, 76)},
    **{"text": pa.string(), "word": pa.dictionary(pa.int32(), pa.string()), "raw": pa.binary(), "long": pa.string()},
    **{"day": pa.date32(), "clock": pa.time64("us"), "at": pa.timestamp("us")},
    **{"at_ms": pa.timestamp("ms", "Asia/Tokyo"), "late": pa.timestamp("us"), "nothing": pa.null()},
}
DEEP: pa.DataType = pa.struct([("x", pa.int64())])
for _ in range(15):
    DEEP = pa.struct([("x", DEEP)])
PLACE = pa.struct([("name", pa.string()), ("since", pa.timestamp("us", "UTC")), ("height", pa.decimal128(9, 3))])
NESTED: Types = {
    **{"id": pa.int64(), "tags": pa.list_(pa.string()), "place": PLACE, "places": pa.list_(PLACE), "deep": DEEP},
    **{"counts": pa.map_(pa.string(), pa.int64()), "grid": pa.list_(pa.list_(pa.int64())), "free": pa.json_()},
}
HERE = {"name": "hé\u200d😀", "since": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "height": Decimal("-1.005")}
ROWS: list[Row] = [
    {
        **{"id": 1, "int8": -128, "int16": -(2**15), "int32": -(2**31), "int64": -(2**63)},
        **{"uint8": 255, "uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1},
        **{"half": 65504.0, "single": 16777216.0, "double": 1.7976931348623157e308, "odd": math.nan, "yes": True},
        **{"price": Decimal("-9999999999.99"), "exact": Decimal("12345678901234567890123456789.123456789")},
        **{"fine": Decimal("12345678901234567890.123456789012345678"), "wide": Decimal("9" * 76)},
        **{"tiny": Decimal((1, (9,) * 76, -76)), "text": 'é😀 "q", a\n\\b', "word": "é", "raw": bytes(range(256))},
        **{"day": date(1, 1, 1), "clock": time(23, 59, 59, 999999), "late": LATE},
        "at": datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - taken as UTC
        "at_ms": datetime(2024, 2, 29, 12, 0, 0, 123000, UTC),
    },
    {
        **{"id": 2, "int64": 2**63 - 1, "double": -0.0, "odd": -math.inf, "price": Decimal(0), "tiny": Decimal(0)},
        **{"text": "", "word": "", "raw": b"", "long": "", "day": date(9999, 12, 31), "clock": time(0)},
        "at": datetime(1, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
    },
    {"id": 3, "odd": math.inf, "text": "a\0b", "at": datetime(9999, 12, 31, 23, 59, 59, 999999)},  # noqa: DTZ001
    {"id": 4},
]
DEEPEST: Any = 7
for _ in range(16):
    DEEPEST = {"x": DEEPEST}
NESTED_ROWS: list[Row] = [
    {
        **{"id": 1, "tags": ["a", "", "é"], "place": HERE, "places": [HERE, {**HERE, "name": ""}], "deep": DEEPEST},
        **{"counts": [("a", 2**63 - 1), ("é", -(2**31))], "grid": [[1], [], [2, 3]]},
        "free": '{"a": [1, 1.5, null, "\\u00e9"], "b": {}}',
    },
    {"id": 2, "tags": [], "places": [], "counts": [], "grid": [], "free": "[]"},
    {"id": 3, "free": '"text"'},
    {"id": 4},
]
ONLY: dict[str, Row] = {
    "bigquery": {"long": "é" * (8 << 20), "whole": Decimal("9" * 20)},  # the local BigQuery stores up to 20 digits
    "redshift": {"long": "é" * 32767 + "x", "whole": Decimal("9" * 38)},
}
"""Values of the first row: 16 MB of text for BigQuery, and the maximum of VARCHAR for Redshift."""
KINDS = {
    "bigquery": [
        *["INTEGER"] * 8,
        *("NUMERIC", "FLOAT", "FLOAT", "FLOAT", "FLOAT", "BOOLEAN", "NUMERIC", "NUMERIC", "BIGNUMERIC", "BIGNUMERIC"),
        *("STRING", "STRING", "STRING", "STRING", "BYTES", "STRING", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP"),
        *("STRING", "STRING"),
    ],
    "redshift": [
        *("bigint", "smallint", "smallint", "integer", "bigint", "smallint", "integer", "bigint", "decimal(20,0)"),
        *("real", "real", "double precision", "double precision", "boolean", "decimal(12,2)", "decimal(38,9)"),
        *("decimal(38,18)", "decimal(38,0)", *["varchar(256)"] * 4, "binary varying", "varchar(65535)", "date"),
        *("time without time zone", *["timestamp with time zone"] * 2, "varchar(256)", "varchar(256)"),
    ],
}
MODES: dict[str, Row] = {
    "parquet": {"format": "parquet"},
    "jsonl": {"format": "jsonl"},
    "arrow": {"format": "arrow"},
    "records": {},
}


def plain_arrives(row: Row, warehouse: str, mode: str) -> Row:
    """Return a flat row as a client of the warehouse reads it."""
    seen = {name: row.get(name) for name in PLAIN}
    if seen["at"] is not None:
        seen["at"] = seen["at"].replace(tzinfo=UTC)
    if mode not in ("parquet", "arrow") and not math.isfinite(seen["odd"] or 0):
        seen["odd"] = None  # JSON has no such numbers
    for name in ("wide", "tiny"):
        seen[name] = None if seen[name] is None else f"{seen[name]:.{PLAIN[name].scale}f}"
    if seen["late"] is not None:
        seen["late"] = "10000-01-01T00:00:00.000000Z"
    if warehouse == "redshift" and seen["text"]:
        seen["text"] = seen["text"].replace("\0", "␀")
    return seen


def nested_arrives(row: Row, warehouse: str) -> Row:
    """Return a nested row as a client of the warehouse reads it."""
    seen = {name: row.get(name) for name in NESTED}
    seen["counts"] = None if seen["counts"] is None else dict(seen["counts"])
    seen["free"] = None if seen["free"] is None else json.loads(seen["free"])
    if warehouse == "bigquery":
        seen |= {name: seen[name] or [] for name in ("tags", "places")}  # its arrays are never null
        return seen
    for place in (*([seen["place"]] if seen["place"] else []), *(seen["places"] or ())):
        assert place.keys() == HERE.keys()
    in_json = {"since": "1969-12-31T23:59:59.999999Z", "height": -1.005}
    seen["place"] = seen["place"] and seen["place"] | in_json
    seen["places"] = seen["places"] and [place | in_json for place in seen["places"]]
    return seen


def column(values: list[Any], t: pa.DataType) -> pa.Array:
    if isinstance(t, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(t, pa.array(values, t.storage_type))
    return pa.array(values, t)


def parquet(rows: list[Row], types: Types) -> bytes:
    return file_bytes.parquet(pa.table({name: column([r.get(name) for r in rows], t) for name, t in types.items()}))


@pytest.mark.parametrize("mode", MODES)
def test_all_values_arrive_exactly(
    mode: str, s3: Any, bucket: str, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [ROWS[0] | ONLY[warehouse.name], *ROWS[1:]]
    s3.put_object(Bucket=bucket, Key="plain/a.parquet", Body=parquet(rows, PLAIN))
    s3.put_object(Bucket=bucket, Key="nested/a.parquet", Body=parquet(NESTED_ROWS, NESTED))
    streams = [
        {"name": n, "path": f"s3://{bucket}/{n}/*.parquet", "key_properties": ["id"]} for n in ("plain", "nested")
    ]
    streams[0]["schema"] = {"late": "string"}
    config: Row = {"streams": streams, "metadata_columns": False}
    if MODES[mode]:
        config["batch_config"] = {"encoding": MODES[mode], "storage": {"root": f"s3://{bucket}/stage"}}
    TapS3Files(config=config).sync_all()
    running = warehouse.target(config=dict(warehouse.config))
    running.listen(io.StringIO(capsys.readouterr().out))
    running.run.close()
    assert list(warehouse.columns("plain").values()) == KINDS[warehouse.name]
    for row, written in zip(warehouse.table("plain"), rows, strict=True):
        expected = plain_arrives(written, warehouse.name, mode)
        differing = {n for n in PLAIN if repr(row[n]) != repr(expected[n]) and not is_same(row[n], expected[n])}
        assert {n: (repr(row[n])[:99], repr(expected[n])[:99]) for n in differing} == {}
    for row, written in zip(warehouse.table("nested"), NESTED_ROWS, strict=True):
        assert {name: row[name] for name in NESTED} == nested_arrives(written, warehouse.name)


def is_same(found: Any, written: Any) -> bool:
    """Whether values are equal, floats including their sign; decimals may differ in trailing zeros."""
    if isinstance(written, float):
        return bool(found == written and math.copysign(1, found) == math.copysign(1, written))
    return bool(found == written)


def test_years_after_9999_are_refused_or_kept_as_they_are(warehouse: Warehouse, batch: Batches) -> None:
    """BigQuery has no such timestamps; Redshift has them up to the year 294276."""
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    path = batch([], columns=columns)["manifest"][0]
    pq.write_table(pa.table({"id": [1], "at": [LATE]}, columns), path.removeprefix("file://"))
    message = {"type": "BATCH", "stream": "rows", "encoding": {"format": "parquet"}, "manifest": [path]}
    lines = [schema(columns=columns), message, state(1)]
    if warehouse.name == "bigquery":
        with pytest.raises(DataError, match=r"\.parquet, row 1, column 'at': a date lies outside the years 1 to 9999"):
            warehouse.load(lines)
        assert warehouse.table() == []
    else:
        warehouse.load(lines)
        assert warehouse.one("SELECT EXTRACT(epoch FROM at)::BIGINT FROM {rows}") == (LATE // 10**6,)
