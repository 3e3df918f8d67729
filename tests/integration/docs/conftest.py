"""Fixtures of the tests of documented commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deployed_pipeline import DEPLOY, Pipeline

from local_cloud import Cloud


@pytest.fixture
def shop(s3: Any, sqs: Any, bq: Any) -> Iterator[Any]:
    """Make the buckets that the pages name; remove them, and the datasets and the queues."""
    buckets = ("shop", "my-stage", "my-batches")
    for bucket in buckets:
        s3.create_bucket(Bucket=bucket)
    yield s3
    for dataset in ("raw", "redone"):
        bq.delete_dataset(dataset, delete_contents=True, not_found_ok=True)
    for url in sqs.list_queues(QueueNamePrefix="shop-events").get("QueueUrls", []):
        sqs.delete_queue(QueueUrl=url)
    for bucket in buckets:
        for found in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
            s3.delete_object(Bucket=bucket, Key=found["Key"])
        s3.delete_bucket(Bucket=bucket)


@pytest.fixture
def pipeline(cloud: Cloud, s3: Any, bq: Any, dataset: str, tmp_path: Path) -> Pipeline:
    """Return a copy of the folder of docs/deploy, with an object and a table of this test."""
    folder = tmp_path / "pipeline"
    folder.mkdir()
    for name in ("pipeline.yml", "pipeline-shards.yml", "tap.yml"):
        text = (DEPLOY / name).read_text()
        for bucket in ("source", "stage"):
            text = text.replace(f"s3://{bucket}/", f"s3://{bucket}/{dataset}/")
        (folder / name).write_text(text)
    made = Pipeline(folder, {**cloud.env, "TARGET_BIGQUERY_DATASET": dataset}, s3, bq, dataset)
    made.put("a", "04G,Lansdowne\n06A,Moton\n")
    return made
