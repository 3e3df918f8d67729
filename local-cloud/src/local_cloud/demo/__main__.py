"""Load real files from S3 into BigQuery and Redshift, load them again, and compare the tables with the source.

Runs inside `local-cloud run --seed --`. All figures are independent of the connectors: objects and batch files are
counted by listing the buckets, loads and rows by queries of the warehouses, and the source's checksum is computed from
its files by DuckDB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from local_cloud.demo import legs, pipes
from local_cloud.demo.bigquery import BigQuery
from local_cloud.demo.checksum import Checksum, Column, of_source
from local_cloud.demo.redshift import Redshift
from local_cloud.demo.warehouse import Warehouse

STREAMS = ("flights", "weather", "planes", "airports", "airlines")
SCHEMA = "demo"  # in meltano.yml for the local environment
SILENT_SECONDS = 5.0
"""After so many seconds without a line a step says that it is still at work."""


@dataclass(frozen=True)
class Source:
    """Number and size of a stream's objects in the bucket."""

    objects: int
    bytes: int
    checksum: Checksum


@dataclass
class Pipe:
    """A warehouse with the batch files of its pipe."""

    warehouse: Warehouse
    batches: str  # folder of the stage bucket; each pipe needs its own: pipes remove each other's plans
    busy: Mapping[str, float] = field(default_factory=dict)  # the connectors' seconds by stream in the first run
    seconds: float = 0.0  # of the last run, including the start of its programs


class FailedError(Exception):
    """A pipe ended with an error, which it has printed."""


Load = Callable[[Pipe, pipes.Print], pipes.Ran]


def main() -> int:
    """Run the demonstration and return 0 if source and tables agree after every run."""
    parser = argparse.ArgumentParser("python -m local_cloud.demo")
    parser.add_argument("--all", action="store_true", help="every run by Meltano, then Delta Lake and Flight SQL too")
    everything = parser.parse_args().all
    import boto3

    source, stage = (boto3.resource("s3").Bucket(os.environ[f"LOCAL_CLOUD_{b}_BUCKET"]) for b in ("SOURCE", "STAGE"))
    started = time.monotonic()
    ways = list(_pipes(stage.name))
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:  # so that no state of an earlier demo is found
        shutil.copy("meltano.yml", folder)
        try:
            good = _demonstrate(ways, source, stage, Path(folder), everything=everything)
        except FailedError as error:
            _print(f"FAILED: {error}")
            return 1
    for way in ways:
        way.warehouse.close()
    *names, last = ["the source", *(way.warehouse.name for way in ways)]
    verdict = "are the same after every run" if good else "DIFFER"
    _print(f"\nRows and checksums of {', '.join(names)} and {last} {verdict} ({time.monotonic() - started:.0f} s).")
    if good:
        _print(_NEXT)
    return 0 if good else 1


def _demonstrate(ways: Sequence[Pipe], source: Any, stage: Any, project: Path, *, everything: bool) -> bool:
    """Run the pipes and compare the tables with the source; return whether they have always agreed."""

    def by_meltano(*options: str) -> Load:
        return lambda pipe, print_line: pipes.by_meltano(
            pipe.warehouse.target, options, project=project, batches=_root(pipe, stage), print_line=print_line
        )

    def by_shell(pipe: Pipe, print_line: pipes.Print) -> pipes.Ran:
        settings = pipes.local_streams(project)
        settings["batch_config"] |= {"storage": {"root": _root(pipe, stage)}}
        target = pipe.warehouse.target
        return pipes.by_shell(target, SCHEMA, pipes.TAP, settings, folder=project, print_line=print_line)

    def again(pipe: Pipe, print_line: pipes.Print) -> pipes.Ran:
        return pipes.again(pipe.warehouse.target, folder=project, print_line=print_line)

    def report() -> bool:
        with _still_at_work("comparing"):
            return _report(sources, ways, source, stage)

    sources: dict[str, Source] = {}
    if not everything:
        _print(
            "\n== Load 383 files from S3: into BigQuery by Meltano, and at the same time into Redshift by a shell pipe,"
        )
        _print("   which then gets its messages again, as after a crash: no row is doubled")
        _load(ways, [[by_meltano()] if way.warehouse.name == "BigQuery" else [by_shell, again] for way in ways])
        _print("\n== Compare every value in the tables with the files")
        return report()
    good = True
    for title, *options in (
        ("First run: everything",),
        ("Second run: nothing is new",),
        ("Third run, with the state thrown away: every batch is sent again, and recognised", "--full-refresh"),
    ):
        _print(f"\n== {title}")
        for way in ways:  # one after the other: they share Meltano's project
            _load([way], [[by_meltano(*options)]])
        good &= report()
    return _further(ways, source, stage) and good


def _further(ways: Sequence[Pipe], source: Any, stage: Any) -> bool:
    """Load the same rows from other sources; return whether they are the same in each warehouse."""
    good = True
    further: dict[str, Callable[[], legs.Leg]] = {
        "A table of Delta Lake: the rows of planes again": partial(legs.delta, source)
    }
    if "TAP_FLIGHT_SQL_URI" in os.environ:
        title = "Query results: the rows of weather again, from a Flight SQL server with four endpoints"
        further[title] = legs.flight_sql
    for title, make in further.items():
        _print(f"\n== {title}")
        leg = make()
        for way in ways:
            good &= legs.load(leg, way.warehouse, SCHEMA, _root(way, stage), _indented)
    return good


