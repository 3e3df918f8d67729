"""Errors of real runs: what provokes them, and the lines that they end with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redshift_lines import RedshiftBatches
from singer_lines import Message, lines

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs, Ran
from singer_arrow.errors import SingerArrowError, with_code


def last_line(ran: Ran) -> str:
    """Return the last line of the log of a failed run."""
    assert ran.code == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr.splitlines()[-1]


def raised(action: Callable[[], object]) -> str:
    """Return the line for the error that a function raises."""
    with pytest.raises(SingerArrowError) as caught:
        action()
    return with_code(str(caught.value), caught.value.code)


@dataclass(frozen=True)
class Scene:
    """The local cloud, with a bucket, a dataset and a schema of this test, and faults that end with it."""

    run: Programs
    cloud: Cloud
    s3: Any
    bucket: str
    dataset: str
    schema: str
    folder: Path
    faults: FaultProxy

    def put(self, name: str, content: str | bytes, **options: Any) -> str:
        """Put an object into the bucket and return its URL."""
        data = content.encode() if isinstance(content, str) else content
        self.s3.put_object(Bucket=self.bucket, Key=name, Body=data, **options)
        return f"s3://{self.bucket}/{name}"

    def file(self, name: str, content: str | bytes) -> Path:
        """Write a local file."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def tap(self, *arguments: str | Path, env: dict[str, str] | None = None, **options: Any) -> str:
        """Run the tap and return the last line of its log."""
        return last_line(self.run("tap-s3-files", *arguments, env=env, **options))

    def tap_refused(self, status: int, code: str) -> str:
        """Run the tap while S3 answers each request with an error."""
        self.faults.set({"match": self.bucket, "action": "error", "status": status, "code": code})
        return self.tap(f"s3://{self.bucket}/in/*.csv", env={"AWS_ENDPOINT_URL": self.faults.url})

    def bigquery(self, *messages: Message, **settings: Any) -> str:
        """Run target-bigquery and return the last line of its log."""
        return last_line(self.run("target-bigquery", stdin=lines(messages), config=["ENV", settings]))

    def redshift(self, *messages: Message, **settings: Any) -> str:
        """Run target-redshift and return the last line of its log."""
        return last_line(self.run("target-redshift", stdin=lines(messages), config=["ENV", settings]))

    def batch(self, content: list[dict[str, Any]], **options: Any) -> Message:
        """Return the message of a batch file on S3."""
        return RedshiftBatches(self.s3, self.bucket, self.folder)(content, **options)
