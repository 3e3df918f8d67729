"""The SDK's test suite for taps, over the local Flight SQL server; and its rows once more, as batch files.

The suite asks for the streams while tests are collected. A catalog answers it, so that no server is needed then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flight_tap import Tap
from forked_programs import ForkedPrograms
from singer_sdk.testing import get_tap_test_class

from local_cloud import Cloud
from local_cloud.environment import FLIGHTSQL_PASSWORD
from local_cloud.flightsql.client import FlightSql
from singer_arrow.batch.files import read_file
from singer_arrow.records.validation import to_records
from singer_arrow.schema.json_schema import from_json_schema, to_json_schema
from singer_arrow.storage.store import Storage
from tap_flight_sql.stream import TapFlightSql

ROWS = 20
# The suite validates with floats, in which 0.07 is no multiple of 0.01, but quarters are.
QUERY = f"""
    SELECT i AS id, i % 2 = 0 AS good, i / 8 AS score, CAST(i AS DECIMAL(10, 2)) / 4 AS quarter,
           CAST(i / 4 AS DECIMAL(10, 2)) AS price, DATE '2024-05-01' + CAST(i AS INTEGER) AS day,
           TIMESTAMP '2024-05-01' + i * INTERVAL 1 SECOND AS "at", [i, i + 1] AS list,
           {{'x': i / 2, 'name': 'a'}} AS place, CASE WHEN i % 3 = 0 THEN NULL ELSE 'text ' || i END AS name,
           CAST('x' || i AS BLOB) AS raw
    FROM range({ROWS}) r(i)
"""
SCHEMA = pa.schema(
    [
        *(("id", pa.int64()), ("good", pa.bool_()), ("score", pa.float64()), ("price", pa.decimal128(10, 2))),
        *(("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))),
        *(("list", pa.list_(pa.int64())), ("place", pa.struct([("x", pa.float64()), ("name", pa.string())]))),
        *(("name", pa.string()), ("raw", pa.binary())),
    ]
)
STREAMS = [
    {"name": "keyed", "query": QUERY, "replication_key": "id", "key_properties": ["id"]},
    {"name": "whole", "query": QUERY, "key_properties": ["id"]},
]
CATALOG: dict[str, Any] = {
    "streams": [
        {
            "tap_stream_id": stream["name"],
            "schema": to_json_schema(SCHEMA, keys=["id"]),
            "key_properties": ["id"],
            "replication_key": stream.get("replication_key"),
            "metadata": [{"breadcrumb": [], "metadata": {"selected": True}}],
        }
        for stream in STREAMS
    ]
}
CONFIG: dict[str, Any] = {"uri": "grpc://127.0.0.1:1", "tls": False, "streams": STREAMS}


class TestTapFlightSql(get_tap_test_class(TapFlightSql, config=CONFIG, catalog=CATALOG, parse_env_config=False)):  # type: ignore[misc]
    """The SDK's tests."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def server(cls, flight_cloud: Cloud) -> Iterator[None]:
        server = flight_cloud.flightsql
        CONFIG.update(uri=server.uri, username=server.username, password=FLIGHTSQL_PASSWORD)
        yield
        server.statements()


def test_the_catalog_is_what_discovery_finds(flight: FlightSql, flight_cloud: Cloud, tmp_path: Path) -> None:
    tap = Tap(ForkedPrograms(flight_cloud.environ(), tmp_path), tmp_path / "batches")
    found = json.loads(tap(*STREAMS, discover=True).check().stdout)
    for stream, expected in zip(found["streams"], CATALOG["streams"], strict=True):
        properties = stream["schema"]["properties"]
        assert {n: properties[n] for n in expected["schema"]["properties"]} == expected["schema"]["properties"]


@pytest.mark.parametrize("encoding", [{"format": "parquet"}, {"format": "jsonl", "compression": "gzip"}], ids=str)
def test_batches_have_the_rows_of_the_records(
    encoding: dict[str, str], flight: FlightSql, flight_cloud: Cloud, tmp_path: Path
) -> None:
    tap = Tap(ForkedPrograms(flight_cloud.environ(), tmp_path), tmp_path / "batches")
    tap.batches["encoding"] = encoding
    batched, records = tap(*STREAMS).check(), tap(*STREAMS, records=True).check()
    schemas = {m["stream"]: m for m in records.of_type("SCHEMA")}
    assert {m["stream"]: m for m in batched.of_type("SCHEMA")} == schemas
    for name, message in schemas.items():
        schema = from_json_schema(message["schema"])
        found = [
            json.loads(json.dumps(record, default=_text))
            for batch in batched.of_type("BATCH")
            if batch["stream"] == name
            for url in batch["manifest"]
            for rows in read_file(Storage(), url, format=encoding["format"], schema=schema)
            for record in to_records(rows)
        ]
        expected = [m["record"] for m in records.of_type("RECORD") if m["stream"] == name]
        assert len(found) == ROWS
        assert found == expected


def _text(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)
