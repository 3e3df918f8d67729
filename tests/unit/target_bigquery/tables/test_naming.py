"""Column names are valid, unique, and stable."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow import naming as shared
from singer_arrow.naming import stream_label
from target_bigquery.types import RULES

VALID_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
RESERVED = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier", "_change_type")
WILD = st.text(st.sampled_from("aAbB01_- .é日\u0000`$"), max_size=8)


def table_name(stream: str, *, prefix: str = "") -> str:
    return shared.table_name(stream, RULES, prefix=prefix)


def distinct_table_name(stream: str) -> str:
    return shared.distinct_table_name(stream, RULES)


def column_names(properties: Sequence[str], existing: Sequence[str] = ()) -> dict[str, str]:
    return shared.column_names(properties, RULES, existing)


@pytest.mark.parametrize(
    ("stream", "table"),
    [
        ("flights", "flights"),
        ("TestCamelcase", "TestCamelcase"),
        ("a-b", "a_b"),
        ("public-users", "public_users"),
        ("test:Special!in?attributes", "test_Special_in_attributes"),
        ("prénoms", "prenoms"),
        ("2024", "_2024"),
        ("_sdc_batches", "x_sdc_batches"),
        ("_SDC_staging_x", "x_SDC_staging_x"),
    ],
)
def test_tables(stream: str, table: str) -> None:
    assert table_name(stream) == table


def test_streams_whose_names_become_equal_have_different_tables() -> None:
    assert table_name("a-b") == table_name("a_b") == table_name("a.b")
    assert len({distinct_table_name(s) for s in ("a-b", "a_b", "a.b")}) == 3
    assert len({stream_label(s) for s in ("a-b", "a_b", "a.b", "A_B")}) == 4


def test_a_prefix_is_part_of_the_name() -> None:
    assert table_name("flights", prefix="raw_") == "raw_flights"
    assert table_name("_sdc_batches", prefix="raw") == "raw_sdc_batches"
    assert table_name("flights", prefix="_sdc_") == "x_sdc_flights"


@given(st.text(max_size=2000))
def test_any_stream_has_a_valid_table_and_label(stream: str) -> None:
    for name in (table_name(stream), distinct_table_name(stream)):
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        assert len(name) <= 1000
        assert not name.startswith("_sdc_")
    assert re.fullmatch(r"[a-z0-9_-]{1,63}", stream_label(stream))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["id", "clientName"], ["id", "clientName"]),
        (["agent:os:version"], ["agent_os_version"]),
        (["_PARTITIONTIME"], ["x_PARTITIONTIME"]),
        (["_sdc_order", "_SDC_ORDER", "_sdc_orders"], ["x_sdc_order", r"x_SDC_ORDER_\w{8}", "_sdc_orders"]),
        (["1st"], ["_1st"]),
        (["a b", "a_b"], [r"a_b_\w{8}", "a_b"]),
        (["Id", "id"], ["Id", r"id_\w{8}"]),
        (["日本", "語"], [r"_\w{8}", r"_\w{8}"]),
        ([""], [r"_\w{8}|_"]),
        (["x" * 400], ["x{291}_[0-9a-f]{8}"]),
    ],
)
def test_columns(given: list[str], expected: list[str]) -> None:
    names = column_names(given)
    assert list(names) == given
    for name, pattern in zip(names.values(), expected, strict=True):
        assert re.fullmatch(pattern, name), name


@given(st.lists(WILD, unique=True, max_size=12))
def test_columns_are_valid_and_differ_in_more_than_case(properties: list[str]) -> None:
    names = column_names(properties)
    assert list(names) == properties
    assert len({n.lower() for n in names.values()}) == len(properties)
    for name in names.values():
        assert VALID_COLUMN.fullmatch(name)
        assert not name.lower().startswith(RESERVED)


@given(st.lists(st.lists(WILD, unique=True, max_size=6), max_size=6))
def test_columns_never_move(runs: list[list[str]]) -> None:
    """A property keeps its column, and no two properties of a run share one, for any changes of SCHEMA."""
    table: list[str] = []
    seen: dict[str, str] = {}
    for properties in runs:
        names = column_names(properties, table)
        assert len(set(names.values())) == len(properties)
        for name, column in names.items():
            exact = column == name
            if seen.get(name) not in (None, column):
                # only a property whose column name is also that of another property may get a new column
                others = [other for other in properties if other != name]
                assert exact or any(column_names([other])[other].lower() == seen[name].lower() for other in others)
            seen[name] = column
        table.extend(c for c in names.values() if c not in table)


def test_a_column_belongs_to_the_property_of_its_name() -> None:
    assert column_names(["Id", "id"], ["id"])["id"] == "id"
    assert column_names(["ID"], ["id"]) == {"ID": "id"}  # the tap changed the case: BigQuery sees no difference
    first = column_names(["Id", "id"])
    again = column_names(["id", "Id"], list(first.values()))
    assert again == {"id": first["id"], "Id": first["Id"]}
    assert column_names(["id"], list(first.values())) == {"id": first["id"]}
