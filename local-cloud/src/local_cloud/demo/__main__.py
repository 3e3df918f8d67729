"""Load real files from S3 into BigQuery and Redshift by Meltano, compare the tables with the source, and repeat.

Runs inside `local-cloud run --seed --`. All figures are independent of the connectors: objects and batch files are
counted by listing the buckets, loads and rows by queries of the warehouses, and the source's checksum is computed from
its files with Python's own csv and json modules.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from local_cloud.demo import legs, meltano
from local_cloud.demo.bigquery import BigQuery
from local_cloud.demo.checksum import Checksum, Column, of_source
from local_cloud.demo.redshift import Redshift
from local_cloud.demo.warehouse import Warehouse

STREAMS = ("flights", "weather", "planes", "airports", "airlines")
SCHEMA = "demo"  # in meltano.yml for the local environment
RUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("First run: everything", ()),
    ("Second run: nothing is new", ()),
    ("Third run, with the state thrown away: every batch is sent again, and recognised", ("--full-refresh",)),
)


@dataclass(frozen=True)
class Source:
    """Number and size of a stream's objects in the bucket."""

    objects: int
    bytes: int
    columns: list[Column]
    checksum: Checksum


@dataclass
class Pipe:
    """A warehouse with the batch files of its pipe."""

    warehouse: Warehouse
    batches: str  # folder of the stage bucket; each pipe needs its own: pipes remove each other's plans
    busy: Mapping[str, float]  # the connectors' seconds by stream in the last run
    seconds: float = 0.0  # of the last run, including Meltano's start


def main() -> int:
    """Run the demonstration and return 0 if source and tables agree after every run."""
    import boto3

    source, stage = (boto3.resource("s3").Bucket(os.environ[f"LOCAL_CLOUD_{b}_BUCKET"]) for b in ("SOURCE", "STAGE"))
    pipes = list(_pipes(stage.name))
    sources: dict[str, Source] = {}
    good = True
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:  # so that no state of an earlier demo is found
        shutil.copy("meltano.yml", folder)
        for title, options in RUNS:
            _print(f"\n== {title}")
            for pipe in pipes:
                if code := _run(pipe, options, Path(folder), stage.name):
                    _print(f"FAILED: meltano ended with {code}")
                    return 1
            sources = sources or {name: _source(source, name, pipes[0].warehouse.columns(name)) for name in STREAMS}
            good &= _report(sources, pipes, stage)
    verdict = "agree, after each of the three runs" if good else "differ: FAILED"
    further: dict[str, Callable[[], legs.Leg]] = {
        "A table of Delta Lake: the rows of planes once more": partial(legs.delta, source)
    }
    if "TAP_FLIGHT_SQL_URI" in os.environ:
        title = "Query results: the rows of weather once more, from a Flight SQL server with four endpoints"
        further[title] = legs.flight_sql
    for title, make in further.items():
        _print(f"\n== {title}")
        leg = make()
        for pipe in pipes:
            good &= legs.load(leg, pipe.warehouse, SCHEMA, f"s3://{stage.name}/{pipe.batches}", _print)
    for pipe in pipes:
        pipe.warehouse.close()
    *names, last = ["the source", *(pipe.warehouse.name for pipe in pipes)]
    _print(f"\nRows and checksums of {', '.join(names)} and {last} {verdict}.")
    return 0 if good else 1


def _pipes(stage: str) -> Iterator[Pipe]:
    """Yield a pipe into each running warehouse."""
    if "TARGET_BIGQUERY_API_ENDPOINT" in os.environ:
        yield Pipe(BigQuery(), "batches-for-bigquery", {})
    if "TARGET_REDSHIFT_HOST" in os.environ:
        batches = "batches-for-redshift"
        yield Pipe(Redshift(schema=SCHEMA, batches=f"s3://{stage}/{batches}"), batches, {})


def _run(pipe: Pipe, options: tuple[str, ...], project: Path, stage: str) -> int:
    target = pipe.warehouse.target
    _print(f"   $ meltano run {' '.join((*options, meltano.TAP, target))}")
    started = time.monotonic()
    ran = meltano.run(target, options, project=project, batches=f"s3://{stage}/{pipe.batches}", print_line=_print)
    pipe.busy, pipe.seconds = ran.busy, time.monotonic() - started
    return ran.code


def _source(bucket: Any, name: str, columns: list[Column]) -> Source:
    _print(f"   (reading {name} from S3 once more, by Python's own csv and json, to compare)")
    objects = list(bucket.objects.filter(Prefix=f"{name}/"))
    checksum = of_source(((o.key, o.get()["Body"].read()) for o in objects), columns)
    return Source(len(objects), sum(o.size for o in objects), columns, checksum)


def _report(sources: Mapping[str, Source], pipes: Sequence[Pipe], stage: Any) -> bool:
    """Print the figures of the warehouses side by side and compare them with the source."""
    head = ["stream", "objects", "bytes", "rows in S3"]
    for pipe in pipes:
        head += ["|", "batch files", pipe.warehouse.loads, f"rows in {pipe.warehouse.name}", "s"]
    rows = [[*head, "|", "checksum of all rows"]]
    good = True
    for name, source in sources.items():
        row = [name, f"{source.objects:,}", f"{source.bytes:,}", f"{source.checksum.rows:,}"]
        wrong = []
        for pipe in pipes:
            found = _checksum(pipe.warehouse, name, source)
            files = sum(1 for _ in stage.objects.filter(Prefix=f"{pipe.batches}/{name}-"))
            counts = (files, pipe.warehouse.load_count(name), found.rows)
            row += ["|", *(f"{n:,}" for n in counts), f"{pipe.busy.get(name, 0):.1f}"]
            wrong += [] if found == source.checksum else [f"{pipe.warehouse.name} has {found.value:x}"]
        good &= not wrong
        verdict = f"BUT {', '.join(wrong)}" if wrong else "ok"
        rows.append([*row, "|", f"{source.checksum.value:x} {verdict}"])
    _table(rows)
    total = sum(source.checksum.rows for source in sources.values())
    taken = ", ".join(f"{pipe.seconds:.1f} s to {pipe.warehouse.name}" for pipe in pipes)
    _print(f"   {total:,} rows; {taken}, of which Meltano's own start takes several")
    return good


def _checksum(warehouse: Warehouse, table: str, source: Source) -> Checksum:
    """Return the checksum of a table, or one that equals none if the table's columns differ from the source's."""
    columns = warehouse.columns(table)
    if sorted(columns) != sorted(source.columns):
        differing = sorted(set(columns) ^ set(source.columns))
        _print(f"   {warehouse.name} has other columns in {table}: {', '.join(map(str, differing))}")
        return Checksum(-1, 0)
    return warehouse.checksum(table, columns)


def _table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        _print(f"   {first:<{widths[0]}}  {'  '.join(cells)}")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
