"""Files with different schemas, and files that are batch files already, from S3 into both warehouses."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest
from file_bytes import parquet_of
from warehouses import Warehouse

from local_cloud.programs import Programs, Ran


class Source:
    """A bucket, and the tap that reads it."""

    def __init__(self, s3: Any, bucket: str, run: Programs) -> None:
        self.s3, self.bucket, self._run = s3, bucket, run

    def put(self, key: str, body: str | bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=f"in/{key}", Body=body if isinstance(body, bytes) else body.encode())

    def run(self, stream: dict[str, Any] | None = None, **config: Any) -> Ran:
        one = {"name": "rows", "path": f"s3://{self.bucket}/in/*", **(stream or {})}
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        given = {
            "streams": [one],
            "batch_config": batches,
            "metadata_columns": False,
            "schema_sample_files": 1,
            **config,
        }
        return self._run("tap-s3-files", config=given).check()


@pytest.fixture
def source(s3: Any, bucket: str, run: Programs) -> Source:
    return Source(s3, bucket, run)


@pytest.mark.smoke("bigquery")
def test_new_columns_and_bad_rows_arrive(source: Source, warehouse: Warehouse) -> None:
    """The schema is from the newest file; older files have another column and a malformed line."""
    source.put("1.csv", "id,more\n1,1.5\n2,\n")
    source.put("2.jsonl", '{"id": 3, "n": 6}\n{"id": 4, "n"\n')
    source.put("3.parquet", parquet_of(id=[5], n=[7]))
    ran = source.run({"on_bad_row": "rescue"})
    assert {tuple(m["schema"]["properties"]) for m in ran.of_type("SCHEMA")} >= {("id", "n", "_sdc_rescued")}
    warehouse.load(ran.messages)
    rows = warehouse.query("SELECT id, n, more FROM {rows} WHERE id IS NOT NULL ORDER BY id")
    assert [(r["id"], r["n"], r["more"]) for r in rows] == [
        (1, None, 1.5),
        (2, None, None),
        (3, 6, None),
        (5, 7, None),
    ]
    (bad,) = warehouse.query("SELECT _sdc_rescued AS bad FROM {rows} WHERE id IS NULL")
    rescued = json.loads(bad["bad"]) if isinstance(bad["bad"], str) else bad["bad"]
    assert rescued["_raw"] == '{"id": 4, "n"'
    assert re.search(r"Read rows: 5 rows .* in 1 batch file, [\d.]+ s; 1 row rescued", ran.stderr)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_objects_that_are_batch_files_already_are_loaded_where_they_are(
    kind: str, source: Source, warehouse: Warehouse
) -> None:
    rows = [{"id": n, "name": f"née {n}"} for n in range(50)]
    for number, some in enumerate((rows[:20], rows[20:])):
        lines = "".join(json.dumps(r) + "\n" for r in some)
        table = parquet_of(id=[r["id"] for r in some], name=[r["name"] for r in some])
        source.put(
            f"{number}.{kind}" + ".gz" * (kind == "jsonl"),
            table if kind == "parquet" else gzip.compress(lines.encode()),
        )
    batches = {"encoding": {"format": kind}, "storage": {"root": f"s3://{source.bucket}/stage"}}
    ran = source.run(passthrough=True, batch_config=batches)
    (batch,) = ran.of_type("BATCH")
    assert [url.rpartition("/")[2][:1] for url in batch["manifest"]] == ["0", "1"]
    assert ran.of_type("STATE")[-1]["value"]["bookmarks"]["rows"]["batch"] == batch["batch_id"]
    stage = source.s3.list_objects_v2(Bucket=source.bucket, Prefix="stage/")["Contents"]
    names = sorted(found["Key"].rpartition("/")[2] for found in stage)
    assert names == ["000000.json", "log-000000.json"]
    for _ in range(2):  # the second run has seen it already
        warehouse.load(ran.messages)
        assert [(r["id"], r["name"]) for r in warehouse.table()] == [(r["id"], r["name"]) for r in rows]
