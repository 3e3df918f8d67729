"""Values of each type of DuckDB arrive in both warehouses, from batch files and from records."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from flight_tap import Tap
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
    tap = Tap(Programs(run.env | flight_cloud.env, tmp_path), tmp_path / "batches")
    ran = tap({"name": "rows", "query": f"SELECT 1 AS id, {columns}"}, records=records).check()
    run(warehouse.program, stdin=ran.stdout, config=["ENV", {}]).check()
    (row,) = warehouse.table("rows")
    assert {name: row[name] for name in VALUES} == {name: value for name, (_, value) in VALUES.items()}
