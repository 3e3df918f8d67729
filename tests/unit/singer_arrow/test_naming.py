"""Naming rules of a warehouse with lower-case names of limited length (BigQuery has its own tests)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.naming import LEDGER, STAGING, NamingRules, column_names, distinct_table_name, folder_name, table_name

RULES = NamingRules(table_length=100, column_length=20, reserved_columns=re.compile(r"(oid|ctid)$"), lower=True)


@pytest.mark.parametrize(
    ("stream", "table"),
    [("Flights", "flights"), ("A.b", "a_b"), (LEDGER, f"x{LEDGER}"), (f"{STAGING.upper()}X", f"x{STAGING}x")],
)
def test_tables_are_lower_case(stream: str, table: str) -> None:
    assert table_name(stream, RULES) == table
    assert re.fullmatch(table + r"_[0-9a-f]{8}", distinct_table_name(stream, RULES))


def test_tables_of_other_names() -> None:
    assert table_name("a", RULES, prefix="p_") == "p_a"
    assert table_name("a", RULES, prefix="p_", alias="B c") == "b_c"
    apart = {distinct_table_name(stream, RULES, alias="b") for stream in ("a", "c")}
    assert len(apart) == 2
    assert all(re.fullmatch(r"b_[0-9a-f]{8}", name) for name in apart)


def test_a_property_that_is_lower_case_comes_before_those_that_become_it() -> None:
    names = column_names(["ID", "Id", "id"], RULES)
    assert names["id"] == "id"
    assert len(set(names.values())) == 3
    assert names == column_names(["Id", "id", "ID"], RULES, list(names.values()))


def test_a_property_finds_its_column_again_whatever_its_case() -> None:
    assert column_names(["clientName"], RULES) == {"clientName": "clientname"}
    assert column_names(["clientName"], RULES, ["clientname"]) == {"clientName": "clientname"}


def test_reserved_columns_are_whole_names_here() -> None:
    assert column_names(["OID", "oids"], RULES) == {"OID": "xoid", "oids": "oids"}


@given(st.lists(st.text(max_size=40), unique=True, max_size=8))
def test_columns_are_short_lower_case_and_different(properties: list[str]) -> None:
    names = column_names(properties, RULES)
    assert list(names) == properties
    assert len(set(names.values())) == len(properties)
    for name in names.values():
        assert re.fullmatch(r"[a-z_][a-z0-9_]{0,19}", name)
        assert name not in ("oid", "ctid")


def test_streams_do_not_share_a_folder() -> None:
    assert folder_name("orders_2024-05") == "orders_2024-05"
    assert len({folder_name(n) for n in ("a/b", "a.b", "a b", "a_b")}) == 4
    assert "/" not in folder_name("../../x")
