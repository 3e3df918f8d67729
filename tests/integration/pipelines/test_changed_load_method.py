"""Rows that another load method brought, and a run that appends the whole stream to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from killed_pipeline import Pipeline
from singer_lines import COLUMNS, Batches, rows, schema, state
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs

WARNED = "its table has rows that overwrite, upsert, RECORD messages or another tool brought"


@pytest.mark.parametrize(
    ("before", "stream"),
    [
        ("overwrite", {}),
        ("overwrite", {"replication_method": "FULL_TABLE"}),
        ("upsert", {"key_properties": ["id"]}),
    ],
)
def test_a_whole_stream_that_is_appended_to_such_rows_is_named(
    cloud: Cloud, warehouse: Warehouse, s3: Any, bucket: str, tmp_path: Path, before: str, stream: dict[str, Any]
) -> None:
    s3.put_object(Bucket=bucket, Key="in/a.csv", Body=b"id,name\n1,a\n2,b\n")
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")

    def run(load_method: str, **more: Any) -> str:
        source = {"name": "rows", "path": f"s3://{bucket}/in/*.csv", **more}
        target = warehouse.config | {"load_method": load_method}
        pipe = Pipeline(
            Programs(env, tmp_path), warehouse.program, [source], bucket, tmp_path, file_mb=1, target=target
        )
        log = pipe.end(*(both := pipe.start(state=False)))[1]
        assert [process.returncode for process in both] == [0, 0], log
        return log

    assert WARNED not in run(before, **stream)
    again = run("append-only")
    recognises = (before, warehouse.name) == ("upsert", "redshift")  # whose ledger has the batches of an upsert
    assert len(warehouse.table()) == (2 if recognises else 4)
    assert (WARNED in again) is not recognises
    # Batches that were appended are recognised
    assert WARNED not in run("append-only")
    assert len(warehouse.table()) == (2 if recognises else 4)


def test_rows_that_batches_brought_are_not_named(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those of this run, before the SCHEMA changes."""
    plan_log = {"plan_log": {"log": "log", "source": "source", "has_state": False}}
    wider = schema(columns=COLUMNS.append(pa.field("more", pa.int64())))
    run = [schema(), batch(rows(0, 2), batch_id="a") | plan_log, state(1)]
    warehouse.load([*run, wider, batch(rows(2, 2), batch_id="b") | plan_log, state(2)])
    warehouse.load([*run, batch(rows(4, 2), batch_id="c") | plan_log])
    assert [row["id"] for row in warehouse.table()] == [*range(6)]
    assert WARNED not in caplog.text
