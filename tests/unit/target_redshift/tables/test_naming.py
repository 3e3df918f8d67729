"""Names that Redshift accepts, unique within a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow import naming as shared
from singer_arrow.naming import staging_name
from target_redshift.types import LENGTH, RULES


def table_name(stream: str) -> str:
    return shared.table_name(stream, RULES)


def distinct_table_name(stream: str) -> str:
    return shared.distinct_table_name(stream, RULES)


def column_names(properties: Sequence[str], existing: Collection[str] = ()) -> dict[str, str]:
    return shared.column_names(properties, RULES, existing)


@pytest.mark.parametrize(
    ("stream", "table"),
    [
        ("orders", "orders"),
        ("Orders", "orders"),
        ("public-orders.v2", "public_orders_v2"),
        ("Füße", "fu_e"),
        ("2024", "_2024"),
        ("select", "select"),
        ("_sdc_batches", "x_sdc_batches"),
        ("_SDC_staging_1", "x_sdc_staging_1"),
    ],
)
def test_tables(stream: str, table: str) -> None:
    assert table_name(stream) == table


@pytest.mark.parametrize("name", ["oid", "xmin", "CTID", "tableoid", "_sdc_order", "_sdc_unused_1", "deletexid"])
def test_columns_that_redshift_or_we_have_already(name: str) -> None:
    assert column_names([name])[name] == f"x{name.lower()}"


@pytest.mark.parametrize("name", ["oids", "order", "user", "_sdc_extracted_at", "_sdc_deleted_at", "xmin_value"])
def test_columns_that_only_look_like_them(name: str) -> None:
    assert column_names([name])[name] == name


def test_long_names_are_cut_and_differ() -> None:
    first, second = "a" * 200 + "1", "a" * 200 + "2"
    names = column_names([first, second])
    assert len(set(names.values())) == 2
    assert {len(n) for n in names.values()} == {LENGTH}
    assert table_name(first) != table_name(second)
    assert len(distinct_table_name(first)) == LENGTH


@given(st.lists(st.text(max_size=150), unique=True, max_size=8))
def test_any_names_become_distinct_ones_that_redshift_takes(properties: list[str]) -> None:
    names = column_names(properties)
    assert list(names) == properties
    assert len(set(names.values())) == len(properties)
    for name in names.values():
        assert 0 < len(name.encode()) <= LENGTH
        assert name == name.lower()
        assert name.replace("_", "a").isalnum()
        assert name.isascii()
    assert column_names(properties, names.values()) == names


def test_staging_tables_of_a_table_begin_alike() -> None:
    assert staging_name("orders", "1", "2").startswith(staging_name("orders"))
    assert not staging_name("orders2").startswith(staging_name("orders"))
    assert len(staging_name("a" * LENGTH, "20261120T101010", "0123456789abcdef")) <= LENGTH
