"""Values of all flat types, from Parquet through each kind of message into both warehouses."""

from __future__ import annotations

import io
import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import parquet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tap_runs import MESSAGES
from typed_values import TEXTS, decimals, integers
from warehouses import Warehouse

from tap_s3_files.tap import TapS3Files

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "small": (pa.int16(), integers(16)),
    "whole": (pa.int64(), integers(64)),
    "positive": (pa.uint32(), integers(32, signed=False)),
    "share": (pa.float64(), st.floats(allow_subnormal=False)),
    "yes": (pa.bool_(), st.booleans()),
    "price": (pa.decimal128(12, 2), decimals(12, 2)),
    "exact": (pa.decimal128(28, 9), decimals(28, 9)),
    "name": (pa.string(), TEXTS.map(lambda text: text.replace("\0", ""))),
    "raw": (pa.binary(), st.binary(max_size=40)),
    "day": (pa.date32(), st.dates(date(1, 1, 1))),
    "clock": (pa.time64("us"), st.times()),
    "at": (pa.timestamp("us", "UTC"), st.datetimes(datetime(1, 1, 1), timezones=st.just(UTC))),  # noqa: DTZ001
}
ROWS = st.lists(st.fixed_dictionaries({n: st.one_of(st.none(), v) for n, (_, v) in COLUMNS.items()}), max_size=20)


@pytest.mark.parametrize("messages", MESSAGES)
@settings(
    max_examples=settings.default.max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=ROWS)
def test_the_tables_hold_what_the_file_holds(
    messages: str,
    s3: Any,
    bucket: str,
    warehouse: Warehouse,
    capsys: pytest.CaptureFixture[str],
    rows: list[dict[str, Any]],
) -> None:
    name = f"t{uuid.uuid4().hex}"
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]
    schema = pa.schema([("id", pa.int64()), *((n, t) for n, (t, _) in COLUMNS.items())])
    content = parquet(pa.Table.from_pylist(numbered, schema))
    s3.put_object(Bucket=bucket, Key=f"{name}/a.parquet", Body=content)
    config: dict[str, Any] = {
        "streams": [{"name": name, "path": f"s3://{bucket}/{name}/*.parquet"}],
        "metadata_columns": False,
    }
    if messages != "records":
        storage = {"root": f"s3://{bucket}/stage/{name}"}
        config["batch_config"] = {"encoding": {"format": messages}, "storage": storage}
    capsys.readouterr()
    TapS3Files(config=config).sync_all()
    running = warehouse.target(config=dict(warehouse.config))
    running.listen(io.StringIO(capsys.readouterr().out))
    running.run.close()
    found = [{n: _plain(row[n]) for n in ("id", *COLUMNS)} for row in warehouse.table(name)]
    expected = [{n: _plain(v, in_json=messages != "parquet") for n, v in row.items()} for row in numbered]
    assert found == expected


def _plain(value: Any, *, in_json: bool = False) -> Any:
    """Return a form that is equal for equal values; JSON has no infinite floats."""
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) or not in_json else None
    if isinstance(value, Decimal):
        return value.normalize() if value else Decimal(0)
    if isinstance(value, time | datetime):
        return value.isoformat()
    return bytes(value) if isinstance(value, memoryview) else value
