"""100,000 rows of 150 columns to a finished load: RECORD messages, BATCH gzip JSONL, BATCH Parquet.

The rows are those of tap-infinity (integers, floats, UUIDs and times, all distinct); 625 MB as RECORD lines, 196 MB as
gzip JSONL in ten batch files, 151 MB as Parquet in ten. Messages come from a file, so the figures are the target's
alone; the tap's work, which the RECORD way pays too, is left out. Rows are appended to a new table of the local
BigQuery. "Converted" is when the last load job was created: what comes after is the time of BigQuery, here an emulator
whose own speed says nothing of the real one; its CPU is not counted.

The stock target is the Singer SDK with everything at its default: it validates records, gathers 10,000 of them, writes
Avro with fastavro and waits for each load job. It takes part in one round.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.case import Case, Contender
from benchmarks.connectors import dataset_of, tap, target
from benchmarks.generators import infinity
from benchmarks.harness import Command
from benchmarks.warehouse import COLUMNS, loaded
from benchmarks.workbench import Workbench, program

SEED = 150
CONFIG = {"load_method": "append-only"}


def build(bench: Workbench) -> Case:
    """Six ways for the same rows."""
    rows = bench.rows(infinity.ROWS)
    cloud = bench.cloud("bigquery")
    records = bench.made(f"infinity-{rows}.singer", lambda path: infinity.write_records(path, rows, seed=SEED))
    jsonl = messages(bench, jsonl_files(bench), "jsonl", "gzip")
    parquet_files = bench.made(f"infinity-{rows}-parquet", lambda path: infinity.write_parquet(path, rows, seed=SEED))
    parquet = messages(bench, parquet_files, "parquet", "zstd")
    facts = loaded(cloud, infinity.STREAM, rows)

    def stock(stdin: Path) -> Callable[[Path], Sequence[Command]]:
        def commands(folder: Path) -> list[Command]:
            env = bench.env | {"TARGET_BIGQUERY_DATASET": dataset_of(folder)}
            return [Command(program("stock_target"), env, stdin)]

        return commands

    def ours(stdin: Path) -> Callable[[Path], Sequence[Command]]:
        return lambda folder: [target(bench, folder, CONFIG, stdin)]

    def pipe(folder: Path) -> list[Command]:
        config = {
            "streams": [{"name": infinity.STREAM, "path": f"{parquet_files}/*.parquet", "key_properties": ["id"]}],
            "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": folder.absolute().as_uri()}},
            "metadata_columns": False,
        }
        return [tap(bench, folder, config), target(bench, folder, CONFIG)]

    stock_settings = "the stock target, all defaults"
    ours_settings = "`target-bigquery`, `load_method: append-only`, all else by default"
    return Case(
        name="wide",
        about=__doc__,
        contenders=[
            Contender("stock, RECORD", f"{stock_settings}, RECORD messages", stock(records), facts, rounds=1),
            Contender("stock, BATCH JSONL", f"{stock_settings}, BATCH gzip JSONL", stock(jsonl), facts, rounds=1),
            Contender("target, RECORD", f"{ours_settings}, RECORD messages", ours(records), facts, rounds=1),
            Contender("target, BATCH JSONL", f"{ours_settings}, BATCH gzip JSONL -> Avro", ours(jsonl), facts),
            Contender("target, BATCH Parquet", f"{ours_settings}, BATCH Parquet", ours(parquet), facts),
            Contender(
                "tap and target, Parquet",
                f"`tap-s3-files` from the Parquet files on disk to BATCH Parquet, piped into {ours_settings}",
                pipe,
                facts,
            ),
        ],
        columns=COLUMNS,
        rounds=3,
    )


def jsonl_files(bench: Workbench) -> Path:
    """The folder of gzip JSONL batch files, made if need be."""
    rows = bench.rows(infinity.ROWS)
    return bench.made(f"infinity-{rows}-jsonl", lambda path: infinity.write_jsonl(path, rows, seed=SEED))


def messages(bench: Workbench, files: Path, format: str, compression: str) -> Path:  # noqa: A002 - the message's word
    """A file of BATCH messages for a folder of batch files; written anew, for the folder may have moved."""
    path = bench.data / f"{files.name}.singer"
    urls = [file.absolute().as_uri() for file in sorted(files.iterdir())]
    path.write_text(infinity.batch_messages(urls, format, compression))
    return path
