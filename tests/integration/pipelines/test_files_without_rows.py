"""Days whose files have a header and no row: the table keeps the types of its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from killed_pipeline import Pipeline
from warehouses import RANK, Warehouse
from workbooks import xlsx

from local_cloud import Cloud
from local_cloud.programs import Programs

HEADER = ["id", "price"]
KINDS = {"bigquery": {"id": "INTEGER", "price": "FLOAT"}, "redshift": {"id": "bigint", "price": "double precision"}}


@pytest.mark.parametrize(
    ("load_method", "on_drift", "file_format"),
    [
        ("overwrite", "evolve", "csv"),
        ("overwrite", "fail", "xlsx"),
        ("append-only", "evolve", "xlsx"),
        ("upsert", "fail", "csv"),
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
        Programs(env, tmp_path),
        warehouse.program,
        [stream],
        bucket,
        tmp_path,
        file_mb=1,
        target=warehouse.config,
        **more,
    )

    def put(day: int, part: str, rows: list[list[Any]]) -> None:
        text = "".join(",".join(map(str, row)) + "\n" for row in [HEADER, *rows])
        body = text.encode() if file_format == "csv" else xlsx({"Sheet": [HEADER, *rows]})
        s3.put_object(Bucket=bucket, Key=f"in/{day}/{part}.{file_format}", Body=body)

    # On the last day the one sample has no row, and the file after it has one
    for day, parts in enumerate([{"a": [[1, 1.5]]}, {"a": []}, {"a": [[3, 3.5]], "b": []}]):
        stream["path"] = f"s3://{bucket}/in/{day}/*"
        for part, rows in parts.items():
            put(day, part, rows)
        pipe.run_to_the_end(state=True)
        kept = {} if load_method == "overwrite" else {1: 1.5}
        expected = [{1: 1.5}, kept, {**kept, 3: 3.5}][day]
        found = warehouse.table(order="id" + " " * day)
        assert {row["id"]: row["price"] for row in found} == expected
        assert {name: kind for name, kind in warehouse.columns("rows").items() if name != RANK} == KINDS[warehouse.name]
