"""A run of 30 new batches into a table whose ledger has 1, 100,000 or 1,000,000 entries of other batches.

A million entries is a stream that loads 30 batches every 15 minutes for a year. A first run, not measured, makes the
table and the ledger; its entry is then multiplied within the warehouse. The figures are the target's alone: the local
warehouses run as processes of their own. The seconds are mostly theirs and those that a new Python takes to start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import dataset_of, expect, redshift_target, target
from benchmarks.harness import Command, Measured, measure
from benchmarks.redshift import connect
from benchmarks.workbench import Workbench

STREAM = "orders"
BATCHES, ROWS = 30, 100
"""Batches of the run that is measured, and rows of each."""
ENTRIES = (1, 100_000, 1_000_000)
MOST = 1.2
_SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
_FILL_BIGQUERY = """
    INSERT INTO `{schema}._sdc_batches` (batch_id, stream, job_id, `rows`, started_at)
    SELECT TO_HEX(SHA256(CONCAT(batch_id, CAST(n AS STRING)))), stream, CONCAT(job_id, CAST(n AS STRING)), `rows`,
           started_at
    FROM `{schema}._sdc_batches`, UNNEST(GENERATE_ARRAY(2, {entries})) AS n
"""
_DOUBLE_REDSHIFT = """
    INSERT INTO "{schema}"."_sdc_batches" ("batch_id", "stream", "rows", "loaded_at")
    SELECT MD5("batch_id" || '{number}'), "stream", "rows", "loaded_at" FROM "{schema}"."_sdc_batches" LIMIT {entries}
"""


def build(bench: Workbench) -> Case:
    """Both targets, each with small and large ledgers."""
    clouds = {name: bench.cloud(name) for name in ("bigquery", "redshift")}
    files = bench.made(f"ledger-{BATCHES + 1}x{ROWS}", _write)
    first, run = _messages(bench, files, "first", range(1)), _messages(bench, files, "run", range(1, BATCHES + 1))
    total = (BATCHES + 1) * ROWS

    def bigquery(entries: int) -> Contender:
        def commands(folder: Path) -> Sequence[Command]:
            _before(folder, lambda: target(bench, folder, {}, first))
            if entries > 1:
                client = clouds["bigquery"].bigquery_client()
                client.query_and_wait(_FILL_BIGQUERY.format(schema=dataset_of(folder), entries=entries))
                client.close()
            return [target(bench, folder, {}, run)]

        def facts(folder: Path, _: Measured) -> Facts:
            client = clouds["bigquery"].bigquery_client()
            (found,) = next(iter(client.query_and_wait(f"SELECT COUNT(*) FROM `{dataset_of(folder)}.{STREAM}`")))
            client.delete_dataset(dataset_of(folder), delete_contents=True)
            client.close()
            return {"rows": expect(total, found)}

        return Contender(_name("BigQuery", entries), "`target-bigquery`, all defaults", commands, facts)

    def redshift(entries: int) -> Contender:
        def commands(folder: Path) -> Sequence[Command]:
            _before(folder, lambda: redshift_target(bench, folder, {}, first))
            with connect(bench.env) as connection:
                _fill_redshift(connection, dataset_of(folder), entries)
            return [redshift_target(bench, folder, {}, run)]

        def facts(folder: Path, _: Measured) -> Facts:
            schema = dataset_of(folder)
            with connect(bench.env) as connection:
                (found,) = connection.execute(f'SELECT COUNT(*) FROM "{schema}"."{STREAM}"').fetchone()
                connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
            return {"rows": expect(total, found)}

        return Contender(_name("Redshift", entries), "`target-redshift`, all defaults", commands, facts)

    counts = [ENTRIES[0], *map(bench.rows, ENTRIES[1:])]
    figures = {"cpu_s": "CPU with the largest ledger", "peak_tree_mb": "memory with the largest ledger"}
    made: Sequence[Callable[[int], Contender]] = (bigquery, redshift)
    return Case(
        name="ledger",
        about=__doc__ or "",
        contenders=[make(entries) for make in made for entries in counts],
        goals=[
            Goal(f"{words}, {name}", metric, _name(name, counts[-1]), _name(name, counts[0]), at_most=MOST)
            for name in ("BigQuery", "Redshift")
            for metric, words in figures.items()
        ],
        rounds=3,
        picture="cpu_s",
    )


def _name(warehouse: str, entries: int) -> str:
    return f"{warehouse}, {entries:,} {'entry' if entries == 1 else 'entries'}"


def _before(folder: Path, command: Callable[[], Command]) -> None:
    """Make the table and the ledger by a run that is not measured."""
    inner = folder / "before"
    inner.mkdir()
    measure([command()], inner)


def _fill_redshift(connection: Any, schema: str, entries: int) -> None:
    """Double the entries until there are so many; Redshift has no function that writes series."""
    have, number = 1, 0
    while have < entries:
        more, number = min(have, entries - have), number + 1
        connection.execute(_DOUBLE_REDSHIFT.format(schema=schema, number=number, entries=more))
        have += more


def _write(folder: Path) -> None:
    folder.mkdir()
    for number in range(BATCHES + 1):
        ids = range(number * ROWS, (number + 1) * ROWS)
        rows = pa.table({"id": list(ids), "note": [f"order {n}" for n in ids]}, _SCHEMA)
        pq.write_table(rows, folder / f"{number}.parquet", compression="zstd")


def _messages(bench: Workbench, files: Path, name: str, numbers: range) -> Path:
    properties = {"id": {"type": ["integer", "null"]}, "note": {"type": ["string", "null"]}}
    lines: list[dict[str, Any]] = [
        {"type": "SCHEMA", "stream": STREAM, "schema": {"properties": properties}, "key_properties": []}
    ]
    for number in numbers:
        file = files / f"{number}.parquet"
        batch = {"type": "BATCH", "stream": STREAM, "encoding": {"format": "parquet", "compression": "zstd"}}
        ours = {"batch_id": f"batch-{number}", "row_count": ROWS, "byte_count": file.stat().st_size}
        lines += [{**batch, **ours, "manifest": [file.absolute().as_uri()]}, {"type": "STATE", "value": {"n": number}}]
    path = bench.data / f"ledger-{name}.singer"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
