"""All statements sent to Redshift are documented, and no secret is in the target's output."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from redshift_rules import broken_rules
from singer_lines import Batches, Message, activate, lines, record, rows, schema, state
from sql_shapes import shape
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs

pytestmark = pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "redshift-sql.md"
COLUMNS = pa.schema(
    [
        *(("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(9, 2)), ("at", pa.timestamp("us", "UTC"))),
        *(("clock", pa.time64("us")), ("raw", pa.binary()), ("tags", pa.list_(pa.string()))),
    ]
)
LAYOUT = {"dist_key": "id", "sort_keys": ["at", "id"], "grants": {"select": ["public"]}}


def documented() -> set[str]:
    """Return the forms of all documented statements, the indented lines of the documentation."""
    return {shape(line) for line in DOCUMENTATION.read_text().splitlines() if line.startswith("    ")}


def content(first: int) -> list[dict[str, Any]]:
    values = {"price": Decimal("1.25"), "at": datetime(2026, 1, 1, tzinfo=UTC), "clock": time(1), "raw": b"x"}
    return [r | values | {"tags": ["a"], "name": r["name"] * 100} for r in rows(first, 3)]


def everything(batch: Batches, s3: Any, bucket: str) -> list[Message]:
    """Run with every kind of message and every way of staging."""
    messages: list[Message] = [schema()]
    for n, file_format in enumerate(("parquet", "jsonl")):
        message = batch(rows(10 * n, 3), file_format=file_format, batch_id=f"plain-{n}", version=1)
        path = Path(message["manifest"][0].removeprefix("file://"))
        s3.upload_file(str(path), bucket, path.name)
        messages += [message | {"manifest": [f"s3://{bucket}/{path.name}"]}, state(n)]
    messages += [record(id=30, name="x", version=1), activate(1), schema(columns=COLUMNS)]
    messages.append(batch(content(40), columns=COLUMNS, batch_id="wide", version=2))
    messages += [record(id=50, name="é" * 200, price=1.5, version=2), activate(2)]
    return [*messages, schema("only_keys", pa.schema([("id", pa.int64())])), record("only_keys", id=1), state(9)]


def test_every_statement_is_documented(
    warehouse: Warehouse, batch: Batches, s3: Any, bucket: str, cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    begin = f"SELECT 'begin {uuid.uuid4().hex}'"
    warehouse.run(begin)
    messages = everything(batch, s3, bucket)
    for settings in (
        {"load_method": "append-only", "add_record_metadata": True, **LAYOUT},
        {"load_method": "upsert", "hard_delete": True, "load_format": "csv"},
        {"load_method": "overwrite", "load_format": "jsonl"},
        {"load_method": "append-only", "replay": "load"},
    ):
        warehouse.load(messages, **settings)
    log = cloud.redshift_statements()  # of bounded length
    sent = [text for text in log[log.index(begin) + 1 :] if not text.startswith("LOCAL CLOUD")]
    assert len(sent) > 50
    known = documented()
    unknown = {shape(text): text for text in sent if shape(text) not in known}
    assert not unknown, json.dumps(unknown, indent=1)
    broken = {text: rules for text in sent if (rules := broken_rules(text))}
    assert not broken, json.dumps(broken, indent=1)
    kinds = {text.split()[0] for text in sent}
    assert {"COPY", "MERGE", "INSERT", "DELETE", "LOCK", "COMMIT", "ALTER", "GRANT", "UPDATE", "COMMENT"} <= kinds
    output = caplog.text
    assert cloud.env["AWS_SECRET_ACCESS_KEY"] not in output
    assert warehouse.config["password"] not in output


@pytest.mark.parametrize("bad", [False, True])
def test_no_secret_is_in_the_output_of_the_target(
    bad: bool, run: Programs, warehouse: Warehouse, batch: Batches, s3: Any, bucket: str, cloud: Cloud
) -> None:
    messages = everything(batch, s3, bucket)
    if bad:
        messages.insert(-1, record(id=60, name="é" * 40_000))
    ran = run("target-redshift", stdin=lines(messages), config=["ENV", {}], env={"LOG_LEVEL": "DEBUG"})
    assert ran.code == bad
    output = ran.stderr + ran.stdout
    for name in ("AWS_SECRET_ACCESS_KEY", "TARGET_REDSHIFT_PASSWORD"):
        assert cloud.env[name] not in output
