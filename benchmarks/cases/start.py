"""How long a connector takes to answer at all: `--version`, which every orchestrator calls, `--discover` on one object,
and a run that finds nothing new among 1,000 objects, each in a new process; and how long one small object takes to be
in a table, by tap and target.

Beside it Python alone, and Python with the Singer SDK imported, which no connector built on it can be faster than
unless it puts imports off. The objects are in a local S3 that answers after 30 ms. Of the load, `warehouse s` are the
CPU seconds of the local BigQuery, which are no measure of the real one, and `beyond s` is what its seconds leave.
"""

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import processes
from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import LOCAL_BATCHES, target
from benchmarks.harness import BenchmarkError, Command, Measured, measure
from benchmarks.s3 import BUCKET, LocalS3, counted
from benchmarks.warehouse import arrived
from benchmarks.workbench import Workbench

OBJECTS = 1000
PREFIX = "start/"
DISCOVER, NOTHING_NEW = "--discover, one object", "a run with nothing new"
LOAD = "one object into a table"


def build(bench: Workbench) -> Case:
    """Eight contenders; 1,000 objects of a line each."""
    python = [sys.executable, "-c"]
    connectors = [bench.executable(name) for name in ("tap-s3-files", "target-bigquery", "target-redshift")]
    s3, source = bench.s3(), _Source(bench.s3(), bench.executable("tap-s3-files"), bench.rows(OBJECTS))
    state = source.read_all()
    about_run = f"with the STATE of the last one: {source.count:,} objects, no catalog, plans in S3"
    return Case(
        name="start",
        about=__doc__,
        contenders=[
            _contender("python", "`python -c pass`", [*python, "pass"]),
            _contender("singer-sdk", "`python -c 'import singer_sdk'`", [*python, "import singer_sdk"]),
            *(_contender(path.name, f"`{path.name} --version`", [path, "--version"]) for path in connectors),
            counted(s3, Contender(DISCOVER, "tap-s3-files, one object of CSV", source.discover, source.found_columns)),
            counted(s3, Contender(NOTHING_NEW, f"tap-s3-files {about_run}", source.again(state), source.sent(0))),
            counted(s3, _load(bench, source)),
        ],
        goals=[
            *(Goal(f"{path.name} --version, seconds", "wall_s", path.name, at_most=0.7) for path in connectors),
            Goal("--discover on one object, seconds", "wall_s", DISCOVER, at_most=1.0),
            Goal(f"a run with nothing new over {source.count:,} objects, seconds", "wall_s", NOTHING_NEW, at_most=0.7),
            Goal("one object into a table, seconds beyond the warehouse's", "beyond_s", LOAD, at_most=1.5),
        ],
        columns=(("requests", "requests"), ("warehouse_s", "warehouse s"), ("beyond_s", "beyond s")),
        rounds=9,
    )


class _Source:
    """Objects in S3, and how the tap is run on them."""

    batch_config: ClassVar[dict[str, Any]] = {
        "encoding": {"format": "parquet", "compression": "zstd"},
        "storage": {"root": f"s3://{BUCKET}/{PREFIX}batches"},
    }

    def __init__(self, s3: LocalS3, tap: Path, count: int) -> None:
        self.count = count
        self._env, self._tap = s3.env, tap
        s3.remove(PREFIX)
        client = s3.client()

        def put(key: str) -> None:
            client.put_object(Bucket=BUCKET, Key=PREFIX + key, Body=b"id,name\n1,a\n")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(put, ["one.csv", *(f"many/{number:06}.csv" for number in range(count))]))

    def discover(self, folder: Path) -> list[Command]:
        """The command that discovers the schema of one object."""
        return [self._command(folder, "one.csv", "--discover")]

    def read_one(self, folder: Path) -> Command:
        """The command that reads one object."""
        return self._command(folder, "one.csv")

    def found_columns(self, _: Path, measured: Measured) -> Facts:
        """Insists on the columns of that object."""
        found = json.loads(measured.stdout.read_text())["streams"][0]["schema"]["properties"]
        if not {"id", "name"} <= set(found):
            raise BenchmarkError(f"the columns found are {sorted(found)}")
        return {}

    def again(self, state: dict[str, Any]) -> Any:
        """The command that runs with a STATE."""

        def commands(folder: Path) -> list[Command]:
            (folder / "state.json").write_text(json.dumps(state))
            return [self._command(folder, "many/*.csv", "--state", folder / "state.json")]

        return commands

    def sent(self, rows: int) -> Any:
        """Insists on the number of rows in batch files."""

        def facts(_: Path, measured: Measured) -> Facts:
            messages = map(json.loads, measured.stdout.read_text().splitlines())
            found = sum(message["row_count"] for message in messages if message["type"] == "BATCH")
            if found != rows:
                raise BenchmarkError(f"{found:,} rows were sent where {rows:,} are due")
            return {}

        return facts

    def read_all(self) -> dict[str, Any]:
        """The STATE after a run that reads every object."""
        with tempfile.TemporaryDirectory() as folder:
            measured = measure([self._command(Path(folder), "many/*.csv")], Path(folder))
            self.sent(self.count)(Path(folder), measured)
            state: dict[str, Any] = json.loads(measured.stdout.read_text().splitlines()[-1])["value"]
            return state

    def _command(self, folder: Path, path: str, *options: str | Path) -> Command:
        config = {
            "streams": [{"name": "start", "path": f"s3://{BUCKET}/{PREFIX}{path}"}],
            "batch_config": self.batch_config,
        }
        (folder / "tap.json").write_text(json.dumps(config))
        return Command([self._tap, "--config", folder / "tap.json", *options], self._env)


def _load(bench: Workbench, source: _Source) -> Contender:
    """The tap on one object into target-bigquery, which loads its batch file."""
    cloud = bench.cloud("bigquery")
    insists, before = arrived(cloud, "start", 1), 0.0

    def commands(folder: Path) -> list[Command]:
        nonlocal before
        before = processes.cpu_seconds(cloud.services["bigquery"].pid)
        loads = target(bench, folder, {"batch_config": LOCAL_BATCHES | {"storage": source.batch_config["storage"]}})
        return [source.read_one(folder), Command(loads.argv, {**loads.env, **bench.s3().env})]

    def facts(folder: Path, measured: Measured) -> Facts:
        took = processes.cpu_seconds(cloud.services["bigquery"].pid) - before
        return {"warehouse_s": took, "beyond_s": measured.wall - took} | insists(folder, measured)

    return Contender(LOAD, "tap-s3-files | target-bigquery, a new dataset", commands, facts)


def _contender(name: str, settings: str, argv: list[str | Path]) -> Contender:
    def facts(_: Path, __: Measured) -> Facts:
        return {}

    return Contender(name, settings, lambda _: [Command(argv)], facts)
