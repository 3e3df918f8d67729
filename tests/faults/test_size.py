"""Loads large enough to show unbounded growth: many streams, messages and bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from singer_lines import Batches, Message, lines, record, schema, state
from warehouses import Warehouse

from local_cloud.programs import Programs

MB, GB = 1 << 20, 1 << 30
TEXT = "a text that is the same in each row, so that files are small and Arrow is large " * 3


@dataclass(frozen=True)
class Cost:
    """Resources that a process used: CPU seconds, peak memory in MB, and its output."""

    cpu: float
    peak_mb: float
    code: int
    out: str
    log: str


def measured(command: list[str], env: Any, stdin: Any, folder: Path) -> Cost:
    """Run a program until it exits."""
    out, log, peak = folder / "out", folder / "log", 0.0
    with out.open("wb") as output, log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=stdin, stdout=output, stderr=errors, env=env)
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            peak = max(peak, peak_so_far(process.pid))
            time.sleep(0.05)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    return Cost(cpu, peak, process.returncode, out.read_text(), log.read_text())


def peak_so_far(pid: int) -> float:
    """Return the peak memory in MB; the kernel's final figure includes the process that it was forked from."""
    found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def run_target(run: Programs, warehouse: Warehouse, messages: list[Message], folder: Path, **config: Any) -> Cost:
    """Run the target on messages, which must succeed."""
    path = folder / "messages"
    path.write_text(lines(messages))
    command, started = run.command(warehouse.program, config=["ENV", config]), time.monotonic()
    with path.open("rb") as stdin:
        cost = measured(command, run.env, stdin, folder)
    seconds = time.monotonic() - started
    print(f"{warehouse.name}: {len(messages)} messages, {seconds:.1f} s, {cost.cpu:.1f} CPU s, {cost.peak_mb:.0f} MB")
    assert cost.code == 0, cost.log[-4000:]
    return cost


