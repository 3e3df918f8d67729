"""The demonstration's checksum is the same computed by DuckDB, BigQuery or Redshift, and shows what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from local_cloud import Cloud
from local_cloud.demo.bigquery import BigQuery
from local_cloud.demo.checksum import Checksum, Column, of_source
from local_cloud.demo.redshift import Redshift
from local_cloud.demo.warehouse import Warehouse

COLUMNS = [
    Column("at", "timestamp"),
    Column("day", "date"),
    Column("exact", "decimal"),
    Column("good", "boolean"),
    Column("name", "text"),
    Column("number", "integer"),
    Column("parts", "nested"),
    Column("ratio", "float"),
]
ROWS: list[dict[str, Any]] = [
    {
        "at": "2013-01-02T03:04:05.600001Z",
        "day": "2013-01-02",
        "good": True,
        "name": "é|☃",
        "number": 7,
        "exact": "-123.45",
        "parts": {"kind": "é x", "count": 2},
        "ratio": 41.1304722,
    },
    {
        "at": "1969-12-31T23:59:59.5Z",
        "day": "1969-12-31",
        "good": False,
        "name": "",
        "number": -(2**62),
        "exact": "0.00",
        "parts": {"kind": "", "count": None},
        "ratio": -0.0000005,
    },
    {"at": "2013-06-01T00:00:00Z", "good": None, "name": " 'x' ", "number": 0, "exact": "99999.99", "ratio": 1e-9},
    {},
]
TYPES = {
    "decimal": "DECIMAL(12, 2)",
    "nested": "SUPER",
    "text": "VARCHAR(64)",
    "integer": "BIGINT",
    "float": "DOUBLE PRECISION",
    "timestamp": "TIMESTAMPTZ",
}
BIGQUERY = {
    **{"text": "STRING", "integer": "INT64", "float": "FLOAT64", "boolean": "BOOL"},
    **{"decimal": "NUMERIC", "nested": "STRUCT<kind STRING, count INT64>"},
}


def of_rows(rows: list[dict[str, Any]]) -> Checksum:
    return of_source([("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())], COLUMNS)


def literal(column: Column, value: Any) -> str:
    if value is None:
        return "NULL"
    text = "'{}'".format(str(value).replace("'", "\\'"))
    if column.kind == "nested":
        count = "NULL" if value["count"] is None else value["count"]
        return f"STRUCT('{value['kind']}' AS kind, {count} AS count)"
    if column.kind == "decimal":
        return f"NUMERIC {text}"
    return (
        f"{column.kind.upper()} {text}"
        if column.kind in ("date", "timestamp")
        else repr(value)
        if isinstance(value, float | int)
        else text
    )


@pytest.fixture
def bigquery(cloud: Cloud, bq: Any, dataset: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    for name, value in (cloud.env | {"TARGET_BIGQUERY_DATASET": dataset}).items():
        monkeypatch.setenv(name, value)
    bq.create_dataset(dataset)
    defined = ", ".join(f"{c.name} {BIGQUERY.get(c.kind, c.kind.upper())}" for c in COLUMNS)
    bq.query_and_wait(f"CREATE TABLE {dataset}.things ({defined}, _sdc_batched_at TIMESTAMP)")
    for row in ROWS:
        values = ", ".join(literal(c, row.get(c.name)) for c in COLUMNS)
        bq.query_and_wait(f"INSERT INTO {dataset}.things VALUES ({values}, NULL)")
    opened = BigQuery()
    yield opened
    opened.close()


@pytest.fixture
def redshift(cloud: Cloud, rs: Any, schema: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    for name, value in cloud.env.items():
        monkeypatch.setenv(name, value)
    defined = ", ".join(f"{c.name} {TYPES.get(c.kind, c.kind.upper())}" for c in COLUMNS)
    rs.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    rs.execute(f"CREATE TABLE {schema}.things ({defined}, _sdc_batched_at TIMESTAMPTZ)")
    for row in ROWS:
        values = ", ".join("JSON_PARSE(%s)" if c.kind == "nested" and row.get(c.name) else "%s" for c in COLUMNS)
        given = [json.dumps(v) if isinstance(v := row.get(c.name), dict) else v for c in COLUMNS]
        rs.execute(f"INSERT INTO {schema}.things SELECT {values}, NULL", given)
    opened = Redshift(schema=schema, batches="s3://stage/batches")
    yield opened
    opened.close()


@pytest.mark.parametrize("name", ["bigquery", "redshift"])
def test_a_warehouse_has_the_columns_and_the_checksum_of_the_source(name: str, request: pytest.FixtureRequest) -> None:
    warehouse: Warehouse = request.getfixturevalue(name)

    assert sorted(warehouse.columns("things")) == COLUMNS
    assert warehouse.checksum("things", warehouse.columns("things")) == of_rows(ROWS)
    assert of_rows(ROWS).value != of_rows(ROWS[1:]).value


DAMAGE = {
    "one changed cell": ["UPDATE {} SET ratio = 41.130473 WHERE number = 7"],
    "one cell that became null": ["UPDATE {} SET name = NULL WHERE name = ''"],
    "cells of two rows exchanged": [
        "UPDATE {} SET number = 1 WHERE number = 7",
        "UPDATE {} SET number = 7 WHERE number = 0",
        "UPDATE {} SET number = 0 WHERE number = 1",
    ],
    "one lost row": ["DELETE FROM {} WHERE number = 0"],
    "one doubled row": ["INSERT INTO {} SELECT * FROM {} WHERE number = 7"],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["bigquery", "redshift"])
def test_damage_of_a_table_changes_its_checksum(name: str, damage: str, request: pytest.FixtureRequest) -> None:
    warehouse: Warehouse = request.getfixturevalue(name)
    execute = {"bigquery": lambda: request.getfixturevalue("bq").query_and_wait}.get(
        name, lambda: request.getfixturevalue("rs").execute
    )()
    place = request.getfixturevalue({"bigquery": "dataset", "redshift": "schema"}[name])
    assert warehouse.checksum("things", COLUMNS) == of_rows(ROWS)

    for statement in DAMAGE[damage]:
        execute(statement.replace("{}", f"{place}.things"))

    found = warehouse.checksum("things", COLUMNS)
    assert found != of_rows(ROWS)
    assert found.rows - len(ROWS) == {"one lost row": -1, "one doubled row": 1}.get(damage, 0)
