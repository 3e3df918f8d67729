"""Columns stay with their properties over runs and within them, where several properties become one column name."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from singer_lines import record, schema
from warehouses import Warehouse

from singer_arrow.errors import SchemaError

Run = Sequence[Sequence[str]]
"""The properties of each SCHEMA of a run."""
SEQUENCES: dict[str, list[Run]] = {
    "the other one comes later": [[["net-price"]], [["net_price", "net-price"]], [["net_price"]], [["net-price"]]],
    "first and last the same": [[["Size"], ["Size"], ["size", "Size"], ["Size"]], [["size"]]],
    "only one at a time": [[["img"]], [["Img"]], [["img"]], [["IMG", "img"]]],
    "accents and a suffix": [[["café"]], [["cafe", "café", "cafe_54ea34c5"]], [["café", "cafe"]]],
    "longer than names are": [[["x" * 400]], [["x" * 400 + "y", "x" * 400]], [["x" * 400 + "y"]]],
    "other texts": [[['a"b\\', "a\nb"]], [["a b", "a\nb"]], [["a\x01b", 'a"b\\', "a b"]]],
}
NAMES = ("Zone", "zone", "ZONE", "zo ne", "zo_ne", "Zo-Ne", "zoné")


def chance(seed: int) -> list[Run]:
    """Return some runs by chance."""
    by = random.Random(seed)
    return [[by.sample(NAMES, by.randint(1, 4)) for _ in range(by.randint(1, 3))] for _ in range(5)]


def placed(warehouse: Warehouse) -> dict[str, set[str]]:
    """Return the columns in which the values of each property are; each value begins with its property."""
    found = defaultdict(set)
    for row in warehouse.table():
        for column, value in row.items():
            if column != "id" and value is not None:
                found[value.rpartition("#")[0]].add(column)
    return dict(found)


def load_runs(warehouse: Warehouse, runs: Sequence[Run], first: int = 0, **settings: Any) -> int:
    """Load rows whose values name their property; return the next id."""
    number = first
    for run in runs:
        messages = []
        for properties in run:
            messages.append(schema(columns=pa.schema({"id": pa.int64(), **dict.fromkeys(properties, pa.string())})))
            messages.append(record(id=number, **{name: f"{name}#{number}" for name in properties}))
            number += 1
        warehouse.load(messages, **settings)
    return number


@pytest.fixture
def strip(warehouse: Warehouse, bq: Any) -> Callable[[], None]:
    """Removes all descriptions of columns, as a copy of the table does."""

    def remove() -> None:
        if warehouse.name == "redshift":
            for column in warehouse.columns("rows"):
                warehouse.query(f'COMMENT ON COLUMN {{rows}}."{column}" IS NULL')
            return
        table = bq.get_table(f"{warehouse.schema}.rows")
        table.schema = [type(f)(f.name, f.field_type, f.mode, fields=f.fields, description="") for f in table.schema]
        bq.update_table(table, ["schema"])

    return remove


@pytest.mark.parametrize("runs", [*SEQUENCES.values(), *map(chance, range(4))], ids=[*SEQUENCES, *map(str, range(4))])
def test_a_property_has_one_column_and_a_column_one_property(runs: list[Run], warehouse: Warehouse) -> None:
    load_runs(warehouse, runs)
    found = placed(warehouse)
    assert found.keys() == {name for run in runs for properties in run for name in properties}
    assert all(len(columns) == 1 for columns in found.values()), found
    assert len({columns.pop() for columns in found.values()}) == len(found)


@pytest.mark.parametrize("key", ["line.no", "NO"])
def test_an_upsert_finds_its_rows_by_the_same_key(key: str, warehouse: Warehouse) -> None:
    other = {"line.no": "line_no", "NO": "no"}[key]
    both = pa.schema({other: pa.int64(), key: pa.int64(), "v": pa.string()})
    before = [schema(columns=pa.schema({key: pa.int64(), "v": pa.string()}), keys=(key,))]
    warehouse.load([*before, *(record(**{key: n, "v": "old"}) for n in (1, 2))], load_method="upsert")
    after = [schema(columns=both, keys=(key,)), record(**{key: 1, other: 5, "v": "new"})]
    warehouse.load(after, load_method="upsert")
    assert [row["v"] for row in warehouse.table(order="v")] == ["new", "old"]


def test_a_key_of_another_spelling_is_an_error_before_anything_changes(warehouse: Warehouse) -> None:
    one, two = (pa.schema({key: pa.int64(), "v": pa.string()}) for key in ("Order-Id", "order id"))
    warehouse.load([schema(columns=one, keys=("Order-Id",)), record(**{"Order-Id": 1, "v": "a"})], load_method="upsert")
    before = warehouse.contents()
    message = "belongs to property \"Order-Id\", so by key property 'order id' no row of the table would be found"
    with pytest.raises(SchemaError, match=message):
        warehouse.load([schema(columns=two, keys=("order id",)), record(**{"order id": 1})], load_method="upsert")
    assert warehouse.contents() == before


def test_a_table_without_records_gets_them(
    warehouse: Warehouse, strip: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Made by an earlier version, or copied: columns stay with the properties that fill them now."""
    number = load_runs(warehouse, [[["Top-Speed", "class"]]])
    strip()
    number = load_runs(warehouse, [[["Top-Speed"]], [["Top_Speed", "Top-Speed"]], [["class"]]], number)
    load_runs(warehouse, [[["Class", "Top_Speed"]]], number)
    found = placed(warehouse)
    assert found["Top-Speed"] != found["Top_Speed"]
    assert found["class"] == {"class"}
    assert {name: len(columns) for name, columns in found.items()} == dict.fromkeys(found, 1)
    assert 'belongs to property "Top-Speed"' in caplog.text


