"""kill -9 at random moments while a queue tells of the objects, then a run to the end: the rows are exact.

The messages of all objects come twice, in another order. Half of the reruns have lost the STATE. One object is large:
it makes many batch files, and an interrupted run goes on within it.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from killed_pipeline import LARGE_KEY, Pipeline, put_objects
from warehouses import Warehouse

from local_cloud.programs import Programs

OBJECTS, ROWS_EACH, LARGE = 200, 10, 6000
ROWS = OBJECTS * ROWS_EACH + LARGE
KILLS = 6
INVISIBLE = 3
"""Seconds after which the messages of a killed run come again."""


@pytest.fixture(scope="module")
def source(s3: Any) -> str:
    """A bucket of objects, shared by the tests, which only read it."""
    return put_objects(s3, OBJECTS, ROWS_EACH, range(OBJECTS * ROWS_EACH, ROWS))


@pytest.fixture
def queue(sqs: Any, source: str) -> Iterator[str]:
    """A queue with two messages for each object, in no order."""
    url = sqs.create_queue(QueueName=f"kill-{uuid.uuid4().hex}")["QueueUrl"]
    keys = [*(f"in/{n:05d}.csv" for n in range(OBJECTS)), f"in/{LARGE_KEY}"] * 2
    random.Random(7).shuffle(keys)
    for first in range(0, len(keys), 10):
        entries = [{"Id": str(n), "MessageBody": event(source, key)} for n, key in enumerate(keys[first : first + 10])]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    yield url
    sqs.delete_queue(QueueUrl=url)


def event(bucket: str, key: str) -> str:
    told = {"bucket": {"name": bucket}, "object": {"key": key}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": told}]})


@pytest.mark.parametrize("warehouse", ["bigquery", pytest.param("redshift", marks=pytest.mark.soak)], indirect=True)
def test_kills_and_a_run(
    run: Programs, source: str, queue: str, bucket: str, sqs: Any, warehouse: Warehouse, tmp_path: Path
) -> None:
    chance = random.Random(warehouse.name)
    streams = [{"name": "rows", "path": f"s3://{source}/in/*"}]
    told = {"queue_url": queue, "visibility_timeout": INVISIBLE, "max_wait_seconds": INVISIBLE + 1}
    pipeline = Pipeline(
        run,
        warehouse.program,
        streams,
        bucket,
        tmp_path,
        file_mb=0.01,
        target={"max_batch_mb": 0.05},
        replication={"method": "sqs", **told},
    )
    for number in range(KILLS):
        both = pipeline.start(state=number % 2 == 0)
        time.sleep(chance.uniform(0.8, 4.0))
        chance.choice(both).kill()
        pipeline.end(*both)
    pipeline.run_to_the_end(state=True)
    exact = warehouse.one("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(score * 4) AS total FROM {rows}")
    assert exact == (ROWS, ROWS, sum(range(ROWS)))
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    left = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    assert [int(left[n]) for n in names] == [0, 0]
