"""The last leg of the demonstration: rows of a Flight SQL server into the warehouses by tap-flight-sql."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from local_cloud.demo.warehouse import Warehouse
from local_cloud.flightsql.client import FlightSql
from local_cloud.seed import data_folder

SOURCE, TABLE = "weather", "weather_by_query"
"""A table that was loaded from S3, and the one of the same rows by Flight SQL."""


def fill() -> None:
    """Make the table of the server, from the sample's own file."""
    file = data_folder() / "weather.csv"
    FlightSql.from_environment().execute(f"CREATE TABLE weather AS FROM read_csv('{file}', nullstr = 'NA')")


def load(warehouse: Warehouse, schema: str, batches: str, print_line: Callable[[str], None]) -> bool:
    """Load the table into a warehouse, twice without STATE; return whether its rows are those loaded from S3."""
    stream = {"name": TABLE, "table": "weather", "replication_key": "time_hour"}
    encoding = {"format": "parquet", "compression": "zstd"}
    tap = {"streams": [stream], "batch_config": {"encoding": encoding, "storage": {"root": batches}}}
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        for name, config in (("tap", tap), ("target", {"default_target_schema": schema})):
            Path(folder, name).write_text(json.dumps(config))
        files = [shlex.quote(str(Path(folder, name))) for name in ("tap", "target")]
        line = f"tap-flight-sql --config=ENV --config {files[0]} | {warehouse.target} --config=ENV --config {files[1]}"
        print_line(f"   $ tap-flight-sql --config ... | {warehouse.target} --config ...   (twice, without STATE)")
        for _ in range(2):
            ran = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line], env=os.environ, capture_output=True, text=True, check=False
            )
            if ran.returncode:
                print_line(ran.stderr)
                return False
    columns = sorted(set(warehouse.columns(SOURCE)) & set(warehouse.columns(TABLE)))
    found, expected = (warehouse.checksum(table, columns) for table in (TABLE, SOURCE))
    verdict = "the same as from S3" if found == expected else f"DIFFERENT: {expected.rows:,} rows from S3"
    print_line(f"   {TABLE} in {warehouse.name}: {found.rows:,} rows, {len(columns)} columns, {verdict}")
    return found == expected
