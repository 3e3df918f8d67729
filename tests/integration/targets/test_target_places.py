"""Destination schemas, table names, grants, and descriptions of tables and columns."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import bigquery
from singer_lines import Batches, Message, rows, schema, state
from warehouses import Warehouse

from singer_arrow.errors import ConfigError, LoadError, SchemaError
from target_bigquery.client import BigQuery as BigQueryClient

Comments = tuple[str | None, dict[str, str | None]]


def test_streams_go_into_the_configured_tables(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{warehouse.schema}_x"
    where = {"orders": f"{other}.all_orders", "events_*": f"{other}.*", "users": "people"}
    streams = ("orders", "events_1", "users", "rest")
    lines = [m for s in streams for m in (schema(s), batch(rows(0, 2), stream=s, batch_id=f"batch-{s}"))]
    try:
        for load_method in ("append-only", "append-only", "upsert"):
            caplog.clear()
            with caplog.at_level("INFO"):
                warehouse.load([*lines, state(1)], tables=where, table_prefix="p_", load_method=load_method)
        assert sorted(warehouse.tables(other)) == ["_sdc_batches", "all_orders", "events_1"]
        assert sorted(warehouse.tables()) == ["_sdc_batches", "p_rest", "people"]
        for name, place in (("all_orders", other), ("events_1", other), ("people", ""), ("p_rest", "")):
            found = warehouse.run(f"SELECT id FROM {warehouse.quoted(name, place)} ORDER BY id")
            line = rf"Stream \S+ goes to table \S*{place or warehouse.schema}\.{name}$"
            assert len(re.findall(line, caplog.text, re.MULTILINE)) == (name != "events_1"), name
            assert [row["id"] for row in found] == [0, 1], name  # the second run has skipped the batches of the first
    finally:
        warehouse.drop(other)


@pytest.mark.parametrize(
    "settings", [{"tables": {"*": "both"}}, {"streams": {"*": {"table": "both"}}}, {"tables": {"b": "a"}}], ids=str
)
def test_a_table_that_settings_name_is_one_streams_alone(
    warehouse: Warehouse, batch: Batches, settings: dict[str, Any]
) -> None:
    """Of two streams of a run, and of a stream that was renamed: rows go to no other table than the one that is set."""
    one, other = ([schema(s), batch(rows(n, 1), stream=s), state(n)] for n, s in enumerate("ab"))
    table = "a" if settings == {"tables": {"b": "a"}} else "both"
    for lines in ([*one, *other], other):
        with pytest.raises(ConfigError, match=rf"Stream 'b': .* names table \S+{table}\S*, which belongs to another"):
            warehouse.load(lines, **settings)
        assert [t for t in warehouse.tables() if t != "_sdc_batches"] == [table]
        assert len(warehouse.table(table)) <= 1
    warehouse.load(one, **settings)  # its own stream goes on
    warehouse.query(f"DROP TABLE {{{table}}}")
    for _ in range(2):
        warehouse.load(other, **settings)
    assert [row["id"] for row in warehouse.table(table)] == [1, 1]


@pytest.mark.parametrize("sets_schema", [False, True])
def test_tables_that_settings_do_not_name_stay_apart(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture, *, sets_schema: bool
) -> None:
    lines = [m for s in ("a-b", "a_b") for m in (schema(s), batch(rows(0, 1), stream=s))]
    for _ in range(2):
        warehouse.load([*lines, state(1)], tables={"*": f"{warehouse.schema}.*"} if sets_schema else {})
    both, apart = sorted(t for t in warehouse.tables() if t != "_sdc_batches")
    assert (both, apart[:4]) == ("a_b", "a_b_")
    assert [len(warehouse.table(t)) for t in (both, apart)] == [2, 2]
    assert "a_b is another stream's, so rows go to table" in caplog.text


def test_what_one_table_has_others_of_the_same_stream_need_not_have(warehouse: Warehouse, batch: Batches) -> None:
    lines = [schema(), *(batch(rows(n, 1), batch_id=f"batch-{n}") for n in range(2)), state(1)]
    warehouse.load(lines[:2], table_prefix="b_")  # so the table exists before, and has rows
    warehouse.load(lines, table_prefix="a_")
    warehouse.load(lines, table_prefix="b_")
    for name in ("a_rows", "b_rows"):
        assert [row["id"] for row in warehouse.table(name)] == [0, 1]


def test_a_table_that_was_there_before_is_one_streams_alone(warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema("both"), batch(rows(0, 1), stream="both")])
    made = warehouse.quoted("made")
    warehouse.run(f"CREATE TABLE {made} AS SELECT * FROM {warehouse.quoted('both')}")
    lines = [m for s in ("a", "b") for m in (schema(s), batch(rows(1, 1), stream=s, batch_id="1"))]
    with pytest.raises(SchemaError, match=r"'a' and 'b' both go to table \S+made, which"):
        warehouse.load(lines, tables={"*": "made"})
    assert len(warehouse.table("made")) <= 2


def described(**texts: str) -> Message:
    """Return a SCHEMA of `rows` with descriptions of the properties and of the stream itself (`stream`)."""
    message = schema()
    if table := texts.pop("stream", None):
        message["schema"]["description"] = table
    for name, text in texts.items():
        message["schema"]["properties"].setdefault(name, {"type": ["string", "null"]})["description"] = text
    return message


def comments(warehouse: Warehouse, client: Any) -> Comments:
    """Return the descriptions of the table `rows` and of its columns in the warehouse."""
    if warehouse.name == "bigquery":
        table = client.get_table(f"{warehouse.schema}.rows")
        return table.description, {field.name: without_owner(field.description) for field in table.schema}
    found = warehouse.run(
        "SELECT a.attname, d.description FROM pg_description d JOIN pg_class c ON c.oid = d.objoid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0 "
        f"WHERE c.relname = 'rows' AND n.nspname = '{warehouse.schema}'"
    )
    texts = {row["attname"]: row["description"] for row in found}
    owner, _, table_text = texts.pop(None).partition("\n")
    assert owner.startswith("singer_stream: rows_")
    return table_text or None, {name: without_owner(texts.get(name)) for name in warehouse.columns("rows")}


def without_owner(text: str | None) -> str | None:
    """Return the description of a column without the line that names its property."""
    return text if not text or not text.startswith("singer_property: ") else text.partition("\n")[2] or None


def describe(warehouse: Warehouse, client: Any, column: str, text: str) -> None:
    """Set a description as a user would."""
    if warehouse.name == "redshift":
        client.execute(f"COMMENT ON COLUMN {warehouse.quoted('rows')}.{column} IS '{text}'")
        return
    table = client.get_table(f"{warehouse.schema}.rows")
    fields = [f.to_api_repr() for f in table.schema]
    changed = ({**f, "description": text} if f["name"] == column else f for f in fields)
    table.schema = [bigquery.SchemaField.from_api_repr(f) for f in changed]
    client.update_table(table, ["schema"])


def test_tables_and_columns_get_the_descriptions_of_the_schema(
    warehouse: Warehouse, batch: Batches, request: pytest.FixtureRequest
) -> None:
    client = request.getfixturevalue({"bigquery": "bq", "redshift": "rs"}[warehouse.name])
    warehouse.load([schema(), batch(rows(0, 1)), state(1)])
    assert comments(warehouse, client) == (None, {"id": None, "name": None})
    describe(warehouse, client, "name", "by hand")
    for _ in range(2):
        message = described(stream="it's all", id="the \\ key", name="other", extra="new")
        warehouse.load([message, batch(rows(0, 1)), state(2)])
        assert comments(warehouse, client) == ("it's all", {"id": "the \\ key", "name": "by hand", "extra": "new"})
    assert len(warehouse.table()) == 3


def test_a_new_table_is_described_at_once(warehouse: Warehouse, batch: Batches, request: pytest.FixtureRequest) -> None:
    client = request.getfixturevalue({"bigquery": "bq", "redshift": "rs"}[warehouse.name])
    warehouse.load([described(stream="all", name="what"), batch(rows(0, 1)), state(1)])
    assert comments(warehouse, client) == ("all", {"id": None, "name": "what"})


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_roles_are_granted_on_new_tables(warehouse: Warehouse, batch: Batches, bq: Any) -> None:
    reader = "roles/bigquery.dataViewer"
    grants = {reader: ["user:a@example.com", "group:b@example.com"], "roles/bigquery.dataEditor": ["domain:x.org"]}
    lines = [schema(), batch(rows(0, 1)), state(1)]
    warehouse.load(lines, grants=grants)
    warehouse.load(lines, grants={reader: ["user:late@example.com"]})
    bindings = bq.get_iam_policy(f"{warehouse.schema}.rows").bindings
    assert {b["role"]: set(b["members"]) for b in bindings} == {role: set(m) for role, m in grants.items()}


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_a_run_that_ends_before_it_grants_leaves_that_to_the_next_one(
    warehouse: Warehouse, batch: Batches, bq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = {"roles/bigquery.dataViewer": ["user:a@example.com"]}

    def refused(*_: object) -> None:
        raise LoadError("setIamPolicy is not allowed")

    with monkeypatch.context() as patch:
        patch.setattr(BigQueryClient, "grant", refused)
        with pytest.raises(LoadError, match="not allowed"):
            warehouse.load([schema(), batch(rows(0, 1)), state(1)], grants=grants)
    for _ in range(2):
        warehouse.load([schema(), state(1)], grants=grants)
        bindings = bq.get_iam_policy(f"{warehouse.schema}.rows").bindings
        assert [(b["role"], set(b["members"])) for b in bindings] == [(r, set(m)) for r, m in grants.items()]


def test_tables_are_replaced_and_widened_in_other_schemas_too(warehouse: Warehouse, batch: Batches) -> None:
    other = f"{warehouse.schema}_y"
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    try:
        for text in ("short", "long " * 100):
            lines = [schema(columns=columns), batch([{"id": 1, "name": text}], columns=columns), state(1)]
            warehouse.load(lines, tables={"rows": f"{other}.*"}, load_method="overwrite")
            (row,) = warehouse.run(f"SELECT name FROM {warehouse.quoted('rows', other)}")
            assert row["name"] == text
    finally:
        warehouse.drop(other)
