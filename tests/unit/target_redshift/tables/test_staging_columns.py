"""Files that COPY loads without conversion, and the columns for them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.schema.arrow_schema import json_field
from target_redshift import sql
from target_redshift.columns import (
    ORDER,
    TEXT,
    Change,
    NotCopyable,
    StagingColumn,
    columns_of,
    constant_columns,
    file_schema,
    has_nested,
    ignores_case,
    jsonl_columns,
    staging_columns,
    upload_columns,
)
from target_redshift.types import table_column

UTC = pa.timestamp("us", "UTC")
ITEMS = pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int64())]))


def staged(file: pa.Schema, given: pa.Schema, have: list[str] | None = None, keys: tuple[str, ...] = ()) -> object:
    table = [table_column(n, t) for n, t in zip(given.names, have, strict=True)] if have else []
    return staging_columns(file, columns_of(given, table), keys)


@pytest.mark.parametrize(
    ("arrow", "kind", "change"),
    [
        (pa.int16(), "SMALLINT", Change.NONE),
        (pa.int32(), "INTEGER", Change.NONE),
        (pa.int64(), "BIGINT", Change.NONE),
        (pa.float32(), "REAL", Change.NONE),
        (pa.float64(), "DOUBLE PRECISION", Change.NONE),
        (pa.decimal128(12, 2), "DECIMAL(12, 2)", Change.NONE),
        (pa.bool_(), "BOOLEAN", Change.NONE),
        (pa.date32(), "DATE", Change.NONE),
        (pa.string(), TEXT, Change.NONE),
        (pa.large_string(), TEXT, Change.NONE),
        (pa.dictionary(pa.int32(), pa.string()), TEXT, Change.NONE),
        (pa.binary(), "VARBYTE(16777216)", Change.NONE),
        (UTC, "TIMESTAMP", Change.UTC),
        (pa.timestamp("ms"), "TIMESTAMP", Change.UTC),
        (ITEMS, "SUPER", Change.NONE),
    ],
)
def test_types_that_copy_takes(arrow: pa.DataType, kind: str, change: Change) -> None:
    given = pa.dictionary(pa.int32(), pa.string()) if pa.types.is_dictionary(arrow) else arrow
    schema = pa.schema([("c", pa.string() if pa.types.is_dictionary(given) or given == pa.large_string() else given)])
    found = staged(pa.schema([("c", arrow)]), schema)
    assert isinstance(found, list)
    assert [(c.name, c.type, c.change) for c in found] == [("c", kind, change)]
    assert has_nested(found) == (kind == "SUPER")


@pytest.mark.parametrize(
    "arrow",
    [
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.time64("us"), pa.timestamp("ns", "UTC")),
        *(pa.decimal256(20, 2), pa.decimal128(5, -2), pa.decimal128(38, 38), pa.null()),
        *(
            pa.map_(pa.string(), pa.int64()),
            pa.list_(UTC),
            pa.struct([("d", pa.decimal128(5, 2))]),
            pa.list_(pa.binary()),
        ),
    ],
)
def test_types_that_it_bends_or_refuses(arrow: pa.DataType) -> None:
    schema = pa.schema([("c", arrow)])
    found = staged(schema, schema)
    assert isinstance(found, NotCopyable)
    assert "'c'" in found.reason


@pytest.mark.parametrize("arrow", [pa.duration("us"), pa.date64(), pa.binary(4), pa.time32("ms")])
def test_types_that_parquet_stores_as_something_else(arrow: pa.DataType) -> None:
    assert isinstance(staged(pa.schema([("c", arrow)]), pa.schema([("c", pa.string())])), NotCopyable)


@pytest.mark.parametrize(
    ("arrow", "have"),
    [
        (pa.int8(), "smallint"),
        (pa.int32(), "bigint"),
        (pa.int32(), "numeric(10,0)"),
        (pa.int64(), "numeric(38,9)"),
        (pa.int32(), "double precision"),
        (pa.float32(), "double precision"),
        (pa.decimal128(10, 2), "numeric(12,4)"),
    ],
)
def test_values_are_cast_into_wider_columns(arrow: pa.DataType, have: str) -> None:
    schema = pa.schema([("c", arrow)])
    found = staged(schema, schema, [have])
    assert isinstance(found, list)
    assert found[0].change == (Change.NONE if have == "smallint" else Change.CAST)


@pytest.mark.parametrize(
    ("file", "have"),
    [
        (pa.int64(), "integer"),
        (pa.int64(), "double precision"),
        (pa.int64(), "numeric(18,0)"),
        (pa.float64(), "real"),
        (pa.decimal128(12, 2), "numeric(10,2)"),
        (pa.string(), "bigint"),
        (pa.bool_(), "character varying(10)"),
        (pa.date32(), "timestamp with time zone"),
        (UTC, "date"),
        (ITEMS, "character varying(10)"),
        (pa.binary(), "super"),
    ],
)
def test_values_that_a_cast_would_bend_are_converted(file: pa.DataType, have: str) -> None:
    """The table has other types than SCHEMA declares, and so may the file."""
    columns = columns_of(pa.schema([("c", pa.null())]), [table_column("c", have)])
    assert isinstance(staging_columns(pa.schema([("c", file)]), columns), NotCopyable)


def test_json_text_is_parsed() -> None:
    schema = pa.schema([json_field("c")])
    found = staged(schema, schema)
    assert isinstance(found, list)
    assert (found[0].type, found[0].change) == (TEXT, Change.JSON)


def test_columns_have_the_order_of_the_file_and_the_names_of_the_table() -> None:
    given = pa.schema([("ID", pa.int64()), ("My Text", pa.string())])
    file = pa.schema([("My Text", pa.string()), ("ID", pa.int64())])
    found = staged(file, given)
    assert isinstance(found, list)
    assert [c.name for c in found] == ["my_text", "id"]


def test_a_column_that_the_stream_lacks_is_staged_and_left_there() -> None:
    found = staged(pa.schema([("a", pa.int64()), ("more", pa.string())]), pa.schema([("a", pa.int64())]))
    assert found == [found[0], StagingColumn("_sdc_unused_1", TEXT)]  # type: ignore[index]


def test_a_column_that_the_file_lacks_is_null_unless_it_is_a_key() -> None:
    given = pa.schema([("a", pa.int64()), ("k", pa.int64())])
    file = pa.schema([("a", pa.int64())])
    assert isinstance(staged(file, given), list)
    lacking = staged(file, given, keys=("k",))
    assert isinstance(lacking, NotCopyable)
    assert "'k'" in lacking.reason


def test_files_of_nothing_or_of_doubles() -> None:
    given = pa.schema([("a", pa.int64())])
    assert isinstance(staged(pa.schema([("b", pa.int64())]), given), NotCopyable)
    assert isinstance(staged(pa.schema([("a", pa.int64()), ("a", pa.int64())]), given), NotCopyable)


class TestJsonLines:
    def test_into_which_columns(self) -> None:
        given = pa.schema(
            [
                ("id", pa.int64()),
                ("at", UTC),
                ("t", pa.time64("us")),
                ("b", pa.binary()),
                ("s", ITEMS),
                ("x", pa.string()),
            ]
        )
        found = jsonl_columns(columns_of(given))
        assert isinstance(found, list)
        assert [(c.type, c.change) for c in found] == [
            ("BIGINT", Change.NONE),
            ("TIMESTAMPTZ", Change.NONE),
            ("VARCHAR(32)", Change.CAST),
            (TEXT, Change.BASE64),
            ("SUPER", Change.NONE),
            (TEXT, Change.NONE),
        ]
        assert not ignores_case(found)

    @pytest.mark.parametrize("arrow", [pa.decimal128(12, 2), pa.uint64()])
    def test_decimals_would_go_through_doubles(self, arrow: pa.DataType) -> None:
        found = jsonl_columns(columns_of(pa.schema([("c", arrow)])))
        assert isinstance(found, NotCopyable)
        assert "double" in found.reason

    @pytest.mark.parametrize("arrow", [pa.decimal256(50, 2), ITEMS])
    def test_what_becomes_text_is_none_yet(self, arrow: pa.DataType) -> None:
        columns = columns_of(pa.schema([("c", arrow)]), [table_column("c", "character varying(100)")])
        found = jsonl_columns(columns)
        assert isinstance(found, NotCopyable)
        assert "not text" in found.reason

    def test_keys_that_differ_in_case(self) -> None:
        found = jsonl_columns(columns_of(pa.schema([("Id", pa.int64())])))
        assert isinstance(found, list)
        assert ignores_case(found)

    @pytest.mark.parametrize("name", ["my id", "é", "1st", "ctid", "a" * 128])
    def test_keys_that_are_no_columns(self, name: str) -> None:
        assert isinstance(jsonl_columns(columns_of(pa.schema([(name, pa.int64())]))), NotCopyable)

    def test_keys_that_collide_but_for_case(self) -> None:
        assert isinstance(jsonl_columns(columns_of(pa.schema([("ID", pa.int64()), ("id", pa.int64())]))), NotCopyable)


def test_columns_of_timestamps_without_a_zone_hold_utc() -> None:
    table = [table_column("at", "timestamp without time zone")]
    columns = columns_of(pa.schema([("at", UTC)]), table)
    as_it_is, text = staging_columns(pa.schema([("at", UTC)]), columns), jsonl_columns(columns)
    constant = constant_columns(columns, {"at": "2024-05-01 10:00:00+00:00"})
    made = [c for c in (as_it_is, text, constant) if not isinstance(c, NotCopyable)]
    found = [sql.insert('"t"', '"s"', c, columns).partition("SELECT ")[2] for c in made]
    assert found == [
        '"at" FROM "s"',
        '"at" AT TIME ZONE \'UTC\' FROM "s"',
        "CAST('2024-05-01 10:00:00+00:00' AS TIMESTAMPTZ) AT TIME ZONE 'UTC' FROM \"s\"",
    ]
    assert [(c.type, c.change) for c in upload_columns(columns, "parquet")] == [("TIMESTAMP", Change.NONE)]
    assert [(c.type, c.change) for c in upload_columns(columns, "csv")] == [("TIMESTAMPTZ", Change.UTC)]


class TestUploads:
    GIVEN = pa.schema(
        [("p", pa.decimal128(12, 2)), ("at", UTC), ("t", pa.time64("us")), ("b", pa.binary()), ("s", ITEMS)]
    )

    @pytest.mark.parametrize(
        ("file_format", "types"),
        [
            ("parquet", ["DECIMAL(12, 2)", "TIMESTAMP", "VARCHAR(32)", "VARBYTE(16777216)", TEXT, "BIGINT"]),
            ("jsonl", ["DECIMAL(12, 2)", "TIMESTAMPTZ", "VARCHAR(32)", TEXT, "SUPER", "BIGINT"]),
            ("csv", ["DECIMAL(12, 2)", "TIMESTAMPTZ", "VARCHAR(32)", TEXT, TEXT, "BIGINT"]),
        ],
    )
    def test_columns_of_each_format(self, file_format: str, types: list[str]) -> None:
        columns = columns_of(self.GIVEN)
        found = upload_columns(columns, file_format, ordered=True)
        assert [c.type for c in found] == types
        assert found[-1].name == ORDER
        schema = file_schema(columns, file_format, ordered=True)
        assert schema.names == [c.name for c in found]
        assert schema.field("t").type == pa.string()
        assert schema.field("p").type == (pa.string() if file_format == "jsonl" else pa.decimal128(12, 2))

    def test_parquet_uploads_are_files_that_copy_takes(self) -> None:
        schema = file_schema(columns_of(self.GIVEN), "parquet")
        found = staging_columns(schema, columns_of(schema))
        assert isinstance(found, list)
        assert [c.type for c in found][:4] == ["DECIMAL(12, 2)", "TIMESTAMP", TEXT, "VARBYTE(16777216)"]


def test_a_file_with_more_columns_than_a_table_takes() -> None:
    schema = pa.schema([("c0", pa.int64())])
    wide = [pa.schema([(f"c{n}", pa.int64()) for n in range(count)]) for count in (1600, 1601)]
    assert isinstance(staged(wide[0], schema), list)
    assert staged(wide[1], schema) == NotCopyable("it has 1,601 columns, and a table takes 1,600")
