"""With `log_format: json` each line of each connector is JSON, of good runs and of failed ones, and has no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from flight_tap import Tap, numbers
from forked_programs import ForkedPrograms
from singer_lines import Batches, lines, record, schema, some_batches
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.flightsql.client import FlightSql
from local_cloud.programs import Ran

SECRET = "a-secret-that-no-line-may-have"


def logged(ran: Ran, *secrets: str) -> list[dict[str, Any]]:
    """Return the lines of standard error, and fail if one is no JSON or holds a secret."""
    found = [json.loads(line) for line in ran.stderr.splitlines()]
    assert all({"ts", "level", "message", "app_name"} <= line.keys() for line in found)
    assert not [secret for secret in secrets if secret in ran.stderr]
    return found


def metrics(found: list[dict[str, Any]]) -> set[str]:
    return {line["metric_info"]["metric"] for line in found if "metric_info" in line}


def test_lines_of_targets(warehouse: Warehouse, cloud: Cloud, batch: Batches, tmp_path: Path) -> None:
    env = {name: text for name, text in cloud.environ().items() if not name.startswith("TARGET_")}
    run = ForkedPrograms(env | {"AWS_SECRET_ACCESS_KEY": SECRET}, tmp_path)
    config = warehouse.config | {"log_format": "json"}
    secrets = (SECRET, str(config.get("password") or SECRET))
    good = run(warehouse.program, stdin=lines(some_batches(batch, 3)), config=config).check()
    found = logged(good, *secrets)
    assert any(line["message"].startswith("Loaded rows: 6 rows") for line in found)
    assert {"batches_left", "loads_left", "record_count", "batch_count"} <= metrics(found)
    failed = run(warehouse.program, stdin=lines([schema(), record(id=SECRET[:1])]), config=config)
    last = logged(failed, *secrets)[-1]
    assert (failed.code, last["level"]) == (1, "error")
    assert last["message"].endswith(" [data]")


@pytest.mark.parametrize("is_good", [True, False])
def test_lines_of_tap_flight_sql(is_good: bool, flight: FlightSql, flight_cloud: Cloud, tmp_path: Path) -> None:
    flight.execute(f"CREATE TABLE orders AS {numbers(10)}")
    env = flight_cloud.environ()
    query = "SELECT * FROM orders" if is_good else "SELECT * FROM gone"
    ran = Tap(ForkedPrograms(env, tmp_path), tmp_path)({"name": "orders", "query": query}, log_format="json")
    found = logged(ran, env["TAP_FLIGHT_SQL_PASSWORD"])
    assert ran.code == (0 if is_good else 1), ran.stderr
    if is_good:
        assert "batch_count" in metrics(found)
        return
    assert found[-1]["level"] == "error"
    assert found[-1]["message"].endswith("]")
