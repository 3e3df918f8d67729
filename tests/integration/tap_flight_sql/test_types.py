"""Values of each type of DuckDB arrive in both warehouses, from batch files and from records."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from flight_tap import Tap
from forked_programs import ForkedPrograms
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.flightsql.client import FlightSql
from local_cloud.programs import Programs

VALUES: dict[str, tuple[str, Any]] = {
    "tiny": ("-7::TINYINT", -7),
    "unsigned": ("4294967295::UINTEGER", 4294967295),
    "big": ("9223372036854775807::BIGINT", 2**63 - 1),
    "huge": ("18446744073709551615::UBIGINT", Decimal(2**64 - 1)),
    "real": ("0.5::REAL", 0.5),
    "double": ("1e300::DOUBLE", 1e300),
    "price": ("12345678.90::DECIMAL(12, 2)", Decimal("12345678.90")),
    "good": ("true", True),
    "day": ("DATE '2024-02-29'", date(2024, 2, 29)),
    "clock": ("TIME '23:59:59.999999'", time(23, 59, 59, 999999)),
    "plain_time": ("TIMESTAMP '2024-02-29 12:00:00.000001'", datetime(2024, 2, 29, 12, 0, 0, 1, UTC)),
    "zoned_time": ("TIMESTAMPTZ '2024-02-29 12:00:00+02'", datetime(2024, 2, 29, 10, tzinfo=UTC)),
    "milli_time": ("TIMESTAMP_MS '2024-02-29 12:00:00.5'", datetime(2024, 2, 29, 12, 0, 0, 500000, UTC)),
    "name": ("'é☃ quo\"ted'", 'é☃ quo"ted'),
    "kind": ("'b'::ENUM('a', 'b')", "b"),
    "raw": ("'\\x00\\xFF'::BLOB", b"\x00\xff"),
    "id_text": ("'0ae5b1cf-0e4f-4b1a-8a4f-3a1b4b5e0c11'::UUID", "0ae5b1cf-0e4f-4b1a-8a4f-3a1b4b5e0c11"),
    "nothing": ("NULL::INTEGER", None),
}


@pytest.mark.parametrize("records", [False, True], ids=["batch", "records"])
def test_types_arrive(
    records: bool, flight: FlightSql, flight_cloud: Cloud, run: Programs, warehouse: Warehouse, tmp_path: Path
) -> None:
    columns = ", ".join(f"{text} AS {name}" for name, (text, _) in VALUES.items())
    tap = Tap(ForkedPrograms(run.env | flight_cloud.env, tmp_path), tmp_path / "batches")
    ran = tap({"name": "rows", "query": f"SELECT 1 AS id, {columns}"}, records=records).check()
    run(warehouse.program, stdin=ran.stdout, config=["ENV", {}]).check()
    (row,) = warehouse.table("rows")
    assert {name: row[name] for name in VALUES} == {name: value for name, (_, value) in VALUES.items()}


def test_types_of_the_settings_replace_those_of_the_server(
    flight: FlightSql, flight_cloud: Cloud, tmp_path: Path
) -> None:
    tap = Tap(ForkedPrograms(flight_cloud.environ(), tmp_path), tmp_path / "batches")
    query = "SELECT 1 AS id, '2024-02-29' AS day, '12.50' AS price, 7 AS code, {'a': 1} AS place, '{\"b\": 2}' AS notes"
    types = {"day": "date", "price": "decimal(10,2)", "code": "string", "place": "json", "notes": "json"}
    stream = {"name": "rows", "query": query, "replication_key": "id", "schema": types}
    ran = tap(stream).check()
    (row,) = tap.table(ran).to_pylist()
    assert row == {
        "id": 1,
        "day": date(2024, 2, 29),
        "price": Decimal("12.50"),
        "code": "7",
        "place": '{"a":1}',
        "notes": '{"b": 2}',
    }
    (schema,) = (m["schema"]["properties"] for m in ran.of_type("SCHEMA"))
    assert (schema["day"]["format"], schema["price"]["multipleOf"]) == ("date", 0.01)
    assert {"object", "array"} <= set(schema["place"]["type"])


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ({"gone": "date"}, "setting 'schema' names 'gone', which is no column; there are id, name"),
        ({"name": "dat"}, "type 'dat' of column 'name' in the setting 'schema' is unknown; did you mean 'date'?"),
        ({"id": "string"}, "setting 'schema' names the replication key 'id', whose type is the server's"),
        ({"name": "integer"}, "endpoint 0, row 1, column 'name': 'x1' is not an integer"),
    ],
    ids=["column", "type", "key", "value"],
)
def test_types_that_make_no_sense_are_one_line(
    types: dict[str, str], text: str, flight: FlightSql, flight_cloud: Cloud, tmp_path: Path
) -> None:
    tap = Tap(ForkedPrograms(flight_cloud.environ(), tmp_path), tmp_path / "batches")
    query = "SELECT 1 AS id, 'x1' AS name"
    ran = tap({"name": "rows", "query": query, "replication_key": "id", "schema": types})
    assert ran.code == 1
    assert text in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
