"""Tables and datasets that target-bigquery creates, alters, or finds created by others."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from singer_lines import Batches, load, rows, schema, state

from singer_arrow.errors import ConfigError, SchemaError

Config = dict[str, Any]


def test_new_columns_are_added_also_within_records(config: Config, batch: Batches, table: Any, bq: Any) -> None:
    first = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))])
    second = pa.schema(
        [("id", pa.int64()), ("s", pa.struct([("b", pa.string()), ("a", pa.int64())])), ("new", pa.bool_())]
    )
    load(
        [
            schema(columns=first),
            batch([{"id": 1, "s": {"a": 1}}], columns=first),
            schema(columns=second),
            batch([{"id": 2, "s": {"a": 2, "b": "x"}, "new": True}], columns=second),
            schema(columns=first),
            batch([{"id": 3, "s": {"a": 3}}], columns=first),
        ],
        config,
    )
    assert table() == [
        {"id": 1, "s": {"a": 1, "b": None}, "new": None},
        {"id": 2, "s": {"a": 2, "b": "x"}, "new": True},
        {"id": 3, "s": {"a": 3, "b": None}, "new": None},
    ]


def test_names_that_would_collide_do_not(config: Config, batch: Batches, table: Any, bq: Any) -> None:
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("a b", pa.int64()),
            ("a_b", pa.int64()),
            ("Ä", pa.int64()),
            ("_partitiontime", pa.int64()),
        ]
    )
    content = [{"id": 1, "a b": 2, "a_b": 3, "Ä": 4, "_partitiontime": 5}]
    for _ in range(2):
        load(
            [
                schema("a-b", columns),
                schema("a_b"),
                batch(content, stream="a-b", columns=columns),
                batch(rows(7, 1), stream="a_b"),
            ],
            config,
        )
    names = {t.table_id for t in bq.list_tables(config["dataset"])} - {"_sdc_batches"}
    (other,) = names - {"a_b"}
    assert other.startswith("a_b_")
    got = table("a_b")
    assert len(got) == 2
    assert sorted(got[0].values()) == [1, 2, 3, 4, 5]
    assert got[0]["a_b"] == 3
    assert table(other) == rows(7, 1) * 2


def test_tables_get_their_layout(config: Config, batch: Batches, bq: Any) -> None:
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("kind", pa.string())])
    layout = {
        "partition_by": {"ev*": "at:month"},
        "cluster_by": ["kind", "id"],
        "labels": {"team": "data"},
        "table_prefix": "raw_",
    }
    content = [{"id": 1, "at": datetime(2026, 1, 1, tzinfo=UTC), "kind": "x"}]
    lines = [
        schema("events", columns),
        batch(content, stream="events", columns=columns),
        schema("other"),
        batch(rows(0, 1), stream="other"),
    ]
    for method in ("append-only", "upsert", "overwrite"):
        load(lines, config | layout | {"load_method": method, "hard_delete": True})
        events = bq.get_table(f"{config['dataset']}.raw_events")
        assert (events.time_partitioning.type_, events.time_partitioning.field) == ("MONTH", "at")
        assert events.clustering_fields == ["kind", "id"]
        assert events.labels["team"] == "data"
        assert events.expires is None
    assert bq.get_table(f"{config['dataset']}.raw_other").clustering_fields == ["id"]


def test_a_table_of_other_types(config: Config, batch: Batches, bq: Any, dataset: str) -> None:
    bq.create_dataset(dataset)
    bq.query(f"CREATE TABLE `{dataset}.rows` (id STRING, name STRING)").result()
    words = r"Table .*\.rows: Column 'id' is of type STRING in the table, and INTEGER in the stream's SCHEMA"
    with pytest.raises(SchemaError, match=words):
        load([schema(), batch(rows(0, 2))], config)
    assert bq.get_table(f"{dataset}.rows").num_rows == 0  # a key column has no variants


def test_a_table_that_requires_what_the_stream_lacks(config: Config, batch: Batches, bq: Any, dataset: str) -> None:
    bq.create_dataset(dataset)
    bq.query(f"CREATE TABLE `{dataset}.rows` (id INT64 NOT NULL, must STRING NOT NULL)").result()
    with pytest.raises(SchemaError, match="requires column 'must', which stream 'rows' does not have"):
        load([schema(), batch(rows(0, 2))], config | {"on_drift": "fail"})
    load([schema(), batch(rows(0, 2))], config)
    assert [(f.name, f.mode) for f in bq.get_table(f"{dataset}.rows").schema][:2] == [
        ("id", "REQUIRED"),
        ("must", "NULLABLE"),
    ]


def test_what_is_no_table(config: Config, bq: Any, dataset: str) -> None:
    bq.create_dataset(dataset)
    bq.query(f"CREATE VIEW `{dataset}.rows` AS SELECT 1 AS id").result()
    with pytest.raises(SchemaError, match=r"\.rows is no table but of the kind VIEW, into which nothing can be loaded"):
        load([schema()], config)


def test_a_table_that_requires_a_filter_takes_further_runs(
    config: Config, batch: Batches, bq: Any, dataset: str
) -> None:
    bq.create_dataset(dataset)
    layout = "PARTITION BY day OPTIONS (require_partition_filter = TRUE)"
    bq.query(f"CREATE TABLE `{dataset}.rows` (id INT64, name STRING, day DATE) {layout}").result()
    for number in range(2):
        load([schema(), batch(rows(number, 1), batch_id=f"{number}"), state(1)], config)
    found = bq.query(f"SELECT id FROM `{dataset}.rows` WHERE day IS NULL ORDER BY id").result()
    assert [r["id"] for r in found] == [0, 1]


def test_a_table_that_fits_is_used_as_it_is(config: Config, batch: Batches, bq: Any, dataset: str, table: Any) -> None:
    bq.create_dataset(dataset)
    bq.query(f"CREATE TABLE `{dataset}.rows` (own STRING, ID NUMERIC NOT NULL)").result()
    for method in ("append-only", "upsert"):
        load([schema(), batch(rows(0, 2))], config | {"load_method": method})
    assert table(order="id") == [{"own": None, "ID": Decimal(n), "name": f"name {n}"} for n in range(2)]


def test_a_dataset_elsewhere(config: Config, batch: Batches, bq: Any, dataset: str) -> None:
    from google.cloud import bigquery

    made = bigquery.Dataset(f"{config['project']}.{dataset}")
    made.location = "EU"
    bq.create_dataset(made)
    with pytest.raises(ConfigError, match="is in EU, and setting 'location' is us-east1"):
        load([schema(), batch(rows(0, 2))], config | {"location": "us-east1"})
    assert list(bq.list_tables(dataset)) == []
    load([schema(), batch(rows(0, 2), batch_id="a")], config)  # jobs run in the dataset's location
    load([schema(), batch(rows(0, 2), batch_id="a")], config | {"location": "eu", "load_method": "upsert"})
    assert bq.get_table(f"{dataset}.rows").num_rows == 2


def test_a_new_dataset_is_where_it_should_be(config: Config, batch: Batches, bq: Any, dataset: str) -> None:
    load([schema(), batch(rows(0, 2), batch_id="a")], config | {"location": "europe-west3"})
    assert bq.get_dataset(dataset).location == "europe-west3"


def test_partitions_by_what_cannot_be(config: Config) -> None:
    with pytest.raises(ConfigError, match="'name' of stream 'rows', which is STRING, not DATE, TIMESTAMP or DATETIME"):
        load([schema()], config | {"partition_by": "name"})
    with pytest.raises(ConfigError, match="column 'gone', which stream 'rows' does not have"):
        load([schema()], config | {"partition_by": {"rows": "gone"}})
    load([schema()], config | {"partition_by": "gone"})
