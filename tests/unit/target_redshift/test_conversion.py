"""Converted rows, and values that are refused before Redshift receives them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from redshift_checks import checked

from singer_arrow.errors import DataError
from singer_arrow.schema.arrow_schema import is_json, json_field
from target_redshift.columns import columns_of
from target_redshift.conversion import Conversion, ValueReport, limit
from target_redshift.types import Column, table_column

TEXT = pa.schema([("id", pa.int64()), ("s", pa.string())])


def batch(schema: pa.Schema, *rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def test_rows_get_the_names_and_types_of_their_columns() -> None:
    given = pa.schema(
        [
            ("Id", pa.uint32()),
            ("at", pa.timestamp("ns", "UTC")),
            ("t", pa.time64("ns")),
            ("n", pa.uint64()),
            json_field("j"),
        ]
    )
    conversion = Conversion(columns_of(given), given, {"_v": 1}, (), 2)
    assert [(f.name, str(f.type)) for f in conversion.read_schema] == [
        ("Id", "int64"),
        ("at", "timestamp[ns, tz=UTC]"),
        ("t", "time64[ns]"),
        ("n", "decimal128(20, 0)"),
        ("j", "string"),
    ]
    read = conversion.read_schema
    rows = batch(
        read,
        {
            "Id": 1,
            "at": datetime(2026, 1, 1, tzinfo=UTC),
            "t": time(1, 2, 3, 4),
            "n": Decimal(2**64 - 1),
            "j": '{"a":1}',
        },
    )
    (out,) = conversion.all_batches([("s3://b/x", [rows])])
    assert out.schema.names == ["id", "at", "t", "n", "j", "_sdc_order"]
    assert str(out.schema.field("at").type) == "timestamp[us, tz=UTC]"
    assert is_json(out.schema.field("j"))
    assert out.to_pylist()[0]["n"] == 2**64 - 1


def test_a_key_must_not_be_null() -> None:
    conversion = Conversion(columns_of(TEXT), TEXT, {}, ("id",), 0)
    with pytest.raises(DataError, match=r"s3://b/x, row 1, column 'id': a key property is null"):
        list(conversion.all_batches([("s3://b/x", [batch(TEXT, {"id": None, "s": ""})])]))


@pytest.mark.parametrize(
    ("kind", "length", "varchar_max", "most"),
    [
        ("VARCHAR", 256, 65535, 65535),
        ("VARCHAR", 256, 1000, 1000),
        ("VARCHAR", 5000, 1000, 5000),
        ("SUPER", None, 1000, 4 << 20),
        ("VARBYTE", 16_777_216, 10, 16_777_216),
        ("BIGINT", None, 10, None),
    ],
)
def test_limits(kind: str, length: int | None, varchar_max: int, most: int | None) -> None:
    column = Column("c", "c", kind, pa.string(), length=length)
    assert limit(column, varchar_max) == most
    assert limit(column, varchar_max, "jsonl") == (49_149 if kind == "VARBYTE" else most)
    assert limit(column, varchar_max, "csv") == {"VARBYTE": 49_149, "SUPER": 65535}.get(kind, most)


@pytest.mark.parametrize(
    ("value", "most", "reason"),
    [
        ("é" * 6, 11, "the text has 12 bytes, and Redshift's column takes 11"),
        ("x" * 12, 11, "the text has 12 bytes"),
        ("a\0b", 11, "the text holds a NUL character"),
        ("x" * 11, 11, None),
        ("é" * 5, 11, None),
        ("", 11, None),
    ],
)
def test_text_that_does_not_fit_is_named_by_file_row_and_column(value: str, most: int, reason: str | None) -> None:
    columns = columns_of(TEXT, [table_column("id", "bigint"), table_column("s", "character varying", most)])
    batches = [
        batch(TEXT, {"id": 1, "s": "fits"}, {"id": 2, "s": None}),
        batch(TEXT, {"id": 3, "s": None}, {"id": 4, "s": value}, {"id": 5, "s": value}),
    ]
    looked = checked(iter(batches), columns, "s3://b/x", varchar_max=10)
    if reason is None:
        assert list(looked) == batches
        return
    assert next(looked) is batches[0]
    with pytest.raises(DataError, match=rf"s3://b/x, row 4, column 's': {reason}"):
        next(looked)


def test_bytes_that_do_not_fit() -> None:
    schema = pa.schema([("y", pa.binary())])
    columns = columns_of(schema)
    fits = batch(schema, {"y": bytes(16_777_216)})  # NUL is an ordinary byte here
    assert list(checked([fits], columns, "u")) == [fits]
    with pytest.raises(DataError, match=r"row 1, column 'y': the value has 16,777,217 bytes"):
        list(checked([batch(schema, {"y": bytes(16_777_217)})], columns, "u"))


def test_text_that_is_no_utf8() -> None:
    text = pa.StringArray.from_buffers(3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffb"))
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), text], schema=TEXT)
    with pytest.raises(DataError, match=r"u, row 2, column 's': the text is no UTF-8"):
        list(checked([rows], columns_of(TEXT), "u"))
    with pytest.raises(DataError, match=r"u, line 2, column 's': the text is no UTF-8"):
        list(checked([rows], columns_of(TEXT), "u", file_format="jsonl"))


@pytest.mark.parametrize(("choice", "symbol"), [("replace", "␀"), ("remove", "")])
def test_nuls_are_replaced_or_removed_and_noted(choice: str, symbol: str) -> None:
    columns = columns_of(TEXT, [table_column("id", "bigint"), table_column("s", "character varying", 5)])
    batches = [
        batch(TEXT, {"id": 1, "s": "fits"}, {"id": 2, "s": None}),
        batch(TEXT, {"id": 3, "s": None}, {"id": 4, "s": "a\0\0"}, {"id": 5, "s": "\0"}),
    ]
    found = ValueReport()
    looked = list(checked(iter(batches), columns, "s3://b/x", varchar_max=7, nul_text=choice, found=found))
    assert looked[0] is batches[0]
    assert looked[1].column("s").to_pylist() == [None, f"a{symbol * 2}", symbol]
    assert (found.count, found.url, found.place) == (3, "s3://b/x", "row 4, column 's'")


def test_text_that_is_too_long_once_its_nuls_are_replaced() -> None:
    columns = columns_of(TEXT, [table_column("id", "bigint"), table_column("s", "character varying", 5)])
    looked = checked([batch(TEXT, {"id": 1, "s": "\0\0"})], columns, "s3://b/x", varchar_max=5, nul_text="replace")
    with pytest.raises(DataError, match="row 1, column 's': the text has 6 bytes"):
        list(looked)


def test_text_in_super_is_quoted_whatever_it_looks_like() -> None:
    columns = columns_of(TEXT, super_texts={"s"})
    texts = ["123", "null", '{"a": 1}', 'é"\\ \n', "", None]
    rows = pa.RecordBatch.from_pylist([{"id": n, "s": t} for n, t in enumerate(texts)], schema=TEXT)
    (out,) = Conversion(columns, TEXT).all_batches([("u", checked([rows], columns, "u"))])
    assert [None if v is None else json.loads(v) for v in out.column("s").to_pylist()] == texts
    assert is_json(out.schema.field("s"))


@pytest.mark.parametrize(("length", "upload_format"), [(4 << 20, "parquet"), (65535, "csv")])
def test_text_in_super_has_bounds_too(length: int, upload_format: str) -> None:
    columns = columns_of(TEXT, super_texts={"s"})
    assert list(checked([batch(TEXT, {"s": "x" * length})], columns, "u", upload_format=upload_format))
    with pytest.raises(DataError, match=f"has {length + 1:,} bytes, and Redshift's column takes {length:,}"):
        list(checked([batch(TEXT, {"s": "x" * (length + 1)})], columns, "u", upload_format=upload_format))
