"""Whole numbers that a column of floating point cannot hold, from files into both warehouses."""

from __future__ import annotations

from typing import Any

import pytest
from warehouses import Warehouse

from local_cloud.programs import Programs

BAD = 2**53 + 1
BATCHES = {"encoding": {"format": "parquet"}}


@pytest.mark.smoke
def test_a_number_that_would_be_rounded_is_rescued(s3: Any, bucket: str, run: Programs, warehouse: Warehouse) -> None:
    s3.put_object(Bucket=bucket, Key="in/a.csv", Body=f"id,n\n1,0.5\n2,{BAD}\n3,{2**60}\n".encode())
    stream = {"name": "rows", "path": f"s3://{bucket}/in/*", "schema": {"n": "number"}, "on_bad_row": "rescue"}
    batches = {**BATCHES, "storage": {"root": f"s3://{bucket}/stage"}}
    sent = run("tap-s3-files", config={"streams": [stream], "batch_config": batches, "metadata_columns": False})
    warehouse.load(sent.check().messages)
    rows = warehouse.query("SELECT id, n FROM {rows} ORDER BY id")
    assert [tuple(row.values()) for row in rows] == [(1, 0.5), (2, None), (3, float(2**60))]
    (rescued,) = warehouse.one("SELECT _sdc_rescued FROM {rows} WHERE id = 2")
    assert str(BAD) in str(rescued)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_fractions_in_one_file_and_large_integers_in_another(
    s3: Any, bucket: str, run: Programs, warehouse: Warehouse, kind: str
) -> None:
    """What the column of fractions cannot hold goes to its variant of text, with all digits."""
    stream = {"name": "rows", "path": f"s3://{bucket}/in/*"}
    batches = {**BATCHES, "storage": {"root": f"s3://{bucket}/stage"}}
    files = {"a": ["0.1", "1e300"], "b": ["5", str(BAD), "9" * 25]}
    for name, numbers in files.items():
        line = '{{"file":"{}","n":{}}}' if kind == "jsonl" else "{},{}"
        lines = ["file,n"] if kind == "csv" else []
        lines += [line.format(name, number) for number in numbers]
        s3.put_object(Bucket=bucket, Key=f"in/{name}.{kind}", Body="\n".join([*lines, ""]).encode())
        sent = run("tap-s3-files", config={"streams": [stream], "batch_config": batches, "metadata_columns": False})
        warehouse.load(sent.check().messages)
    rows = [tuple(row.values()) for row in warehouse.query("SELECT file, n, n__string FROM {rows}")]
    whole = [("b", None, "5"), ("b", None, str(BAD)), ("b", None, "9" * 25)]
    assert sorted(rows, key=str) == sorted([("a", 0.1, None), ("a", 1e300, None), *whole], key=str)
