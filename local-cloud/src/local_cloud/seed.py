"""The command `local-cloud seed`, which uploads the sample data to a bucket."""

import hashlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from local_cloud.sample.nycflights import SampleObject, sample_objects

UPLOADS_AT_ONCE = 8
PROGRESS_SECONDS = 1.0


def sample_tables() -> dict[str, int]:
    """Return the number of rows of each stream of the sample data."""
    return {"flights": 336_776, "weather": 26_115, "planes": 3_322, "airports": 1_458, "airlines": 16}


def seed(s3: Any, bucket: str, print_line: Callable[[str], None]) -> int:
    """Upload the sample data by a boto3 client, from several threads, and return the number of objects uploaded.

    Guarantees: keys and bytes are the same each time; an existing object with the same content keeps its time of
    modification. A line of progress is passed to the callback about once a second.
    """
    present: dict[str, str] = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        present |= {found["Key"]: found["ETag"].strip('"') for found in page.get("Contents", [])}

    def upload(sample: SampleObject) -> int:
        if present.get(sample.key) == hashlib.md5(sample.data, usedforsecurity=False).hexdigest():
            return 0
        s3.put_object(Bucket=bucket, Key=sample.key, Body=sample.data)
        return 1

    print_line("preparing the sample data (flights from New York City in 2013)")
    uploaded, printed = 0, time.monotonic()
    with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
        tasks = [pool.submit(upload, sample) for sample in sample_objects()]
        for number, task in enumerate(as_completed(tasks), 1):
            uploaded += task.result()
            if time.monotonic() - printed > PROGRESS_SECONDS or number == len(tasks):
                printed = time.monotonic()
                print_line(f"sample data: {number} of {len(tasks)} objects in s3://{bucket}")
    return uploaded


def print_on_stderr(line: str) -> None:
    """Print a line of progress on standard error, apart from a command's output."""
    sys.stderr.write(f"local-cloud: {line}\n")
    sys.stderr.flush()
