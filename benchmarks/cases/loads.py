"""Twenty small batch files: few load jobs or one for each.

BATCH messages of 20 Parquet files with 5,000 taxi trips each. target-bigquery gathers the messages of a stream into
one load job; the stock target of the Singer SDK, like most, starts one for each and waits for it. BigQuery allows 1,500
load jobs a table and day, failures included, so the number of jobs counts more than the seconds, which are those of a
local BigQuery.
"""

from pathlib import Path

from benchmarks.case import Case, Contender, Goal
from benchmarks.connectors import dataset_of, target
from benchmarks.generators import trip_batches
from benchmarks.generators.trip_batches import FILES, STREAM, batch
from benchmarks.harness import Command
from benchmarks.warehouse import COLUMNS, loaded
from benchmarks.workbench import Workbench, program

ROWS = 5_000


def build(bench: Workbench) -> Case:
    """The same messages for both targets."""
    rows = bench.rows(ROWS)
    cloud = bench.cloud("bigquery")
    files = bench.made(f"trips-{FILES}-of-{rows}", lambda path: trip_batches.write(path, rows))
    messages = bench.data / f"{files.name}.singer"
    batches = [batch(path.absolute().as_uri()) for path in sorted(files.iterdir())]
    messages.write_text(trip_batches.messages(batches))
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
