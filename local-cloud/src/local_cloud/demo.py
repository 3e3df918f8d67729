"""The demonstration: real files go from S3 into BigQuery by Meltano, are compared with their source, and go again.

Runs inside `local-cloud run --seed --`. What it shows is counted apart from the connectors: objects and batch files by
listing the buckets, load jobs and rows by asking BigQuery, the source's checksum by reading its files with Python's own
csv and json modules.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cloud.checksum import Checksum, of_source, of_table

STREAMS = ("flights", "weather", "planes", "airports", "airlines")
PIPELINE = ("tap-s3-files", "target-bigquery")


@dataclass(frozen=True)
class Stream:
    """What one stream amounts to, in the source and in the warehouse."""

    name: str
    objects: int
    bytes: int
    batch_files: int
    load_jobs: int
    table: Checksum
    source: Checksum


def main() -> int:
    """Run the demonstration; 0 if source and tables agree after every run."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:  # so that no state of an earlier demo is found
        shutil.copy("meltano.yml", folder)
        runs = (
            ("First run: everything", ()),
            ("Second run: nothing is new", ()),
            ("Third run, with the state thrown away: every batch is sent again, and recognised", ("--full-refresh",)),
        )
        good = True
        for title, options in runs:
            _say(f"\n== {title}\n   meltano run {' '.join((*options, *PIPELINE))}")
            started = time.monotonic()
            if code := _meltano(Path(folder), options):
                _say(f"FAILED: meltano ended with {code}")
                return 1
            good &= _report(time.monotonic() - started)
    _say("\nSource and tables agree, after each of the three runs." if good else "\nFAILED: source and tables differ")
    return 0 if good else 1


def _meltano(project: Path, options: tuple[str, ...]) -> int:
    """Run the pipeline, showing what the connectors say as they say it."""
    command = ["meltano", "--environment=local", "run", *options, *PIPELINE]
    environment = {**os.environ, "MELTANO_PROJECT_ROOT": str(project), "NO_COLOR": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            _, found, said = line.rstrip().partition("| ")
            _say(f"   {said if found else line.rstrip()}")
    return process.returncode


def _report(seconds: float) -> bool:
    streams = _measure()
    head = ("stream", "objects", "MB read", "batch files", "load jobs", "rows in S3", "rows in BigQuery", "checksum")
    rows = [
        (
            s.name,
            f"{s.objects:,}",
            f"{s.bytes / 1e6:.2f}",
            f"{s.batch_files:,}",
            f"{s.load_jobs:,}",
            f"{s.source.rows:,}",
            f"{s.table.rows:,}",
            f"{s.table.value:016x} {'ok' if s.table == s.source else f'DIFFERS, source {s.source.value:016x}'}",
        )
        for s in streams
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *middle, last = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        _say(f"   {first.strip():<{widths[0]}}  {'  '.join(middle)}  {last.strip()}")
    _say(f"   {sum(s.table.rows for s in streams):,} rows, {seconds:.1f} s with Meltano's own start")
    return all(s.table == s.source for s in streams)


def _measure() -> list[Stream]:
    import boto3

    client = _bigquery()
    source, stage = (
        boto3.resource("s3").Bucket(os.environ["LOCAL_CLOUD_SOURCE_BUCKET"]),
        boto3.resource("s3").Bucket(os.environ["LOCAL_CLOUD_STAGE_BUCKET"]),
    )
    jobs = [j for j in client.list_jobs(all_users=True) if j.job_type == "load" and not j.error_result]
    measured = []
    for name in STREAMS:
        objects = list(source.objects.filter(Prefix=f"{name}/"))
        table = client.get_table(f"{client.project}.{os.environ['TARGET_BIGQUERY_DATASET']}.{name}")
        measured.append(
            Stream(
                name=name,
                objects=len(objects),
                bytes=sum(o.size for o in objects),
                batch_files=sum(1 for _ in stage.objects.filter(Prefix=f"batches/{name}-")),
                load_jobs=sum(1 for j in jobs if j.destination.table_id == name),
                table=of_table(client, table),
                source=of_source(((o.key, o.get()["Body"].read()) for o in objects), table),
            )
        )
    return measured


def _bigquery() -> Any:
    from google.api_core.client_options import ClientOptions
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery

    return bigquery.Client(
        project=os.environ["TARGET_BIGQUERY_PROJECT"],
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call] # google.auth types its API in part
        client_options=ClientOptions(api_endpoint=os.environ["TARGET_BIGQUERY_API_ENDPOINT"]),
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
