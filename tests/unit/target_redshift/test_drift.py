"""Which column values get that do not fit their own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.errors import SchemaError
from target_redshift.drift import Drift, base_of
from target_redshift.types import columns_of, existing

EVOLVES = Drift(evolves=True, keys=("id",))


@pytest.mark.parametrize(
    ("data_type", "arrow", "wanted"),
    [
        ("smallint", pa.int32(), ("a__integer", "BIGINT")),
        ("integer", pa.float32(), ("a__float", "DOUBLE PRECISION")),
        ("numeric(10,2)", pa.decimal128(20, 4), ("a__decimal", "DECIMAL(38, 4)")),
        ("bigint", pa.string(), ("a__string", "VARCHAR(256)")),
        ("character(10)", pa.string(), ("a__string", "VARCHAR(256)")),
        ("date", pa.timestamp("us", "UTC"), ("a__timestamp", "TIMESTAMPTZ")),
        ("boolean", pa.list_(pa.int64()), ("a__json", "SUPER")),
        ("bigint", pa.null(), ("a", "BIGINT")),
        ("timestamp with time zone", pa.date32(), ("a", "TIMESTAMPTZ")),
    ],
    ids=str,
)
def test_values_that_do_not_fit_get_the_roomiest_variant(
    data_type: str, arrow: pa.DataType, wanted: tuple[str, str]
) -> None:
    have = [existing("a", data_type)]
    (column,) = columns_of(pa.schema([("a", arrow)]), have, drift=EVOLVES)
    assert (column.name, str(column), column.source) == (*wanted, "a")
    again = [*have, existing(column.name, str(column))]
    assert columns_of(pa.schema([("a", arrow)]), again, drift=EVOLVES)[0].name == column.name
    assert base_of(column.name, column.kind, {"a"}) == ("a" if "__" in column.name else None)


@pytest.mark.parametrize("drift", [None, Drift(), EVOLVES])
def test_keys_and_targets_that_do_not_evolve(drift: Drift | None) -> None:
    with pytest.raises(SchemaError, match="'id' is of type BIGINT in the table, and VARCHAR"):
        columns_of(pa.schema([("id", pa.string())]), [existing("id", "bigint")], drift=drift)


def test_a_variant_that_does_not_fit_either() -> None:
    have = [existing("a", "bigint"), existing("a__decimal", "numeric(38,2)")]
    with pytest.raises(
        SchemaError, match=r"'a__decimal' is of type DECIMAL\(38, 2\) in the table, and DECIMAL\(10, 4\)"
    ):
        columns_of(pa.schema([("a", pa.decimal128(10, 4))]), have, drift=EVOLVES)
