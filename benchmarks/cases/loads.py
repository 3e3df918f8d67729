"""Twenty small batch files: few load jobs or one for each.

BATCH messages of 20 Parquet files with 5,000 taxi trips each. target-bigquery gathers the messages of a stream into
one load job; the stock target of the Singer SDK, like most, starts one for each and waits for it. BigQuery allows 1,500
load jobs a table and day, failures included, so the number of jobs counts more than the seconds, which are those of a
local BigQuery.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Goal
from benchmarks.connectors import dataset_of, target
from benchmarks.generators import taxi
from benchmarks.harness import Command
from benchmarks.warehouse import COLUMNS, loaded
from benchmarks.workbench import Workbench, program

STREAM = "trips"
FILES = 20
ROWS = 5_000
SEED = 20


def build(bench: Workbench) -> Case:
    """The same messages for both targets."""
    rows = bench.rows(ROWS)
    cloud = bench.cloud("bigquery")
    files = bench.made(f"trips-{FILES}-of-{rows}", lambda path: _write(path, rows))
    messages = bench.data / f"{files.name}.singer"
    messages.write_text(_messages(sorted(files.iterdir())))
    facts = loaded(cloud, STREAM, rows * FILES)

    def stock(folder: Path) -> list[Command]:
        env = bench.env | {"TARGET_BIGQUERY_DATASET": dataset_of(folder)}
        return [Command(program("stock_target"), env, messages)]

    return Case(
        name="loads",
        about=__doc__,
        contenders=[
            Contender("stock", "the stock target, all defaults", stock, facts),
            Contender(
                "target",
                "`target-bigquery`, all defaults",
                lambda folder: [target(bench, folder, {}, messages)],
                facts,
            ),
        ],
        goals=[Goal("load jobs for 20 batch files", "jobs", "target", at_most=2)],
        columns=COLUMNS,
        rounds=3,
    )


def _write(folder: Path, rows: int) -> None:
    folder.mkdir()
    for number in range(FILES):
        taxi.write_parquet(folder / f"{number:03d}.parquet", rows, seed=SEED + number)


def schema() -> dict[str, Any]:
    """The SCHEMA of the trips."""
    kinds = {"VendorID": "integer", "PULocationID": "integer", "DOLocationID": "integer", "payment_type": "integer"}
    names = taxi.trips(1, 0).column_names
    properties: dict[str, Any] = {name: {"type": [kinds.get(name, "number"), "null"]} for name in names}
    properties["store_and_fwd_flag"] = {"type": ["string", "null"]}
    for name in ("tpep_pickup_datetime", "tpep_dropoff_datetime"):
        properties[name] = {"type": ["string", "null"], "format": "date-time"}
    described = {"type": "object", "properties": properties}
    return {"type": "SCHEMA", "stream": STREAM, "schema": described, "key_properties": []}


def _messages(files: list[Path]) -> str:
    lines: list[dict[str, Any]] = [schema()]
    for number, file in enumerate(files, 1):
        encoding = {"format": "parquet", "compression": "zstd"}
        manifest = [file.absolute().as_uri()]
        lines.append({"type": "BATCH", "stream": STREAM, "encoding": encoding, "manifest": manifest})
        lines.append({"type": "STATE", "value": {"bookmarks": {STREAM: {"done": number}}}})
    return "".join(json.dumps(line) + "\n" for line in lines)
