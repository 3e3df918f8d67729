"""Load jobs and the Storage Write API: what the same batches cost, and how long a record takes into the table.

The batches are BATCH messages of 20 Parquet files with 50,000 taxi trips each, without ids, so that nothing but the way
is compared: a load job takes the files' row groups as they are, the Storage Write API takes Arrow, so they are decoded
and sent uncompressed. What the server does is not counted. The records come one by one, half a second apart, into a
target whose input stays open; the seconds are those until BigQuery counts the row, looked at ten times a second. With
load jobs records wait for `max_batch_age_seconds`, because BigQuery allows 1,500 of them a table and day.
"""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.loads import FILES, SEED, STREAM, schema
from benchmarks.connectors import dataset_of, expect, target
from benchmarks.generators import taxi
from benchmarks.harness import Command, Measured
from benchmarks.programs.trickle import STREAM as TRICKLE
from benchmarks.workbench import Workbench, program

ROWS = 50_000
RECORDS = 20
APART = 0.5
STREAMED = {"load_via": "storage_write"}
JOBS = {"load_via": "load_job"}


def build(bench: Workbench) -> Case:
    """The same batches, both ways."""
    rows = bench.rows(ROWS)
    cloud = bench.cloud("bigquery")
    files = bench.made(f"trips-{FILES}-of-{rows}", lambda path: _write(path, rows))
    messages = bench.data / f"{files.name}-no-ids.singer"
    messages.write_text(_messages(sorted(files.iterdir())))
    facts = _arrived(cloud, STREAM, rows * FILES)

    def ours(config: dict[str, Any]) -> Callable[[Path], list[Command]]:
        return lambda folder: [target(bench, folder, config, messages)]

    return Case(
        name="storage-write",
        about=__doc__ or "",
        contenders=[
            Contender("load_job", "`target-bigquery`, all defaults", ours(JOBS), facts),
            Contender("storage_write", "`target-bigquery`, `load_via: storage_write`", ours(STREAMED), facts),
        ],
        rounds=3,
    )


def build_latency(bench: Workbench) -> Case:
    """The same records, both ways."""
    cloud = bench.cloud("bigquery")
    count = _arrived(cloud, TRICKLE, RECORDS + 1)

    def ours(config: dict[str, Any]) -> Callable[[Path], list[Command]]:
        def commands(folder: Path) -> list[Command]:
            command = target(bench, folder, config)
            argv = [*program("trickle"), str(RECORDS), str(APART), *map(str, command.argv)]
            return [Command(argv, command.env)]

        return commands

    def facts(folder: Path, measured: Measured) -> Facts:
        seconds = json.loads(measured.stdout.read_text())
        return count(folder, measured) | {"median_s": statistics.median(seconds), "longest_s": max(seconds)}

    return Case(
        name="storage-write-latency",
        about=__doc__ or "",
        contenders=[
            Contender("load_job", "`target-bigquery`, all defaults", ours(JOBS), facts, rounds=1),
            Contender("storage_write", "`target-bigquery`, `load_via: storage_write`", ours(STREAMED), facts),
        ],
        goals=[Goal("seconds until a record is in the table, median", "median_s", "storage_write", at_most=3)],
        columns=(("median_s", "median s"), ("longest_s", "longest s")),
        rounds=3,
        picture="median_s",
    )


def _arrived(cloud: Any, table: str, rows: int) -> Callable[[Path, Measured], Facts]:
    """Insists on the number of rows, and drops the dataset."""

    def facts(folder: Path, measured: Measured) -> Facts:
        dataset, client = dataset_of(folder), cloud.bigquery_client()
        try:
            (found,) = next(iter(client.query_and_wait(f"SELECT COUNT(*) FROM `{dataset}.{table}`")))
            client.delete_dataset(dataset, delete_contents=True)
        finally:
            client.close()
        return {"rows": expect(rows, found), "rows_per_s": rows / measured.wall}

    return facts


def _write(folder: Path, rows: int) -> None:
    folder.mkdir()
    for number in range(FILES):
        taxi.write_parquet(folder / f"{number:03d}.parquet", rows, seed=SEED + number)


def _messages(files: list[Path]) -> str:
    encoding = {"format": "parquet", "compression": "zstd"}
    batches = [
        {"type": "BATCH", "stream": STREAM, "encoding": encoding, "manifest": [file.absolute().as_uri()]}
        for file in files
    ]
    return "".join(json.dumps(line) + "\n" for line in [schema(), *batches])
