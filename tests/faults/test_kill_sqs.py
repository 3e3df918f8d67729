"""kill -9 at random moments while a queue announces the objects, then a complete run: the rows are exact.

The messages of all objects come twice, in another order. Half of the reruns have lost the STATE. One object is large:
it makes many batch files, and an interrupted run is resumed within it. `make soak` has more objects and kills.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from killed_pipeline import LARGE_KEY, Pipeline, put_objects
from warehouses import Warehouse

from local_cloud.programs import Programs

ROWS_EACH, LARGE_ROWS = 10, 3000
INVISIBLE = 3
"""Seconds after which the messages of a killed run are visible again."""

QueueOf = Callable[[int], tuple[str, str]]


def event(bucket: str, key: str) -> str:
    created = {"bucket": {"name": bucket}, "object": {"key": key}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": created}]})


@pytest.fixture
def queue_of(s3: Any, sqs: Any) -> Iterator[QueueOf]:
    """Returns a bucket of objects, and a queue with two messages for each, in random order."""
    url = sqs.create_queue(QueueName=f"kill-{uuid.uuid4().hex}")["QueueUrl"]

    def fill(objects: int) -> tuple[str, str]:
        small_rows = objects * ROWS_EACH
        bucket = put_objects(s3, objects, ROWS_EACH, range(small_rows, small_rows + LARGE_ROWS))
        keys = [*(f"in/{n:05d}.csv" for n in range(objects)), f"in/{LARGE_KEY}"] * 2
        random.Random(7).shuffle(keys)
        for first in range(0, len(keys), 10):
            sent = enumerate(keys[first : first + 10])
            entries = [{"Id": str(n), "MessageBody": event(bucket, key)} for n, key in sent]
            sqs.send_message_batch(QueueUrl=url, Entries=entries)
        return bucket, url

    yield fill
    sqs.delete_queue(QueueUrl=url)


@pytest.mark.parametrize(
    ("warehouse", "objects", "kills"),
    [
        ("bigquery", 50, 3),
        pytest.param("bigquery", 200, 6, marks=pytest.mark.soak),
        pytest.param("redshift", 200, 6, marks=pytest.mark.soak),
    ],
    indirect=["warehouse"],
)
def test_kills_and_a_run(
    objects: int,
    kills: int,
    cold: Programs,
    queue_of: QueueOf,
    bucket: str,
    sqs: Any,
    warehouse: Warehouse,
    tmp_path: Path,
) -> None:
    chance = random.Random(warehouse.name)
    source, queue = queue_of(objects)
    streams = [{"name": "rows", "path": f"s3://{source}/in/*"}]
    messages = {"queue_url": queue, "visibility_timeout": INVISIBLE, "max_wait_seconds": INVISIBLE + 1}
    pipeline = Pipeline(
        cold,
        warehouse.program,
        streams,
        bucket,
        tmp_path,
        file_mb=0.01,
        target={"max_batch_mb": 0.05},
        replication={"method": "sqs", **messages},
    )
    for number in range(kills):
        both = pipeline.start(state=number % 2 == 0)
        time.sleep(chance.uniform(0.8, 4.0))
        chance.choice(both).kill()
        pipeline.end(*both)
    pipeline.run_to_the_end(state=True)
    exact = warehouse.one("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(score * 4) AS total FROM {rows}")
    rows = objects * ROWS_EACH + LARGE_ROWS
    assert exact == (rows, rows, sum(range(rows)))
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    left = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    assert [int(left[n]) for n in names] == [0, 0]
