"""A bucket that the tap reads, and access to the rows in its messages."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from local_cloud.programs import Programs, Ran
from local_cloud.s3.persistence import METADATA as MODIFIED


def moment(number: int) -> datetime:
    """Return a time of change in whole seconds, the resolution of S3.

    Two objects have an order only if these differ.
    """
    return datetime(2024, 5, 1, 10, tzinfo=UTC) + timedelta(seconds=number)


class TapBucket:
    """A bucket, and the tap that reads it."""

    def __init__(self, s3: Any, bucket: str, tap: Programs) -> None:
        self.s3, self.bucket, self.tap = s3, bucket, tap

    def put(self, key: str, body: str | bytes, *, at: datetime | None = None) -> None:
        """Put an object, changed now or at a given time."""
        metadata = {MODIFIED: at.isoformat()} if at else {}
        data = body.encode() if isinstance(body, str) else body
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=data, Metadata=metadata)


class Source(TapBucket):
    """A bucket with CSV objects, and a configuration of the tap that reads them."""

    def csv(self, key: str, first: int, rows: int = 10, *, at: datetime | None = None) -> None:
        self.put(key, "id,name\n" + "".join(f"{n},name {n}\n" for n in range(first, first + rows)), at=at)

    def config(self, **more: Any) -> dict[str, Any]:
        stream = {"name": "rows", "path": f"s3://{self.bucket}/in/**/*.csv", **more.pop("stream", {})}
        return {"streams": [stream], **more}

    def batches(self, file_mb: float = 128, **encoding: Any) -> dict[str, Any]:
        return {
            "encoding": {"format": "parquet", **encoding},
            "storage": {"root": f"s3://{self.bucket}/stage"},
            "target_file_mb": file_mb,
        }

    def run(self, config: dict[str, Any] | None = None, **options: Any) -> Ran:
        return self.tap("tap-s3-files", config=config or self.config(batch_config=self.batches()), **options).check()

    def rows(self, ran: Ran, stream: str = "rows") -> list[dict[str, Any]]:
        """Return the rows in the messages of a stream, in order, for RECORD and BATCH."""
        rows: list[dict[str, Any]] = []
        for message in (json.loads(line, parse_float=Decimal) for line in ran.stdout.splitlines()):
            if message.get("stream") == stream and message["type"] == "RECORD":
                rows.append(message["record"])
            if message.get("stream") == stream and message["type"] == "BATCH":
                rows += self.read(message)
        return rows

    def read(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a BATCH message."""
        return [row for url in message["manifest"] for row in self._read(url, message["encoding"])]

    def _read(self, url: str, encoding: dict[str, str]) -> list[dict[str, Any]]:
        body = self.s3.get_object(Bucket=self.bucket, Key=url.removeprefix(f"s3://{self.bucket}/"))["Body"].read()
        if encoding["format"] == "parquet":
            rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(body)).to_pylist()
            return rows
        text = gzip.decompress(body) if encoding.get("compression") == "gzip" else body
        return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def state_of(ran: Ran) -> dict[str, Any]:
    state: dict[str, Any] = ran.of_type("STATE")[-1]["value"]
    return state


def ids_of(ran: Ran) -> list[str]:
    return [m["batch_id"] for m in ran.of_type("BATCH")]
