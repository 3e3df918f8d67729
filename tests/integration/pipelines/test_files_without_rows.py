"""Days whose files have no row, or no value in any row: the table keeps the types of its columns."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forked_programs import ForkedPrograms
from killed_pipeline import Pipeline
from warehouses import RANK, Warehouse
from workbooks import xlsx

from local_cloud import Cloud

HEADER = ["id", "price"]
BODIES: dict[str, Callable[[list[list[Any]]], bytes]] = {
    "csv": lambda rows: "".join(",".join(map(str, row)) + "\n" for row in [HEADER, *rows]).encode(),
    "xlsx": lambda rows: xlsx({"Sheet": [HEADER, *rows]}),
    "jsonl": lambda rows: "".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in rows).encode(),
    "parquet": lambda rows: _parquet([dict(zip(HEADER, row, strict=True)) for row in rows]),
}
KINDS = {"bigquery": {"id": "INTEGER", "price": "FLOAT"}, "redshift": {"id": "bigint", "price": "double precision"}}


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("load_method", "on_drift", "file_format"),
    [
        ("overwrite", "evolve", "csv"),
        ("overwrite", "fail", "xlsx"),
        ("append-only", "evolve", "xlsx"),
        ("upsert", "fail", "csv"),
        ("append-only", "evolve", "jsonl"),
        ("append-only", "fail", "parquet"),
        ("overwrite", "evolve", "parquet"),
    ],
)
def test_a_day_without_rows_changes_no_column(
    cloud: Cloud,
    warehouse: Warehouse,
    s3: Any,
    bucket: str,
    tmp_path: Path,
    load_method: str,
    on_drift: str,
    file_format: str,
) -> None:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    stream: dict[str, Any] = {"name": "rows", "on_drift": on_drift, "load_method": load_method}
    stream |= {"overwrite": {"replication_method": "FULL_TABLE"}, "upsert": {"key_properties": ["id"]}}.get(
        load_method, {}
    )
    more = {"metadata_columns": False, "schema_sample_files": 1}
    pipe = Pipeline(
        ForkedPrograms(env, tmp_path),
        warehouse.program,
        [stream],
        bucket,
        tmp_path,
        file_mb=1,
        target=warehouse.config,
        **more,
    )

    def put(day: int, part: str, rows: list[list[Any]]) -> None:
        body = BODIES[file_format](rows)
        s3.put_object(Bucket=bucket, Key=f"in/{day}/{part}.{file_format}", Body=body)

    # On the last day the one sample has no value, and the other file has one
    empty: list[list[Any]] = [[None, None]] if file_format in ("jsonl", "parquet") else []
    for day, parts in enumerate([{"a": [[1, 1.5]]}, {"a": empty}, {"a": [[3, 3.5]], "b": empty}]):
        stream["path"] = f"s3://{bucket}/in/{day}/*"
        for part, rows in parts.items():
            put(day, part, rows)
        pipe.run_to_the_end(state=True)
        kept = {} if load_method == "overwrite" else {1: 1.5}
        expected = [{1: 1.5}, kept, {**kept, 3: 3.5}][day]
        found = warehouse.table()
        assert {row["id"]: row["price"] for row in found if row["id"] is not None} == expected
        assert sum(row["id"] is None for row in found) == len(empty) * (
            min(day, 1) if load_method == "overwrite" else day
        )
        assert {name: kind for name, kind in warehouse.columns("rows").items() if name != RANK} == KINDS[warehouse.name]