@pytest.mark.parametrize("streams", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_many_streams_at_once(
    streams: int, warehouse: Warehouse, run: Programs, batch: Batches, tmp_path: Path
) -> None:
    names = [f"stream_{n:03d}" for n in range(streams)]
    messages = [schema(name) for name in names]
    for turn in range(3):
        for number, name in enumerate(names):
            rows = [{"id": 10 * turn + n, "name": f"{name} {n}"} for n in range(4)]
            if (turn + number) % 2:
                messages += [record(name, **row) for row in rows]
            else:
                messages.append(batch(rows, stream=name, batch_id=f"{name}-{turn}"))
            messages.append(state(turn * streams + number))
    cost = run_target(run, warehouse, messages, tmp_path)
    assert json.loads(cost.out.splitlines()[-1]) == {"n": 3 * streams - 1}
    for name in names:
        assert warehouse.one(f"SELECT COUNT(*) AS n, SUM(id) AS total FROM {{{name}}}") == (12, 138)
    assert cost.peak_mb < 400


@pytest.mark.soak
def test_two_thousand_batches_of_one_stream(
    warehouse: Warehouse, run: Programs, batch: Batches, tmp_path: Path
) -> None:
    count = 2_000
    messages = [schema()]
    for n in range(count):
        rows = [{"id": 3 * n + i, "name": f"name {i}"} for i in range(3)]
        messages += [batch(rows, batch_id=f"batch-{n}"), state(n)]
    cost = run_target(run, warehouse, messages, tmp_path)
    assert json.loads(cost.out.splitlines()[-1]) == {"n": count - 1}
    expected = (3 * count, 3 * count, sum(range(3 * count)))
    query = "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(id) AS total FROM {rows}"
    assert warehouse.one(query) == expected
    assert cost.peak_mb < 400
    run_target(run, warehouse, messages, tmp_path)
    assert warehouse.one(query) == expected


@pytest.mark.soak
@pytest.mark.parametrize(("warehouse", "size"), [("bigquery", 20 * GB), ("redshift", GB)], indirect=["warehouse"])
def test_a_large_stream_takes_bounded_memory(
    size: int, warehouse: Warehouse, run: Programs, s3: Any, bucket: str, tmp_path: Path
) -> None:
    """20 GB as Arrow; less for PostgreSQL, the storage of the local Redshift, which does not compress."""
    rows_each = 1_000_000
    table = pa.table({"id": range(rows_each), "text": pa.DictionaryArray.from_arrays([0] * rows_each, [TEXT])})
    table = table.cast(pa.schema([("id", pa.int64()), ("text", pa.string())]))
    count = -(-size // table.nbytes)
    path = tmp_path / "file.parquet"
    for number in range(count):
        ids = pa.array(range(number * rows_each, (number + 1) * rows_each))
        encoding = {"id": "DELTA_BINARY_PACKED"}
        pq.write_table(table.set_column(0, "id", ids), path, use_dictionary=["text"], column_encoding=encoding)
        s3.upload_file(str(path), bucket, f"in/{number:05d}.parquet")
    stream = {"name": "rows", "path": f"s3://{bucket}/in/*.parquet"}
    storage = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/batches"}}
    command = run.command(
        "tap-s3-files", config={"streams": [stream], "batch_config": storage, "metadata_columns": False}
    )
    tap = measured(command, run.env, subprocess.DEVNULL, tmp_path)
    assert tap.code == 0, tap.log[-4000:]
    messages = [json.loads(line) for line in tap.out.splitlines()]
    print(f"tap: {count * table.nbytes / GB:.1f} GB, {tap.cpu:.1f} CPU s, {tap.peak_mb:.0f} MB")
    target = run_target(run, warehouse, messages, tmp_path)
    total = count * rows_each
    assert warehouse.one("SELECT COUNT(*) AS n, SUM(id) AS total, MAX(id) AS last FROM {rows}") == (
        total,
        total * (total - 1) // 2,
        total - 1,
    )
    assert tap.peak_mb < 800
    assert target.peak_mb < 500


def test_a_table_of_many_files_is_planned_in_memory_like_that_of_a_glob(run: Programs, tmp_path: Path) -> None:
    """Entries of a log with statistics, as Spark writes them; the library has 1.2 kB for each in memory."""
    names = [("id", "long"), ("name", "string"), ("at", "timestamp"), ("day", "string")]
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in names]
    about = {"id": "4711", "format": {"provider": "parquet", "options": {}}, "partitionColumns": ["day"]}
    about |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}, "createdTime": 0}

    def add(number: int) -> dict[str, Any]:
        low, high = ({"id": n, "name": f"name {n}", "at": "2024-01-01T00:00:00.000Z"} for n in (number, number + 9))
        stats = {"numRecords": 10, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
        day = f"{number // 1000:04d}"
        path = f"day={day}/part-{number:07d}-0a1b2c3d-4e5f-4a5a-a2c8-55c59bd782aa.c000.snappy.parquet"
        entry = {"path": path, "partitionValues": {"day": day}, "size": 1000, "modificationTime": number}
        return {"add": entry | {"dataChange": True, "stats": json.dumps(stats)}}

    def peak_mb(count: int) -> float:
        log = tmp_path / str(count) / "_delta_log"
        log.mkdir(parents=True)
        protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        with (log / f"{0:020d}.json").open("w") as file:
            for action in (protocol, {"metaData": about}, *map(add, range(count))):
                print(json.dumps(action), file=file)
        return peak_of_plan(run, tmp_path, log.parent, "delta")

    least = peak_mb(1)
    assert peak_mb(100_000) - least < 350


def test_an_iceberg_table_of_many_files_is_planned_a_manifest_at_a_time(run: Programs, tmp_path: Path) -> None:
    """Ten manifests whose entries have statistics of four columns; all entries at once take 400 MB."""
    catalog = load_catalog("local", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    columns = range(1, 5)
    schema = pa.schema([(f"column_{n}", pa.int64()) for n in columns])

    def file(place: str, number: int) -> DataFile:
        bounds = {n: number.to_bytes(8, "little") for n in columns}
        found = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{place}/data/part-{number:07d}-0a1b2c3d-4e5f-4a5a-a2c8-55c59bd782aa.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=10,
            file_size_in_bytes=1000,
            column_sizes=dict.fromkeys(columns, 100),
            value_counts=dict.fromkeys(columns, 10),
            null_value_counts=dict.fromkeys(columns, 0),
            nan_value_counts={},
            lower_bounds=bounds,
            upper_bounds=bounds,
        )
        found.spec_id = 0
        return found

    def peak_mb(name: str, of_each: int) -> float:
        table = catalog.create_table(f"shop.{name}", schema)
        for first in range(0, 10 * of_each, of_each):
            with table.transaction() as change, change.update_snapshot().fast_append() as snapshot:
                for number in range(first, first + of_each):
                    snapshot.append_data_file(file(table.location(), number))
        return peak_of_plan(run, tmp_path, Path(table.location().removeprefix("file://")), "iceberg")

    least = peak_mb("few", 1)
    assert peak_mb("many", 10_000) - least < 200


def peak_of_plan(run: Programs, folder: Path, table: Path, kind: str) -> float:
    """Return the memory in MB that the plan of a table takes."""
    storage = {"encoding": {"format": "parquet"}, "storage": {"root": f"{table}-batches"}}
    stream = {"name": "rows", "path": str(table), "format": kind}
    command = run.command("tap-s3-files", "--write-plan", config={"streams": [stream], "batch_config": storage})
    cost = measured(command, run.env, subprocess.DEVNULL, folder)
    assert cost.code == 0, cost.log[-4000:]
    print(f"{table.name}: {cost.cpu:.1f} CPU s, {cost.peak_mb:.0f} MB")
    return cost.peak_mb