def _pipes(stage: str) -> Iterator[Pipe]:
    """Yield a pipe into each running warehouse."""
    if "TARGET_BIGQUERY_API_ENDPOINT" in os.environ:
        yield Pipe(BigQuery(), "batches-for-bigquery")
    if "TARGET_REDSHIFT_HOST" in os.environ:
        batches = "batches-for-redshift"
        yield Pipe(Redshift(schema=SCHEMA, batches=f"s3://{stage}/{batches}"), batches)


def _root(pipe: Pipe, stage: Any) -> str:
    return f"s3://{stage.name}/{pipe.batches}"


def _load(ways: Sequence[Pipe], loads: Sequence[Sequence[Load]]) -> None:
    """Run the loads of each pipe, those of several pipes at the same time; `FailedError` if one ends with an error."""

    def run(way: Pipe, loads_of_way: Sequence[Load]) -> int:
        def print_line(line: str) -> None:
            _print(f"   {way.warehouse.name:<8} {line}")

        for load in loads_of_way:
            started = time.monotonic()
            ran = load(way, print_line)
            way.busy, way.seconds = way.busy or ran.busy, time.monotonic() - started
            if ran.code:
                return ran.code
        return 0

    with _still_at_work("loading"), ThreadPoolExecutor(len(ways)) as pool:
        codes = dict(zip((way.warehouse.name for way in ways), pool.map(run, ways, loads), strict=True))
    if wrong := [f"the pipe into {name} ended with exit code {code}" for name, code in codes.items() if code]:
        raise FailedError("; ".join(wrong))


def _source(bucket: Any, name: str, columns: list[Column]) -> Source:
    objects = list(bucket.objects.filter(Prefix=f"{name}/"))
    with ThreadPoolExecutor(4) as pool:
        contents = pool.map(lambda o: (o.key, o.get()["Body"].read()), objects)
        checksum = of_source(contents, columns)
    return Source(len(objects), sum(o.size for o in objects), checksum)


def _report(sources: dict[str, Source], ways: Sequence[Pipe], bucket: Any, stage: Any) -> bool:
    """Print the figures of the warehouses side by side and compare them with the source, which is read once."""
    columns = {name: ways[0].warehouse.columns(name) for name in STREAMS}

    def of_tables(way: Pipe) -> dict[str, Checksum]:
        return {name: _checksum(way.warehouse, name, columns[name]) for name in STREAMS}

    with ThreadPoolExecutor(len(ways)) as pool:  # the warehouses count while this process reads the source
        found = [pool.submit(of_tables, way) for way in ways]
        sources.update({} if sources else {name: _source(bucket, name, columns[name]) for name in STREAMS})
        checksums = [of_way.result() for of_way in found]
    head = ["stream", "objects", "bytes", "rows in S3"]
    for way in ways:
        head += ["|", "batch files", way.warehouse.loads, f"rows in {way.warehouse.name}", "s"]
    rows = [[*head, "|", "checksum of all rows"]]
    good = True
    for name, source in sources.items():
        row = [name, f"{source.objects:,}", f"{source.bytes:,}", f"{source.checksum.rows:,}"]
        wrong = []
        for way, of_way in zip(ways, checksums, strict=True):
            files = sum(1 for _ in stage.objects.filter(Prefix=f"{way.batches}/{name}-"))
            counts = (files, way.warehouse.load_count(name), of_way[name].rows)
            row += ["|", *(f"{n:,}" for n in counts), f"{way.busy.get(name, 0):.1f}"]
            wrong += [] if of_way[name] == source.checksum else [f"{way.warehouse.name} has {of_way[name].value:x}"]
        good &= not wrong
        verdict = f"BUT {', '.join(wrong)}" if wrong else "ok"
        rows.append([*row, "|", f"{source.checksum.value:x} {verdict}"])
    _table(rows)
    total = sum(source.checksum.rows for source in sources.values())
    taken = ", ".join(f"{way.seconds:.1f} s into {way.warehouse.name}" for way in ways)
    _print(f"   {total:,} rows; the last load took {taken}, with the start of its programs")
    return good


def _checksum(warehouse: Warehouse, table: str, expected: Sequence[Column]) -> Checksum:
    """Return the checksum of a table, or one that equals none if the table has other columns."""
    columns = warehouse.columns(table)
    if sorted(columns) != sorted(expected):
        differing = sorted(set(columns) ^ set(expected))
        _print(f"   {warehouse.name} has other columns in {table}: {', '.join(map(str, differing))}")
        return Checksum(-1, 0)
    return warehouse.checksum(table, columns)


def _table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        _print(f"   {first:<{widths[0]}}  {'  '.join(cells)}")


_NEXT = """
The rows are kept in .demo until the next `make demo` or `make clean`. To see some of them:
   .venv/bin/local-cloud query "SELECT carrier, COUNT(*) FROM demo.flights GROUP BY carrier ORDER BY 2 DESC LIMIT 5"
   .venv/bin/local-cloud query --warehouse redshift "SELECT * FROM demo.airlines"
Next: `make test`, or load files of your own (README.md)."""


_printed_at = [time.monotonic()]


def _indented(text: str) -> None:
    _print(f"   {text}")


def _print(text: str) -> None:
    _printed_at[0] = time.monotonic()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def _still_at_work(what: str) -> Iterator[None]:
    """Print a line when a block has printed none for some seconds."""
    ended = threading.Event()
    started = time.monotonic()

    def watch() -> None:
        while not ended.wait(0.5):
            if time.monotonic() - _printed_at[0] > SILENT_SECONDS:
                _print(f"   ... still {what} after {time.monotonic() - started:.0f} s")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
