"""kill -9 at ten random moments while a queue tells of the objects, then a run to the end: the rows are exact.

The messages of all objects come twice, in another order. Half of the reruns have lost the STATE. One object is large:
it makes many batch files, and an interrupted run goes on within it.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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
    name = f"kill-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)

    def upload(number: int) -> None:
        first = number * ROWS_EACH
        lines = "".join(f"{i},text of row {i},{i / 4}\n" for i in range(first, first + ROWS_EACH))
        s3.put_object(Bucket=name, Key=f"in/{number:05d}.csv", Body=f"id,name,score\n{lines}".encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(upload, range(OBJECTS)))
    ids = range(OBJECTS * ROWS_EACH, ROWS)
    columns = {"id": ids, "name": [f"text of row {i}" for i in ids], "score": [i / 4 for i in ids]}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=300)
    s3.put_object(Bucket=name, Key="in/large.parquet", Body=out.getvalue())
    return name


@pytest.fixture
def queue(sqs: Any, source: str) -> Iterator[str]:
    """A queue with two messages for each object, in no order."""
    url = sqs.create_queue(QueueName=f"kill-{uuid.uuid4().hex}")["QueueUrl"]
    keys = [*(f"in/{n:05d}.csv" for n in range(OBJECTS)), "in/large.parquet"] * 2
    random.Random(7).shuffle(keys)
    for first in range(0, len(keys), 10):
        entries = [{"Id": str(n), "MessageBody": event(source, key)} for n, key in enumerate(keys[first : first + 10])]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    yield url
    sqs.delete_queue(QueueUrl=url)


def event(bucket: str, key: str) -> str:
    told = {"bucket": {"name": bucket}, "object": {"key": key}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": told}]})


class Pipeline:
    """`tap-s3-files | target-...`, with the last STATE kept as Meltano keeps it."""

    def __init__(self, run: Programs, program: str, source: str, queue: str, stage: str, folder: Path) -> None:
        self._run, self._program, self._out = run, program, folder / "target-stdout"
        self._tap = {
            "streams": [{"name": "rows", "path": f"s3://{source}/in/*"}],
            "batch_config": {
                "encoding": {"format": "parquet"},
                "storage": {"root": f"s3://{stage}/batches"},
                "target_file_mb": 0.01,
            },
            "replication": {
                "method": "sqs",
                "queue_url": queue,
                "visibility_timeout": INVISIBLE,
                "max_wait_seconds": INVISIBLE + 1,
            },
        }
        self._target = {"max_batch_age_seconds": 0.3, "max_batch_mb": 0.05}
        self.state: dict[str, Any] | None = None

    def run(self, *, state: bool, kill: str = "", after: float = 0) -> None:
        """Run both to their end, or kill one after so many seconds."""
        known = {"state": self.state} if state and self.state else {}
        tap = self._start(self._run.command("tap-s3-files", config=self._tap, **known), stdin=subprocess.DEVNULL)
        command = self._run.command(self._program, config=["ENV", self._target])
        with self._out.open("wb") as out:
            target = self._start(command, stdin=tap.stdout, stdout=out)
        assert tap.stdout is not None
        tap.stdout.close()
        if kill:
            time.sleep(after)
            (tap if kill == "tap" else target).kill()
        with ThreadPoolExecutor(2) as pool:
            said = [e.decode(errors="replace") for e in pool.map(lambda p: p.stderr.read(), (tap, target))]
        codes = (tap.wait(60), target.wait(60))
        for process in (tap, target):
            assert process.stderr is not None
            process.stderr.close()
        assert kill or codes == (0, 0), "\n".join(said)[-8000:]
        for line in self._out.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                self.state = json.loads(line)

    def _start(self, command: list[str], **streams: Any) -> subprocess.Popen[bytes]:
        streams = {"stdout": subprocess.PIPE, **streams}
        return subprocess.Popen(command, stderr=subprocess.PIPE, env=self._run.env, **streams)


@pytest.mark.parametrize("warehouse", ["bigquery", pytest.param("redshift", marks=pytest.mark.soak)], indirect=True)
def test_kills_and_a_run(
    run: Programs, source: str, queue: str, bucket: str, sqs: Any, warehouse: Warehouse, tmp_path: Path
) -> None:
    chance = random.Random(warehouse.name)
    pipeline = Pipeline(run, warehouse.program, source, queue, bucket, tmp_path)
    for number in range(KILLS):
        after = chance.uniform(0.8, 4.0)
        pipeline.run(state=number % 2 == 0, kill=chance.choice(["tap", "target"]), after=after)
    pipeline.run(state=True)
    exact = warehouse.one("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(score * 4) AS total FROM {rows}")
    assert exact == (ROWS, ROWS, sum(range(ROWS)))
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    left = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    assert [int(left[n]) for n in names] == [0, 0]
