"""What a MERGE of 3,100 rows into a table of a year reads: 365,000 rows in partitions of a day.

target-bigquery upserts the rows of two days, some of a third, and new ones. Where the key has the day that a row
is on, or the setting keys_stay_in_partition does, the MERGE has constants of these days in its ON clause, and BigQuery
leaves the other partitions out; else a key may be on any day. The bytes are those that the local BigQuery reports: it
counts the partitions touched, as BigQuery documents it, and 8 bytes for each value. The seconds are its own too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from google.cloud import bigquery

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import dataset_of, expect, target
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.workbench import Workbench

STREAM = "orders"
DAYS = 365
ROWS_A_DAY = 1_000
CHANGED, LATE, NEW = 2, 40, 1_000
"""Days whose rows all change; the day of which some do; how many rows are new."""
FIRST = date(2025, 1, 1)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("customer", pa.int64()),
        ("status", pa.string()),
        ("amount", pa.float64()),
        ("note", pa.string()),
    ]
)
ANYWHERE, BY_KEY, BY_SETTING = "key: id", "key: id and day", "key: id, keys_stay_in_partition"


def build(bench: Workbench) -> Case:
    """The same change under two keys, and under the setting."""
    a_day = max(10, bench.rows(ROWS_A_DAY))
    cloud = bench.cloud("bigquery")
    history = bench.made(f"orders-{DAYS}-of-{a_day}.parquet", lambda path: _write(path, _history(a_day)))
    changes = bench.made(f"orders-changes-{a_day}.parquet", lambda path: _write(path, _changes(a_day)))
    rows = DAYS * a_day + NEW * a_day // ROWS_A_DAY

    def commands(keys: Sequence[str], settings: Mapping[str, Any]) -> Any:
        messages = bench.data / f"{changes.stem}-by-{'-'.join(keys)}.singer"
        messages.write_text(_messages(changes, keys))

        def run(folder: Path) -> list[Command]:
            _lay_out(cloud, dataset_of(folder), history)
            return [target(bench, folder, {"load_method": "upsert", **settings}, messages)]

        return run

    def contender(name: str, words: str, keys: Sequence[str], **settings: Any) -> Contender:
        return Contender(name, f"`target-bigquery`, load_method: upsert, {words}", commands(keys, settings), facts)

    def facts(folder: Path, _: Measured) -> Facts:
        return _merged(cloud, dataset_of(folder), rows)

    return Case(
        name="merge",
        about=__doc__ or "",
        contenders=[
            contender(ANYWHERE, "key_properties: id", ("id",)),
            contender(BY_KEY, "key_properties: id, day", ("id", "day")),
            contender(
                BY_SETTING, "key_properties: id, keys_stay_in_partition: true", ("id",), keys_stay_in_partition=True
            ),
        ],
        goals=[
            Goal("times as many bytes without the day in the key", "bytes", BY_KEY, ANYWHERE, at_least=20, turned=True),
            Goal("the same by the setting", "bytes", BY_SETTING, ANYWHERE, at_least=20, turned=True),
        ],
        columns=(("merge_s", "BigQuery s"),),
        rounds=3,
        picture="bytes",
    )


def _history(a_day: int) -> pa.Table:
    """All rows of the year."""
    return _rows(range(DAYS * a_day), a_day, "open")


def _changes(a_day: int) -> pa.Table:
    """Rows of the last days, some of one day, and new ones, which are of the last day."""
    last = range((DAYS - CHANGED) * a_day, DAYS * a_day)
    some = range(LATE * a_day, LATE * a_day + max(1, a_day // 10))
    new = range(DAYS * a_day, DAYS * a_day + NEW * a_day // ROWS_A_DAY)
    return pa.concat_tables([_rows(last, a_day, "paid"), _rows(some, a_day, "late"), _rows(new, a_day, "new")])


def _rows(numbers: range, a_day: int, status: str) -> pa.Table:
    days = [FIRST + timedelta(days=min(n // a_day, DAYS - 1)) for n in numbers]
    columns: dict[str, list[Any]] = {
        "id": list(numbers),
        "day": days,
        "customer": [n * 7919 % 50_000 for n in numbers],
        "status": [status] * len(numbers),
        "amount": [n % 997 / 4 for n in numbers],
        "note": [f"order {n}" for n in numbers],
    }
    return pa.table(columns, SCHEMA)


def _write(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, compression="zstd")


def _messages(file: Path, keys: Sequence[str]) -> str:
    kinds = {"id": "integer", "customer": "integer", "amount": "number"}
    properties: dict[str, Any] = {name: {"type": [kinds.get(name, "string"), "null"]} for name in SCHEMA.names}
    properties["day"]["format"] = "date"
    schema = {"type": "SCHEMA", "stream": STREAM, "schema": {"properties": properties}, "key_properties": list(keys)}
    encoding = {"format": "parquet", "compression": "zstd"}
    batch = {"type": "BATCH", "stream": STREAM, "encoding": encoding, "manifest": [file.absolute().as_uri()]}
    return "".join(json.dumps(line) + "\n" for line in (schema, batch, {"type": "STATE", "value": {"done": 1}}))


def _lay_out(cloud: Any, dataset: str, history: Path) -> None:
    """The table of a year, before the run."""
    client = cloud.bigquery_client()
    try:
        client.create_dataset(dataset)
        table = bigquery.Table(f"{client.project}.{dataset}.{STREAM}", schema=_fields())
        table.time_partitioning = bigquery.TimePartitioning(field="day")
        client.create_table(table)
        config = bigquery.LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_APPEND", schema=_fields())
        with history.open("rb") as file:
            client.load_table_from_file(file, table, job_config=config).result()
    finally:
        client.close()


def _fields() -> list[bigquery.SchemaField]:
    kinds = {"id": "INT64", "day": "DATE", "customer": "INT64", "amount": "FLOAT64"}
    return [bigquery.SchemaField(name, kinds.get(name, "STRING")) for name in SCHEMA.names]


def _merged(cloud: Any, dataset: str, rows: int) -> Facts:
    """Insists on the number of rows and of keys; what the MERGE processed. Drops the dataset."""
    client = cloud.bigquery_client()
    try:
        text = f"SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids FROM `{dataset}.{STREAM}`"
        (found,) = client.query_and_wait(text)
        jobs = [client.get_job(job.job_id) for job in client.list_jobs() if job.job_type == "query"]
        merges = [j for j in jobs if j.query.startswith("MERGE") and f"`{dataset}`" in j.query]
        client.delete_dataset(dataset, delete_contents=True)
    finally:
        client.close()
    if not merges:
        raise BenchmarkError("the rows arrived without a MERGE")
    expect(rows, found["n"])
    return {
        "rows": expect(rows, found["ids"]),
        "bytes": sum(job.total_bytes_processed for job in merges),
        "merge_s": sum((job.ended - job.started).total_seconds() for job in merges),
    }
