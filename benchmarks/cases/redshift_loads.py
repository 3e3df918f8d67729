"""100,000 rows of 150 columns, in ten BATCH files, to a committed table of the local Redshift.

The rows are those of tap-infinity: 196 MB as gzip JSONL, 151 MB as Parquet. Messages come from a file, so the figures
are the target's alone. Parquet on S3 is loaded as it is; files on local disk go to S3 first, as Parquet.

The stock target is the Singer SDK's sink for SQL: it decodes a whole batch file to records and inserts them, many rows
a statement. It takes part in one round with a tenth of the rows, in one file; compare it by rows a second. The CPU is
that of the targets; the seconds are mostly those of the local Redshift, PostgreSQL that takes 15 million values on the
same machine, and are no measure of the real one.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.wide import SEED, jsonl_files, messages
from benchmarks.connectors import dataset_of, redshift_target
from benchmarks.generators import infinity
from benchmarks.harness import Command, Measured
from benchmarks.redshift import COLUMNS, loaded
from benchmarks.workbench import Workbench, program
from local_cloud.s3 import setup

BUCKET = "batches"
STOCK_FILES = 1
STOCK, ON_S3 = "stock, BATCH JSONL, a tenth", "target, Parquet on S3"


def build(bench: Workbench) -> Case:
    """Ours from three places, and the stock target."""
    rows = bench.rows(infinity.ROWS)
    bench.cloud("redshift")
    jsonl, parquet = jsonl_files(bench), parquet_files(bench)
    tenth = bench.data / f"{jsonl.name}-tenth.singer"
    first = sorted(jsonl.iterdir())[:STOCK_FILES]
    tenth.write_text(infinity.batch_messages([path.absolute().as_uri() for path in first], "jsonl", "gzip"))
    few = sum(_lines(path) for path in first)
    settings = "`target-redshift`, all defaults"

    def stock(folder: Path) -> list[Command]:
        env = bench.env | {"TARGET_REDSHIFT_DEFAULT_TARGET_SCHEMA": dataset_of(folder)}
        return [Command(program("stock_redshift_target"), env, tenth)]

    def ours(stdin: Path) -> Callable[[Path], Sequence[Command]]:
        return lambda folder: [redshift_target(bench, folder, {}, stdin)]

    def facts(count: int) -> Callable[[Path, Measured], Facts]:
        return loaded(bench, infinity.STREAM, count)

    return Case(
        name="redshift-loads",
        about=__doc__ or "",
        contenders=[
            Contender(STOCK, "the stock target, all defaults, BATCH gzip JSONL on disk", stock, facts(few), rounds=1),
            Contender(
                "target, JSONL on disk",
                f"{settings}, BATCH gzip JSONL on disk -> Parquet on S3",
                ours(messages(bench, jsonl, "jsonl", "gzip")),
                facts(rows),
            ),
            Contender(
                "target, Parquet on disk",
                f"{settings}, BATCH Parquet on disk",
                ours(messages(bench, parquet, "parquet", "zstd")),
                facts(rows),
            ),
            Contender(
                ON_S3,
                f"{settings}, BATCH Parquet on S3, loaded as it is",
                ours(on_s3(bench, parquet, "parquet", "zstd")),
                facts(rows),
            ),
        ],
        goals=[Goal("rows a CPU second, Parquet on S3 over stock", "rows_per_cpu_s", ON_S3, STOCK, at_least=10)],
        columns=COLUMNS,
        rounds=3,
    )


def parquet_files(bench: Workbench) -> Path:
    """The folder of Parquet batch files, made if need be."""
    rows = bench.rows(infinity.ROWS)
    return bench.made(f"infinity-{rows}-parquet", lambda path: infinity.write_parquet(path, rows, seed=SEED))


def on_s3(bench: Workbench, folder: Path, format: str, compression: str) -> Path:  # noqa: A002 - the message's word
    """A file of BATCH messages for these batch files, put into S3."""
    s3 = setup.client("s3", bench.cloud("redshift").s3_url)
    s3.create_bucket(Bucket=BUCKET)
    urls = []
    for file in sorted(folder.iterdir()):
        key = f"{folder.name}/{file.name}"
        s3.upload_file(str(file), BUCKET, key)
        urls.append(f"s3://{BUCKET}/{key}")
    path = bench.data / f"{folder.name}-s3.singer"
    path.write_text(infinity.batch_messages(urls, format, compression))
    return path


def _lines(path: Path) -> int:
    with gzip.open(path) as file:
        return sum(1 for _ in file)
