"""Choice of the column for values that do not match the existing one."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from singer_arrow.errors import SchemaError
from target_redshift import sql
from target_redshift.columns import ColumnEvolution, NotCopyable, columns_of, jsonl_columns, upload_columns
from target_redshift.conversion import Conversion, read_field
from target_redshift.resources import columns_from_catalog
from target_redshift.types import TableColumn, table_column

EVOLVES = ColumnEvolution(evolves=True, keys=("id",))


def variant(name: str, data_type: str, of: str = "a") -> TableColumn:
    return replace(table_column(name, data_type), variant_of=of)


@pytest.mark.parametrize(
    ("data_type", "arrow", "expected"),
    [
        ("smallint", pa.int32(), ("a__integer", "BIGINT")),
        ("integer", pa.float32(), ("a__float", "DOUBLE PRECISION")),
        ("numeric(10,2)", pa.decimal128(20, 4), ("a__decimal", "DECIMAL(38, 4)")),
        ("bigint", pa.string(), ("a__string", "VARCHAR(256)")),
        ("character(10)", pa.string(), ("a__string", "VARCHAR(256)")),
        ("date", pa.timestamp("us", "UTC"), ("a__timestamp", "TIMESTAMPTZ")),
        ("boolean", pa.list_(pa.int64()), ("a__json", "SUPER")),
        ("bigint", pa.null(), ("a", "BIGINT")),
        ("timestamp without time zone", pa.null(), ("a", "TIMESTAMP")),
        ("character(10)", pa.null(), ("a", "CHAR(10)")),
        ("timestamp with time zone", pa.date32(), ("a", "TIMESTAMPTZ")),
        ("timestamp without time zone", pa.timestamp("ns", "UTC"), ("a", "TIMESTAMP")),
        ("timestamp without time zone", pa.date32(), ("a", "TIMESTAMP")),
        ("time with time zone", pa.time64("us"), ("a__time", "TIME")),
    ],
    ids=str,
)
def test_values_that_do_not_fit_get_the_roomiest_variant(
    data_type: str, arrow: pa.DataType, expected: tuple[str, str]
) -> None:
    have = [table_column("a", data_type)]
    (column,) = columns_of(pa.schema([("a", arrow)]), have, drift=EVOLVES)
    assert (column.name, str(column), column.source) == (*expected, "a")
    assert column.variant_of == ("a" if "__" in column.name else None)
    again = [*have, variant(column.name, str(column))] if column.variant_of else have
    assert columns_of(pa.schema([("a", arrow)]), again, drift=EVOLVES)[0].name == column.name


@pytest.mark.parametrize("drift", [None, ColumnEvolution(), EVOLVES])
def test_keys_and_targets_that_do_not_evolve(drift: ColumnEvolution | None) -> None:
    with pytest.raises(SchemaError, match="'id' is of type BIGINT in the table, and VARCHAR"):
        columns_of(pa.schema([("id", pa.string())]), [table_column("id", "bigint")], drift=drift)


@pytest.mark.parametrize(
    ("base", "have", "arrow", "expected"),
    [
        ("bigint", "numeric(38,2)", pa.decimal128(10, 4), "DECIMAL(38, 4)"),
        ("bigint", "numeric(38,0)", pa.decimal128(10, 2), "DECIMAL(38, 2)"),
        ("boolean", "numeric(38,30)", pa.uint64(), "DECIMAL(38, 0)"),
    ],
)
def test_a_variant_that_does_not_fit_either_leaves_the_values_to_another(
    base: str, have: str, arrow: pa.DataType, expected: str
) -> None:
    table = [table_column("a", base), variant("a__decimal", have)]
    (column,) = columns_of(pa.schema([("a", arrow)]), table, drift=EVOLVES)
    assert column.name.startswith("a__decimal_")
    assert (str(column), column.variant_of) == (expected, "a")
    table.append(variant(column.name, str(column)))
    (again,) = columns_of(pa.schema([("a", arrow)]), table, drift=EVOLVES)
    assert again.name == column.name


@pytest.mark.parametrize("taken", [table_column("a__string", "bigint"), variant("a__string", "bigint", "b")])
def test_a_column_without_the_mark_is_no_variant(taken: TableColumn) -> None:
    table = [table_column("a", "bigint"), taken]
    (column,) = columns_of(pa.schema([("a", pa.string())]), table, drift=EVOLVES)
    assert column.name.startswith("a__string_")
    assert column.variant_of == "a"


def test_a_property_of_a_variants_name_gets_another_column() -> None:
    table = [table_column("a", "bigint"), variant("a__string", "varchar(256)")]
    schema = pa.schema([("a", pa.string()), ("a__string", pa.string())])
    one, two = columns_of(schema, table, drift=EVOLVES)
    assert (one.name, one.variant_of) == ("a__string", "a")
    assert two.name.startswith("a__string_")
    assert two.variant_of is None


def test_marks_are_read_from_comments() -> None:
    types = {"a": "bigint", "a__string": "varchar(256)", "a__float": "real"}
    rows = [(name, of, None, None, None, "YES", None) for name, of in types.items()]
    comments = {"a__string": "singer_variant: a", "a__float": "as it was measured"}
    assert [c.variant_of for c in columns_from_catalog(rows, comments)] == [None, "a", None]


def test_what_is_always_null_is_not_staged_in_a_type_that_nothing_becomes() -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.null())])
    table = [table_column("id", "bigint"), table_column("a", "time with time zone")]
    columns = columns_of(schema, table, drift=EVOLVES)
    assert read_field(columns[1], schema.field("a")).type == pa.null()
    staged = upload_columns(columns, "parquet")
    assert [c.column for c in staged] == [columns[0], None]
    assert 'SELECT "id", CAST(NULL AS TIMETZ)' in sql.insert('"t"', '"s"', staged, columns)
    assert isinstance(jsonl_columns(columns), NotCopyable)
    batch = pa.record_batch({"id": [1], "a": pa.nulls(1)})
    (made,) = Conversion(columns, schema).all_batches([("f", [batch])])
    assert made.column("a").to_pylist() == [None]
