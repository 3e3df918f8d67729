"""Fixtures of the tests of documented commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


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
