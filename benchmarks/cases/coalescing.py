"""A hundred small batch files of one stream, as tap-s3-files sends them: how many load jobs, and what they cost.

BATCH messages with ids, of 100 Parquet files with 1,000 taxi trips each. One each is target-bigquery with groups of one
file, as targets load that do not gather; joined is its default, one file for the load job; with gcs_stage the files are
put on Google Cloud Storage and one job takes them all; in place they are there already. BigQuery allows 1,500 load jobs
a table and day, and each load writes to the ledger. Seconds are those of local services, where a job costs some tens of
milliseconds, and a request no network; on the real ones a job takes seconds, so what counts is their number.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Goal
from benchmarks.cases.loads import STREAM, schema, write
from benchmarks.connectors import target
from benchmarks.harness import Command
from benchmarks.warehouse import COLUMNS, loaded
from benchmarks.workbench import Workbench

FILES = 100
ROWS = 1_000
BUCKET = "coalescing"


def build(bench: Workbench) -> Case:
    """The same batches, loaded in four ways."""
    rows = bench.rows(ROWS)
    cloud = bench.cloud("bigquery")
    files = bench.made(f"trips-{FILES}-of-{rows}", lambda path: write(path, FILES, rows))
    local = [(path, path.absolute().as_uri()) for path in sorted(files.iterdir())]
    bucket = cloud.gcs_folder / BUCKET
    shutil.copytree(files, bucket, dirs_exist_ok=True)
    on_gcs = [(path, f"gs://{BUCKET}/{path.name}") for path, _ in local]
    stage = {"gcs_stage": f"gs://{BUCKET}/stage"}
    facts = loaded(cloud, STREAM, rows * FILES)

    def ours(place: str, batches: Sequence[tuple[Path, str]], **config: Any) -> Callable[[Path], list[Command]]:
        stdin = bench.data / f"{files.name}-{place}.singer"
        stdin.write_text(_messages(batches, rows))
        return lambda folder: [target(bench, folder, config, stdin)]

    named = "`target-bigquery`"
    return Case(
        name="coalescing",
        about=__doc__ or "",
        contenders=[
            Contender(
                "one each",
                f"{named}, `max_batch_mb: 0.000001`",
                ours("local", local, max_batch_mb=1e-6),
                facts,
                rounds=1,
            ),
            Contender("joined", f"{named}, all defaults", ours("local", local), facts),
            Contender("gcs_stage", f"{named}, `gcs_stage`", ours("local", local, **stage), facts),
            Contender("in place", f"{named}, `gcs_stage`, files on GCS already", ours("gcs", on_gcs, **stage), facts),
        ],
        goals=[
            Goal("load jobs for 100 batch files, joined", "jobs", "joined", at_most=1),
            Goal("load jobs for 100 batch files, gcs_stage", "jobs", "gcs_stage", at_most=1),
        ],
        columns=COLUMNS,
        rounds=3,
    )


def _messages(batches: Sequence[tuple[Path, str]], rows: int) -> str:
    lines: list[dict[str, Any]] = [schema()]
    for number, (path, url) in enumerate(batches, 1):
        encoding = {"format": "parquet", "compression": "zstd"}
        counts = {"batch_id": f"batch-{number}", "row_count": rows, "byte_count": path.stat().st_size}
        lines.append({"type": "BATCH", "stream": STREAM, "encoding": encoding, "manifest": [url], **counts})
        lines.append({"type": "STATE", "value": {"bookmarks": {STREAM: {"done": number}}}})
    return "".join(json.dumps(line) + "\n" for line in lines)
