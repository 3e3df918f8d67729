"""New tables get the partitions that the settings ask for, and rows arrive in them by each load method."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from singer_lines import Batches, Message, schema, state
from warehouses import Warehouse

from singer_arrow.errors import ConfigError, LoadError

COLUMNS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


@pytest.fixture
def warehouse(warehouse: Warehouse) -> Warehouse:
    if warehouse.name != "bigquery":
        pytest.skip("BigQuery's partitions")
    return warehouse


def lines(batch: Batches, run: int) -> list[Message]:
    rows = [{"id": n, "at": datetime(2024, 5, n + 1, tzinfo=UTC)} for n in range(run, run + 3)]
    sent: list[Message] = []
    for stream in ("ranges", "arrival", "times"):
        sent += [
            schema(stream, COLUMNS),
            batch(rows, columns=COLUMNS, stream=stream, batch_id=f"{stream}-{run}"),
            state(run),
        ]
    return [*sent, state(run)]


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
def test_partitions_of_new_tables(
    warehouse: Warehouse, batch: Batches, bq: Any, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    # the local service takes no MERGE of a table that requires a filter, unless a bound of it is on that column
    streams = {
        "ranges": {"partition_by": "id:range(0, 1000, 10)", "expiration_days": None},
        "arrival": {"partition_by": "_PARTITIONTIME:hour", "expiration_days": 36500},
        "times": {"partition_by": "at:month", "require_partition_filter": method != "upsert"},
    }
    for run in range(2):
        warehouse.load(lines(batch, run), load_method=method, expiration_days=20000, streams=streams)
    tables = {name: bq.get_table(f"{warehouse.schema}.{name}") for name in streams}
    cells = tables["ranges"].range_partitioning
    assert (cells.field, cells.range_.start, cells.range_.end, cells.range_.interval) == ("id", 0, 1000, 10)
    assert [bool(table.require_partition_filter) for table in tables.values()] == [False, False, method != "upsert"]
    times = {name: tables[name].time_partitioning for name in ("arrival", "times")}
    day = 86_400_000
    assert [(t.type_, t.field, t.expiration_ms) for t in times.values()] == [
        ("HOUR", None, 36500 * day),
        ("MONTH", "at", 20000 * day),
    ]
    expected = {"append-only": [0, 1, 1, 2, 2, 3], "upsert": [0, 1, 2, 3], "overwrite": [1, 2, 3]}[method]
    for name, where in (("ranges", "TRUE"), ("arrival", "TRUE"), ("times", "at > '2000-01-01'")):
        found = warehouse.run(f"SELECT id FROM {warehouse.quoted(name)} WHERE {where} ORDER BY id")
        assert [row["id"] for row in found] == expected, name
    assert "applies to new tables alone" not in caplog.text
    assert caplog.text.count("ranges has no partitions by time, so expiration_days does not apply to it") == 1


def test_a_range_needs_whole_numbers(warehouse: Warehouse, batch: Batches) -> None:
    with pytest.raises(ConfigError, match="names column 'at' of stream 'times', which is TIMESTAMP, not INTEGER"):
        warehouse.load(lines(batch, 0), streams={"times": {"partition_by": "at:range(0, 10, 1)"}})


def test_more_partitions_than_a_job_may_write_are_one_line(
    warehouse: Warehouse, batch: Batches, fail_jobs: Any
) -> None:
    refused = "Too many partitions produced by query, allowed 4000, query produces at least 4001 partitions"
    fail_jobs({"job": "load", "match": warehouse.schema, "reason": "invalid", "message": refused})
    with pytest.raises(LoadError, match=f"{refused}.*; let partition_by have larger ones, or let each run") as caught:
        warehouse.load(lines(batch, 0), partition_by="at:day")
    assert "\n" not in str(caught.value)
