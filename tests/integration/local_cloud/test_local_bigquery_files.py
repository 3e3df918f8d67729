"""Files loaded into the local BigQuery give the same rows or errors as in BigQuery."""

import datetime as dt
import gzip
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from bigquery_files import Load, avro, ndjson, rows, types
from file_bytes import parquet_of
from google.api_core.exceptions import BadRequest, GoogleAPICallError
from google.cloud import bigquery

NOW = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC)


def test_parquet_types(bq: Any, here: str, load_bytes: Load) -> None:
    options = bigquery.ParquetOptions()  # type: ignore[no-untyped-call] # google.cloud types its API in part
    options.enable_list_inference = True
    data = parquet_of(
        i=[1, None],
        s=["", None],
        b=[b"\x00\xff", None],
        n=pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
        at=pa.array([NOW, None], pa.timestamp("us", "UTC")),
        d=[NOW.date(), None],
        items=[[1, 2], None],
        inner=[{"x": 1}, None],
    )
    load_bytes("t", "PARQUET", data, parquet_options=options)
    table = bq.get_table(f"{here}.t")
    assert table.num_rows == 2
    assert types(bq, f"{here}.t") == {
        "i": "INTEGER", "s": "STRING", "b": "BYTES", "n": "NUMERIC", "at": "TIMESTAMP", "d": "DATE",
        "items": "INTEGER", "inner": "RECORD",
    }  # fmt: skip
    full = {
        "i": 1,
        "s": "",
        "b": b"\x00\xff",
        "n": Decimal("1.1"),
        "at": NOW,
        "d": NOW.date(),
        "items": [1, 2],
        "inner": {"x": 1},
    }
    assert rows(bq, f"{here}.t")[1] == full


@pytest.mark.parametrize("large", [False, True])
def test_avro_types(bq: Any, here: str, load_bytes: Load, large: bool) -> None:
    fields = [
        ("i", "long"),
        ("s", "string"),
        ("b", "bytes"),
        ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        ("d", {"type": "int", "logicalType": "date"}),
        ("j", {"type": "string", "sqlType": "JSON"}),
    ]
    row = {"i": 1, "s": "", "b": b"\x00", "at": NOW, "d": NOW.date(), "j": '{"a": [1]}'}
    if large:  # read by polars instead of fastavro
        fields.append(("text", "string"))
        data = avro([row | {"i": n, "text": uuid.uuid4().hex * 40} for n in range(2_000)], *fields, codec="null")
        assert len(data) > 1_000_000
    else:
        fields.append(("n", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}))
        data = avro([row | {"n": Decimal("1.10")}, {}], *fields)
    load_bytes("t", "AVRO", data, use_avro_logical_types=True)
    found = types(bq, f"{here}.t")
    assert [found[name] for name in ("at", "d", "j", "b")] == ["TIMESTAMP", "DATE", "JSON", "BYTES"]
    last = rows(bq, f"{here}.t")[1]
    assert (last["at"], last["d"], last["b"], last["j"], last["s"]) == (NOW, NOW.date(), b"\x00", {"a": [1]}, "")
    assert bq.get_table(f"{here}.t").num_rows == (2_000 if large else 2)


def test_avro_without_logical_types_is_numbers(bq: Any, here: str, load_bytes: Load) -> None:
    load_bytes("t", "AVRO", avro([{"at": NOW}], ("at", {"type": "long", "logicalType": "timestamp-micros"})))
    assert types(bq, f"{here}.t") == {"at": "INTEGER"}


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_json_lines(bq: Any, here: str, load_bytes: Load, compress: Callable[[bytes], bytes]) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t (i INT64, n NUMERIC, at TIMESTAMP, b BYTES, j JSON, s STRING)")
    row = {
        "i": "9007199254740993",
        "n": "1.10",
        "at": "2024-02-29T12:00:00.123456Z",
        "b": "AP8=",
        "j": {"k": 1},
        "s": "",
    }
    load_bytes("t", "NEWLINE_DELIMITED_JSON", compress(ndjson(row, {"i": 0})))
    expected = {"i": 2**53 + 1, "n": Decimal("1.1"), "at": NOW, "b": b"\x00\xff", "j": {"k": 1}, "s": ""}
    assert rows(bq, f"{here}.t")[1] == expected


def test_json_lines_with_unknown_fields(bq: Any, here: str, load_bytes: Load) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t (a INT64)")
    with pytest.raises(BadRequest, match="No such field: z"):
        load_bytes("t", "NEWLINE_DELIMITED_JSON", ndjson({"a": 1, "z": 2}))
    load_bytes("t", "NEWLINE_DELIMITED_JSON", ndjson({"a": 1, "z": 2}), ignore_unknown_values=True)
    with pytest.raises(GoogleAPICallError, match="key A is spelled otherwise"):
        load_bytes("t", "NEWLINE_DELIMITED_JSON", ndjson({"A": 1}))
    with pytest.raises(BadRequest, match="No schema specified"):
        load_bytes("other", "NEWLINE_DELIMITED_JSON", ndjson({"a": 1}))
    assert rows(bq, f"{here}.t") == [{"a": 1}]


def test_json_lines_with_unknown_fields_within(bq: Any, here: str, load_bytes: Load) -> None:
    bq.query_and_wait(f"CREATE TABLE {here}.t (s STRUCT<x INT64>, l ARRAY<STRUCT<y STRING, z STRUCT<q INT64>>>)")
    good = {"s": {"x": 1}, "l": [{"y": "a"}, {"y": "b", "z": {"q": 2}}]}
    load_bytes("t", "NEWLINE_DELIMITED_JSON", ndjson(good, {"s": None}, {"l": []}))
    for bad, name in (({"s": {"w": 1}}, "s.w"), ({"l": [{}, {"z": {"r": 1}}]}, "l.z.r")):
        with pytest.raises(BadRequest, match=f"No such field: {name}"):
            load_bytes("t", "NEWLINE_DELIMITED_JSON", ndjson(good, bad))
    assert bq.get_table(f"{here}.t").num_rows == 3


def test_what_a_parquet_file_may_not_hold(load_bytes: Load) -> None:
    with pytest.raises(GoogleAPICallError, match="enableListInference"):
        load_bytes("t", "PARQUET", parquet_of(a=[[1]]))
    with pytest.raises(GoogleAPICallError, match="map"):
        load_bytes("t", "PARQUET", parquet_of(a=pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))))
    with pytest.raises(BadRequest, match="BIGNUMERIC"):
        load_bytes("t", "PARQUET", parquet_of(a=pa.array([Decimal("1.123456789012")], pa.decimal128(38, 12))))
    with pytest.raises(BadRequest, match="Duplicate field names"):
        load_bytes("t", "PARQUET", parquet_of(a=[1], A=[2]))
    with pytest.raises(BadRequest, match="Invalid field name"):
        load_bytes("t", "PARQUET", parquet_of(**{"a.b": [1]}))
    with pytest.raises(BadRequest, match="JSON"):
        load_bytes("t", "PARQUET", parquet_of(a=["{}"]), schema=[bigquery.SchemaField("a", "JSON")])