def test_suffixes_find_their_properties_without_records(warehouse: Warehouse, strip: Callable[[], None]) -> None:
    number = load_runs(warehouse, [[["a-b"]], [["a_b", "a-b"]]])
    before = placed(warehouse)
    strip()
    load_runs(warehouse, [[["a_b", "a-b"]], [["a_b"], ["a-b"]]], number)
    assert placed(warehouse) == before


def test_descriptions_and_own_comments_stay(warehouse: Warehouse, bq: Any) -> None:
    def described(text: str) -> list[dict[str, Any]]:
        message = schema(columns=pa.schema({"id": pa.int64(), "Net-Price": pa.string()}))
        message["schema"]["properties"]["Net-Price"]["description"] = text
        return [message, record(id=1, **{"Net-Price": "1"})]

    load_runs(warehouse, [[["Net-Price"]]])
    for text in ("in euros", "in francs"):
        warehouse.load(described(text))
    assert 'singer_property: "Net-Price"\nin euros' in comments(warehouse, bq)
    load_runs(warehouse, [[["Net_Price", "Net-Price"]]], 5)
    assert len(placed(warehouse)["Net-Price"]) == 1


def comments(warehouse: Warehouse, bq: Any) -> list[str | None]:
    if warehouse.name == "bigquery":
        return [f.description for f in bq.get_table(f"{warehouse.schema}.rows").schema]
    found = warehouse.run(
        f"SELECT description FROM pg_description WHERE objoid = '{warehouse.quoted('rows')}'::regclass"
    )
    return [row["description"] for row in found]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_fields_of_records_stay_with_their_properties(warehouse: Warehouse, caplog: pytest.LogCaptureFixture) -> None:
    steps = [["lat-lon"], ["lat_lon", "lat-lon"], ["lat_lon"], ["LAT_LON", "lat-lon"], ["lat-lon"]]
    for number, names in enumerate(steps):
        columns = pa.schema({"id": pa.int64(), "l": pa.list_(pa.struct([(name, pa.string()) for name in names]))})
        warehouse.load([schema(columns=columns), record(id=number, l=[{name: name for name in names}])])
    found = defaultdict(set)
    for row in warehouse.table():
        for field, value in row["l"][0].items():
            if value is not None:
                found[value].add(field)
    assert {name: len(fields) for name, fields in found.items()} == {"lat-lon": 1, "lat_lon": 1, "LAT_LON": 1}
    assert len(set.union(*found.values())) == 3
    assert "rows, l: property 'lat_lon' goes into column 'lat_lon_" in caplog.text
