"""Whole numbers that a column of floating point cannot hold, from CSV files into both warehouses."""

from __future__ import annotations

from typing import Any

import pytest
from warehouses import Warehouse

from local_cloud.programs import Programs

BAD = 2**53 + 1


@pytest.mark.smoke
def test_a_number_that_would_be_rounded_is_rescued(s3: Any, bucket: str, run: Programs, warehouse: Warehouse) -> None:
    s3.put_object(Bucket=bucket, Key="in/a.csv", Body=f"id,n\n1,0.5\n2,{BAD}\n3,{2**60}\n".encode())
    stream = {"name": "rows", "path": f"s3://{bucket}/in/*", "schema": {"n": "number"}, "on_bad_row": "rescue"}
    batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/stage"}}
    sent = run("tap-s3-files", config={"streams": [stream], "batch_config": batches, "metadata_columns": False})
    warehouse.load(sent.check().messages)
    rows = warehouse.query("SELECT id, n FROM {rows} ORDER BY id")
    assert [tuple(row.values()) for row in rows] == [(1, 0.5), (2, None), (3, float(2**60))]
    (rescued,) = warehouse.one("SELECT _sdc_rescued FROM {rows} WHERE id = 2")
    assert str(BAD) in str(rescued)
