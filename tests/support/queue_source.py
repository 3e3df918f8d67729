"""A bucket whose events go to a queue, and the tap that reads them."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from forked_programs import ForkedPrograms
from tap_source import Source

from local_cloud import Cloud
from local_cloud.programs import Ran
from local_cloud.s3 import setup

WAIT = 1
"""Seconds after which an empty queue ends a run."""


class QueueSource(Source):
    """A bucket with event notifications to a queue, and a configuration of the tap that reads the queue."""

    def __init__(self, cloud: Cloud, s3: Any, sqs: Any, bucket: str, folder: Path) -> None:
        super().__init__(s3, bucket, ForkedPrograms(cloud.environ(), folder))
        self.sqs = sqs
        self.queue = setup.connect_queue(cloud.s3_url, bucket, f"queue-{uuid.uuid4().hex}")

    def send(self, *bodies: str | dict[str, Any]) -> None:
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=text)

    def event(self, *keys: str, name: str = "ObjectCreated:Put", encode: bool = True) -> dict[str, Any]:
        def record(key: str) -> dict[str, Any]:
            coded = quote_plus(key, safe="/") if encode else key
            location = {"bucket": {"name": self.bucket}, "object": {"key": coded, "size": 1, "eTag": "0"}}
            return {"eventSource": "aws:s3", "eventName": name, "s3": location}

        return {"Records": [record(key) for key in keys]}

    def event_bridge(self, key: str, kind: str = "Object Created") -> dict[str, Any]:
        detail = {"version": "0", "bucket": {"name": self.bucket}, "object": {"key": key, "size": 1, "etag": "0"}}
        return {"version": "0", "source": "aws.s3", "detail-type": kind, "detail": detail}

    def quiet(self) -> None:
        """Stop the bucket's notifications, and empty the queue."""
        self.s3.put_bucket_notification_configuration(Bucket=self.bucket, NotificationConfiguration={})
        self.sqs.purge_queue(QueueUrl=self.queue)

    def in_queue(self) -> tuple[int, int]:
        """Return the numbers of visible and invisible messages."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])

    def config(self, *, batches: bool = True, stream: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        replication = {"method": "sqs", "queue_url": self.queue, "max_wait_seconds": WAIT, **more.pop("sqs", {})}
        batch = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        streams = [{"name": "rows", "path": f"s3://{self.bucket}/in/**/*.csv", "schema": TYPES, **(stream or {})}]
        kind = {"batch_config": batch} if batches else {"plan_root": f"s3://{self.bucket}/stage"}
        return {"streams": streams, "replication": replication, "metadata_columns": False, **kind, **more}

    def ids(self, ran: Ran, stream: str = "rows") -> list[int]:
        """Return the ids in the messages of a stream, sorted."""
        return sorted(row["id"] for row in self.rows(ran, stream))

    def plans(self, stream: str = "rows") -> list[str]:
        found = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=f"stage/_plans/{stream}/").get("Contents", [])
        names = [o["Key"].rpartition("/")[2] for o in found]
        return [name for name in names if not name.startswith("log-")]


TYPES = {"id": "integer", "name": "string"}


def log_lines(ran: Ran, words: str) -> list[str]:
    return [line for line in ran.stderr.splitlines() if words in line]
