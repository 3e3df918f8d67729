"""10,000 batch files and 100,000 STATE messages through each target: the memory that a run of very many messages needs.

Each batch file has ten rows; ten STATE messages follow it, each of some 300 bytes. The figures are the target's alone:
the local warehouses run as processes of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import dataset_of, expect, redshift_target, target
from benchmarks.harness import Command, Measured
from benchmarks.redshift import connect
from benchmarks.workbench import Workbench

STREAM = "orders"
BATCHES, STATES, ROWS = 10_000, 10, 10
"""Batch files, STATE messages after each, and rows of each."""
_MOST_MB = 300


def build(bench: Workbench) -> Case:
    """Both targets, with a tenth of the messages and with all of them."""
    clouds = {name: bench.cloud(name) for name in ("bigquery", "redshift")}
    most = bench.rows(BATCHES)
    counts = (max(1, most // 10), most)
    files = bench.made(f"messages-{most}", lambda folder: _write(folder, most))
    inputs = {count: _messages(bench, files, count) for count in counts}

    def count_bigquery(folder: Path) -> int:
        client = clouds["bigquery"].bigquery_client()
        (found,) = next(iter(client.query_and_wait(f"SELECT COUNT(*) FROM `{dataset_of(folder)}.{STREAM}`")))
        client.delete_dataset(dataset_of(folder), delete_contents=True)
        client.close()
        return int(found)

    def count_redshift(folder: Path) -> int:
        schema = dataset_of(folder)
        with connect(bench.env) as connection:
            (found,) = connection.execute(f'SELECT COUNT(*) FROM "{schema}"."{STREAM}"').fetchone()
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        return int(found)

    def contender(name: str, count: int, run: Callable[..., Command], rows: Callable[[Path], int]) -> Contender:
        def commands(folder: Path) -> Sequence[Command]:
            return [run(bench, folder, {}, inputs[count])]

        def facts(folder: Path, measured: Measured) -> Facts:
            last = json.loads(measured.stdout.read_text().splitlines()[-1])
            expect(count * STATES - 1, last["bookmarks"][STREAM]["n"])
            return {"rows": expect(count * ROWS, rows(folder)), "ms_per_batch": measured.cpu * 1e3 / count}

        return Contender(_name(name, count), f"`target-{name.lower()}`, all defaults", commands, facts)

    return Case(
        name="messages",
        about=__doc__ or "",
        contenders=[
            contender(name, count, run, rows)
            for name, run, rows in (
                ("BigQuery", target, count_bigquery),
                ("Redshift", redshift_target, count_redshift),
            )
            for count in counts
        ],
        goals=[
            Goal(f"{name}: peak MB", "peak_tree_mb", _name(name, most), at_most=_MOST_MB)
            for name in ("BigQuery", "Redshift")
        ],
        columns=(("ms_per_batch", "CPU ms / batch"),),
        rounds=1,
        picture="peak_tree_mb",
    )


def _name(target_name: str, count: int) -> str:
    return f"{target_name}, {count:,} batch files, {count * STATES:,} STATEs"


def _write(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        ids = range(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), folder / f"{number}.parquet", compression="zstd")


def _messages(bench: Workbench, files: Path, count: int) -> Path:
    path = bench.data / f"messages-{count}.singer"
    schema = {"properties": {"id": {"type": ["integer", "null"]}}}
    with path.open("w") as out:
        out.write(json.dumps({"type": "SCHEMA", "stream": STREAM, "schema": schema, "key_properties": []}) + "\n")
        for number in range(count):
            file = files / f"{number}.parquet"
            batch = {"type": "BATCH", "stream": STREAM, "encoding": {"format": "parquet", "compression": "zstd"}}
            ours = {"batch_id": f"batch-{number}", "row_count": ROWS, "byte_count": file.stat().st_size}
            out.write(json.dumps({**batch, **ours, "manifest": [file.absolute().as_uri()]}) + "\n")
            for n in range(number * STATES, (number + 1) * STATES):
                entry = {"n": n, "watermark": {"key": "s3://bucket/" + "k" * 200}}
                out.write(json.dumps({"type": "STATE", "value": {"bookmarks": {STREAM: entry}}}) + "\n")
    return path
