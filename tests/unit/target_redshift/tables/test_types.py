"""Mapping of Arrow types to Redshift columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.errors import SchemaError
from singer_arrow.schema.arrow_schema import json_field
from target_redshift.columns import columns_of
from target_redshift.conversion import read_field
from target_redshift.types import (
    TableColumn,
    ddl_type,
    missing_required,
    new_columns,
    table_column,
    wider_length,
)

UTC = pa.timestamp("us", "UTC")
STRUCT = pa.struct([("x", pa.int64())])


@pytest.mark.parametrize(
    ("arrow", "ddl", "uploaded"),
    [
        (pa.int8(), "SMALLINT", pa.int16()),
        (pa.int16(), "SMALLINT", pa.int16()),
        (pa.uint8(), "SMALLINT", pa.int16()),
        (pa.int32(), "INTEGER", pa.int32()),
        (pa.uint16(), "INTEGER", pa.int32()),
        (pa.int64(), "BIGINT", pa.int64()),
        (pa.uint32(), "BIGINT", pa.int64()),
        (pa.uint64(), "DECIMAL(20, 0)", pa.decimal128(20, 0)),
        (pa.float16(), "REAL", pa.float32()),
        (pa.float32(), "REAL", pa.float32()),
        (pa.float64(), "DOUBLE PRECISION", pa.float64()),
        (pa.decimal128(12, 2), "DECIMAL(12, 2)", pa.decimal128(12, 2)),
        (pa.decimal128(5, -2), "DECIMAL(7, 0)", pa.decimal128(7, 0)),
        (pa.decimal128(2, 5), "DECIMAL(5, 5)", pa.decimal128(5, 5)),
        (pa.decimal256(38, 37), "DECIMAL(38, 37)", pa.decimal128(38, 37)),
        (pa.decimal128(38, 38), "VARCHAR(256)", pa.string()),
        (pa.decimal256(39, 2), "VARCHAR(256)", pa.string()),
        (pa.bool_(), "BOOLEAN", pa.bool_()),
        (pa.string(), "VARCHAR(256)", pa.string()),
        (pa.binary(), "VARBYTE(16777216)", pa.binary()),
        (pa.date32(), "DATE", pa.date32()),
        (pa.time64("us"), "TIME", pa.time64("us")),
        (pa.time64("ns"), "TIME", pa.time64("us")),
        (UTC, "TIMESTAMPTZ", UTC),
        (pa.timestamp("ns", "UTC"), "TIMESTAMPTZ", UTC),
        (STRUCT, "SUPER", pa.string()),
        (pa.list_(pa.string()), "SUPER", pa.string()),
        (pa.map_(pa.string(), pa.int64()), "SUPER", pa.string()),
        (pa.null(), "VARCHAR(256)", pa.string()),
    ],
)
def test_each_type_has_its_column(arrow: pa.DataType, ddl: str, uploaded: pa.DataType) -> None:
    [column] = columns_of(pa.schema([("c", arrow)]))
    assert ddl_type(column) == ddl
    assert column.arrow == uploaded


def test_json_text_is_super_and_marked_in_uploads() -> None:
    columns = columns_of(pa.schema([json_field("c")]))
    assert str(columns[0]) == "SUPER"
    assert columns[0].upload_field.metadata == {b"singer.json": b"true"}


def test_a_type_without_a_column_is_an_error_that_names_it() -> None:
    with pytest.raises(SchemaError, match="'c' is of type month_day_nano_interval"):
        columns_of(pa.schema([("c", pa.month_day_nano_interval())]))


def test_new_texts_are_not_longer_than_varchar_max() -> None:
    [column] = columns_of(pa.schema([("c", pa.string())]), varchar_max=100)
    assert str(column) == "VARCHAR(100)"


def test_too_many_columns() -> None:
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(1_600)])
    assert len(columns_of(schema)) == 1_600
    with pytest.raises(SchemaError, match="1601 columns"):
        columns_of(schema, [table_column("more", "bigint")])


def test_columns_are_named_in_lower_case_and_differ() -> None:
    columns = columns_of(pa.schema([("ID", pa.int64()), ("id", pa.int64()), ("A b", pa.int64()), ("ctid", pa.int64())]))
    names = {c.source: c.name for c in columns}
    assert names["id"] == "id"
    assert names["ID"].startswith("id_")
    assert names["A b"] == "a_b"
    assert names["ctid"] == "xctid"


@pytest.mark.parametrize(
    ("data_type", "length", "precision", "scale", "ddl"),
    [
        ("character varying", 300, None, None, "VARCHAR(300)"),
        ("character varying(300)", None, None, None, "VARCHAR(300)"),
        ("numeric", None, 38, 9, "DECIMAL(38, 9)"),
        ("numeric(38,9)", None, None, None, "DECIMAL(38, 9)"),
        ("bigint", None, 64, 0, "BIGINT"),
        ("double precision", None, 53, None, "DOUBLE PRECISION"),
        ("timestamp with time zone", None, None, None, "TIMESTAMPTZ"),
        ("timestamp without time zone", None, None, None, "TIMESTAMP"),
        ("time without time zone", None, None, None, "TIME"),
        ("binary varying", 1024, None, None, "VARBYTE(1024)"),
        ("binary varying", None, None, None, "VARBYTE(16777216)"),
        ("super", None, None, None, "SUPER"),
        ("boolean", None, None, None, "BOOLEAN"),
        ("character", 3, None, None, "CHAR(3)"),
    ],
)
def test_types_of_the_catalog(
    data_type: str, length: int | None, precision: int | None, scale: int | None, ddl: str
) -> None:
    assert ddl_type(table_column("c", data_type, length, precision, scale)) == ddl


@pytest.mark.parametrize(
    ("arrow", "data_type", "uploaded"),
    [
        (pa.int16(), "bigint", pa.int64()),
        (pa.int32(), "bigint", pa.int64()),
        (pa.int32(), "double precision", pa.float64()),
        (pa.int64(), "numeric(38,9)", pa.decimal128(38, 9)),
        (pa.uint64(), "numeric(20,0)", pa.decimal128(20, 0)),
        (pa.decimal128(10, 2), "numeric(12,4)", pa.decimal128(12, 4)),
        (pa.float32(), "double precision", pa.float64()),
        (pa.string(), "character varying(10)", pa.string()),
        (STRUCT, "character varying(10)", pa.string()),
        (STRUCT, "super", pa.string()),
        (pa.null(), "bigint", pa.int64()),
        (pa.null(), "timestamp with time zone", UTC),
        (pa.null(), "time with time zone", pa.string()),
        (pa.null(), "geometry", pa.string()),
        (pa.timestamp("ns", "UTC"), "timestamp with time zone", UTC),
        (UTC, "timestamp without time zone", UTC),
        (pa.date32(), "timestamp without time zone", UTC),
    ],
)
def test_values_that_fit_a_tables_own_column(arrow: pa.DataType, data_type: str, uploaded: pa.DataType) -> None:
    have = table_column("c", data_type)
    [column] = columns_of(pa.schema([("c", arrow)]), [have])
    assert ddl_type(column) == ddl_type(have)
    assert column.arrow == uploaded


@pytest.mark.parametrize(
    ("arrow", "data_type"),
    [
        (pa.int64(), "integer"),
        (pa.int64(), "double precision"),
        (pa.int32(), "real"),
        (pa.int64(), "numeric(18,0)"),
        (pa.decimal128(12, 2), "numeric(12,4)"),
        (pa.decimal128(12, 2), "double precision"),
        (pa.float64(), "real"),
        (pa.string(), "bigint"),
        (pa.string(), "character(10)"),
        (pa.bool_(), "character varying(10)"),
        (UTC, "date"),
        (pa.time64("us"), "time with time zone"),
    ],
)
def test_values_that_do_not_fit(arrow: pa.DataType, data_type: str) -> None:
    have = table_column("c", data_type)
    with pytest.raises(SchemaError) as caught:
        columns_of(pa.schema([("c", arrow)]), [have])
    assert "'c'" in str(caught.value)
    assert str(have) in str(caught.value)
    assert "in the table" in str(caught.value)


def test_text_goes_into_super_where_configured_or_existing() -> None:
    schema = pa.schema([("id", pa.string()), ("t", pa.string()), ("n", pa.null()), ("d", pa.decimal256(50, 2))])
    columns = columns_of(schema, super_texts={"t", "n", "d"})
    assert [(c.kind, c.is_quoted) for c in columns] == [
        ("VARCHAR", False),
        ("SUPER", True),
        ("VARCHAR", False),
        ("VARCHAR", False),
    ]
    assert read_field(columns[1], schema.field(columns[1].source)) == pa.field("t", pa.string())
    [there] = columns_of(pa.schema([("t", pa.string())]), [table_column("t", "super")])
    assert (there.kind, there.is_quoted) == ("SUPER", True)
    [kept] = columns_of(pa.schema([("t", pa.string())]), [table_column("t", "character varying", 9)], super_texts={"t"})
    assert (kept.kind, kept.length, kept.is_quoted) == ("VARCHAR", 9, False)


def test_what_a_table_lacks_and_requires() -> None:
    have = [
        table_column("a", "bigint", nullable=False),
        table_column("b", "bigint", nullable=False),
        table_column("id", "bigint", nullable=False, is_filled=True),
    ]
    columns = columns_of(pa.schema([("a", pa.int64()), ("c", pa.int64())]), have)
    assert [c.name for c in new_columns(columns, have)] == ["c"]
    assert missing_required(columns, have) == ["b"]


@pytest.mark.parametrize(
    ("needed", "most", "length"),
    [
        (0, 65_535, 256),
        (256, 65_535, 256),
        (257, 65_535, 1_024),
        (5_000, 65_535, 16_384),
        (16_385, 65_535, 65_535),
        (65_535, 65_535, 65_535),
        (65_536, 65_535, None),
        (300, 500, 500),
        (501, 500, None),
        (10, 100, 100),
    ],
)
def test_how_wide_a_column_becomes(needed: int, most: int, length: int | None) -> None:
    assert wider_length(needed, most) == length


def test_what_files_are_read_with() -> None:
    schema = pa.schema(
        [("S", STRUCT), ("At", pa.timestamp("ns", "UTC")), ("n", pa.int32()), ("d", pa.decimal256(50, 2))]
    )
    columns = columns_of(schema, [TableColumn("n", "BIGINT"), TableColumn("s", "VARCHAR", 10)])
    read = pa.schema([read_field(c, schema.field(c.source)) for c in columns])
    assert read.names == ["S", "At", "n", "d"]
    assert read.types == [pa.string(), pa.timestamp("ns", "UTC"), pa.int64(), pa.string()]
    assert read.field("S").metadata == {b"singer.json": b"true"}
