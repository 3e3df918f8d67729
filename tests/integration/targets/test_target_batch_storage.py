"""Batch files are read with credentials and endpoint from `batch_config`, as the SDK's targets do."""

from __future__ import annotations

import gzip
import json
from typing import Any

from local_cloud import Cloud
from local_cloud.programs import Programs


def test_batch_files_are_read_with_the_storage_parameters(
    cloud: Cloud, dataset: str, run: Programs, s3: Any, bucket: str, bq: Any
) -> None:
    s3.put_object(Bucket=bucket, Key="a.jsonl.gz", Body=gzip.compress(b'{"id": 1}\n'))
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    messages = [
        {"type": "SCHEMA", "stream": "rows", "schema": schema, "key_properties": []},
        {
            "type": "BATCH",
            "stream": "rows",
            "encoding": {"format": "jsonl", "compression": "gzip"},
            "manifest": [f"s3://{bucket}/a.jsonl.gz"],
        },
    ]
    lines = "".join(json.dumps(m) + "\n" for m in messages)
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "TARGET_BIGQUERY_BATCH_CONFIG"):
        run.env.pop(name, None)
    client = {"endpoint_url": cloud.s3_url, "region_name": "us-east-1"}
    params = {"key": "test", "secret": "testtesttest", "client_kwargs": client}
    batch_config = {"encoding": {"format": "jsonl"}, "storage": {"root": f"s3://{bucket}", "params": params}}
    ran = run("target-bigquery", config=["ENV", {"batch_config": batch_config}], stdin=lines).check()
    assert "testtesttest" not in ran.stderr
    assert [r["id"] for r in bq.query(f"SELECT id FROM `{dataset}.rows`").result()] == [1]
    wrong = {**batch_config, "storage": {**batch_config["storage"], "params": "testtesttest"}}  # type: ignore[dict-item]
    ran = run("target-bigquery", config=["ENV", {"batch_config": wrong}], stdin=lines)
    assert ran.code == 1
    assert "'batch_config.storage.params' must be an object, it is text" in ran.stderr
