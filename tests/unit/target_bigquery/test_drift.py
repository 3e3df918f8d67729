"""Which column values get that do not fit their own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.errors import SchemaError
from target_bigquery.drift import Drift, columns_of, variants, widened
from target_bigquery.types import Existing

EVOLVES = Drift(evolves=True, keys=("id",))


@pytest.mark.parametrize(
    ("kind", "arrow", "wanted"),
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
def test_columns_are_widened_or_get_variants(kind: str, arrow: pa.DataType, wanted: tuple[str, str]) -> None:
    existing = [Existing("a", kind)]
    (column,) = columns_of(pa.schema([("a", arrow)]), existing=existing, drift=EVOLVES)
    assert (column.name, column.kind, column.source) == (*wanted, "a")
    assert [c.name for c in widened([column], existing)] == (
        ["a"] if wanted != ("a", kind) and wanted[0] == "a" else []
    )
    assert bool(variants([column], existing)) == ("__" in column.name)


def test_a_variant_is_widened_too_and_then_fits() -> None:
    existing = [Existing("a", "STRING"), Existing("a__decimal", "NUMERIC")]
    (column,) = columns_of(pa.schema([("a", pa.decimal128(38, 18))]), existing=existing, drift=EVOLVES)
    assert [(c.name, c.kind) for c in widened([column], existing)] == [("a__decimal", "BIGNUMERIC")]


def test_a_column_that_may_not_be_widened_gets_a_variant() -> None:
    drift = Drift(evolves=True, fixed={"a"})
    (column,) = columns_of(pa.schema([("a", pa.uint64())]), existing=[Existing("a", "INTEGER")], drift=drift)
    assert (column.name, column.kind) == ("a__decimal", "NUMERIC")


@pytest.mark.parametrize("drift", [None, Drift(), EVOLVES])
def test_keys_and_targets_that_do_not_evolve(drift: Drift | None) -> None:
    schema = pa.schema([("id", pa.string())])
    with pytest.raises(SchemaError, match="'id' is of type INTEGER in the table, and STRING"):
        columns_of(schema, existing=[Existing("id", "INTEGER")], drift=drift)


def test_a_variant_of_a_variant_is_refused() -> None:
    existing = [Existing("a", "INTEGER"), Existing("a__string", "BYTES")]
    with pytest.raises(SchemaError, match="'a__string' is of type BYTES in the table, and STRING"):
        columns_of(pa.schema([("a", pa.string())]), existing=existing, drift=EVOLVES)
