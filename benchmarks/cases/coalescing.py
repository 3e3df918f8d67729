"""A hundred small batch files of one stream, as tap-s3-files sends them: how many load jobs, and what they cost.

BATCH messages with ids, of 100 Parquet files with 1,000 taxi trips each, with the columns of the table. The stock
target of the Singer SDK starts a load job for each file, as most do. target-bigquery joins them, by default, into one
file for one job; with gcs_stage it puts them on Google Cloud Storage, and one job takes them all; in place they are
there already. BigQuery allows 1,500 load jobs a table and day. Seconds are those of local services, where a job costs
some tens of milliseconds, and a request no network; on the real ones a job takes seconds, so what counts is their
number.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.case import Case, Contender, Goal
from benchmarks.connectors import dataset_of, target
from benchmarks.generators import taxi, trip_batches
from benchmarks.generators.trip_batches import STREAM, batch
from benchmarks.harness import Command
from benchmarks.warehouse import COLUMNS, loaded
from benchmarks.workbench import Workbench, program

FILES = 100
ROWS = 1_000
BUCKET = "coalescing"


def build(bench: Workbench) -> Case:
    """The same batches, loaded in four ways."""
    rows = bench.rows(ROWS)
    cloud = bench.cloud("bigquery")
    files = bench.made(f"trips-{FILES}-as-batches-of-{rows}", lambda path: _write(path, rows))
    local = [(path, path.absolute().as_uri()) for path in sorted(files.iterdir())]
    bucket = cloud.gcs_folder / BUCKET
    shutil.copytree(files, bucket, dirs_exist_ok=True)
    on_gcs = [(path, f"gs://{BUCKET}/{path.name}") for path, _ in local]
    stage = {"gcs_stage": f"gs://{BUCKET}/stage"}
    facts = loaded(cloud, STREAM, rows * FILES)

    def ours(place: str, batches: Sequence[tuple[Path, str]], **config: Any) -> Callable[[Path], list[Command]]:
        stdin = _stdin(bench, place, batches, rows)
        return lambda folder: [target(bench, folder, config, stdin)]

    def stock(folder: Path) -> list[Command]:
        env = bench.env | {"TARGET_BIGQUERY_DATASET": dataset_of(folder)}
        return [Command(program("stock_target"), env, _stdin(bench, "local", local, rows))]

    named = "`target-bigquery`"
    return Case(
        name="coalescing",
        about=__doc__ or "",
        contenders=[
            Contender("stock", "the stock target, all defaults", stock, facts, rounds=1),
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


def _write(folder: Path, rows: int) -> None:
    """As the tap writes them: moments with a zone, whole numbers of 64 bits."""
    folder.mkdir()
    for number in range(FILES):
        table = taxi.trips(rows, number)
        fields = [
            f.with_type(pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type) for f in table.schema
        ]
        pq.write_table(table.cast(pa.schema(fields)), folder / f"{number:03d}.parquet", compression="zstd")


def _stdin(bench: Workbench, place: str, batches: Sequence[tuple[Path, str]], rows: int) -> Path:
    path = bench.data / f"coalescing-{rows}-{place}.singer"
    named = [
        batch(url, batch_id=f"batch-{number}", row_count=rows, byte_count=file.stat().st_size)
        for number, (file, url) in enumerate(batches, 1)
    ]
    path.write_text(trip_batches.messages(named))
    return path
