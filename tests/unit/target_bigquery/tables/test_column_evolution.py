"""Choice of the column for values that do not match the existing one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.casting.from_arrow import fit
from singer_arrow.errors import SchemaError
from target_bigquery.columns import ColumnEvolution, api_field, columns_of, new_variants, widened
from target_bigquery.conversion import read_field
from target_bigquery.types import Column, TableColumn

EVOLVES = ColumnEvolution(evolves=True, keys=("id",))


@pytest.mark.parametrize(
    ("kind", "arrow", "expected"),
    [
        ("INTEGER", pa.uint64(), ("a", "NUMERIC")),
        ("INTEGER", pa.decimal128(38, 18), ("a", "BIGNUMERIC")),
        ("NUMERIC", pa.decimal128(38, 18), ("a", "BIGNUMERIC")),
        ("INTEGER", pa.float64(), ("a__float", "FLOAT")),
        ("NUMERIC", pa.float64(), ("a__float", "FLOAT")),
        ("FLOAT", pa.decimal128(10, 2), ("a__decimal", "NUMERIC")),
        ("DATE", pa.timestamp("us", "UTC"), ("a__timestamp", "TIMESTAMP")),
        ("STRING", pa.int32(), ("a__integer", "INTEGER")),
        ("STRING", pa.list_(pa.string()), ("a__array_string", "STRING")),
        ("STRING", pa.struct([("x", pa.int64())]), ("a__record", "RECORD")),
        ("INTEGER", pa.decimal256(76, 0), ("a__string", "STRING")),
        ("INTEGER", pa.null(), ("a", "INTEGER")),
    ],
    ids=str,
)
def test_columns_are_widened_or_get_variants(kind: str, arrow: pa.DataType, expected: tuple[str, str]) -> None:
    existing = [TableColumn("a", kind)]
    (column,) = columns_of(pa.schema([("a", arrow)]), existing=existing, drift=EVOLVES)
    assert (column.name, column.kind, column.source) == (*expected, "a")
    assert [c.name for c in widened([column], existing)] == (
        ["a"] if expected != ("a", kind) and expected[0] == "a" else []
    )
    assert new_variants([column], existing) == ([(column.name, "a")] if "__" in column.name else [])
    assert api_field(column).get("description") == ("singer_variant: a" if "__" in column.name else None)


def test_a_variant_is_widened_too_and_then_fits() -> None:
    existing = [TableColumn("a", "STRING"), TableColumn("a__decimal", "NUMERIC", variant_of="a")]
    (column,) = columns_of(pa.schema([("a", pa.decimal128(38, 18))]), existing=existing, drift=EVOLVES)
    assert [(c.name, c.kind) for c in widened([column], existing)] == [("a__decimal", "BIGNUMERIC")]
    assert column.variant_of == "a"


def test_a_column_that_may_not_be_widened_gets_a_variant() -> None:
    drift = ColumnEvolution(evolves=True, fixed={"a"})
    (column,) = columns_of(pa.schema([("a", pa.uint64())]), existing=[TableColumn("a", "INTEGER")], drift=drift)
    assert (column.name, column.kind) == ("a__decimal", "NUMERIC")


@pytest.mark.parametrize("drift", [None, ColumnEvolution(), EVOLVES])
def test_keys_and_targets_that_do_not_evolve(drift: ColumnEvolution | None) -> None:
    schema = pa.schema([("id", pa.string())])
    with pytest.raises(SchemaError, match="'id' is of type INTEGER in the table, and STRING"):
        columns_of(schema, existing=[TableColumn("id", "INTEGER")], drift=drift)


def placed(arrow: pa.DataType, *existing: TableColumn, drift: ColumnEvolution = EVOLVES) -> Column:
    """Return the column that property `a` fills."""
    (column,) = columns_of(pa.schema([("a", arrow)]), existing=existing, drift=drift)
    return column


@pytest.mark.parametrize(
    "taken",
    [TableColumn("a__string", "STRING"), TableColumn("A__STRING", "STRING", variant_of="b")],
    ids=["a property's", "another's variant"],
)
def test_a_column_without_the_mark_is_no_variant(taken: TableColumn) -> None:
    base = TableColumn("a", "INTEGER")
    column = placed(pa.string(), base, taken)
    assert column.name.startswith("a__string_")
    assert column.variant_of == "a"
    again = TableColumn(column.name, "STRING", variant_of="a")
    assert placed(pa.string(), base, taken, again) == column


def test_a_property_of_a_variants_name_gets_another_column() -> None:
    existing = [TableColumn("a", "INTEGER"), TableColumn("a__string", "STRING", variant_of="a")]
    schema = pa.schema([("a", pa.string()), ("a__string", pa.bool_())])
    one, two = columns_of(schema, existing=existing, drift=EVOLVES)
    assert one.name == "a__string"
    assert two.name.startswith("a__string_")
    assert new_variants([one, two], existing) == []
    assert two.variant_of is None


def test_a_variant_that_does_not_fit_either_leaves_the_values_to_another() -> None:
    existing = [TableColumn("a", "STRING"), TableColumn("a__decimal", "NUMERIC", variant_of="a")]
    wide = placed(pa.decimal128(38, 18), *existing, drift=ColumnEvolution(evolves=True, fixed={"a__decimal"}))
    assert wide.name.startswith("a__decimal_")
    assert wide.kind == "BIGNUMERIC"
    narrow = placed(pa.decimal128(10, 2), *existing, TableColumn(wide.name, "BIGNUMERIC", variant_of="a"))
    assert narrow.name == "a__decimal"


@pytest.mark.parametrize("arrow", [pa.decimal128(10, 2), pa.decimal128(38, 18), pa.uint64()], ids=str)
def test_variants_that_nothing_widens_have_room_from_the_start(arrow: pa.DataType) -> None:
    column = placed(pa.list_(arrow), TableColumn("a", "BOOLEAN"))
    assert (column.name, str(column)) == ("a__array_decimal", "ARRAY<BIGNUMERIC>")
    later = TableColumn("a__array_decimal", "BIGNUMERIC", "REPEATED", variant_of="a")
    for kind in (pa.decimal128(5, 1), pa.decimal128(38, 18)):
        assert placed(pa.list_(kind), TableColumn("a", "BOOLEAN"), later).name == "a__array_decimal"
    record = placed(pa.struct([("p", arrow)]), TableColumn("a", "RECORD", fields=(TableColumn("p", "STRING"),)))
    assert [(f.name, f.kind, f.variant_of) for f in record.fields] == [("p__decimal", "BIGNUMERIC", "p")]
    assert record.arrow.field("p__decimal").type == record.fields[0].arrow


def test_fields_of_a_variant_have_variants_too() -> None:
    inside = (TableColumn("b", "INTEGER"),)
    existing = [TableColumn("a", "INTEGER"), TableColumn("a__record", "RECORD", fields=inside, variant_of="a")]
    column = placed(pa.struct([("b", pa.string())]), *existing)
    assert (column.name, [f.name for f in column.fields]) == ("a__record", ["b__string"])
    assert new_variants([column], existing) == [("a__record.b__string", "a__record.b")]


@pytest.mark.parametrize("base", [TableColumn("a", "INTEGER"), TableColumn("a", "RECORD", "REPEATED")], ids=str)
def test_fields_of_a_variant_keep_their_names(base: TableColumn) -> None:
    inside = (TableColumn("Amount", "INTEGER"), TableColumn("rate__x", "FLOAT"))
    variant = TableColumn("a__record", "RECORD", fields=inside, variant_of="a")
    column = placed(pa.struct([("amount", pa.int64()), ("rate__x", pa.float64())]), base, variant)
    assert [(f.name, f.source) for f in column.fields] == [("Amount", "amount"), ("rate__x", "rate__x")]


RECORD = TableColumn(
    "a", "RECORD", fields=(TableColumn("x", "INTEGER"), TableColumn("y", "RECORD", fields=(TableColumn("z", "DATE"),)))
)
LIST = TableColumn("a", "INTEGER", "REPEATED")
RECORDS = TableColumn("a", "RECORD", "REPEATED", RECORD.fields)
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.date32())]))])


@pytest.mark.parametrize(
    ("arrow", "existing", "uploaded"),
    [
        (pa.null(), RECORD, STRUCT),
        (pa.null(), LIST, pa.list_(pa.int64())),
        (pa.null(), RECORDS, pa.list_(STRUCT)),
        (pa.null(), TableColumn("a", "JSON"), pa.string()),
        (pa.list_(pa.null()), LIST, pa.list_(pa.int64())),
        (pa.list_(pa.null()), RECORDS, pa.list_(STRUCT)),
        (pa.struct([("x", pa.null()), ("y", pa.null())]), RECORD, STRUCT),
        (pa.struct([("x", pa.null()), ("y", pa.struct([("z", pa.null())]))]), RECORD, STRUCT),
    ],
    ids=str,
)
def test_what_is_always_null_takes_the_tables_type(
    arrow: pa.DataType, existing: TableColumn, uploaded: pa.DataType
) -> None:
    for drift in (EVOLVES, ColumnEvolution()):
        column = placed(arrow, existing, drift=drift)
        assert (column.name, str(column), column.arrow) == ("a", str(existing), uploaded)
    read = read_field(column, pa.field("a", arrow))
    assert fit(pa.nulls(2, arrow), read).null_count == 2


def test_an_empty_list_is_no_number() -> None:
    assert str(placed(pa.list_(pa.null()), TableColumn("a", "INTEGER"))) == "ARRAY<STRING>"
