"""100,000 rows of 150 columns to a finished load: RECORD messages, BATCH gzip JSONL, BATCH Parquet.

The rows are those of tap-infinity (integers, floats, UUIDs and times, all distinct); 625 MB as RECORD lines, 196 MB as
gzip JSONL in ten batch files (or one), 151 MB as Parquet in ten. Where no tap or pipe is named, messages come from a
file, so the figures are the target's alone. Rows are appended to a new table of the local
BigQuery. "Converted" is when the last load job was created: what comes after is the time of BigQuery, here an emulator
whose own speed is no measure of the real one; its CPU is not counted.

The stock target is the Singer SDK with everything at its default: it validates records, gathers 10,000 of them, writes
Avro with fastavro and waits for each load job. Tuned, it reads messages by msgspec and validates no record. The stock
pipe has the SDK's tap before it, which reads the Parquet files. All of these get a fifth of the rows, in two rounds or
one; compare them by their rows a second. `wide-1m` is the pipe alone, ten times the rows.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import dataset_of, tap, target
from benchmarks.generators import infinity
from benchmarks.harness import Command, Measured
from benchmarks.warehouse import COLUMNS, loaded
from benchmarks.workbench import Workbench, program

SEED = 150
FIFTH = 5
CONFIG = {"load_method": "append-only"}
STOCK = "the stock target, all defaults"
TUNED = "the stock target, msgspec, `validate_records: false`"
OURS = "`target-bigquery`, `load_method: append-only`, all else by default"
STOCK_PIPE, PIPE, UNTOUCHED = "stock pipe, RECORD", "tap and target, Parquet", "tap and target, passthrough"
GOALS = [
    Goal("rows a second, BATCH Parquet over the stock pipe", "rows_per_s", PIPE, STOCK_PIPE, at_least=40),
    Goal("the same without the load jobs' time", "converted_rows_per_s", PIPE, STOCK_PIPE, at_least=100),
]


def build(bench: Workbench) -> Case:
    """Messages from a file, and whole pipes."""
    rows = bench.rows(infinity.ROWS)
    cloud = bench.cloud("bigquery")
    records = bench.made(f"infinity-{rows}.singer", lambda path: infinity.write_records(path, rows, seed=SEED))
    jsonl = messages(bench, jsonl_files(bench), "jsonl", "gzip")
    parquet_files = _parquet_files(bench)
    parquet = messages(bench, parquet_files, "parquet", "zstd")
    facts = loaded(cloud, infinity.STREAM, rows)

    few = rows // FIFTH
    some = loaded(cloud, infinity.STREAM, few)
    few_records = bench.made(f"infinity-{few}.singer", lambda path: infinity.write_records(path, few, seed=SEED))
    few_jsonl = messages(bench, jsonl_files(bench, few), "jsonl", "gzip")
    one = messages(bench, jsonl_files(bench, rows, batch_rows=rows), "jsonl", "gzip")

    def stock(stdin: Path, mode: str = "default") -> Callable[[Path], Sequence[Command]]:
        return lambda folder: [_stock_target(bench, folder, mode, stdin)]

    def ours(stdin: Path) -> Callable[[Path], Sequence[Command]]:
        return lambda folder: [target(bench, folder, CONFIG, stdin)]

    return Case(
        name="wide",
        about=__doc__ or "",
        contenders=[
            Contender("stock, RECORD", f"{STOCK}, RECORD messages", stock(few_records), some, rounds=1),
            Contender("stock tuned, RECORD", f"{TUNED}, RECORD messages", stock(few_records, "tuned"), some, rounds=1),
            Contender("stock, BATCH JSONL", f"{STOCK}, BATCH gzip JSONL", stock(few_jsonl), some, rounds=1),
            Contender("target, RECORD", f"{OURS}, RECORD messages", ours(records), facts, rounds=2),
            Contender("target, BATCH JSONL", f"{OURS}, BATCH gzip JSONL -> Parquet", ours(jsonl), facts),
            Contender("target, BATCH JSONL, one", f"{OURS}, one BATCH of all rows", ours(one), facts, rounds=2),
            Contender("target, BATCH Parquet", f"{OURS}, BATCH Parquet", ours(parquet), facts),
            *pipes(bench, parquet_files, facts, few, rounds=3),
        ],
        goals=GOALS,
        columns=COLUMNS,
        rounds=3,
    )


def build_1m(bench: Workbench) -> Case:
    """Whole pipes for a million rows: ten times the same files."""
    rows, few = 10 * bench.rows(infinity.ROWS), bench.rows(infinity.ROWS) // FIFTH
    facts = loaded(bench.cloud("bigquery"), infinity.STREAM, rows)
    files = bench.made(f"infinity-{rows}-parquet-links", lambda path: _ten_times(_parquet_files(bench), path))
    contenders = pipes(bench, files, facts, few, rounds=1)
    return Case(name="wide-1m", about=__doc__ or "", contenders=contenders, goals=GOALS, columns=COLUMNS, rounds=1)


def pipes(
    bench: Workbench, files: Path, facts: Callable[[Path, Measured], Facts], few: int, *, rounds: int
) -> list[Contender]:
    """Tap and target: the stock ones for a few rows, ours for those of a folder of Parquet files."""
    source = bench.made(f"infinity-{few}-parquet", lambda path: infinity.write_parquet(path, few, seed=SEED))
    some = loaded(bench.cloud("bigquery"), infinity.STREAM, few)

    def stock(mode: str) -> Callable[[Path], Sequence[Command]]:
        schema = infinity.schema_message()["schema"]
        given = {"files": [str(path) for path in sorted(source.iterdir())], "stream": infinity.STREAM, "schema": schema}

        def commands(folder: Path) -> list[Command]:
            path = folder / "tap.json"
            path.write_text(json.dumps(given))
            first = Command([*program("stock_pipe"), "tap", mode, "--config", path])
            return [first, _stock_target(bench, folder, mode)]

        return commands

    def ours(*, batches: bool, **settings: Any) -> Callable[[Path], Sequence[Command]]:
        def commands(folder: Path) -> list[Command]:
            config: dict[str, Any] = {
                "streams": [{"name": infinity.STREAM, "path": f"{files}/*.parquet", "key_properties": ["id"]}],
                "metadata_columns": False,
                **settings,
            }
            if batches:
                root = folder.absolute().as_uri()
                config["batch_config"] = {"encoding": {"format": "parquet"}, "storage": {"root": root}}
            return [tap(bench, folder, config), target(bench, folder, CONFIG)]

        return commands

    ways = f"`tap-s3-files` from the Parquet files on disk, piped into {OURS}"
    return [
        Contender(STOCK_PIPE, f"the SDK's tap, piped into {STOCK}, RECORD messages", stock("default"), some, rounds=1),
        Contender("stock pipe tuned", f"the SDK's tap by msgspec, piped into {TUNED}", stock("tuned"), some, rounds=1),
        Contender("tap and target, RECORD", f"{ways}; RECORD messages", ours(batches=False), facts, rounds=1),
        Contender(PIPE, f"{ways}; BATCH Parquet", ours(batches=True), facts, rounds=rounds),
        Contender(
            UNTOUCHED,
            f"{ways}; BATCH Parquet, `passthrough: true`: the messages name the source's own files",
            ours(batches=True, passthrough=True),
            facts,
            rounds=rounds,
        ),
    ]


def _stock_target(bench: Workbench, folder: Path, mode: str, stdin: Path | None = None) -> Command:
    config = folder / "stock.json"
    config.write_text(json.dumps({"validate_records": False} if mode == "tuned" else {}))
    env = bench.env | {"TARGET_BIGQUERY_DATASET": dataset_of(folder)}
    chosen = ["tuned"] if mode == "tuned" else []
    return Command([*program("stock_target"), *chosen, "--config", config], env, stdin)


def _ten_times(files: Path, folder: Path) -> None:
    folder.mkdir()
    for number in range(10):
        for file in files.iterdir():
            (folder / f"{number}-{file.name}").hardlink_to(file)


def _parquet_files(bench: Workbench) -> Path:
    rows = bench.rows(infinity.ROWS)
    return bench.made(f"infinity-{rows}-parquet", lambda path: infinity.write_parquet(path, rows, seed=SEED))


def jsonl_files(bench: Workbench, rows: int | None = None, *, batch_rows: int = infinity.BATCH_ROWS) -> Path:
    """The folder of gzip JSONL batch files, made if need be; of so many rows, all if None."""
    rows = bench.rows(infinity.ROWS) if rows is None else rows
    name = f"infinity-{rows}-jsonl" + ("" if batch_rows == infinity.BATCH_ROWS else "-one")
    return bench.made(name, lambda path: infinity.write_jsonl(path, rows, seed=SEED, batch_rows=batch_rows))


def messages(bench: Workbench, files: Path, format: str, compression: str) -> Path:  # noqa: A002 - the message's word
    """A file of BATCH messages for a folder of batch files; written anew, for the folder may have moved."""
    path = bench.data / f"{files.name}.singer"
    urls = [file.absolute().as_uri() for file in sorted(files.iterdir())]
    path.write_text(infinity.batch_messages(urls, format, compression))
    return path
