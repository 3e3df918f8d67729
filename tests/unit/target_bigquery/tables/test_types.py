"""Every Arrow type has a column, or an error that names it; existing tables are respected."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.errors import SchemaError
from singer_arrow.schema.arrow_schema import is_json, json_field
from target_bigquery.columns import columns_of
from target_bigquery.conversion import read_field
from target_bigquery.types import (
    MAX_COLUMNS,
    MAX_DEPTH,
    TableColumn,
    count_of,
    fitted,
    has_kind,
    kind_of,
    missing_required,
    new_columns,
    nullable_required,
)

UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("arrow", "kind", "uploaded"),
    [
        *((t, "INTEGER", pa.int64()) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        *((t, "INTEGER", pa.int64()) for t in (pa.uint8(), pa.uint16(), pa.uint32())),
        (pa.uint64(), "NUMERIC", pa.decimal128(20, 0)),
        *((t, "FLOAT", pa.float64()) for t in (pa.float16(), pa.float32(), pa.float64())),
        (pa.bool_(), "BOOLEAN", pa.bool_()),
        (pa.string(), "STRING", pa.string()),
        (pa.binary(), "BYTES", pa.binary()),
        (pa.date32(), "DATE", pa.date32()),
        (pa.time64("us"), "TIME", pa.time64("us")),
        (pa.time64("ns"), "TIME", pa.time64("us")),
        (UTC, "TIMESTAMP", UTC),
        (pa.timestamp("ns", "UTC"), "TIMESTAMP", UTC),
        (pa.null(), "STRING", pa.string()),
        (pa.decimal128(38, 9), "NUMERIC", pa.decimal128(38, 9)),
        (pa.decimal128(12, 2), "NUMERIC", pa.decimal128(12, 2)),
        (pa.decimal128(38, 10), "BIGNUMERIC", pa.decimal128(38, 10)),
        (pa.decimal128(30, 0), "BIGNUMERIC", pa.decimal128(30, 0)),
        (pa.decimal256(76, 38), "BIGNUMERIC", pa.decimal256(76, 38)),
        (pa.decimal256(40, 38), "BIGNUMERIC", pa.decimal256(40, 38)),
        (pa.decimal128(5, 5), "NUMERIC", pa.decimal128(5, 5)),
        (pa.decimal128(3, -27), "BIGNUMERIC", pa.decimal128(30, 0)),
        (pa.decimal256(76, 0), "STRING", pa.string()),
        (pa.decimal256(76, 76), "STRING", pa.string()),
        (pa.decimal128(5, -3), "NUMERIC", pa.decimal128(8, 0)),
        (pa.map_(pa.string(), pa.int64()), "JSON", pa.string()),
        (pa.list_(pa.list_(pa.int64())), "JSON", pa.string()),
        (pa.list_(pa.map_(pa.string(), pa.int64())), "JSON", pa.string()),
        (pa.struct([]), "JSON", pa.string()),
    ],
    ids=str,
)
def test_types(arrow: pa.DataType, kind: str, uploaded: pa.DataType) -> None:
    (column,) = columns_of(pa.schema([pa.field("a", arrow)]))
    assert (column.kind, column.arrow, column.repeated) == (kind, uploaded, False)


def test_an_unknown_type_is_an_error_that_names_the_column() -> None:
    with pytest.raises(SchemaError, match=r"Column 'odd' is of type duration\[s\]"):
        columns_of(pa.schema([pa.field("odd", pa.duration("s"))]))


def test_nested() -> None:
    inner = pa.struct([("b", pa.int32()), ("c:d", pa.list_(pa.string()))])
    schema = pa.schema([pa.field("s", inner), pa.field("l", pa.list_(inner)), json_field("j")])
    s, many, j = columns_of(schema)
    assert (s.kind, str(many), j.kind) == ("RECORD", "ARRAY<RECORD>", "JSON")
    assert [(f.name, f.source, str(f)) for f in s.fields] == [("b", "b", "INTEGER"), ("c_d", "c:d", "ARRAY<STRING>")]
    assert many.fields == s.fields
    assert many.arrow == pa.list_(pa.struct([("b", pa.int64()), ("c_d", pa.list_(pa.string()))]))
    assert [c.kind for c in columns_of(schema, nested="json")] == ["JSON"] * 3
    assert has_kind([s, many, j], "JSON")
    assert not has_kind([s, many], "JSON")


def test_json_within_records() -> None:
    schema = pa.schema([pa.field("s", pa.struct([json_field("free"), pa.field("m", pa.map_(pa.string(), pa.int8()))]))])
    (column,) = columns_of(schema)
    assert [f.kind for f in column.fields] == ["JSON", "JSON"]
    uploaded, read = column.upload_field.type, read_field(column, schema.field("s")).type
    assert all(is_json(f) for f in uploaded)
    assert all(is_json(f) for f in read)


def test_what_is_too_deep_is_json() -> None:
    t: pa.DataType = pa.int64()
    for _ in range(MAX_DEPTH + 1):
        t = pa.struct([("x", t)])
    (column,) = columns_of(pa.schema([pa.field("a", t)]))
    depth = 0
    while column.kind == "RECORD":
        (column,) = column.fields
        depth += 1
    assert (depth, column.kind) == (MAX_DEPTH, "JSON")


def test_files_are_read_as_finely_as_they_are() -> None:
    schema = pa.schema([pa.field("t", pa.timestamp("ns", "UTC")), pa.field("l", pa.list_(pa.time64("ns")))])
    columns = columns_of(schema)
    assert [read_field(c, schema.field(c.source)).type for c in columns] == schema.types
    assert [c.upload_field.type for c in columns] == [UTC, pa.list_(pa.time64("us"))]


@pytest.mark.parametrize(
    ("arrow", "existing", "uploaded"),
    [
        (pa.int64(), "INTEGER", pa.int64()),
        (pa.int64(), "NUMERIC", pa.decimal128(38, 9)),
        (pa.int64(), "BIGNUMERIC", pa.decimal128(38, 10)),
        (pa.uint64(), "BIGNUMERIC", pa.decimal128(38, 10)),
        (pa.int64(), "FLOAT", pa.float64()),
        (pa.decimal128(10, 2), "BIGNUMERIC", pa.decimal128(38, 10)),
        (pa.decimal128(38, 9), "BIGNUMERIC", pa.decimal256(76, 38)),
        (pa.date32(), "TIMESTAMP", UTC),
        (pa.null(), "INTEGER", pa.int64()),
        (pa.null(), "JSON", pa.string()),
        (pa.map_(pa.string(), pa.int64()), "STRING", pa.string()),
        (pa.struct([("a", pa.int64())]), "JSON", pa.string()),
        (pa.list_(pa.int64()), "JSON", pa.string()),
    ],
    ids=str,
)
def test_columns_that_hold_more_are_used(arrow: pa.DataType, existing: str, uploaded: pa.DataType) -> None:
    (column,) = columns_of(pa.schema([pa.field("a", arrow)]), existing=[TableColumn("a", existing)])
    assert (column.kind, column.arrow) == (existing, uploaded)


@pytest.mark.parametrize(
    ("arrow", "existing", "words"),
    [
        (pa.string(), TableColumn("a", "INTEGER"), "'a' is of type INTEGER in the table, and STRING in"),
        (pa.float64(), TableColumn("a", "INTEGER"), "INTEGER in the table, and FLOAT"),
        (pa.float64(), TableColumn("a", "NUMERIC"), "NUMERIC in the table, and FLOAT"),
        (UTC, TableColumn("a", "DATETIME"), "DATETIME in the table, and TIMESTAMP"),
        (pa.int64(), TableColumn("a", "INTEGER", "REPEATED"), "ARRAY<INTEGER> in the table, and INTEGER"),
        (pa.list_(pa.int64()), TableColumn("a", "INTEGER"), "INTEGER in the table, and ARRAY<INTEGER>"),
        (pa.list_(pa.int64()), TableColumn("a", "FLOAT", "REPEATED"), "ARRAY<FLOAT> in the table, and ARRAY<INTEGER>"),
        (
            pa.struct([("b", pa.struct([("c", pa.string())]))]),
            TableColumn("a", "RECORD", fields=(TableColumn("b", "RECORD", fields=(TableColumn("c", "DATE"),)),)),
            "'a.b.c' is of type DATE in the table, and STRING",
        ),
    ],
    ids=str,
)
def test_columns_that_do_not_fit_are_named_with_both_types(
    arrow: pa.DataType, existing: TableColumn, words: str
) -> None:
    with pytest.raises(SchemaError, match=words.replace("(", r"\(")) as caught:
        columns_of(pa.schema([pa.field("a", arrow)]), existing=[existing])
    assert "\n" not in str(caught.value)


def test_a_record_keeps_its_fields_types() -> None:
    existing = TableColumn("a", "RECORD", fields=(TableColumn("b", "FLOAT"), TableColumn("x", "STRING")))
    (column,) = columns_of(pa.schema([pa.field("a", pa.struct([("b", pa.int64()), ("n", pa.bool_())]))]))
    fit = fitted(column, existing)
    assert fit.arrow == pa.struct([("b", pa.float64()), ("n", pa.bool_())])
    assert new_columns([fit], [existing])
    assert not new_columns([fit], [TableColumn("a", "RECORD", fields=(*existing.fields, TableColumn("n", "BOOLEAN")))])


def test_required_columns_that_the_stream_lacks() -> None:
    columns = columns_of(pa.schema([pa.field("a", pa.int64())]))
    assert missing_required(columns, [TableColumn("a", "INTEGER", "REQUIRED"), TableColumn("b", "STRING")]) == []
    assert missing_required(columns, [TableColumn("b", "STRING", "REQUIRED")]) == ["b"]


def test_fields_of_records_may_be_required_too() -> None:
    inside = (
        TableColumn("a", "INTEGER", "REQUIRED"),
        TableColumn("b_c", "STRING", "REQUIRED"),
        TableColumn("d", "DATE"),
    )
    table = [TableColumn("r", "RECORD", "REPEATED", inside), TableColumn("id", "INTEGER", "REQUIRED")]
    item = pa.struct([("b c", pa.string()), ("d", pa.date32())])
    columns = columns_of(pa.schema([("id", pa.int64()), ("r", pa.list_(item))]), existing=table)
    assert missing_required(columns, table) == ["r.a"]
    assert nullable_required(columns, table, {("r",), ("r", "b c"), ("r", "d"), ("id",)}) == ["id", "r.b_c"]
    assert nullable_required(columns, table, {("b c",)}) == []


def test_names_of_types() -> None:
    assert [kind_of(n) for n in ("INT64", "float64", "BOOL", "STRUCT", "STRING")] == [
        *("INTEGER", "FLOAT", "BOOLEAN", "RECORD", "STRING")
    ]


def test_too_many_columns() -> None:
    many = pa.schema([(f"c{n}", pa.int64()) for n in range(MAX_COLUMNS)])
    columns = columns_of(many)
    assert count_of(columns) == len(columns) == MAX_COLUMNS
    with pytest.raises(SchemaError, match=r"would have 10001 columns.*BigQuery takes 10000; leave some out"):
        columns_of(many, existing=[TableColumn("other", "STRING")])
    fields = pa.struct([(f"f{n}", pa.int64()) for n in range(MAX_COLUMNS)])
    with pytest.raises(SchemaError, match=r"would have 10001 columns, those of RECORDs counted"):
        columns_of(pa.schema([("a", fields)]))
    assert [c.kind for c in columns_of(pa.schema([("a", fields)]), nested="json")] == ["JSON"]
    half = TableColumn("a", "RECORD", fields=tuple(TableColumn(f"g{n}", "STRING") for n in range(3)))
    assert count_of(columns_of(pa.schema([("a", pa.struct([("f", pa.int64())]))])), [half]) == 5
