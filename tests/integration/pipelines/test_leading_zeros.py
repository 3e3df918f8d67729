"""Codes with leading zeros that come once a column is an integer: no zero is lost in a table."""

from __future__ import annotations

from typing import Any

from tap_source import Source, moment, state_of
from warehouses import Warehouse

from local_cloud.programs import Programs


def test_a_code_with_a_leading_zero_stays_text(s3: Any, bucket: str, tap: Programs, warehouse: Warehouse) -> None:
    source = Source(s3, bucket, tap)
    config = source.config(batch_config=source.batches(), schema_sample_files=1)  # the newest one
    source.put("in/1.csv", "id,zip\n1,10115\n", at=moment(0))
    first = source.run(config)
    warehouse.load(first.stdout)
    source.put("in/2.csv", "id,zip\n2,02134\n3,12345\n", at=moment(60))
    source.put("in/3.csv", "id,zip\n4,99999\n", at=moment(120))
    warehouse.load(source.run(config, state=state_of(first)).stdout)
    rows = [(row["id"], row["zip"], row.get("zip__string")) for row in warehouse.table()]
    assert rows == [(1, 10115, None), (2, None, "02134"), (3, None, "12345"), (4, None, "99999")]
