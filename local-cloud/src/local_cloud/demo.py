"""The demonstration: real files go from S3 into BigQuery by Meltano, are compared with their source, and go again.

Runs inside `local-cloud run --seed --`. What it shows is counted apart from the connectors: objects and batch files by
listing the buckets, load jobs and rows by asking BigQuery, the source's checksum by reading its files with Python's own
csv and json modules.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cloud.checksum import Checksum, of_source, of_table

# What Meltano and the SDK say at each start, and metrics, which the connectors' own lines say better.
_CHATTER = re.compile(r"METRIC|Parsing|Skipping parse|Meltano SDK|Beginning sync|completed processing|state backend")
_SECONDS = re.compile(
    r" (?:Loaded: )?(?P<stream>\w+): .*?(?:seconds=|batch files, )(?P<seconds>[\d.]+)"
)  # of the connectors' last lines
_LINE = re.compile(r"\S+Z \[(?P<level>\w+) *\] (?P<who>[\w-]+) +(?P<said>.*)")
STREAMS = ("flights", "weather", "planes", "airports", "airlines")
PIPELINE = ("tap-s3-files", "target-bigquery")
HEAD = (
    "stream",
    "objects",
    "bytes",
    "batch files",
    "load jobs",
    "rows in S3",
    "rows in BigQuery",
    "seconds",
    "checksum of all rows",
)


@dataclass(frozen=True)
class Source:
    """What one stream amounts to in the bucket."""

    objects: int
    bytes: int
    checksum: Checksum


def main() -> int:
    """Run the demonstration; 0 if source and tables agree after every run."""
    runs = (
        ("First run: everything", ()),
        ("Second run: nothing is new", ()),
        ("Third run, with the state thrown away: every batch is sent again, and recognised", ("--full-refresh",)),
    )
    sources: dict[str, Source] = {}
    good = True
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:  # so that no state of an earlier demo is found
        shutil.copy("meltano.yml", folder)
        for title, options in runs:
            _say(f"\n== {title}\n   meltano run {' '.join((*options, *PIPELINE))}")
            started = time.monotonic()
            code, busy = _meltano(Path(folder), options)
            if code:
                _say(f"FAILED: meltano ended with {code}")
                return 1
            good &= _report(sources, busy, time.monotonic() - started)
    _say("\nSource and tables agree, after each of the three runs." if good else "\nFAILED: source and tables differ")
    return 0 if good else 1


def _meltano(project: Path, options: tuple[str, ...]) -> tuple[int, dict[str, float]]:
    """Run the pipeline, showing what is said as it is said; its exit code, and the connectors' seconds by stream."""
    busy: dict[str, float] = {}
    command = ["meltano", "--environment=local", "run", *options, *PIPELINE]
    environment = {**os.environ, "MELTANO_PROJECT_ROOT": str(project), "NO_COLOR": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            found, seconds = _LINE.match(line), _SECONDS.search(line)
            if seconds:
                busy[seconds["stream"]] = busy.get(seconds["stream"], 0) + float(seconds["seconds"])
            if not _CHATTER.search(line):
                _say(f"   {found['who']:>15} | {found['said']}" if found else f"   {line.rstrip()}")
    return process.returncode, busy


def _report(sources: dict[str, Source], busy: Mapping[str, float], seconds: float) -> bool:
    """Show what there is now, and compare it with the source, which is read once."""
    import boto3

    client = _bigquery()
    bucket, stage = (boto3.resource("s3").Bucket(os.environ[f"LOCAL_CLOUD_{b}_BUCKET"]) for b in ("SOURCE", "STAGE"))
    jobs = [j for j in client.list_jobs(all_users=True) if j.job_type == "load" and not j.error_result]
    rows: list[tuple[str, ...]] = [HEAD]
    good, total = True, 0
    for name in STREAMS:
        table = client.get_table(f"{client.project}.{os.environ['TARGET_BIGQUERY_DATASET']}.{name}")
        source = sources.get(name) or sources.setdefault(name, _source(bucket, name, table))
        arrived = of_table(client, table)
        good &= arrived == source.checksum
        total += arrived.rows
        batch_files = sum(1 for _ in stage.objects.filter(Prefix=f"batches/{name}-"))
        load_jobs = sum(1 for j in jobs if j.destination.table_id == name)
        verdict = "ok" if arrived == source.checksum else f"DIFFERS: {source.checksum.value:x}"
        counts = (source.objects, source.bytes, batch_files, load_jobs, source.checksum.rows, arrived.rows)
        rows.append((name, *(f"{n:,}" for n in counts), f"{busy.get(name, 0):.1f}", f"{arrived.value:x} {verdict}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        _say(f"   {first:<{widths[0]}}  {'  '.join(cells)}")
    _say(f"   {total:,} rows in BigQuery; {seconds:.1f} s, of which Meltano's own start takes several")
    return good


def _source(bucket: Any, name: str, table: Any) -> Source:
    _say(f"   (reading {name} from S3 once more, by Python's own csv and json, to compare)")
    objects = list(bucket.objects.filter(Prefix=f"{name}/"))
    checksum = of_source(((o.key, o.get()["Body"].read()) for o in objects), table)
    return Source(len(objects), sum(o.size for o in objects), checksum)


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
