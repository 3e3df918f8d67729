"""Values of all flat types, from Parquet through each kind of message into both warehouses."""

from __future__ import annotations

import gzip
import io
import json
import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import exact_values
import pyarrow as pa
import pytest
from file_bytes import parquet
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from singer_lines import batch_of
from tap_runs import MESSAGES
from typed_values import TEXTS, decimals, integers
from warehouses import Warehouse

from singer_arrow.errors import SingerArrowError
from tap_s3_files.tap import TapS3Files
from target_bigquery import types as bigquery
from target_redshift import types as redshift

EXACT: dict[str, Any] = {"bigquery": {}, "redshift": {"nul_text": "fail"}}
RULES = {"bigquery": bigquery.RULES, "redshift": redshift.RULES}

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


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "messages"])
@settings(
    max_examples=settings.default.max_examples // 10,
    derandomize=settings.default.max_examples < 100,  # chance is for long runs
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_each_value_arrives_exactly_or_its_row_is_refused(
    form: str,
    s3: Any,
    bucket: str,
    warehouse: Warehouse,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    data: st.DataObject,
) -> None:
    kinds, rows = data.draw(exact_values.tables(), "table")
    messages = data.draw(st.sampled_from(MESSAGES), "messages")
    on_bad_row = data.draw(st.sampled_from(["fail", "skip", "rescue"]), "on_bad_row of the tap")
    rejects = data.draw(st.sampled_from(["fail", "dead_letter"]), "on_bad_row of the target")
    name = f"t{uuid.uuid4().hex}"
    refused: SingerArrowError | None = None
    if form == "messages":
        schema, records = exact_values.foreign(kinds, rows)
        expected = rows
        lines = json.dumps({**schema, "stream": name}) + "\n"
        if messages == "records":
            lines += "".join(f'{{"type": "RECORD", "stream": "{name}", "record": {record}}}\n' for record in records)
        else:
            path = tmp_path / f"{name}.jsonl.gz"
            path.write_bytes(gzip.compress("".join(f"{record}\n" for record in records).encode()))
            lines += json.dumps(batch_of(path.as_uri(), "jsonl", name)) + "\n"
    else:
        content, expected = exact_values.FILES[form](kinds, rows)
        s3.put_object(Bucket=bucket, Key=f"{name}/a.{form}", Body=content)
        config: dict[str, Any] = {
            "streams": [{"name": name, "path": f"s3://{bucket}/{name}/*", "on_bad_row": on_bad_row}],
            "metadata_columns": False,
        }
        if messages != "records":
            storage = {"root": f"s3://{bucket}/stage/{name}"}
            config["batch_config"] = {"encoding": {"format": messages}, "storage": storage}
        capsys.readouterr()
        try:
            TapS3Files(config=config).sync_all()
        except SingerArrowError as error:
            refused = error
        lines = capsys.readouterr().out
    if refused is None:
        try:
            warehouse.load(lines, on_bad_row=rejects, **EXACT[warehouse.name])
        except SingerArrowError as error:
            refused = error
    if refused is not None:
        event("refused")
        assert "\n" not in str(refused)
        assert any(map(exact_values.is_odd, expected)), refused
        return
    found = {int(row["id"]): row for row in warehouse.table(name)}
    properties: dict[str, Any] = {}
    for message in map(json.loads, lines.split("\n")[:-1]):
        properties |= message["schema"]["properties"] if message["type"] == "SCHEMA" else {}
    for row in expected:
        there = found.pop(int(row["id"]), None)
        if there is None:
            event("set aside")
            assert exact_values.is_odd(row), f"lost {row}"
        else:
            event("arrived")
            wrong = exact_values.differences(row, there, properties, RULES[warehouse.name], text=form == "csv")
            assert not wrong, wrong
    assert not found


def _plain(value: Any, *, in_json: bool = False) -> Any:
    """Return a form that is equal for equal values; JSON has no infinite floats."""
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) or not in_json else None
    if isinstance(value, Decimal):
        return value.normalize() if value else Decimal(0)
    if isinstance(value, time | datetime):
        return value.isoformat()
    return bytes(value) if isinstance(value, memoryview) else value
