"""Stream and column selection, and its effect on SCHEMA, as a process against real S3."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from tap_source import Source

from local_cloud.programs import Programs

METADATA = [
    "_sdc_source_bucket",
    "_sdc_source_file",
    "_sdc_source_lineno",
    "_sdc_source_modified_at",
    "_sdc_source_etag",
]


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


def test_discovery_merges_samples_and_takes_overrides(source: Source) -> None:
    source.put("in/a.csv", "id,code,amount,when,zip\n1,7,1,2024-05-01,01234\n")
    source.put("in/b.csv", "id,code,amount,when,late\n2,x,1.5,2024-05-01T10:00:00Z,true\n")
    config = source.config(stream={"schema": {"amount": "decimal(10,2)"}, "key_properties": ["id"]})
    (stream,) = json.loads(source.run(config, discover=True).stdout)["streams"]
    found = stream["schema"]["properties"]
    assert list(found) == ["id", "code", "amount", "when", "zip", "late", *METADATA]
    assert found["id"] == {"type": ["integer"]}
    assert found["code"] == {"type": ["string", "null"]}
    assert found["amount"] == {"type": ["number", "null"], "multipleOf": 0.01, "x-arrow-type": "decimal128(10, 2)"}
    assert found["when"]["format"] == "date-time"
    assert found["zip"] == {"type": ["string", "null"]}
    assert found["late"] == {"type": ["boolean", "null"]}
    assert stream["key_properties"] == ["id"]
    assert stream["replication_method"] == "INCREMENTAL"
    rows = source.rows(source.run(config))
    assert [(r["code"], r["amount"], r["zip"], r["late"]) for r in rows] == [
        ("7", Decimal("1.00"), "01234", None),
        ("x", Decimal("1.50"), None, True),
    ]


@pytest.mark.parametrize("batches", [True, False])
def test_deselected_columns_are_neither_in_the_schema_nor_in_the_data(batches: bool, source: Source) -> None:
    source.put("in/a.csv", "id,secret,name\n1,s,a\n")
    more = {"batch_config": source.batches()} if batches else {}
    config = source.config(**more)
    catalog = json.loads(source.run(config, discover=True).stdout)
    for entry in catalog["streams"][0]["metadata"]:
        entry["metadata"]["selected"] = entry["breadcrumb"] in ([], ["properties", "id"], ["properties", "name"])
    ran = source.run(config, catalog=catalog)
    expected = ["id", "name", "_sdc_source_modified_at"]  # the replication key is always selected
    assert list(ran.of_type("SCHEMA")[0]["schema"]["properties"]) == expected
    (row,) = source.rows(ran)
    assert list(row) == expected
    assert (row["id"], row["name"]) == (1, "a")


def test_a_deselected_stream_is_not_read(source: Source) -> None:
    source.csv("in/a.csv", 0)
    config = source.config(streams=[])
    config["streams"] = [{"name": n, "path": f"s3://{source.bucket}/in/*.csv"} for n in ("kept", "left")]
    catalog = json.loads(source.run(config, discover=True).stdout)
    catalog["streams"] = [s for s in catalog["streams"] if s["stream"] == "kept"]
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    ran = source.run(config, catalog=catalog)
    assert {m["stream"] for m in ran.of_type("SCHEMA", "RECORD")} == {"kept"}


def test_types_of_a_catalog_hold_and_new_columns_come_beside_them(source: Source) -> None:
    source.put("in/a.csv", "id,name\n1,a\n")
    config = source.config(metadata_columns=False)
    catalog = json.loads(source.run(config, discover=True).stdout)
    catalog["streams"][0]["schema"]["properties"]["id"] = {"type": ["string", "null"]}
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    source.put("in/b.csv", "id,name,more\n2,b,x\n")
    ran = source.run(config, catalog=catalog)
    assert list(ran.of_type("SCHEMA")[0]["schema"]["properties"]) == ["id", "name"]
    assert source.rows(ran) == [{"id": "1", "name": "a"}, {"id": "2", "name": "b", "more": "x"}]


def test_only_selected_columns_are_read(source: Source) -> None:
    source.put("in/a.csv", "id,broken,name\n1,x,a\n")
    config = source.config(stream={"columns": ["name", "id"]}, metadata_columns=False)
    assert source.rows(source.run(config)) == [{"id": 1, "name": "a"}]


def test_metadata_columns_hold_the_file_and_line_of_a_row(source: Source) -> None:
    source.csv("in/x y/ä+%20.csv", 0, 2)
    head = source.s3.head_object(Bucket=source.bucket, Key="in/x y/ä+%20.csv")
    rows = source.rows(source.run())
    assert [{k: r[k] for k in METADATA} for r in rows] == [
        {
            "_sdc_source_bucket": source.bucket,
            "_sdc_source_file": "in/x y/ä+%20.csv",
            "_sdc_source_lineno": line,
            "_sdc_source_modified_at": head["LastModified"],
            "_sdc_source_etag": head["ETag"],
        }
        for line in (1, 2)
    ]


def test_stream_maps_and_flattening_are_an_error_without_records(source: Source) -> None:
    source.put("in/a.jsonl", '{"id": 1, "place": {"x": 1.5}}\n')
    stream = {"path": f"s3://{source.bucket}/in/*.jsonl"}
    config = source.config(
        stream=stream,
        metadata_columns=False,
        batch_config=source.batches(),
        stream_maps={"rows": {"id": "id + 1"}},
        flattening_enabled=True,
        flattening_max_depth=1,
    )
    ran = source.run(config)
    assert source.rows(ran) == [{"id": 2, "place__x": Decimal("1.5")}]
    assert ran.stderr.count("RECORD messages are sent although batch_config is set: stream_maps") == 1
    removed = source.run(source.config(stream=stream, batch_config=source.batches(), stream_maps={"rows": None}))
    assert [m for m in removed.messages if m["type"] != "STATE"] == []
