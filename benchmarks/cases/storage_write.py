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
from benchmarks.connectors import target
from benchmarks.generators import trip_batches
from benchmarks.generators.trip_batches import FILES, STREAM, batch
from benchmarks.harness import Command, Measured
from benchmarks.programs.trickle import STREAM as TRICKLE
from benchmarks.warehouse import arrived
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
    files = bench.made(f"trips-{FILES}-of-{rows}", lambda path: trip_batches.write(path, rows))
    messages = bench.data / f"{files.name}-no-ids.singer"
    batches = [batch(path.absolute().as_uri()) for path in sorted(files.iterdir())]
    messages.write_text(trip_batches.messages(batches, states=False))
    facts = arrived(cloud, STREAM, rows * FILES)

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
    count = arrived(cloud, TRICKLE, RECORDS + 1)

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
